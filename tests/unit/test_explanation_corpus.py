"""The labels of the corpus of failed runs fit its logs. What the rules make of them is tested elsewhere."""

from __future__ import annotations

import re

import pytest

from tests.explanation_corpus import CORPUS, SYSTEMS, Labels, load_corpus

LOGS = list(load_corpus())
MACHINE = re.compile(rb"/tmp/(hj_|ci/|corpus_venv|airflow)|/work/|/root\b|BEGIN [A-Z ]*PRIVATE KEY")
"""Of the machine that made a log; nothing of it belongs here."""


@pytest.mark.parametrize(("log", "labels"), [pytest.param(log, labels, id=name) for name, log, labels in LOGS])
def test_labels_name_lines_of_the_log(log: bytes, labels: Labels) -> None:
    lines = log.split(b"\n")
    assert labels.lines == tuple(sorted(set(labels.lines))) and labels.lines[0] >= 1
    assert all(lines[line - 1].strip() for line in labels.lines)
    assert labels.system in SYSTEMS and labels.exit != 0
    assert labels.produced and labels.software and labels.licence
    assert not MACHINE.search(log)


def test_each_log_has_labels_and_the_corpus_stays_small() -> None:
    assert {path.stem for path in CORPUS.glob("*.log")} == {name for name, _, _ in LOGS}
    assert sum(len(log) for _, log, _ in LOGS) <= 960 * 1024
