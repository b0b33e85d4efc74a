"""Every error kvdocs raises on purpose.

KvdocsError                  base: one clear sentence, with the numbers it is about
├── MetricsError             readings of a server that cannot be compared
├── DiagnosisError           a figure told to a diagnosis that is none
├── UnitError                a quantity that cannot be read ("12 XB")
├── ConfigError              a config.json that cannot be read right, so it is refused
├── CatalogError             a model or GPU that the catalogue does not hold
├── FlagError                a start-up flag or its value that a server would not take
├── StartError               a server that would not start, in vLLM's words
├── WorkloadError            a workload that cannot be read
├── NeverFitsError           a request that no waiting would ever let run
├── LivelockError            requests that take each other's blocks for ever
├── AllocationError          memory taken without asking whether it is there
├── UsageError               a command line that cannot be carried out as it stands
├── InputError               a block that asks for input where nobody can type
├── ExtraError               a part of kvdocs whose packages are not installed
├── DrillError               a drill that does not exist
├── TerminalError            a line the lesson's shell cannot read, or a damaged state
└── ParameterError           a widget parameter outside what its control allows
"""

from __future__ import annotations


class KvdocsError(ValueError):
    """Base of all errors kvdocs raises on purpose; its text is fit to show a reader."""


class UnitError(KvdocsError):
    """A quantity that cannot be read."""


class ConfigError(KvdocsError):
    """A `config.json` that cannot be read right.

    Attributes:
        field: The config field at fault (dotted when nested), or None when the whole is.
    """

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class CatalogError(KvdocsError):
    """A model or GPU that the catalogue does not hold."""


class FlagError(KvdocsError):
    """A start-up flag, or its value, that a server would not take."""


class StartError(KvdocsError):
    """A server that would not start; the text is vLLM's."""


class WorkloadError(KvdocsError):
    """A workload that cannot be read."""


class AllocationError(KvdocsError):
    """Memory taken without asking first whether it is there."""


class NeverFitsError(KvdocsError):
    """A request that no waiting would ever let run, found when it is submitted.

    Attributes:
        request_id: The request.
        needed: What it needs, in the unit the message names (tokens or blocks).
        available: The most it could ever get, in the same unit.
    """

    def __init__(self, message: str, *, request_id: str, needed: int, available: int) -> None:
        super().__init__(message)
        self.request_id = request_id
        self.needed = needed
        self.available = available


class InputError(KvdocsError):
    """A block of a page that reads standard input, where nobody can type."""


class LivelockError(KvdocsError):
    """Requests that take each other's blocks for ever, so that a run would never end."""


class UsageError(KvdocsError):
    """A command line that cannot be carried out: a wrong argument, or a file that is no use."""


class ExtraError(KvdocsError):
    """A part of kvdocs that needs packages which are not installed."""


class DrillError(KvdocsError):
    """A drill that does not exist."""


class TerminalError(KvdocsError):
    """A line the lesson's shell cannot read, or a state of its machine that cannot be used."""


class ParameterError(KvdocsError):
    """A widget parameter outside what its control allows.

    Attributes:
        name: The parameter's name.
    """

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message)
        self.name = name


class MetricsError(KvdocsError):
    """Readings of a server that cannot be compared."""


class DiagnosisError(KvdocsError):
    """A figure told to a diagnosis that it does not know, or that is no such figure."""
