"""What is wrong with a server: from its metrics, its log or a simulation to a verdict.

    gather, from_pages, from_log, log_lines, queries   what was pasted, to
    evidence                                           one server's figures, to
    signals, thresholds                                a few words each, looked up in
    table, verdicts                                    the decision table, which makes
    diagnosis                                          a diagnosis

Examples:
    >>> told = diagnose("Running: 0 reqs, Waiting: 5 reqs, GPU KV cache usage: 0.0%")
    >>> told.verdict.value
    'stalled'
    >>> told.actions[1]
    'Restart the server.'
"""

from kvdocs.diagnose.diagnosis import Diagnosis, judge
from kvdocs.diagnose.evidence import Evidence, Prompts
from kvdocs.diagnose.read import diagnose, read_evidence
from kvdocs.diagnose.table import Confidence
from kvdocs.diagnose.verdicts import Verdict

__all__ = [
    "Confidence",
    "Diagnosis",
    "Evidence",
    "Prompts",
    "Verdict",
    "diagnose",
    "judge",
    "read_evidence",
]
