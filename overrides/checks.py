"""What must be right before a page is published; each check says file, line, and what to do.

All problems of a build are told together, in the form `docs/page.md:12: what is wrong`. Problems of
a page's text are found while it is converted, those of its finished HTML after it is written.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import glossary
import jinja2
from fences import executed_fences, with_options
from markdown import Markdown
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page
from new_lesson import PLACEHOLDER

ROOT: Final = Path(__file__).resolve().parent.parent
LESSON_NUMBERS: Final = ("step", "part", "minutes")
LESSON_TEXTS: Final = ("title", "part_title", "question", "takeaway", "description")
"""Front matter every lesson page must have."""
SOURCES: Final = "reference/sources.md"
MOST_HINTS: Final = 3
OPTION: Final = "kv_line"
"""Fence option, written by this hook, that tells on which line of its file a fence opens."""

_PAPER: Final = re.compile(r"https?://(?:arxiv\.org|(?:dx\.)?doi\.org|dl\.acm\.org)/[^\s)>\"]+")
_FAILED: Final = "Execution of python code block"
_FRAME: Final = re.compile(r'File "<code block: [^"]*>", line (?P<line>\d+)')


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that an author must mend.

    Attributes:
        file: The file, below the project's root.
        line: The line in it, from 1.
        message: What is wrong, and what to do.
    """

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        """Return the problem as a compiler would print it."""
        return f"{self.file}:{self.line}: {self.message}"


@dataclass(slots=True)
class Source:
    """The page that is being converted: where its text stands in its file."""

    file: str
    text: str
    offset: int

    def line_of(self, needle: str) -> int:
        """Return the line that holds a text, the first where none does."""
        at = self.text.find(needle)
        return self.text.count("\n", 0, at) + 1 if at >= 0 else 1


_problems: list[Problem] = []
_places: dict[str, list[tuple[str, int]]] = {}
"""By page and element id: the fences that printed it."""
_source = Source("", "", 0)
_publishing = True


# --- one class of check a function ----------------------------------------------------------------


def check_front_matter(source: Source, meta: Mapping[str, Any]) -> Iterator[Problem]:
    """A lesson page has all that is shown around it."""
    missing = [name for name in (*LESSON_NUMBERS, *LESSON_TEXTS) if meta.get(name) in (None, "")]
    if missing:
        yield Problem(source.file, 1, f"front matter lacks {', '.join(missing)}")
    for name in LESSON_NUMBERS:
        value = meta.get(name)
        if name not in missing and (type(value) is not int or value < 1):
            line = source.line_of(f"\n{name}:") + 1
            yield Problem(source.file, line, f"{name} must be a whole number from 1, not {value!r}")
    for name in LESSON_TEXTS:
        if name not in missing and not isinstance(meta[name], str):
            line = source.line_of(f"\n{name}:") + 1
            yield Problem(source.file, line, f"{name} must be a text; put it in quotes")


def check_written(source: Source) -> Iterator[Problem]:
    """Nothing of a new page's template is left where the author's words belong."""
    for number, line in enumerate(source.text.splitlines(), start=1):
        if PLACEHOLDER in line:
            name = line.partition(":")[0].strip()
            yield Problem(source.file, number, f"{name} is still the template's; write yours")


def check_failure(source: Source, line: int, told: str) -> Problem:
    """An executed fence or figure ends well; an unknown widget or drill is an exception too."""
    frames = _FRAME.findall(told)
    lines = [text.strip() for text in told.strip().splitlines() if text.strip()]
    reason = lines[-1] if lines else "it failed"
    name, _, words = reason.partition(": ")
    shown = f"{name.split('.')[-1]}: {words}" if words else name
    return Problem(source.file, line + int(frames[-1] if frames else 0), f"this fails: {shown}")


def check_ids(
    file: str, html: str, places: Mapping[str, list[tuple[str, int]]]
) -> Iterator[Problem]:
    """Every id stands once on a page: links, labels and saved state are kept under it."""
    reader = _Ids()
    reader.feed(html)
    for name, times in reader.times.items():
        if times == 1:
            continue
        lines = [line for page, line in places.get(name, []) if page == file]
        also = f" (first on line {lines[0]})" if len(lines) > 1 else ""
        advice = "give one of them an ident of its own" if lines else "rename one of them"
        yield Problem(
            file, lines[-1] if lines else 1, f"the id {name!r} stands {times} times{also}; {advice}"
        )


