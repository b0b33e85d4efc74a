"""A `model_type` without a row: read as plain and dense, or refused.

The plain reading is right for most new text models, and silently wrong for the rest. So any field
that hints at a cache of another kind refuses the config, naming the field.
"""

from __future__ import annotations

import re
from typing import Any, Final

from kvdocs.model.families import Family
from kvdocs.model.fields import Fields, show

_HINT: Final = re.compile(
    r"lora_rank|mamba|ssm|(^|_)conv(_|$)|conv_|linear_attn|linear_(num|key|value|conv)|hybrid"
    r"|recurrent|rwkv|(^|_)lru|attn_layer|layer_pattern|block_type|attention_types?$|attn_types?"
    r"|window|chunk|kv_shared|share|compress|(^|_)index|sparse_att|_topk_pattern|encoder|cross_att"
    r"|block_configs|per_layer_config|global_(head|attn|kv|num)|num_global|(^|_)swa(_|$)|local_att"
    r"|multi_query|multiquery|group_num|state_size|latent|no_rope|retention|delta|v_head_dim|use_mla"
    r"|use_cla|head_dim_list|attn_config|qk_rope|rope_head|kv_heads_per|full_att|memory_size|loop"
    r"|kv_channels|cycles|per_stack"
)
_HARMLESS: Final = re.compile(
    r"chunk_size_feed_forward|tie_encoder|share_(expert|embed)|shared_(expert|intermediate|head)"
    r"|_shared_experts?|encoder_no_repeat|attention_type_ids|index_?_?name|window_?_?name|expert"
    r"|max_window_layers|ignore_index|token_index|num_nextn|padding_idx|vision|image|audio|video|quantization"
)
_HINT_MODEL: Final = re.compile(
    r"For(CausalLM|ConditionalGeneration|Generation)|LMHeadModel|ChatModel"
)
_ENCODER_NAME: Final = re.compile(
    r"vision|(^|_)vit|vit(_|$)|audio|encoder|bert|clip|speech|(^|_)t5|detr|siglip|asr|embedding"
)
_OFF: Final[tuple[Any, ...]] = (None, False, 0, 1, "", [], {}, "none", "full", "full_attention")


_PLAIN_WORDS: Final = frozenset({"full_attention", "sliding_attention"})


def unknown_family(text: Fields) -> Family:
    """The row for a `model_type` that has none.

    Raises:
        ConfigError: A field hints at a cache that is not plain.

    Examples:
        >>> unknown_family(Fields({"model_type": "new", "num_hidden_layers": 2})).pattern
        'full'
    """
    _check_generates(text)
    window_off = text.data.get("use_sliding_window") is False
    listed = _lists_windows(text)
    for key, value in text.data.items():
        if not isinstance(key, str) or any(value is off or value == off for off in _OFF):
            continue
        if not _HINT.search(key.lower()) or _HARMLESS.search(key.lower()):
            continue
        if "window" in key and (window_off or (listed and key == "sliding_window")):
            continue
        text.refuse(
            key,
            f"is {show(value)}, and model_type {show(text.data.get('model_type'))} is one kvdocs "
            "does not know: what its layers keep would have to come from the model's code",
        )
    source = "assumed: no field hints at another layout"
    return Family(source, "listed" if listed else "full")


def _lists_windows(text: Fields) -> bool:
    """Whether `layer_types` says plainly which layers have the file's one window."""
    words = text.items("layer_types") or []
    return "sliding_attention" in words and set(map(str, words)) <= _PLAIN_WORDS


def _check_generates(text: Fields) -> None:
    names = text.items("architectures")
    model_type = str(text.data.get("model_type"))
    if not names and _ENCODER_NAME.search(model_type.lower()):
        text.refuse(
            "model_type",
            f"is {show(model_type)}, which sounds like an encoder; the config.json of the language "
            "model is needed",
        )
    if names and not any(isinstance(name, str) and _HINT_MODEL.search(name) for name in names):
        text.refuse(
            "architectures",
            f"is {show(names)}, which is no model that generates text token by token, so it may "
            "keep no KV cache",
        )
