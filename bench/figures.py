"""The figures of docs/performance.md: stored in docs/figures.json, each with the date and commit of its measurement.

A row also names the measured code, with a digest: if that code changes, the row is stale until it is measured again, and the page has the
number of stale rows of each table. Docstrings, comments and layout do not change the digest.
"""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
import time
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from bench.measure import Measure

PROJECT = Path(__file__).parents[1]
FIGURES = PROJECT / "docs" / "figures.json"
HEAD = ["| what | goal | measured | | when, at which commit |", "|---|---|---|---|---|"]
_NOT_MEASURED = (":!docs", ":!*.md")
MARKS = {True: "reached", False: "**missed**", None: "reported"}
Row = dict[str, Any]


class UncommittedCodeError(Exception):
    """The working tree differs from the commit that a figure would name."""


def load(path: Path = FIGURES) -> dict[str, list[Row]]:
    """The rows of each table, in display order."""
    tables: dict[str, list[Row]] = json.loads(path.read_text())
    return tables


def save(rows: Sequence[Measure], table: str, measurement: str, code: Sequence[str], path: Path = FIGURES) -> None:
    """Replace the rows of one measurement by new ones, measured now. Raises UncommittedCodeError."""
    about = {"measurement": measurement, **measured_at(), "code": list(code)}
    new = [{**vars(row), **about, "digest": digest(code)} for row in rows]
    tables = load(path)
    old = tables.setdefault(table, [])
    place = next((number for number, row in enumerate(old) if row["measurement"] == measurement), len(old))
    others = [row for row in old if row["measurement"] != measurement]
    tables[table] = others[:place] + new + others[place:]
    path.write_text(json.dumps(tables, indent=1, ensure_ascii=False) + "\n")


def measured_at() -> dict[str, str]:
    """Today, and the commit of this code. Raises UncommittedCodeError."""
    return {"date": time.strftime("%Y-%m-%d"), "commit": _commit()}


def is_stale(row: Row, project: Path = PROJECT) -> bool:
    """Whether the measured code has changed since the measurement."""
    return bool(digest(row["code"], project) != row["digest"])


def markdown(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table, below the number of stale ones."""
    stale = sum(map(is_stale, rows))
    return "\n".join([f"Code changed since the measurement: {stale} of {len(rows)} rows.", "", *HEAD, *map(_line, rows)])


def line(row: Measure, when: str = "now") -> str:
    """A row as Markdown."""
    return f"| {row.what} | {row.goal} | {row.measured} | {MARKS[row.reached]} | {when} |"


def print_rows(rows: Sequence[Measure]) -> int:
    """Print rows without storing them; exit code 1 if a goal was missed."""
    print("\n".join([*HEAD, *map(line, rows)]))
    return 1 if any(row.reached is False for row in rows) else 0


def digest(code: Iterable[str], project: Path = PROJECT) -> str:
    """Digest of the code without comments and layout. A missing path counts as a change."""
    hash_ = hashlib.sha256()
    for name in sorted(code):
        root = project / name
        files = sorted(root.rglob("*.py")) if root.is_dir() else [root]
        for path in files:
            hash_.update(str(path.relative_to(project)).encode() + b"\0" + _meaning(path) + b"\0")
    return hash_.hexdigest()[:16]


def _line(row: Row) -> str:
    return line(Measure(row["what"], row["goal"], row["measured"], row["reached"]), f"{row['date']}, {row['commit']}")


def _meaning(path: Path) -> bytes:
    if not path.exists():
        return b"missing"
    if path.suffix != ".py":
        return path.read_bytes()
    return _meaning_of(path.read_text())


@cache  # most rows measure the same modules
def _meaning_of(source: str) -> bytes:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not _is_text(each)]  # type: ignore[attr-defined]
    return ast.dump(tree).encode()


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _commit() -> str:
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", *_NOT_MEASURED)
    if changed:
        raise UncommittedCodeError(
            f"commit the code first, a figure names the commit it was measured at: {changed.splitlines()[0]}"
        )
    return _git("rev-parse", "--short=8", "HEAD")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=PROJECT, check=True, capture_output=True, text=True).stdout.strip()