def check_steps(steps: Iterable[tuple[Source, int]]) -> Iterator[Problem]:
    """No two pages have the same step number."""
    seen: dict[int, str] = {}
    for source, step in steps:
        if step in seen:
            line = source.line_of("\nstep:") + 1
            yield Problem(source.file, line, f"step {step} is already {seen[step]}")
        seen.setdefault(step, source.file)


def check_nav(nav: Any, config_file: str, text: str, known: Iterable[str]) -> Iterator[Problem]:
    """Every page that the navigation names exists."""
    pages = set(known)
    for path in _leaves(nav):
        if path in pages or "://" in path or path.startswith("/"):
            continue
        line = Source(config_file, text, 0).line_of(path)
        yield Problem(config_file, line, f"nav names {path}, and there is no docs/{path}")


def check_drills(drills: Mapping[str, Any]) -> Iterator[Problem]:
    """Every drill has a worked solution, and hints that a reader can take in."""
    for name, drill in drills.items():
        posed = drill.pose()
        if not any(str(part).strip() for part in posed.solution):
            yield _in_code(drill.solution, f"the drill {name!r} has no solution")
        if len(posed.hints) > MOST_HINTS:
            told = f"the drill {name!r} has {len(posed.hints)} hints; at most {MOST_HINTS}"
            yield _in_code(drill.hints, told)


def check_terms(
    terms: Iterable[glossary.Term], pages: Iterable[glossary.LessonPage], steps: Iterable[int]
) -> Iterator[Problem]:
    """Every term of the glossary is used by a lesson page, and every abbreviation is a term."""
    pages, steps = list(pages), set(steps)
    text = glossary.SOURCE.read_text(encoding="utf-8")
    source = Source(glossary.SOURCE.relative_to(ROOT).as_posix(), text, 0)
    used = {name for page in pages for name in glossary.used_in(page.shown)}
    for term in terms:
        # A step that is still to be written may bring its words with it.
        if term.step in steps and term.name not in used:
            line = source.line_of(f'name = "{term.name}"')
            yield Problem(source.file, line, f"no lesson page uses {term.name!r}; leave it out")
    for page in pages:
        for word in sorted(glossary.undefined_in(page.prose)):
            told = f"{word} is not explained; define it in {source.file}"
            yield Problem(f"docs/{page.file}", 1, told)


def check_sources(source: Source, listed: str) -> Iterator[Problem]:
    """Every paper that a lesson page links to stands on the page of sources."""
    for match in _PAPER.finditer(source.text):
        if match[0] not in listed:
            line = source.text.count("\n", 0, match.start()) + 1
            yield Problem(source.file, line, f"{match[0]} is cited; add it to docs/{SOURCES}")


# --- MkDocs' events -------------------------------------------------------------------------------


def on_startup(command: str, dirty: bool) -> None:  # noqa: ARG001, FBT001
    """An author who serves a new page may look at it before its words are written."""
    global _publishing  # noqa: PLW0603 - MkDocs tells the command only here
    _publishing = command != "serve"


@event_priority(-100)
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Forget the last build, and listen to what fences and figures do."""
    _problems.clear()
    _places.clear()
    for fence in config.mdx_configs["pymdownx.superfences"]["custom_fences"]:
        if fence["name"] == "python":
            fence["format"] = _checked_fence(fence["format"])
    for figure in config.mdx_configs.get("pymdownx.inlinehilite", {}).get("custom_inline", []):
        figure["format"] = _checked_figure(figure["format"])
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Check the navigation before MkDocs warns of it without a line."""
    path = Path(config.config_file_path)
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    _problems.extend(check_nav(config.nav or [], path.name, text, files.src_uris))
    return files


