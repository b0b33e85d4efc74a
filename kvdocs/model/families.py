"""What a model class fixes and its `config.json` does not say: one row per `model_type`.

A row names the rule that gives every layer its kind, the rule for head shapes, the rule for a
recurrent state, and the values the class fills in for fields the file leaves out. Each row has its
source: the configuration class in transformers 5.24.0 or the model file in vLLM 0.33.0. A
`model_type` without a row is read as a plain dense model only if no field hints at anything else
(`kvdocs.model.unknown`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


def _transformers(module: str) -> str:
    return f"transformers 5.24.0, models/{module}/configuration_{module}.py"


def _vllm(path: str) -> str:
    return f"vLLM 0.33.0, vllm/{path}"


@dataclass(frozen=True, slots=True)
class Family:
    """How one `model_type` lays out its cache.

    Attributes:
        source: Where the rules stand.
        pattern: Name of the rule that gives each layer its kind (`kvdocs.model.patterns`).
        shape: Name of the rule for KV heads and head sizes (`kvdocs.model.shapes`).
        state: Name of the rule for the recurrent state (`kvdocs.model.states`), or empty.
        period: Every how many layers one keeps the whole context, where the class fixes it.
        defaults: Values the class fills in for missing fields.
        refused: Why such a model is refused, or empty.
        note: What to know about such a model's cache, or empty.
    """

    source: str
    pattern: str = "full"
    shape: str = "plain"
    state: str = ""
    period: int = 0
    defaults: Mapping[str, Any] = field(default_factory=dict)
    refused: str = ""
    note: str = ""


def core(
    num_hidden_layers: int,
    hidden_size: int,
    num_attention_heads: int,
    num_key_value_heads: int | None = None,
    **others: Any,
) -> dict[str, Any]:
    """Class defaults of the fields every dense model has, and others.

    Examples:
        >>> core(32, 4096, 32)["num_hidden_layers"]
        32
    """
    return {
        "num_hidden_layers": num_hidden_layers,
        "hidden_size": hidden_size,
        "num_attention_heads": num_attention_heads,
        "num_key_value_heads": num_key_value_heads,
        **others,
    }


CORE_FIELDS: Final = frozenset(core(0, 0, 0))
"""Defaults of these are used only inside a nested config, which is saved as the difference from
its class. At the top of a file a missing one is an error."""

MULTI_HEAD_TYPES: Final = frozenset(
    {
        "baichuan",
        "bloom",
        "codegen",
        "gpt2",
        "gpt_neox",
        "gptj",
        "opt",
        "persimmon",
        "qwen",
    }
)
"""Types whose class has no field for KV heads: one per query head."""

_DENSE: Final = {
    "apertus": "apertus",
    "arcee": "arcee",
    "aria_text": "aria",
    "bitnet": "bitnet",
    "bloom": "bloom",
    "codegen": "codegen",
    "cohere": "cohere",
    "deepseek": "",
    "ernie4_5_moe": "ernie4_5_moe",
    "ernie4_5_vl_moe_text": "ernie4_5_vl_moe",
    "exaone": "exaone",
    "flex_olmo": "flex_olmo",
    "glm4_moe": "glm4_moe",
    "glm4v_moe_text": "glm4v_moe",
    "glm4v_text": "glm4v",
    "glm_ocr_text": "glm_ocr",
    "gpt2": "gpt2",
    "gpt_neox": "gpt_neox",
    "gptj": "gptj",
    "granite": "granite",
    "granitemoe": "granitemoe",
    "granitemoeshared": "granitemoeshared",
    "hunyuan_v1_dense": "hunyuan_v1_dense",
    "hyperclovax": "hyperclovax",
    "llama": "llama",
    "olmo": "olmo",
    "olmo2": "olmo2",
    "olmoe": "olmoe",
    "opt": "opt",
    "persimmon": "persimmon",
    "phi": "phi",
    "stablelm": "stablelm",
}
"""Every layer keeps the whole context, head size hidden/heads unless the file says otherwise."""

_DENSE_DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "aria_text": core(32, 4096, 32, max_position_embeddings=2048),
    "ernie4_5_moe": core(28, 2560, 20, 4, max_position_embeddings=131072),
    "ernie4_5_vl_moe_text": core(28, 2560, 20, 4, max_position_embeddings=131072),
    "glm4_moe": core(46, 4096, 96, 8, max_position_embeddings=131072),
    "glm4v_moe_text": core(46, 4096, 96, 8, max_position_embeddings=65536),
    "glm4v_text": core(40, 4096, 32, 2, max_position_embeddings=32768),
    "glm_ocr_text": core(16, 1024, 16, 8, max_position_embeddings=131072),
    "granite": core(32, 4096, 32, max_position_embeddings=2048),
    "hunyuan_v1_dense": core(32, 4096, 32, max_position_embeddings=2048),
    "llama": core(32, 4096, 32, max_position_embeddings=2048),
    "opt": core(12, 768, 12, max_position_embeddings=2048),
    "phi": core(24, 2048, 32, max_position_embeddings=2048),
}

_DENSE_REMOTE: Final = {
    "aquila": "code in the model repository: LLaMA's layout",
    "bailing_moe": _vllm("model_executor/models/bailing_moe.py"),
    "bailing_moe_v2": _vllm("model_executor/models/bailing_moe.py"),
    "baichuan": "code in the model repository: one KV head per query head",
    "internlm": "code in the model repository: LLaMA's layout",
    "internlm2": _vllm("model_executor/models/internlm2.py"),
    "mimo": _vllm("model_executor/models/mimo.py"),
    "minicpm": _vllm("model_executor/models/minicpm.py"),
    "orion": _vllm("model_executor/models/orion.py"),
    "qwen": "code in the model repository: one KV head per query head",
    "solar": _vllm("model_executor/models/solar.py"),
    "telechat2": _vllm("model_executor/models/telechat2.py"),
    "xverse": "code in the model repository: LLaMA's layout",
    "yi": "code in the model repository: LLaMA's layout",
}

_HEAD_SIZE_IN_CLASS: Final = {
    "ernie4_5": ("ernie4_5", core(18, 1024, 16, 2, head_dim=128, max_position_embeddings=131072)),
    "gemma": ("gemma", core(28, 3072, 16, 16, head_dim=256, max_position_embeddings=8192)),
    "glm": ("glm", core(40, 4096, 32, 2, head_dim=128, max_position_embeddings=131072)),
    "glm4": ("glm4", core(40, 4096, 32, 2, head_dim=128, max_position_embeddings=131072)),
    "helium": ("helium", core(24, 2560, 20, 20, head_dim=128, max_position_embeddings=4096)),
    "hy_v3": ("hy_v3", core(80, 4096, 64, 8, head_dim=128, max_position_embeddings=131072)),
    "internlm3": ("internlm3", core(48, 4096, 32, 2, head_dim=128, max_position_embeddings=32768)),
    "iquestcoder": (
        "iquestcoder",
        core(80, 5120, 40, 8, head_dim=128, max_position_embeddings=131072),
    ),
    "minimax_m2": (
        "minimax_m2",
        core(62, 3072, 48, 8, head_dim=128, max_position_embeddings=196608),
    ),
    "nemotron": ("nemotron", core(32, 6144, 48, max_position_embeddings=4096)),
    "paddleocr_vl_text": (
        "paddleocr_vl",
        core(18, 1024, 16, 2, head_dim=128, max_position_embeddings=131072),
    ),
    "qwen3_vl_moe_text": ("qwen3_vl_moe", core(24, 2048, 16, 16, max_position_embeddings=128000)),
    "qwen3_vl_text": (
        "qwen3_vl",
        core(32, 4096, 32, 32, head_dim=128, max_position_embeddings=128000),
    ),
    "seed_oss": ("seed_oss", core(64, 4096, 80, 8, head_dim=128, max_position_embeddings=524288)),
    "solar_open": (
        "solar_open",
        core(48, 4096, 64, 8, head_dim=128, max_position_embeddings=131072),
    ),
}
"""As `_DENSE`, but a missing `head_dim` is a constant of the class."""

_WINDOW_EVERY_LAYER: Final = {
    "ministral": (
        "ministral",
        core(32, 4096, 32, 8, sliding_window=4096, max_position_embeddings=131072),
    ),
    "ministral3": (
        "ministral3",
        core(34, 4096, 32, 8, head_dim=128, max_position_embeddings=262144),
    ),
    "mistral": (
        "mistral",
        core(32, 4096, 32, 8, sliding_window=4096, max_position_embeddings=131072),
    ),
    "mixtral": ("mixtral", core(32, 4096, 32, 8, max_position_embeddings=131072)),
    "phi3": ("phi3", core(32, 3072, 32, max_position_embeddings=4096)),
    "phi4_multimodal": ("phi4_multimodal", core(32, 3072, 32, 8, max_position_embeddings=131072)),
    "phimoe": ("phimoe", core(32, 4096, 32, 8, max_position_embeddings=131072)),
    "starcoder2": ("starcoder2", core(30, 3072, 24, 2, max_position_embeddings=4096)),
}
"""A `sliding_window` in the file (or class) holds for every layer."""

_QWEN: Final = {
    "qwen2": (
        "qwen2",
        core(
            32,
            4096,
            32,
            32,
            sliding_window=4096,
            max_window_layers=28,
            max_position_embeddings=32768,
        ),
    ),
    "qwen2_5_omni_text": (
        "qwen2_5_omni",
        core(
            28,
            3584,
            28,
            4,
            sliding_window=32768,
            max_window_layers=28,
            max_position_embeddings=32768,
        ),
    ),
    "qwen2_5_vl": ("qwen2_5_vl", core(80, 8192, 64, 8, sliding_window=4096, max_window_layers=80)),
    "qwen2_5_vl_text": (
        "qwen2_5_vl",
        core(
            80,
            8192,
            64,
            8,
            sliding_window=4096,
            max_window_layers=80,
            max_position_embeddings=32768,
        ),
    ),
    "qwen2_moe": (
        "qwen2_moe",
        core(
            24,
            2048,
            16,
            16,
            sliding_window=4096,
            max_window_layers=28,
            max_position_embeddings=32768,
        ),
    ),
    "qwen2_vl": ("qwen2_vl", core(80, 8192, 64, 8, sliding_window=4096, max_window_layers=80)),
    "qwen2_vl_text": (
        "qwen2_vl",
        core(
            80,
            8192,
            64,
            8,
            sliding_window=4096,
            max_window_layers=80,
            max_position_embeddings=32768,
        ),
    ),
    "qwen3": (
        "qwen3",
        core(
            32,
            4096,
            32,
            32,
            head_dim=128,
            sliding_window=4096,
            max_window_layers=28,
            max_position_embeddings=32768,
        ),
    ),
}
"""A window only with `use_sliding_window`, and then in layers from `max_window_layers` on."""

_INTERLEAVED: Final = {
    "afmoe": (
        "afmoe",
        4,
        core(32, 2048, 16, head_dim=128, sliding_window=1024, max_position_embeddings=16384),
    ),
    "cohere2": (
        "cohere2",
        4,
        core(40, 8192, 64, sliding_window=4096, max_position_embeddings=8192),
    ),
    "cohere2_moe": (
        "cohere2_moe",
        4,
        core(40, 8192, 64, head_dim=128, sliding_window=4096, max_position_embeddings=8192),
    ),
    "exaone4": (
        "exaone4",
        4,
        core(32, 4096, 32, 32, sliding_window=4096, max_position_embeddings=2048),
    ),
    "exaone_moe": (
        "exaone_moe",
        4,
        core(32, 4096, 32, 32, sliding_window=4096, max_position_embeddings=2048),
    ),
    "gemma2": (
        "gemma2",
        2,
        core(26, 2304, 8, 4, head_dim=256, sliding_window=4096, max_position_embeddings=8192),
    ),
    "gemma3_text": (
        "gemma3",
        6,
        core(26, 2304, 8, 4, head_dim=256, sliding_window=4096, max_position_embeddings=131072),
    ),
    "gemma3n_text": (
        "gemma3n",
        5,
        core(
            35,
            2048,
            8,
            2,
            head_dim=256,
            sliding_window=512,
            num_kv_shared_layers=15,
            max_position_embeddings=32768,
        ),
    ),
    "gpt_oss": (
        "gpt_oss",
        2,
        core(36, 2880, 64, 8, head_dim=64, sliding_window=128, max_position_embeddings=131072),
    ),
    "olmo3": ("olmo3", 4, core(32, 4096, 32, sliding_window=4096, max_position_embeddings=2048)),
    "vaultgemma": (
        "vaultgemma",
        2,
        core(26, 2304, 8, 4, head_dim=256, sliding_window=4096, max_position_embeddings=8192),
    ),
}
"""Sliding layers, and every `period`-th one full, unless `layer_types` lists them."""

_FIRST_FULL: Final = {
    "cwm": (
        "cwm",
        4,
        core(64, 6144, 48, 8, head_dim=128, sliding_window=8192, max_position_embeddings=131072),
    ),
    "granite_swa": (
        "granite_swa",
        4,
        core(24, 2560, 20, 4, sliding_window=128, max_position_embeddings=8192),
    ),
    "granitemoe_swa": (
        "granitemoe_swa",
        4,
        core(32, 4096, 32, sliding_window=128, max_position_embeddings=2048),
    ),
}
"""As `_INTERLEAVED`, but the full layer comes first in each period."""

_LATENT: Final = {
    "axk1": _vllm("transformers_utils/model_arch_config_convertor.py"),
    "deepseek_v2": _vllm("model_executor/models/deepseek_v2.py"),
    "deepseek_v3": _vllm("model_executor/models/deepseek_v2.py"),
    "deepseek_v32": _vllm("models/deepseek_v32/attention.py"),
    "glm4_moe_lite": _vllm("model_executor/models/glm4_moe_lite.py"),
    "glm_moe_dsa": _vllm("models/deepseek_v32/attention.py"),
    "kimi_k2": _vllm("model_executor/models/deepseek_v2.py"),
    "pangu_ultra_moe": _vllm("model_executor/models/openpangu.py"),
}
"""Types vLLM caches as one latent per token (`is_deepseek_mla` in its config convertor)."""

_LATENT_NOTES: Final = {
    "glm_moe_dsa": (
        "on Blackwell GPUs vLLM takes an fp8 cache for this model unless told otherwise (vLLM "
        "0.33.0, vllm/model_executor/models/config.py)"
    ),
}

_ENCODERS: Final = [
    "albert",
    "bert",
    "camembert",
    "deberta",
    "deberta-v2",
    "distilbert",
    "electra",
    "ernie",
    "eurobert",
    "gte",
    "mpnet",
    "modernbert",
    "nomic_bert",
    "roberta",
    "roformer",
    "xlm-roberta",
    "xlm-roberta-xl",
    "xmod",
    "clip",
    "siglip",
    "siglip2",
    "vit",
    "dinov2",
    "wav2vec2",
    "hubert",
]
_ENCODER_DECODERS: Final = [
    "bart",
    "blenderbot",
    "canary_decoder",
    "cohere_asr",
    "fsmt",
    "longt5",
    "m2m_100",
    "marian",
    "mbart",
    "moonshine",
    "mt5",
    "nemotron_parse",
    "pegasus",
    "prophetnet",
    "seamless_m4t",
    "speech_to_text",
    "speecht5",
    "switch_transformers",
    "t5",
    "t5gemma",
    "t5gemma2",
    "udop",
    "umt5",
    "whisper",
]

_NO_CACHE: Final = "an encoder keeps no KV cache between steps; a decoder's config.json is needed"
_CROSS: Final = (
    "an encoder-decoder also caches its encoder's keys and values, whose length the config does "
    "not fix; a decoder-only model's config.json is needed"
)
_COMPRESSED: Final = (
    "beside a window its layers keep one vector per 4 or 128 tokens, in a layout that depends on "
    "the GPU; kvdocs does not size that"
)
_FIXED_STATE: Final = "its recurrent state has a layout kvdocs does not know, and vLLM has no model"


def _table() -> dict[str, Family]:
    rows: dict[str, Family] = {}
    for name, module in _DENSE.items():
        source = _transformers(module) if module else _vllm("model_executor/models/deepseek_v2.py")
        rows[name] = Family(source, defaults=_DENSE_DEFAULTS.get(name, {}))
    for name, source in _DENSE_REMOTE.items():
        rows[name] = Family(source)
    for name, (module, defaults) in _HEAD_SIZE_IN_CLASS.items():
        rows[name] = Family(_transformers(module), defaults=defaults)
    for name, (module, defaults) in _WINDOW_EVERY_LAYER.items():
        rows[name] = Family(_transformers(module), "window", defaults=defaults)
    for name, (module, defaults) in _QWEN.items():
        rows[name] = Family(_transformers(module), "late_window", defaults=defaults)
    for name, (module, period, defaults) in _INTERLEAVED.items():
        rows[name] = Family(_transformers(module), "interleaved", period=period, defaults=defaults)
    for name, (module, period, defaults) in _FIRST_FULL.items():
        rows[name] = Family(_transformers(module), "first_full", period=period, defaults=defaults)
    for name, source in _LATENT.items():
        rows[name] = Family(source, "latent", note=_LATENT_NOTES.get(name, ""))
    rows.update({name: Family("", refused=_NO_CACHE) for name in _ENCODERS})
    rows.update({name: Family("", refused=_CROSS) for name in _ENCODER_DECODERS})
    return rows


_LINEAR_256: Final = {
    "head_dim": 256,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
}
_MAMBA_GRANITE: Final = {
    "mamba_n_heads": 128,
    "mamba_n_groups": 1,
    "mamba_d_state": 256,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
}
_GEMMA4: Final = core(30, 2304, 8, 4, head_dim=256, sliding_window=512, global_head_dim=512)
_GEMMA4_UNIFIED: Final = {**_GEMMA4, "sliding_window": 1024}

_SPECIAL: Final = {
    # Shapes of their own
    "chatglm": Family(_vllm("transformers_utils/configs/chatglm.py"), shape="chatglm"),
    "dbrx": Family(_transformers("dbrx"), shape="attn_config"),
    "falcon": Family(
        _vllm("transformers_utils/model_arch_config_convertor.py"),
        shape="falcon",
        defaults={
            "multi_query": True,
            "new_decoder_architecture": False,
            "max_position_embeddings": 2048,
        },
    ),
    "RefinedWeb": Family(
        _vllm("transformers_utils/configs/falcon.py"),
        shape="falcon",
        defaults={"multi_query": True, "new_decoder_architecture": True},
    ),
    "RefinedWebModel": Family(
        _vllm("transformers_utils/configs/falcon.py"),
        shape="falcon",
        defaults={"multi_query": True, "new_decoder_architecture": False},
    ),
    "gpt_bigcode": Family(
        _transformers("gpt_bigcode"), shape="multi_query", defaults={"multi_query": True}
    ),
    "minicpm3": Family(_vllm("model_executor/models/minicpm3.py"), shape="expanded_latent"),
    "mpt": Family(_transformers("mpt"), shape="attn_config"),
    "nemotron-nas": Family(
        _vllm("model_executor/models/nemotron_nas.py"), "block_configs", shape="block_configs"
    ),
    "step3_text": Family(
        _vllm("model_executor/models/step3_text.py"),
        shape="single_kv_head",
        defaults={"head_dim": 256},
    ),
    # Windows
    "dots1": Family(
        _transformers("dots1"),
        "late_window",
        defaults={"sliding_window": 4096, "max_window_layers": 62, "use_sliding_window": True},
    ),
    "gemma4_text": Family(
        _transformers("gemma4"), "gemma4", shape="gemma4", period=6, defaults=_GEMMA4
    ),
    "gemma4_unified_text": Family(
        _transformers("gemma4"), "gemma4", shape="gemma4", period=6, defaults=_GEMMA4_UNIFIED
    ),
    "laguna": Family(
        _transformers("laguna"),
        "listed",
        defaults=core(40, 2048, 48, 8, head_dim=128, sliding_window=512),
    ),
    "llama4_text": Family(
        _transformers("llama4"),
        "llama4",
        period=4,
        defaults=core(48, 5120, 40, 8, head_dim=128, attention_chunk_size=8192),
    ),
    "mimo_v2_flash": Family(_vllm("model_executor/models/mimo_v2.py"), "mimo_v2", shape="mimo_v2"),
    "mimo_v2": Family(_vllm("model_executor/models/mimo_v2.py"), "mimo_v2", shape="mimo_v2"),
    "mllama_text_model": Family(
        _transformers("mllama"),
        "cross_attention_layers",
        note="cross-attention layers keep K and V of the image only; these are not counted",
        defaults=core(40, 4096, 32, 8, cross_attention_layers=[3, 8, 13, 18, 23, 28, 33, 38]),
    ),
    "qwen3_moe": Family(
        _transformers("qwen3_moe"),
        "window_if_used",
        defaults=core(24, 2048, 32, 4, sliding_window=4096),
    ),
    "qwen3_omni_moe_text": Family(
        _transformers("qwen3_omni_moe"),
        "window_if_used",
        defaults=core(28, 2048, 28, 4, sliding_window=4096),
    ),
    "smollm3": Family(_transformers("smollm3"), "smollm3", defaults=core(36, 2048, 16, 4)),
    "step3p5": Family(_vllm("model_executor/models/step3p5.py"), "listed", shape="step3p5"),
    # Cross-layer sharing
    "hunyuan": Family("code in the model repository", "hunyuan"),
    "hunyuan_v1_moe": Family(_transformers("hunyuan_v1_moe"), "hunyuan"),
    # Latent with two attentions per layer
    "longcat_flash": Family(_vllm("model_executor/models/longcat_flash.py"), "double_latent"),
    # Recurrent layers
    "bamba": Family(
        _transformers("bamba"),
        "attn_layer_indices",
        state="mamba2",
        defaults={**_MAMBA_GRANITE, "num_key_value_heads": 8},
    ),
    "falcon_h1": Family(
        _transformers("falcon_h1"),
        "parallel",
        state="mamba2",
        defaults={**_MAMBA_GRANITE, "mamba_d_ssm": 1024, "num_key_value_heads": 8},
    ),
    "falcon_mamba": Family(
        _transformers("falcon_mamba"),
        "recurrent",
        state="mamba1",
        defaults={"state_size": 16, "conv_kernel": 4, "expand": 2},
    ),
    "granitemoehybrid": Family(
        _transformers("granitemoehybrid"), "listed", state="mamba2", defaults=_MAMBA_GRANITE
    ),
    "jamba": Family(
        _transformers("jamba"),
        "jamba",
        state="mamba1",
        defaults={
            "num_key_value_heads": 8,
            "attn_layer_period": 8,
            "attn_layer_offset": 4,
            "mamba_d_state": 16,
            "mamba_d_conv": 4,
            "mamba_expand": 2,
        },
    ),
    "kimi_linear": Family(_vllm("models/kimi_k3/nvidia/model.py"), "kimi_linear", state="kda"),
    "lfm2": Family(
        _transformers("lfm2"),
        "lfm2",
        state="short_conv",
        defaults=core(32, 2560, 32, 8, conv_L_cache=3),
    ),
    "lfm2_moe": Family(
        _transformers("lfm2_moe"),
        "lfm2",
        state="short_conv",
        defaults=core(32, 2048, 32, 8, conv_L_cache=3),
    ),
    "mamba": Family(
        _transformers("mamba"),
        "recurrent",
        state="mamba1",
        defaults={"state_size": 16, "conv_kernel": 4, "expand": 2},
    ),
    "mamba2": Family(
        _transformers("mamba2"),
        "recurrent",
        state="mamba2",
        defaults={
            "num_heads": 128,
            "head_dim": 64,
            "n_groups": 8,
            "state_size": 128,
            "conv_kernel": 4,
        },
    ),
    "minimax": Family(
        _transformers("minimax"), "minimax", state="lightning", defaults={"num_key_value_heads": 8}
    ),
    "minimax_m1": Family(
        "code in the model repository",
        "minimax",
        state="lightning",
        defaults={"num_key_value_heads": 8},
    ),
    "minimax_text_01": Family(
        "code in the model repository",
        "minimax",
        state="lightning",
        defaults={"num_key_value_heads": 8},
    ),
    "nemotron_h": Family(
        _vllm("model_executor/models/nemotron_h.py"),
        "nemotron_h",
        state="mamba2",
        defaults={
            "num_key_value_heads": 8,
            "head_dim": 128,
            "ssm_state_size": 128,
            "mamba_num_heads": 128,
            "mamba_head_dim": 64,
            "n_groups": 8,
            "conv_kernel": 4,
            "mamba_ssm_cache_dtype": "float32",
        },
    ),
    "olmo_hybrid": Family(
        _transformers("olmo_hybrid"),
        "listed",
        state="gated_delta",
        defaults={"linear_conv_kernel_dim": 4},
    ),
    "qwen3_5_text": Family(
        _transformers("qwen3_5"),
        "interval",
        state="gated_delta",
        period=4,
        defaults=core(32, 4096, 16, 4, **_LINEAR_256),
    ),
    "qwen3_5_moe_text": Family(
        _transformers("qwen3_5_moe"),
        "interval",
        state="gated_delta",
        period=4,
        defaults=core(40, 2048, 16, 2, **_LINEAR_256),
    ),
    "qwen3_next": Family(
        _transformers("qwen3_next"),
        "interval",
        state="gated_delta",
        period=4,
        defaults=core(48, 2048, 16, 2, **_LINEAR_256),
    ),
    "zamba2": Family(_transformers("zamba2"), "zamba2", shape="zamba2", state="mamba2"),
    # Refused
    "deepseek_v4": Family("", refused=_COMPRESSED),
    "deepseek_v41": Family("", refused=_COMPRESSED),
    "gpt_neo": Family("", refused="its local layers are cached differently by each engine"),
    "phi3small": Family("", refused="its block-sparse layers are not served by vLLM any more"),
    "recurrent_gemma": Family("", refused=_FIXED_STATE),
    "rwkv": Family("", refused=_FIXED_STATE),
    "xlstm": Family("", refused=_FIXED_STATE),
    "zamba": Family("", refused=_FIXED_STATE),
}

FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(_table() | _SPECIAL)
"""Rows by `model_type`."""

ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "falcon-h1": "falcon_h1",
        "gemma3": "gemma3_text",
        "gemma3n": "gemma3n_text",
        "gemma4": "gemma4_text",
        "gemma4_unified": "gemma4_unified_text",
        "llama4": "llama4_text",
        "mllama": "mllama_text_model",
        "minimax_m2.5": "minimax_m2",
        "MiniMaxText01": "minimax_text_01",
        "MiniMaxM1": "minimax_m1",
        "nemotron_nas": "nemotron-nas",
        "qwen3_5": "qwen3_5_text",
        "qwen3_5_moe": "qwen3_5_moe_text",
        "step3p7": "step3p5",
        "phi4mm": "phi4_multimodal",
        "phi3_v": "phi3",
        "phimoe_moe": "phimoe",
        "Yi": "yi",
    }
)
"""Other spellings of a row's `model_type`, and the type a container's flat config stands for."""

TEXT_TYPE_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        "aria": "aria_text",
        "aya_vision": "cohere2",
        "cohere2_vision": "cohere2",
        "deepseek_vl": "llama",
        "ernie4_5_vl_moe": "ernie4_5_vl_moe_text",
        "gemma3": "gemma3_text",
        "gemma3n": "gemma3n_text",
        "gemma4": "gemma4_text",
        "gemma4_unified": "gemma4_unified_text",
        "glm46v": "glm4v_text",
        "glm4v": "glm4v_text",
        "glm4v_moe": "glm4v_moe_text",
        "glm_ocr": "glm_ocr_text",
        "granite_speech": "granite",
        "got_ocr2": "qwen2",
        "hyperclovax_vision_v2": "hyperclovax",
        "idefics3": "llama",
        "internvl": "qwen2",
        "janus": "llama",
        "kimi_k25": "deepseek_v3",
        "lfm2_vl": "lfm2",
        "lighton_ocr": "qwen3",
        "llama4": "llama4_text",
        "llava": "llama",
        "llava_next": "llama",
        "llava_next_video": "llama",
        "llava_onevision": "qwen2",
        "mistral3": "mistral",
        "mllama": "mllama_text_model",
        "ovis2": "qwen2",
        "paddleocr_vl": "paddleocr_vl_text",
        "paligemma": "gemma",
        "perception_lm": "llama",
        "qwen2_5_omni_thinker": "qwen2_5_omni_text",
        "qwen2_5_vl": "qwen2_5_vl_text",
        "qwen2_audio": "qwen2",
        "qwen2_vl": "qwen2_vl_text",
        "qwen3_5": "qwen3_5_text",
        "qwen3_5_moe": "qwen3_5_moe_text",
        "qwen3_asr": "qwen3",
        "qwen3_omni_moe_thinker": "qwen3_omni_moe_text",
        "qwen3_vl": "qwen3_vl_text",
        "qwen3_vl_moe": "qwen3_vl_moe_text",
        "smolvlm": "llama",
        "step3p7": "step3p5",
        "vipllava": "llama",
        "voxtral": "llama",
    }
)
"""The language model's type where a container's nested config leaves it out: the type of the
class's default sub-config (transformers 5.24.0, the container's configuration file)."""
