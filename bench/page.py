"""The tables of docs/performance.md: rows that were measured, each kept until it is measured again."""

from __future__ import annotations

import platform
import time
from pathlib import Path

from bench.measure import Measure

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"


def table(rows: list[Measure]) -> str:
    """The rows as Markdown."""
    lines = ["| what | reach | measured | |", "|---|---|---|---|"]
    lines += [f"| {row.what} | {row.reach} | {row.measured} | {'reached' if row.reached else '**missed**'} |" for row in rows]
    return "\n".join(lines)


def keep(rows: list[Measure], part: str, page: Path = PAGE) -> None:
    """What was measured now takes the place of the same rows of a part of the page; the others stay as they were."""
    begin, end = f"<!-- {part}: begin -->", f"<!-- {part}: end -->"
    head, rest = page.read_text().split(begin)
    kept, tail = rest.split(end)
    lines = {_name(line): line for text in (kept, table(rows)) for line in text.splitlines() if line.startswith("|")}
    text = "\n".join(lines.values())
    machine = f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, {platform.machine()}"
    page.write_text(f"{head}{begin}\nMeasured on {machine}, emulator on the same machine.\n\n{text}\n{end}{tail}")


def _name(line: str) -> str:
    return line.split("|")[1].strip()
