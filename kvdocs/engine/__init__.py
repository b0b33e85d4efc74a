"""The serving engine: vLLM V1's scheduler and block manager, decision for decision.

Settings (`EngineConfig`) and requests (`RequestSpec`) go in; `SteppingEngine` takes one step at a
time and tells what it decided and why, `JumpingEngine` decides the same without the steps between.
`run` lets requests arrive over time and returns what became of each.

    config, request, prompt   what goes in            queues, scheduler, kv_cache   the rules
    events, loop              what comes out          stepping                      the reference
    timer                     how long a step takes   jumping, ...                  the fast double
"""

from kvdocs.engine.config import EngineConfig, Policy
from kvdocs.engine.jumping import JumpingEngine, fast_engine
from kvdocs.engine.loop import RequestResult, check_fits, run
from kvdocs.engine.prompt import DistinctPrompt, KeyedPrompt, Segment, SegmentPrompt, TokenPrompt
from kvdocs.engine.request import RequestSpec, Status
from kvdocs.engine.stepping import Step, SteppingEngine
from kvdocs.engine.timer import ConstantTimer, StepLoad, SteppedTimer, StepTimer

__all__ = [
    "ConstantTimer",
    "DistinctPrompt",
    "EngineConfig",
    "JumpingEngine",
    "KeyedPrompt",
    "Policy",
    "RequestResult",
    "RequestSpec",
    "Segment",
    "SegmentPrompt",
    "Status",
    "Step",
    "StepLoad",
    "StepTimer",
    "SteppedTimer",
    "SteppingEngine",
    "TokenPrompt",
    "check_fits",
    "fast_engine",
    "run",
]
