"""docs/log-formats.md lists every format with an example and its parsed columns, and its program runs."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from chalicelib.lines import events as events_module
from chalicelib.lines.format_detection import SAMPLE_LINES, detect_format
from chalicelib.lines.formats import ANY, FORMATS
from chalicelib.lines.timestamps import TimestampParser
from chalicelib.lines.zones import ABBREVIATIONS
from docs.generate import UNREAD_FORMATS

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


def test_each_example_is_of_its_format_alone_and_with_others() -> None:
    clock = TimestampParser(reference_us=1_795_230_765_000_000)
    shown = {row[0]: row[1] for row in rows("Recognized formats", "Many lines at once") if len(row) == 5}
    assert shown == {each.name: each.example for each in FORMATS}
    for each in FORMATS:
        parsed = each.bind(clock)(each.example)
        assert parsed is not None and each.reader(clock)(each.example) == parsed
        assert detect_format([each.example.encode()]).reader(clock)(each.example) == parsed


def test_formats_that_are_not_recognized_have_neither_level_nor_logger() -> None:
    for example in UNREAD_FORMATS.values():
        parsed = ANY.reader()(example)
        assert parsed is None or (parsed.level, parsed.logger) == (None, None), example


def test_abbreviations_of_zones() -> None:
    table = [row for row in rows("Columns", "How a format is chosen") if re.match("[+-]", row[0])]
    shown = {name: datetime.strptime(zone, "%z").utcoffset() for zone, names in table for name in re.findall(r"\w+", names)}
    assert shown == {name: timedelta(minutes=minutes) for name, minutes in ABBREVIATIONS.items()}


def test_every_format_that_was_measured_is_there() -> None:
    names = {each.name for each in FORMATS}
    measured = {row[0] for row in rows("Speed", "")}
    assert measured and measured <= names
    assert set(re.findall(r"^\| \w+ \| `([\w-]+)` \|", PAGE, re.MULTILINE)) <= names


def test_bounds_on_the_page_are_those_of_the_code() -> None:
    assert f"{events_module.MAX_EVENT_LINES:,} lines and {events_module.MAX_EVENT_BYTES // 2**20} MiB" in WORDS
    assert f"first {SAMPLE_LINES:,} lines" in WORDS


def test_the_program_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(program, "log-formats.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == [
        r"0 3 ERROR Executor b'26/11/21 03:12:45 ERROR Executor: Exception in task 0.0\njava.io.IOException: disk\n\tat a.B.c(D.java:1)'",
        "3 1 None None b'bye'",
    ]
