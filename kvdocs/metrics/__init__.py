"""The Prometheus page: written as vLLM 0.33 writes it, read from vLLM of any version and SGLang.

Examples:
    >>> page = write_metrics([EngineSnapshot(model_name="llama", running=3, kv_cache_usage=0.25)])
    >>> server, = read_metrics(page).servers
    >>> server.running, server.kv_cache_usage
    (3.0, 0.25)
"""

from kvdocs.metrics.histogram import Histogram, HistogramReading
from kvdocs.metrics.rates import Rates, compare, compare_pages
from kvdocs.metrics.reader import MetricsPage, read_metrics
from kvdocs.metrics.servers import ServerMetrics
from kvdocs.metrics.snapshot import EngineSnapshot, cache_config_info, empty_histograms
from kvdocs.metrics.text import Exposition, Problem, Sample, iterate, parse
from kvdocs.metrics.writer import write_metrics

__all__ = [
    "EngineSnapshot",
    "Exposition",
    "Histogram",
    "HistogramReading",
    "MetricsPage",
    "Problem",
    "Rates",
    "Sample",
    "ServerMetrics",
    "cache_config_info",
    "compare",
    "compare_pages",
    "empty_histograms",
    "iterate",
    "parse",
    "read_metrics",
    "write_metrics",
]
