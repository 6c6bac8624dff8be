"""Published figures: what a row keeps, when it is stale, and that only committed code is measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import figures, first_line, live, measures, spark
from bench.figures import PROJECT, UncommittedCodeError, digest, is_stale, load, markdown, save
from bench.measure import Measure, Measurement, reported

ROW = {"goal": "", "measured": "1", "reached": None, "date": "2026-11-01", "commit": "0123abcd", "code": ["module.py"]}


def project_of(folder: Path, source: str) -> Path:
    (folder / "module.py").write_text(source)
    return folder


def test_row_is_stale_when_its_code_changes(tmp_path: Path) -> None:
    project = project_of(tmp_path, "def rate(): return 1\n")
    row = ROW | {"digest": digest(["module.py"], project)}
    assert not is_stale(row, project)
    project_of(tmp_path, "def rate(): return 2\n")
    assert is_stale(row, project)


def test_row_is_stale_when_its_code_is_removed(tmp_path: Path) -> None:
    project = project_of(tmp_path, "def rate(): return 1\n")
    row = ROW | {"digest": digest(["module.py"], project)}
    (project / "module.py").unlink()
    assert is_stale(row, project)


def test_comments_docstrings_and_layout_make_no_row_stale(tmp_path: Path) -> None:
    before = digest(["module.py"], project_of(tmp_path, 'def rate():\n    """Old."""\n    return 1\n'))
    after = digest(["module.py"], project_of(tmp_path, '"""New."""\n\ndef rate():  # why\n    """New."""\n\n    return (1)\n'))
    assert before == after


def test_new_rows_replace_those_of_their_measurement_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "figures.json"
    old = [ROW | {"what": what, "measurement": name, "digest": ""} for what, name in (("a", "one"), ("b", "two"), ("c", "three"))]
    path.write_text(json.dumps({"functions": old}))
    monkeypatch.setattr(figures, "_commit", lambda: "4567cdef")
    save([Measure("b", "at least 2", "3", True), reported("d", "4")], "functions", "two", ["app.py"], path)
    rows = load(path)["functions"]
    assert [(row["what"], row["commit"]) for row in rows] == [
        ("a", "0123abcd"),
        ("b", "4567cdef"),
        ("d", "4567cdef"),
        ("c", "0123abcd"),
    ]


def test_uncommitted_code_is_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "figures.json"
    path.write_text("{}")
    monkeypatch.setattr(figures, "_git", lambda *arguments: " M app.py" if arguments[0] == "status" else "4567cdef")
    with pytest.raises(UncommittedCodeError, match=r"app\.py"):
        save([reported("a", "1")], "functions", "one", ["app.py"], path)
    assert path.read_text() == "{}"


def test_table_counts_stale_rows_and_marks_missed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "digest", lambda code, project: "new")
    fresh = ROW | {"what": "fresh", "digest": "new"}
    stale = ROW | {"what": "stale", "goal": "at least 2", "reached": False, "digest": "old"}
    count, _, _, _, *rows = markdown([fresh, stale]).splitlines()
    assert count == "Code changed since the measurement: 1 of 2 rows."
    assert rows == [
        "| fresh |  | 1 | reported | 2026-11-01, 0123abcd |",
        "| stale | at least 2 | 1 | **missed** | 2026-11-01, 0123abcd |",
    ]


def test_every_published_row_has_its_date_and_commit() -> None:
    for rows in load().values():
        for row in rows:
            assert len(row["date"]) == 10 and len(row["commit"]) == 8 and row["digest"] and row["code"], row


@pytest.mark.parametrize(
    ("table", "measurements"),
    [("functions", measures.ALL), ("spark", spark.ALL), ("live", (*live.MEASUREMENTS, first_line.MEASUREMENT))],
    ids=["functions", "spark", "live"],
)
def test_every_measurement_has_published_rows(table: str, measurements: tuple[Measurement, ...]) -> None:
    assert {row["measurement"] for row in load()[table]} == {measurement.name for measurement in measurements}


@pytest.mark.parametrize("path", sorted({path for measurement in measures.ALL for path in measurement.code}))
def test_measured_code_exists(path: str) -> None:
    assert (PROJECT / path).exists()
