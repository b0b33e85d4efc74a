"""The exhibits of the bug museum, in the order of the lesson."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kvdocs.catalog import CatalogModel, get_model
from kvdocs.drills.kinds import CodeCase
from kvdocs.drills.lesson.museum import Exhibit, Slip, Source, museum_drill
from kvdocs.model import LayerKind, kv_cost
from kvdocs.units import GB

CONTEXT: Final = 32_768
_LAYER_TYPES: Final = {
    LayerKind.FULL: "full_attention",
    LayerKind.SLIDING: "sliding_attention",
    LayerKind.RECURRENT: "linear_attention",
}


def _name(entry: CatalogModel) -> str:
    return entry.id.rpartition("/")[2].removesuffix("-Instruct")


def _fields(entry: CatalogModel, *names: str) -> dict[str, Any]:
    """Some fields of a model's `config.json`, those that it has."""
    config = entry.text_config
    return {name: config[name] for name in names if config.get(name) is not None}


def _layers(entry: CatalogModel) -> dict[str, Any]:
    """A model's layers, with a `layer_types` entry for each as Hugging Face spells it."""
    groups = entry.model.layers
    types = {position: _LAYER_TYPES[group.kind] for group in groups for position in group.positions}
    heads = next(group for group in groups if group.num_kv_heads)
    window = max(group.window for group in groups)
    return {
        "layer_types": [types[position] for position in sorted(types)],
        "num_key_value_heads": heads.num_kv_heads,
        "head_dim": heads.head_size,
        **({"sliding_window": window} if window else {}),
    }


# Step 4 ---------------------------------------------------------------------------------------


def _latent_case(model: str) -> CodeCase:
    entry = get_model(model)
    names = ("kv_lora_rank", "qk_rope_head_dim", "num_key_value_heads", "head_dim")
    config = _fields(entry, "num_hidden_layers", *names)
    return CodeCase(_name(entry), (config,), kv_cost(entry.model).bytes_per_token)


_LATENT_WRONG: Final = '''\
def bytes_per_token(config):
    """KV bytes of one token in bf16."""
    layers = config["num_hidden_layers"]
    if "kv_lora_rank" in config:  # latent attention: one compressed vector
        return 2 * layers * config["kv_lora_rank"] * 2
    return 2 * layers * config["num_key_value_heads"] * config["head_dim"] * 2
'''
_LATENT_RIGHT: Final = _LATENT_WRONG.replace(
    'return 2 * layers * config["kv_lora_rank"] * 2',
    'latent = config["kv_lora_rank"] + config["qk_rope_head_dim"]\n'
    "        return layers * latent * 2",
)
LATENT: Final = Exhibit(
    id="bug-latent-stored-twice",
    title="The latent stored twice",
    story="A calculator's function for models with and without latent attention (MLA).",
    function="bytes_per_token",
    unit="bytes",
    wrong=_LATENT_WRONG,
    right=_LATENT_RIGHT,
    slips=(
        Slip(
            "forgot the position",
            _LATENT_WRONG.replace(
                '2 * layers * config["kv_lora_rank"]', 'layers * config["kv_lora_rank"]'
            ),
            "The factor is right now. But beside the latent each token keeps the part of its key "
            "that carries the position: `qk_rope_head_dim`.",
        ),
    ),
    case=_latent_case,
    harmless=("Qwen/Qwen3-8B", "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B"),
    exposing=(
        "deepseek-ai/DeepSeek-V3",
        "deepseek-ai/DeepSeek-V2-Lite",
        "moonshotai/Kimi-K2-Instruct",
    ),
    hints=(
        "What is the factor 2 at the front for, and does a latent need it?",
        "Key and value are both made from the one latent; it is stored once.",
        "The key's rotary part does not fit into the latent: `qk_rope_head_dim` numbers more.",
    ),
    why=(
        "Keys and values of all heads are made from one latent vector, which is stored once. The "
        "part of the key that carries the position is stored beside it."
    ),
    source=Source(
        "LMCache #715",
        "https://github.com/LMCache/LMCache/pull/715",
        "A mend for Qwen3 gave DeepSeek V3 the factor 2 and dropped its rotary part. Six days "
        "later the calculator was put back to layers × (latent + rotary part), 70,272 bytes a "
        "token:",
    ),
)


def _hybrid_case(model: str) -> CodeCase:
    entry = get_model(model)
    return CodeCase(_name(entry), (_layers(entry),), kv_cost(entry.model).bytes_per_token)


