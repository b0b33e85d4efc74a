"""The ways to answer a drill, one a module."""

from kvdocs.drills.kinds.choice import Choice, Option
from kvdocs.drills.kinds.code import Code, CodeCase
from kvdocs.drills.kinds.number import Number
from kvdocs.drills.kinds.ordering import Ordering
from kvdocs.drills.kinds.prediction import Prediction, Slider
from kvdocs.drills.kinds.state import Reached, State

__all__ = [
    "Choice",
    "Code",
    "CodeCase",
    "Number",
    "Option",
    "Ordering",
    "Prediction",
    "Reached",
    "Slider",
    "State",
]
