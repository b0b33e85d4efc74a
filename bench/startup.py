"""From navigation to the first live update: the memory snapshot against plain Pyodide.

Both start on the same page of the same build, in the same Chromium, in turn. A visit opens step 1,
waits until the page itself begins to start Python, moves the first control, and ends when the
answer is drawn. The first visit has an empty cache; the second is a new page with that cache.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests.browser.chromium import FLAGS, find_chromium
from tests.browser.site_server import SiteServer, serve

PAGE: Final = "lessons/part-1/01-a-coding-assistant-on-one-h100/"
QUERIES: Final = {"snapshot": "", "plain": "?kv-start=plain"}
REPEATS: Final = 5
LATER: Final = "python_stdlib.zip"
"""After a start from the snapshot this file follows when the page is live; it is counted apart."""

COLUMNS: Final = (
    "start",
    "visit",
    "first update",
    "low to high",
    "Python ready in",
    "longest task while booting",
    "Python fetched",
    "page fetched",
)

WATCH: Final = """
window.tasks = [];
new PerformanceObserver((list) => {
  for (const task of list.getEntries()) tasks.push([task.startTime, task.duration]);
}).observe({ type: "longtask", buffered: true });
"""
CHANGE: Final = """async () => {
  const root = document.documentElement;
  while (!["booting", "live"].includes(root.dataset.kvRuntime)) {
    await new Promise((done) => setTimeout(done, 5));
  }
  const control = document.querySelector("kv-widget [name]");
  const wanted = { range: () => control.stepDown(10) }[control.type];
  if (wanted) wanted(); else control.selectedIndex = 1;
  control.dispatchEvent(new Event("input", { bubbles: true }));
}"""
READ: Final = """() => {
  const at = (name) => performance.getEntriesByName(name)[0].startTime;
  const [start, end] = [at("kv:boot-start"), at("kv:boot-end")];
  const booting = tasks.filter(([from, length]) => from + length > start && from < end);
  return {
    load_ms: performance.getEntriesByType("navigation")[0].loadEventEnd,
    boot_start_ms: start,
    boot_end_ms: end,
    first_update_ms: at("kv:first-update"),
    longest_task_ms: Math.max(0, ...booting.map(([, length]) => length)),
    mode: kvRuntime.mode,
  };
}"""


@dataclass(frozen=True, slots=True)
class Visit:
    """One opening of the page.

    Attributes:
        start: How Python was asked to start.
        visit: `first` with an empty cache, `second` with a filled one.
        first_update_ms: Navigation to the first live update drawn.
        boot_ms: Start of Python to its being ready.
        load_ms: Navigation to the page's load event.
        boot_start_ms: Navigation to the start of Python; never before the load event.
        longest_task_ms: Longest main-thread task while Python started; 0 if all were under 50 ms.
        python_bytes: Bytes sent for Python and its files before the first update.
        page_bytes: Bytes sent for all else before the first update.
    """

    start: str
    visit: str
    first_update_ms: float
    boot_ms: float
    load_ms: float
    boot_start_ms: float
    longest_task_ms: float
    python_bytes: int
    page_bytes: int


def measure(root: Path) -> dict[str, Any]:
    """Measure a built site; returns medians, ratios and every single visit."""
    with (
        serve(root, compress=True) as site,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS) as browser,
    ):
        for start in QUERIES:
            _visits(browser, site, start)  # warms the host and the disk; not counted
        visits = [
            visit
            for _ in range(REPEATS)
            for start in QUERIES
            for visit in _visits(browser, site, start)
        ]
        version = browser.version
    return {
        "chromium": version,
        "repeats": REPEATS,
        "medians": {
            f"{start} {visit}": _medians(visits, start, visit)
            for start in QUERIES
            for visit in ("first", "second")
        },
        "ratio": {visit: _ratio(visits, visit) for visit in ("first", "second")},
        "visits": [asdict(visit) for visit in visits],
    }


def _visits(browser: Browser, site: SiteServer, start: str) -> tuple[Visit, Visit]:
    with browser.new_context() as context:
        context.add_init_script(WATCH)
        return _visit(context, site, start, "first"), _visit(context, site, start, "second")


def _visit(context: BrowserContext, site: SiteServer, start: str, visit: str) -> Visit:
    site.served.clear()
    page = context.new_page()
    page.goto(site.url + PAGE + QUERIES[start], wait_until="commit")
    page.evaluate(CHANGE)
    page.wait_for_function("performance.getEntriesByName('kv:first-update').length > 0")
    served = [(one.path, one.sent) for one in site.served]
    seen = page.evaluate(READ)
    page.wait_for_load_state("networkidle")
    page.close()
    if seen["mode"] != start:
        raise RuntimeError(f"asked for a {start} start, but Python came up by {seen['mode']}")
    sent = [(path, size) for path, size in served if start == "plain" or LATER not in path]
    python = sum(size for path, size in sent if _is_python(path))
    return Visit(
        start=start,
        visit=visit,
        first_update_ms=seen["first_update_ms"],
        boot_ms=seen["boot_end_ms"] - seen["boot_start_ms"],
        load_ms=seen["load_ms"],
        boot_start_ms=seen["boot_start_ms"],
        longest_task_ms=seen["longest_task_ms"],
        python_bytes=python,
        page_bytes=sum(size for _, size in sent) - python,
    )


def _is_python(path: str) -> bool:
    return "/pyodide/" in path or path.endswith(("kv/worker.js", "kv/kvdocs.json"))


def _medians(visits: list[Visit], start: str, visit: str) -> dict[str, float]:
    chosen = [one for one in visits if (one.start, one.visit) == (start, visit)]
    names = [name for name in asdict(chosen[0]) if name not in {"start", "visit"}]
    medians = {name: median(getattr(one, name) for one in chosen) for name in names}
    return medians | {
        "first_update_ms_low": min(one.first_update_ms for one in chosen),
        "first_update_ms_high": max(one.first_update_ms for one in chosen),
        "longest_task_ms_worst": max(one.longest_task_ms for one in chosen),
    }


def _ratio(visits: list[Visit], visit: str) -> float:
    """Median over the repeats of snapshot time by plain time, each pair taken in turn."""
    snapshot, plain = (
        [one.first_update_ms for one in visits if (one.start, one.visit) == (start, visit)]
        for start in QUERIES
    )
    return median(one / other for one, other in zip(snapshot, plain, strict=True))


def table(result: dict[str, Any]) -> str:
    """Return the result as a Markdown table with its goals."""
    title = (
        f"Navigation to first live update, Chromium {result['chromium']}, medians of "
        f"{result['repeats']} in turn, gzip as a static host sends it"
    )
    lines = [title, "", "| " + " | ".join(COLUMNS) + " |", "|---|---|" + "--:|" * 6]
    lines += [_row(name, row) for name, row in result["medians"].items()]
    lines += ["", *(_goal(*goal) for goal in goals(result))]
    return "\n".join(lines)


def _row(name: str, row: dict[str, float]) -> str:
    start, visit = name.split()
    task = row["longest_task_ms_worst"]
    return (
        f"| {start} | {visit} | {row['first_update_ms'] / 1000:.2f} s"
        f" | {row['first_update_ms_low'] / 1000:.2f} to {row['first_update_ms_high'] / 1000:.2f} s"
        f" | {row['boot_ms'] / 1000:.2f} s | {f'{task:.0f} ms' if task else 'under 50 ms'}"
        f" | {row['python_bytes'] / 1e6:.2f} MB | {row['page_bytes'] / 1e6:.2f} MB |"
    )


def goals(result: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Return the goals as (what, measured, allowed)."""
    first = result["medians"]["snapshot first"]
    early = min(visit["boot_start_ms"] - visit["load_ms"] for visit in result["visits"])
    return [
        ("snapshot / plain, first visit", result["ratio"]["first"], 0.40),
        ("snapshot / plain, second visit", result["ratio"]["second"], 0.40),
        ("longest main-thread task while booting, worst, ms", first["longest_task_ms_worst"], 100),
        ("MB before the first update", (first["python_bytes"] + first["page_bytes"]) / 1e6, 11),
        ("ms that Python started before the page had loaded, worst", max(0.0, -early), 0),
    ]


def _goal(what: str, measured: float, allowed: float) -> str:
    verdict = "reached" if measured <= allowed else "MISSED"
    return f"- {what}: {measured:.2f}, at most {allowed:g}: {verdict}"
