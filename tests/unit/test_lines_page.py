"""docs/log-formats.md shows every format, its example and what is read from it, and programs that run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chalicelib.lines import events as events_module
from chalicelib.lines import fields
from chalicelib.lines.choice import SAMPLE_LINES
from chalicelib.lines.clock import Clock
from chalicelib.lines.formats import FORMATS
from chalicelib.lines.layout import HEAD_CHARS

PAGE = (Path(__file__).parents[2] / "docs" / "log-formats.md").read_text()
WORDS = " ".join(PAGE.split())


def rows(heading: str, end: str) -> list[list[str]]:
    """Cells of the tables between two headings, as they read: without Markdown."""
    text = PAGE.partition(f"## {heading}\n")[2].partition(f"## {end}\n")[0]
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[_plain(cell) for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def _plain(cell: str) -> str:
    cell = cell.strip()
    return cell.removeprefix("`").removesuffix("`").replace("\\|", "|").replace("⇥", "\t")


def test_every_format_with_what_its_example_says() -> None:
    clock = Clock(reference_us=1_795_230_765_000_000)
    shown = {
        name: (example, level, logger, message)
        for name, example, level, logger, message in rows("What is recognized", "Parse rates")
    }
    expected = {}
    for each in FORMATS:
        parsed = each.reader(clock)(each.example)
        assert parsed is not None
        expected[each.name] = (each.example, parsed.level or "", parsed.logger or "", parsed.message)
    assert shown == expected


def test_every_format_that_was_measured_is_there() -> None:
    names = {each.name for each in FORMATS}
    measured = {row[0] for row in rows("Speed", "")}
    assert measured and measured <= names
    assert set(re.findall(r"^\| \w+ \| `([\w-]+)` \|", PAGE, re.MULTILINE)) <= names


def test_bounds_are_what_they_are() -> None:
    assert f"{events_module.MAX_EVENT_LINES:,} lines and {events_module.MAX_EVENT_BYTES // 2**20} MiB" in WORDS
    assert f"first {SAMPLE_LINES:,} lines" in WORDS
    assert f"at most {HEAD_CHARS:,} characters" in WORDS
    assert f"JSON is read up to {fields.MAX_JSON_CHARS // 2**20} MiB" in WORDS
    assert f"logfmt up to {fields.MAX_LOGFMT_CHARS // 2**10} KiB" in WORDS


def test_the_program_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(program, "log-formats.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == [
        r"0 3 ERROR Executor b'26/11/21 03:12:45 ERROR Executor: Exception in task 0.0\njava.io.IOException: disk\n\tat a.B.c(D.java:1)'",
        "3 1 None None b'bye'",
    ]