_HYBRID_WRONG: Final = '''\
def bytes_per_token(config):
    """Bytes in bf16 by which a sequence's cache grows with each token."""
    layers = len(config["layer_types"])
    return 2 * layers * config["num_key_value_heads"] * config["head_dim"] * 2
'''
HYBRID: Final = Exhibit(
    id="bug-states-counted-as-layers",
    title="States counted as layers",
    story="An estimate of how a cache grows, used for every model alike.",
    function="bytes_per_token",
    unit="bytes",
    wrong=_HYBRID_WRONG,
    right=_HYBRID_WRONG.replace(
        'len(config["layer_types"])', 'config["layer_types"].count("full_attention")'
    ),
    case=_hybrid_case,
    harmless=("meta-llama/Llama-3.1-8B", "Qwen/Qwen3-14B", "zai-org/GLM-4.5-Air"),
    exposing=("Qwen/Qwen3.5-27B", "Qwen/Qwen3-Next-80B-A3B-Instruct", "Qwen/Qwen3.5-35B-A3B"),
    hints=(
        "Which of these layers keep something for every token?",
        "A `linear_attention` layer keeps a state of fixed size, however long the sequence is.",
    ),
    why=(
        "Only layers of full attention keep a key and a value for every token. The others keep a "
        "state that does not grow; it is counted once a sequence."
    ),
    source=Source(
        "unsloth #4757",
        "https://github.com/unslothai/unsloth/pull/4757",
        "One formula for all architectures gave +233% for such a model; it would have been +300%, "
        "had its head dim not been too small:",
    ),
)

# Step 5 ---------------------------------------------------------------------------------------

_BATCH: Final = 16


