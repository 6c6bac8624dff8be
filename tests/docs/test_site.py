"""The navigation of the site (``make docs``) has every page. MkDocs itself, which checks links, is not installed here."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from typing import Any

import yaml

from tests.docs.pages import PAGES, PROJECT, name_of

SITE: dict[str, Any] = yaml.safe_load((PROJECT / "mkdocs.yml").read_text())
GENERATED = "docs/decisions/index.md"


def pages(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for each in entry.values() if isinstance(entry, dict) else entry:
            yield from pages(each)


def test_navigation_has_every_page_once() -> None:
    others = [pattern.strip().lstrip("/") for pattern in SITE["not_in_nav"].splitlines()]
    expected = {name for page in PAGES if not any(fnmatch.fnmatch(name := name_of(page), pattern) for pattern in others)}
    assert sorted(pages(SITE["nav"])) == sorted({*expected, GENERATED})


def test_navigation_has_four_parts() -> None:
    assert [part for entry in SITE["nav"] for part in entry] == ["Tutorial", "How-to guides", "Reference", "Explanation"]


def test_broken_links_are_errors() -> None:
    assert {level for part in SITE["validation"].values() for level in part.values()} == {"warn"}
    assert "mkdocs build --strict" in (PROJECT / "Makefile").read_text()