@event_priority(100)
def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Check the front matter and the papers, and tell each fence which line it stands on."""
    global _source  # noqa: PLW0603 - formatters are not told which page they are on
    _source = source_of(page, config, markdown)
    if page.file.src_uri.startswith("lessons/"):
        _problems.extend(check_front_matter(_source, page.meta))
        cited = files.get_file_from_path(SOURCES)
        _problems.extend(check_sources(_source, cited.content_string if cited else ""))
        if _publishing:
            _problems.extend(check_written(_source))
    lines = [fence.line for fence in executed_fences(markdown)]
    return with_options(
        markdown, {line: f'{OPTION}="{line + _source.offset + 1}"' for line in lines}
    )


@event_priority(100)
def on_env(env: jinja2.Environment, config: MkDocsConfig, files: Files) -> None:  # noqa: ARG001
    """Check what needs all pages; then stop the build if anything was wrong so far."""
    # The package is imported anew for each build, so not at the top.
    from kvdocs.drills.registry import DRILLS  # noqa: PLC0415

    _problems.extend(check_drills(DRILLS))
    pages = [file.page for file in files.documentation_pages() if file.page]
    numbered = [page for page in pages if type(page.meta.get("step")) is int]
    _problems.extend(check_steps((source_of(page, config), page.meta["step"]) for page in numbered))
    if glossary.Noted.pages:
        steps = [page.meta["step"] for page in numbered]
        _problems.extend(check_terms(glossary.terms(), glossary.Noted.pages, steps))
    _raise()


@event_priority(-100)
def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Check the finished page."""
    _problems.extend(check_ids(_name(page, config), output, _places))
    return output


def on_post_build(config: MkDocsConfig) -> None:  # noqa: ARG001
    """Fail if any finished page was wrong."""
    _raise()


def _raise() -> None:
    if not _problems:
        return
    told = "\n".join(sorted({str(problem) for problem in _problems}))
    count = told.count("\n") + 1
    _problems.clear()
    raise PluginError(f"{count} {'problem' if count == 1 else 'problems'} to mend:\n{told}")


# --- how they find out ----------------------------------------------------------------------------


def source_of(page: Page, config: MkDocsConfig, markdown: str = "") -> Source:
    """Return where a page's text stands; its Markdown begins after the front matter."""
    text = page.file.content_string
    at = text.find(markdown) if markdown else 0
    return Source(_name(page, config), text, text.count("\n", 0, max(0, at)))


def _name(page: Page, config: MkDocsConfig) -> str:
    return f"{Path(config.docs_dir).name}/{page.file.src_uri}"


def _checked_fence(run: Callable[..., str]) -> Callable[..., str]:
    def format_fence(
        source: str,
        language: str,
        css_class: str,
        options: dict[str, Any],
        md: Markdown,
        **rest: Any,
    ) -> str:
        line = int(options["extra"].pop(OPTION, 1))
        with _failures() as failures:
            shown = _run(line, lambda: run(source, language, css_class, options, md, **rest))
        _problems.extend(check_failure(_source, line, told) for told in failures)
        _note_ids(str(shown), line)
        return shown

    return format_fence


def _checked_figure(run: Callable[..., str]) -> Callable[..., str]:
    def format_figure(source: str, language: str, class_name: str, md: Markdown) -> str:
        line = _source.line_of(f"`#!{language} {source}`")
        with _failures() as failures:
            shown = _run(line, lambda: run(source, language, class_name, md))
        # The figure is one line long, wherever Python counts it.
        _problems.extend(check_failure(_source, line - 1, told) for told in failures)
        return shown

    return format_figure


def _run(line: int, run: Callable[[], str]) -> str:
    """Run a formatter; Markdown's extensions would swallow what it raises."""
    try:
        return run()
    except PluginError as error:
        _problems.append(Problem(_source.file, line, str(error)))
        return ""


class _Listener(logging.Handler):
    """Hears markdown-exec, which logs a failure and goes on."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.failures: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        told = record.getMessage()
        if _FAILED in told:
            self.failures.append(told.partition("Output is:")[2])


@contextmanager
def _failures() -> Iterator[list[str]]:
    listener, logger = _Listener(), logging.getLogger("mkdocs.plugins")
    logger.addHandler(listener)
    try:
        yield listener.failures
    finally:
        logger.removeHandler(listener)


def _note_ids(html: str, line: int) -> None:
    reader = _Ids()
    reader.feed(html)
    for name in reader.times:
        _places.setdefault(name, []).append((_source.file, line))


class _Ids(HTMLParser):
    """Counts the ids of a piece of HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.times: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Count the tag's id; what a template holds is not in the page."""
        name = dict(attrs).get("id")
        if name and tag != "template":
            self.times[name] = self.times.get(name, 0) + 1


def _leaves(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        for below in nav.values():
            yield from _leaves(below)
    elif isinstance(nav, list):
        for below in nav:
            yield from _leaves(below)


def _in_code(function: Callable[..., Any], message: str) -> Problem:
    code = function.__code__
    path = Path(code.co_filename)
    file = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    return Problem(file.as_posix(), code.co_firstlineno, message)
