"""The project's documents, and what stands in them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *PROJECT.glob("*.md"), PROJECT / "client" / "README.md"])
NEEDS = re.compile(r"<!-- needs: ([a-z ,-]+) -->")
_FENCE = re.compile(rf"(?:^{NEEDS.pattern}\n)?^( *)```(\w*)\n(.*?)^\2```$", re.DOTALL | re.MULTILINE)
_GENERATED = re.compile(r"<!-- (generated|value): [a-z-]+ -->.*?<!-- \1: end -->", re.DOTALL)
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_ROW = re.compile(r"^\|(.+)\|$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of code. ``needs``: what the line before it says that no test has, such as ``aws``; ``above``: the page before it."""

    language: str
    text: str
    page: str = ""
    needs: str = ""
    above: str = field(default="", repr=False, compare=False)


def name_of(page: Path) -> str:
    """A page's name for a test's id."""
    return str(page.relative_to(PROJECT))


def all_blocks(page: Path) -> list[Block]:
    """Of every language, in order, without the indentation of those in lists."""
    text = page.read_text()
    return [
        Block(match[3], dedent(match[4]), name_of(page), match[1] or "", text[: match.start()]) for match in _FENCE.finditer(text)
    ]


def blocks(page: Path, language: str) -> list[Block]:
    """The blocks of one language."""
    return [block for block in all_blocks(page) if block.language == language]


def is_named(name: str, block: Block) -> bool:
    """Whether the page names it in inline code before a block."""
    return f"`{name}`" in block.above


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return _FENCE.sub("", page.read_text())


def written(page: Path) -> str:
    """The prose that somebody wrote: without blocks of code and what is generated."""
    return _GENERATED.sub("", prose(page))


def spans(page: Path) -> list[str]:
    """Inline code of the prose that somebody wrote."""
    return _SPAN.findall(written(page))


def headings(page: Path) -> list[str]:
    """Titles, without their #."""
    return _HEADING.findall(prose(page))


def section(page: Path, heading: str) -> str:
    """What stands under a heading, up to the next one of its level or above. Empty when there is no such heading."""
    found = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#{{1,2}} |^\1 |\Z)", prose(page), re.DOTALL | re.MULTILINE)
    return found[2] if found else ""


def anchor(heading: str) -> str:
    """The fragment that a heading gets where Markdown is rendered (GitHub's rule)."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def rows(text: str) -> list[list[str]]:
    """Cells of the rows of all tables in a text, heads and rules left out."""
    found = [[cell.strip() for cell in row.split(" | ")] for row in _ROW.findall(text)]
    return [row for at, row in enumerate(found) if not set("".join(row)) <= set("-|: ") and not _is_head(found, at)]


def _is_head(found: list[list[str]], at: int) -> bool:
    return at + 1 < len(found) and set("".join(found[at + 1])) <= set("-|: ") and any(found[at + 1])
