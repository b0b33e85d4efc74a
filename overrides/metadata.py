"""What a page tells machines: its picture for links, and structured data (schema.org, JSON-LD)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from cards import Card, draw_card
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

LICENCE: Final = "https://creativecommons.org/licenses/by/4.0/"
FOLDER: Final = "assets/cards"
MODULES: Final = "reference/api"
"""The pages below it share the card of the one above them."""


def on_page_context(
    context: dict[str, Any],
    page: Page,
    config: MkDocsConfig,
    nav: Navigation,
) -> dict[str, Any]:
    """Hand a page's card and structured data to its template."""
    if page.meta.get("template") == "embed.html":  # a page inside another site's
        return context
    root = config.site_url or ""
    data = structured_data(page, config, steps_of(nav))
    # A `</script>` in a title must not end the script.
    text = json.dumps(data | {"image": f"{root}{card_path(page)}"}, ensure_ascii=False)
    context["structured_data"] = text.replace("<", "\\u003c")
    context["card_url"] = f"{root}{card_path(page)}"
    context["card_words"] = f"{page.title}: {below(page, config)}"
    return context


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> None:  # noqa: ARG001
    """Draw the page's card."""
    if page.meta.get("template") == "embed.html" or page.file.src_uri.startswith(f"{MODULES}/"):
        return
    path = Path(config.site_dir) / card_path(page)
    path.parent.mkdir(parents=True, exist_ok=True)
    draw_card(card_of(page, config)).save(path, optimize=True)


def steps_of(nav: Navigation) -> list[Page]:
    """Return the lesson's pages in order."""
    return [page for page in nav.pages if "step" in page.meta]


def card_path(page: Page) -> str:
    """Return where a page's card is, below the site's root."""
    name = page.file.src_uri.rpartition(".")[0]
    name = MODULES if name.startswith(f"{MODULES}/") else name
    return f"{FOLDER}/{name.replace('/', '-')}.png"


def below(page: Page, config: MkDocsConfig) -> str:
    """Return the line that explains a page's title."""
    told = page.meta.get("question") or page.meta.get("description") or config.site_description
    return str(told)


def card_of(page: Page, config: MkDocsConfig) -> Card:
    """Return what a page's card says."""
    meta = page.meta
    part = f" · {meta['part_title']}" if "step" in meta else ""
    return Card(
        above="An interactive lesson" if page.is_homepage else f"{config.site_name}{part}",
        title=config.site_name if page.is_homepage else str(page.title),
        below=below(page, config),
        step=meta.get("step", 0),
        steps=config.extra["steps"],
    )


def structured_data(page: Page, config: MkDocsConfig, steps: list[Page]) -> dict[str, Any]:
    """Return a page's structured data: the course, one of its steps, or an article.

    Args:
        page: The page.
        config: The site.
        steps: The lesson's pages.
    """
    if page.is_homepage:
        return _course(page, config, steps)
    return _step(page, config) if "step" in page.meta else _article(page, config)


def _common(page: Page, config: MkDocsConfig, kind: str) -> dict[str, Any]:
    return {
        "@context": "https://schema.org",
        "@type": kind,
        "url": page.canonical_url,
        "description": str(page.meta.get("description") or config.site_description),
        "inLanguage": "en",
        "isAccessibleForFree": True,
        "license": LICENCE,
    }


def _identity(config: MkDocsConfig) -> dict[str, str]:
    return {"@type": "Course", "name": config.site_name, "url": config.site_url or ""}


def _course(page: Page, config: MkDocsConfig, steps: list[Page]) -> dict[str, Any]:
    minutes = sum(step.meta["minutes"] for step in steps)
    return _common(page, config, "Course") | {
        "name": config.site_name,
        "about": "KV cache of large language model servers",
        "educationalLevel": "Intermediate",
        "timeRequired": f"PT{minutes}M",
        "provider": {"@type": "Organization", "name": config.site_name, "url": config.site_url},
        "teaches": [step.meta["takeaway"] for step in steps],
        "hasCourseInstance": {
            "@type": "CourseInstance",
            "courseMode": "online",
            "courseWorkload": f"PT{minutes}M",
        },
        "offers": {"@type": "Offer", "category": "Free", "price": 0, "priceCurrency": "USD"},
        "hasPart": [
            {"@type": "LearningResource", "name": str(step.title), "url": step.canonical_url}
            for step in steps
        ],
    }


def _step(page: Page, config: MkDocsConfig) -> dict[str, Any]:
    return _common(page, config, "LearningResource") | {
        "name": str(page.title),
        "position": page.meta["step"],
        "timeRequired": f"PT{page.meta['minutes']}M",
        "learningResourceType": "interactive lesson",
        "interactivityType": "active",
        "teaches": page.meta["takeaway"],
        "isPartOf": _identity(config),
    }


def _article(page: Page, config: MkDocsConfig) -> dict[str, Any]:
    return _common(page, config, "TechArticle") | {
        "headline": str(page.title),
        "isPartOf": _identity(config),
    }
