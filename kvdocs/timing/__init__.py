"""How long one step of the engine takes: a roofline over the GPU's memory and arithmetic.

Examples:
    >>> from kvdocs.catalog import get_gpu
    >>> from kvdocs.model import parse_config
    >>> config = {"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,
    ...     "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256}
    >>> weights = Weights.from_config(config, num_parameters=8_030_261_248)
    >>> h100 = get_gpu("h100-sxm-80gb")
    >>> timer = RooflineTimer(model=parse_config(config), weights=weights, gpu=h100)
    >>> step = timer.step_time([SequenceWork(new_tokens=1, context=4096)] * 64)
    >>> step.binds, round(step.seconds * 1e3, 1)
    (<Bound.KV: 'kv'>, 19.4)
"""

from kvdocs.timing.efficiency import Efficiency
from kvdocs.timing.exact import TICK, on_grid, to_grid
from kvdocs.timing.roofline import RooflineTimer
from kvdocs.timing.step import Bound, Load, SequenceWork, StepTime
from kvdocs.timing.transfer import HasBandwidth, transfer_time
from kvdocs.timing.weights import Weights

__all__ = [
    "TICK",
    "Bound",
    "Efficiency",
    "HasBandwidth",
    "Load",
    "RooflineTimer",
    "SequenceWork",
    "StepTime",
    "Weights",
    "on_grid",
    "to_grid",
    "transfer_time",
]
