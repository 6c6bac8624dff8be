"""Commands of the datalake client in the documents: a fetch names its files by something that can be read, and apart from others."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter

import pytest

PROJECT = Path(__file__).parents[2]
PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINES = [(path, line) for path in PAGES for block in BLOCK.findall(path.read_text()) for line in block.splitlines()]
FETCHES = [(path, line) for path, line in LINES if "datalake fetch" in line]
FIELDS = {"what", "where", "work_id", "start_iso", "end_iso", "start", "end", "id"}


def test_documents_show_a_fetch() -> None:
    assert {path.name for path, _ in FETCHES} >= {"README.md", "how-to.md"}


@pytest.mark.parametrize(("path", "line"), FETCHES, ids=lambda value: getattr(value, "name", value))
def test_fetched_files_get_readable_distinct_names(path: Path, line: str) -> None:
    template = re.search(r"datalake fetch --filename-template '([^']+)'", line)
    assert template, f"{path.name}: {line}"
    fields = {name for _, name, _, _ in Formatter().parse(template[1]) if name}
    assert fields <= FIELDS
    assert fields & {"start_iso", "work_id", "id"}, "several files of a list would overwrite each other"