def _reads_case(model: str) -> CodeCase:
    entry = get_model(model)
    heads = entry.model.layers[0]
    config = _fields(entry, "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
    config["head_dim"] = heads.head_size
    expected = _BATCH * kv_cost(entry.model).bytes_at(CONTEXT)
    return CodeCase(_name(entry), (config, _BATCH, CONTEXT), expected)


_READS_WRONG: Final = '''\
def kv_bytes_read(config, batch, tokens):
    """Bytes of keys and values, in bf16, that one decode step reads."""
    heads = config["num_attention_heads"]
    return batch * tokens * 2 * config["num_hidden_layers"] * heads * config["head_dim"] * 2
'''
READS: Final = Exhibit(
    id="bug-reads-by-query-heads",
    title="Reads by query heads",
    story="A roofline's count of what a decode step reads.",
    function="kv_bytes_read",
    unit="bytes",
    wrong=_READS_WRONG,
    right=_READS_WRONG.replace("num_attention_heads", "num_key_value_heads"),
    slips=(
        Slip(
            "read one sequence",
            _READS_WRONG.replace("num_attention_heads", "num_key_value_heads").replace(
                "batch * tokens", "tokens"
            ),
            "The heads are right now, but every sequence of the batch is read.",
        ),
    ),
    case=_reads_case,
    harmless=("meta-llama/Llama-2-7b-hf",),
    exposing=("meta-llama/Llama-3.1-70B", "Qwen/Qwen3-32B", "microsoft/phi-4"),
    hints=(
        "A group of query heads shares one key. How often is it read?",
        "The kernel reads a KV head once and serves the whole group with it.",
    ),
    why=(
        "Grouped heads save reads as they save room: a kernel reads a KV head once for all query "
        "heads of its group."
    ),
    source=Source(
        "LLM-Viewer #12",
        "https://github.com/hahnyuan/LLM-Viewer/issues/12",
        "With this line GQA came out as slow as MHA:",
    ),
)

# Step 6 ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Split:
    """A model over some GPUs."""

    model: str
    gpus: int


def _split_case(split: Split) -> CodeCase:
    entry = get_model(split.model)
    heads = entry.model.layers[0]
    config = _fields(entry, "num_hidden_layers", "num_key_value_heads")
    config["head_dim"] = heads.head_size
    cost = kv_cost(entry.model, tensor_parallel_size=split.gpus)
    return CodeCase(
        f"{_name(entry)} on {split.gpus} GPUs", (config, split.gpus), cost.bytes_per_token_per_gpu
    )


_SPLIT_WRONG: Final = '''\
def bytes_per_gpu(config, gpus):
    """KV bytes of one token, in bf16, on each of the GPUs that share the layers."""
    heads = config["num_key_value_heads"] / gpus
    return 2 * config["num_hidden_layers"] * heads * config["head_dim"] * 2
'''
SPLIT: Final = Exhibit(
    id="bug-quarter-of-a-head",
    title="A quarter of a head",
    story="A server sizes its cache for several GPUs (`--tensor-parallel-size`).",
    function="bytes_per_gpu",
    unit="bytes",
    wrong=_SPLIT_WRONG,
    right=_SPLIT_WRONG.replace(
        'config["num_key_value_heads"] / gpus', 'max(1, config["num_key_value_heads"] // gpus)'
    ),
    slips=(
        Slip(
            "rounded to nothing",
            _SPLIT_WRONG.replace("/ gpus", "// gpus"),
            "Now a GPU has no head at all. What does it attend with?",
        ),
    ),
    case=_split_case,
    harmless=(
        Split("meta-llama/Llama-3.1-70B", 4),
        Split("meta-llama/Llama-3.1-8B", 2),
        Split("Qwen/Qwen2.5-72B-Instruct", 8),
    ),
    exposing=(
        Split("meta-llama/Llama-3.1-70B", 32),
        Split("meta-llama/Llama-3.1-70B", 16),
        Split("Qwen/Qwen2.5-7B-Instruct", 8),
    ),
    hints=(
        "How many KV heads does it say that each GPU has?",
        "A head cannot be parted. Where there are more GPUs than heads, some hold the same one.",
    ),
    why=(
        "A KV head is not divided. With more GPUs than KV heads each head is kept on several, so "
        "beyond that point more GPUs save nothing of the cache."
    ),
    source=Source(
        "tenstorrent/vllm #50",
        "https://github.com/tenstorrent/vllm/pull/50",
        "32 devices shared the 8 KV heads of a Llama 3 model, and each was given 8/32 of one:",
    ),
)

# Step 9 ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Length:
    """A model and a context."""

    model: str
    tokens: int

    @property
    def name(self) -> str:
        """Both in words."""
        noun = "token" if self.tokens == 1 else "tokens"
        return f"{_name(get_model(self.model))} at {self.tokens:,} {noun}"


_PLAIN: Final = (
    Length("meta-llama/Llama-3.1-8B", CONTEXT),
    Length("Qwen/Qwen3-14B", CONTEXT),
    Length("mistralai/Mistral-Nemo-Instruct-2407", CONTEXT),
)


def _window_case(length: Length) -> CodeCase:
    entry, tokens = get_model(length.model), length.tokens
    expected = kv_cost(entry.model).bytes_at(tokens)
    return CodeCase(length.name, (_layers(entry), tokens), expected)


def _window_code(body: str) -> str:
    return (
        "def kv_bytes(config, tokens):\n"
        '    """KV bytes, in bf16, that a sequence of so many tokens needs."""\n'
        '    per_layer = 2 * config["num_key_value_heads"] * config["head_dim"] * 2\n'
        "    kept = 0\n"
        '    for kind in config["layer_types"]:\n'
        f"{body}"
        "    return kept * per_layer\n"
    )


_WINDOW_RIGHT: Final = _window_code(
    '        if kind == "sliding_attention":\n'
    '            kept += min(tokens, config["sliding_window"])\n'
    "        else:\n"
    "            kept += tokens\n"
)
_WINDOW_LEFT_OUT: Final = _window_code(
    '        if kind == "full_attention":\n            kept += tokens\n'
)
_WINDOW_IGNORED: Final = _window_code("        kept += tokens\n")
_WINDOW_WHY: Final = (
    "A windowed layer keeps the last tokens of its window, and no more; a layer of full attention "
    "keeps all. (vLLM also keeps the tokens of the batch in flight for a moment.)"
)
WINDOW_LEFT_OUT: Final = Exhibit(
    id="bug-window-left-out",
    title="Windowed layers left out",
    story="A memory estimate for models of any kind.",
    function="kv_bytes",
    unit="bytes",
    wrong=_WINDOW_LEFT_OUT,
    right=_WINDOW_RIGHT,
    slips=(
        Slip(
            "counted them whole",
            _WINDOW_IGNORED,
            "Now they are counted, but with the whole context. They look back no further than "
            "their window.",
        ),
    ),
    case=_window_case,
    harmless=_PLAIN,
    exposing=(
        Length("openai/gpt-oss-120b", 256),
        Length("openai/gpt-oss-20b", 384),
        Length("google/gemma-3-27b-it", 2048),
    ),
    hints=(
        "Which layers does the loop pass over?",
        "A windowed layer keeps something too: `sliding_window` tokens at most.",
    ),
    why=_WINDOW_WHY,
    source=Source(
        "hf-mem #60",
        "https://github.com/alvarobartt/hf-mem/issues/60",
        "Half the layers of gpt-oss were missing from the estimate:",
    ),
)
WINDOW_IGNORED: Final = Exhibit(
    id="bug-window-ignored",
    title="A window that is not looked through",
    story="An estimate that decides how long a context a reader may choose.",
    function="kv_bytes",
    unit="bytes",
    wrong=_WINDOW_IGNORED,
    right=_WINDOW_RIGHT,
    slips=(
        Slip(
            "left them out",
            _WINDOW_LEFT_OUT,
            "Now the windowed layers are gone. They keep their window.",
        ),
    ),
    case=_window_case,
    harmless=_PLAIN,
    exposing=(
        Length("google/gemma-3-27b-it", 131_072),
        Length("openai/gpt-oss-20b", 131_072),
        Length("google/gemma-3-12b-it", CONTEXT),
    ),
    hints=(
        "Do all these layers look back over the whole context?",
        'Their kind stands in the loop: "sliding_attention" or "full_attention".',
    ),
    why=_WINDOW_WHY,
    source=Source(
        "unsloth #4757",
        "https://github.com/unslothai/unsloth/pull/4757",
        "With a wrong head dim on top, +682% for Gemma 3 27B; readers were told that 16K fits "
        "where 128K does:",
    ),
)


def _unit_case(length: Length) -> CodeCase:
    entry = get_model(length.model)
    token = kv_cost(entry.model).bytes_per_token
    return CodeCase(
        length.name,
        (token, length.tokens),
        round(token * length.tokens / GB, 2),
    )


_UNIT_WRONG: Final = '''\
def gigabytes(bytes_per_token, tokens):
    """The cache of a sequence in GB, to two decimals."""
    return round(bytes_per_token * tokens / 1024**3, 2)
'''
UNIT: Final = Exhibit(
    id="bug-gib-printed-as-gb",
    title="GiB printed as GB",
    story="The function behind a table whose heading says GB.",
    function="gigabytes",
    unit="GB",
    wrong=_UNIT_WRONG,
    right=_UNIT_WRONG.replace("1024**3", "1000**3"),
    case=_unit_case,
    harmless=(Length("Qwen/Qwen3-0.6B", 1), Length("meta-llama/Llama-3.1-8B", 2)),
    exposing=(
        Length("meta-llama/Llama-3.1-70B", 128_000),
        Length("meta-llama/Llama-3.1-8B", 128_000),
        Length("Qwen/Qwen3-32B", 40_000),
    ),
    hints=(
        "How many bytes is a GB, and how many a GiB?",
        "A GPU is sold in GB: 80 GB are 80 × 1000³ bytes.",
    ),
    why=(
        "A GiB is 7.4% more than a GB. Both are in use: makers and prices in GB, `nvidia-smi` and "
        "vLLM's log in binary units. The number is fine; its heading is not."
    ),
    source=Source(
        "huggingface/blog #2345",
        "https://github.com/huggingface/blog/issues/2345",
        "A widely copied table says 39.06 GB for Llama 3.1 70B at 128k tokens; those are GiB:",
    ),
)

# Step 15 --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prefix:
    """A beginning that many prompts share, and the block size of a server."""

    shared: int
    block_size: int


def _prefix_case(prefix: Prefix) -> CodeCase:
    found = prefix.shared // prefix.block_size * prefix.block_size
    return CodeCase(
        f"{prefix.shared:,} shared tokens in blocks of {prefix.block_size}",
        (prefix.shared, prefix.block_size),
        found,
    )


_PREFIX_WRONG: Final = '''\
def tokens_found(shared, block_size):
    """Tokens of a prompt found in the prefix cache, when so many begin like another's."""
    return shared
'''
PREFIX: Final = Exhibit(
    id="bug-part-of-a-block",
    title="A shared beginning shorter than a block",
    story="A forecast of the prefix cache's hits, for prompts longer than their shared beginning. "
    "Blocks are not always of 16 tokens: some hybrid models have blocks of 784.",
    function="tokens_found",
    unit="tokens",
    wrong=_PREFIX_WRONG,
    right=_PREFIX_WRONG.replace("return shared", "return shared // block_size * block_size"),
    slips=(
        Slip(
            "counted blocks",
            _PREFIX_WRONG.replace("return shared", "return shared // block_size"),
            "Those are blocks. Asked for are tokens.",
        ),
    ),
    case=_prefix_case,
    harmless=(Prefix(1024, 16), Prefix(6000, 16), Prefix(784, 784)),
    exposing=(Prefix(240, 784), Prefix(1900, 2096), Prefix(1000, 16)),
    hints=(
        "What is looked up in the prefix cache: tokens, or blocks?",
        "Only whole blocks are shared. What is left over is computed again.",
    ),
    why=(
        "Only whole blocks are found. Models with recurrent layers have blocks of hundreds of "
        "tokens, and by default a system prompt shorter than one is not found, though nothing "
        "is wrong with the server (vLLM's `--prefix-match-unit` matches finer, where a state was "
        "kept)."
    ),
    source=Source(
        "vllm #54607",
        "https://github.com/vllm-project/vllm/issues/54607",
        "A hit rate of 0% for a shared prompt of 240 tokens, in blocks of 784, that turned out to "
        "be correct:",
    ),
)

# Step 18 --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Served:
    """A model with weights and cache in some dtypes."""

    model: str
    weights: str
    cache: str


def _dtype_case(served: Served) -> CodeCase:
    entry = get_model(served.model)
    elements = kv_cost(entry.model, kv_cache_dtype="fp8").bytes_per_token
    dtype = "auto" if served.cache == "bf16" else served.cache
    expected = kv_cost(entry.model, kv_cache_dtype=dtype).bytes_per_token
    name = f"{_name(entry)} with {served.weights} weights and a {served.cache} cache"
    return CodeCase(name, (elements, served.weights, served.cache), expected)


_DTYPE_WRONG: Final = '''\
BYTES = {"bf16": 2, "fp8": 1}


def bytes_per_token(numbers, weights_dtype, cache_dtype):
    """KV bytes of a token that leaves `numbers` values in the cache."""
    return numbers * BYTES[weights_dtype]
'''
DTYPE: Final = Exhibit(
    id="bug-dtype-of-the-weights",
    title="The dtype of the weights",
    story="A benchmark that sizes the cache of quantized models.",
    function="bytes_per_token",
    unit="bytes",
    wrong=_DTYPE_WRONG,
    right=_DTYPE_WRONG.replace("BYTES[weights_dtype]", "BYTES[cache_dtype]"),
    case=_dtype_case,
    harmless=(
        Served("meta-llama/Llama-3.1-8B", "bf16", "bf16"),
        Served("meta-llama/Llama-3.1-70B", "fp8", "fp8"),
        Served("Qwen/Qwen3-32B", "bf16", "bf16"),
    ),
    exposing=(
        Served("meta-llama/Llama-3.1-70B", "fp8", "bf16"),
        Served("meta-llama/Llama-3.1-8B", "bf16", "fp8"),
        Served("MiniMaxAI/MiniMax-M2.5", "fp8", "bf16"),
    ),
    hints=(
        "Which of the two dtypes does the cache have?",
        "`--quantization` is the weights' flag, `--kv-cache-dtype` the cache's.",
    ),
    why=(
        "Weights and cache have a dtype each. An fp8 checkpoint is served with a bf16 cache unless "
        "it or a flag says otherwise."
    ),
    source=Source(
        "ai-dynamo/nixl #1492",
        "https://github.com/ai-dynamo/nixl/pull/1492",
        "With fp8 weights and a 16-bit cache the benchmark's sizes came out half as large:",
    ),
)

EXHIBITS: Final = (
    LATENT,
    HYBRID,
    READS,
    SPLIT,
    WINDOW_LEFT_OUT,
    WINDOW_IGNORED,
    UNIT,
    PREFIX,
    DTYPE,
)
"""All of them."""

(
    LATENT_DRILL,
    HYBRID_DRILL,
    READS_DRILL,
    SPLIT_DRILL,
    WINDOW_LEFT_OUT_DRILL,
    WINDOW_IGNORED_DRILL,
    UNIT_DRILL,
    PREFIX_DRILL,
    DTYPE_DRILL,
) = map(museum_drill, EXHIBITS)
