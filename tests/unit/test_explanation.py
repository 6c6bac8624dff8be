"""The line that explains a failure: rule by rule, on the corpus, for any cuts of a log, and for logs that are made to be slow."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.explanation import evidence, reading
from chalicelib.explanation.explainer import MAX_STATE_BYTES, MAX_TEXT, Explainer
from chalicelib.explanation.explanation import MAX_CANDIDATES, CauseCandidate
from chalicelib.explanation.families import RULES
from chalicelib.explanation.ranking import STRUCTURE
from chalicelib.explanation.rules import about
from chalicelib.explanation.traces import TraceReader
from chalicelib.explanation.wrappers import WRAPPING_EXCEPTION
from chalicelib.ports import FAILED, RunEnd
from tests.explanation_measure import CERTAIN, Measure, measure, table
from tests.unit.explanation_texts import TEXTS

DOCUMENT = Path(__file__).parents[2] / "docs" / "explanation.md"


def fed(*pieces: bytes, first_line: int = 0) -> Explainer:
    explainer = Explainer(first_line)
    for piece in pieces:
        explainer.feed(piece)
    return explainer


def explain(log: bytes, end: RunEnd | None = None, first_line: int = 0) -> tuple[CauseCandidate, ...]:
    return fed(log, first_line=first_line).candidates(end)


def cut(log: bytes, cuts: Iterable[int]) -> list[bytes]:
    places = sorted({0, len(log), *(place for place in cuts if place < len(log))})
    return [log[begin:end] for begin, end in pairwise(places)]


def unmarked(text: str) -> bytes:
    return text.replace("\n»", "\n").removeprefix("»").encode()


@pytest.mark.parametrize("name", TEXTS)
def test_first_candidate_explains_the_failure(name: str) -> None:
    family, text = TEXTS[name]
    text = text.removeprefix("\n")
    right = [number for number, line in enumerate(text.split("\n")) if line.startswith("»")]
    first = explain(unmarked(text))[0]
    assert first.line in right
    assert first.family == family


@pytest.mark.parametrize("name", TEXTS)
def test_each_line_may_come_by_itself(name: str) -> None:
    log = unmarked(TEXTS[name][1])
    assert fed(*log.splitlines(keepends=True)).candidates() == explain(log)


def test_corpus_is_explained() -> None:
    answers = measure()
    of = Measure.of(answers)
    assert of.recall >= 0.9
    assert of.certain_wrong < 0.02 * of.logs
    assert table(answers) in DOCUMENT.read_text(), "paste the table of .venv/bin/python -m tests.explanation_measure"


HEAP = b"java.lang.OutOfMemoryError: Java heap space\n"
EXIT_REPORTS = (
    b"Exception: job aborted\n[runlake] exit status 137 after 3.250 s\n",
    b"[runlake] killed by signal 9 (SIGKILL) after 1.002 s\n",
    b"Process exited with code 137\n",
    b"Task exited with return code -9\n",
    b"Command failed with exit code 1\n",
    b"ERROR: Job failed: exit status 1\n",
    b"make: *** [Makefile:2: all] Error 137\n",
    b'npm ERR! exit status 1\nerror Command failed with signal "SIGKILL".\n',
)


@pytest.mark.parametrize(
    ("log", "end", "text"),
    [
        (b"start\nKilled\nload: cannot write /x: Permission denied\n", RunEnd(FAILED, exit_code=137), "Killed"),
        (b"E1: a.B: x\nValueError: one\nOSError: two\n", RunEnd(FAILED, exception="ValueError: one"), "ValueError: one"),
        (b"ValueError: one\nOSError: two\n", RunEnd(FAILED, exception="OSError: two"), "OSError: two"),
        (b"Traceback (most recent call last):\n  File\nOSError: two\n", RunEnd(FAILED, exception="OSError: two"), "OSError: two"),
        *((HEAP + b"INFO on\n" * 1200 + report, RunEnd(FAILED, exit_code=137), HEAP.decode().strip()) for report in EXIT_REPORTS),
    ],
)
def test_reported_end_of_the_run_counts(log: bytes, end: RunEnd, text: str) -> None:
    first = explain(log, end)[0]
    assert first.text == text and first.score <= 0.95


def traceback(exception: str) -> str:
    return f"Traceback (most recent call last):\n  File\n{exception}\n"


OTHERS = "part done\n" * 201
DURING = "During handling of the above exception, another exception occurred:\n\n"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("ERROR no disk 1\nERROR no disk 2\n", [("error-record", 0)]),
        ("WARNING /a: No such file\none\ntwo\n" + traceback("RuntimeError: failed"), [("missing-file", 0), ("python-root", 5)]),
        ("INFO /a: No such file, using /b\n" + traceback("RuntimeError: failed"), [("python-root", 3), ("missing-file", 0)]),
        (traceback("ValueError: one") + DURING + traceback("OSError: two"), [("python-root", 2), ("trace-top", 7)]),
        (traceback("ValueError: one") + OTHERS + DURING + traceback("OSError: two"), [("python-root", 208), ("python-root", 2)]),
        (traceback("a b\n" * 5 + "OSError: two"), [("python-root", 7)]),
        ("\r 50 %" * 4000 + "\rERROR checksum mismatch" + " x" * 9000 + "\r\n", [("invalid-data", 0)]),
        (traceback("a b\n" * 20 + "OSError: two"), [("exception-line", 22)]),
        (traceback("OSError: one") + "Caused by: a.b.CException: two\n", [("trace-root", 3), ("python-root", 2)]),
        (
            f"a.AException: one\n\tat a.b(C.java:1)\nCaused by: a.BException: {traceback('OSError: two')}\n\tat a.b(C.java:1)\n",
            [("worker-root", 4), ("exception-line", 0)],
        ),
    ],
    ids=[
        "repeated text", "warning before a vague exception", "answered before a vague exception", "chain", "two chains",
        "other lines within", "progress bar", "more lines within", "cause after a traceback", "traceback in a cause",
    ],
)  # fmt: skip
def test_rules_and_lines_of_the_candidates(log: str, expected: list[tuple[str, int]]) -> None:
    assert [(each.rule, each.line) for each in explain(log.encode())] == expected


@pytest.mark.parametrize("log", [b"", b"\n\n", b"one\ntwo\n", b"0 errors\n", b"\x1b[0m\r\n"])
def test_log_without_a_sign_of_a_failure_has_no_likely_candidate(log: bytes) -> None:
    assert all(each.score <= 0.3 for each in explain(log))


def test_text_is_clean_short_and_numbered_from_the_first_line() -> None:
    first = explain(b"x\nERROR: \x1b[31mcannot\x07 write\x1b]0;title\x07 \xff" + b"\xe2\x80\xae/data" * 500, first_line=7)[0]
    assert first.line == 8
    assert first.text.startswith("ERROR: cannot write \ufffd/data/data") and len(first.text) <= MAX_TEXT


FRAGMENTS = sorted(
    {line for _, text in TEXTS.values() for line in unmarked(text).split(b"\n")}
    | {
        b"",
        b"  ",
        b"\r",
        b"x" * 500,
        b"error" * 4000,
        b"\x1b[1merror\x1b[0m",
        b"\x1b\x1b[0m[0m fail",
        b'{"level":"error","msg":"a\\nCaused by: b.C: d"}',
    }
    | {
        b"\tat a.b(C.java:1)",
        b"Caused by: a.b.CException: d",
        b"WARN x",
        b"Model failed:",
        b"exit code 1",
        b"Traceback (most recent call last):",
    }
)


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=60), st.lists(st.integers(0, 3000), max_size=8), st.booleans())
def test_any_cuts_and_any_continuation_give_the_same(lines: list[bytes], cuts: list[int], resumes: bool) -> None:
    log = b"\n".join(lines)
    explainer = Explainer()
    for piece in cut(log, cuts):
        explainer.feed(piece)
        if resumes:
            explainer = Explainer.resumed(json.loads(json.dumps(explainer.state())))
    assert explainer.candidates() == explain(log)
    assert len(explainer.candidates()) <= MAX_CANDIDATES


@given(st.lists(st.integers(0, 40_000), max_size=6))
def test_long_lines_are_cut_alike(cuts: list[int]) -> None:
    log = b"Traceback (most recent call last):\n  File\n" + b"x" * 17_000 + b"Error: y\nOSError: " + b"z" * 20_000 + b" disk full"
    assert fed(*cut(log, cuts)).state() == fed(log).state()


def test_logs_of_short_failures_are_not_looked_at_line_by_line() -> None:
    log = HOSTILE["short"]
    state = fed(log).state()
    assert state == fed(*cut(log, range(0, len(log), 7001))).state()
    assert -1000 < state["at"][-1] < 1000  # the credit for looks is used up


@pytest.mark.parametrize(
    ("log", "owner", "step", "cost"),
    [
        (b"Traceback (most recent call last):\n" + b"|\n" * 100_000, TraceReader, "take", 40),
        (b"x: Traceback (most recent call last):\n" + b"x: \n" * 50_000, TraceReader, "take", 40),
        (b"error:\n!\n!\n!\n!\n" * 20_000, reading, "message_of", 120),
        (b"a.AException: x\n\tat a(b)\n" + b"Caused by:Py4JError\n" * 5000, evidence, "_wraps", 20),
    ],
    ids=["drawn frames", "prefix", "announced lines", "causes"],
)
def test_looks_are_paid_by_the_bytes_of_the_log(
    log: bytes, owner: Any, step: str, cost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    called, steps = getattr(owner, step), 0

    def counted(*arguments: Any) -> Any:
        nonlocal steps
        steps += 1
        return called(*arguments)

    monkeypatch.setattr(owner, step, counted)
    fed(log)
    assert 0 < steps <= (60_000 + len(log)) / cost + 1


def test_exception_of_many_causes_is_matched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    matched: list[str] = []
    monkeypatch.setattr(evidence, "WRAPPING_EXCEPTION", SimpleNamespace(match=matched.append))
    fed(b"a.OnceException: once\n\tat a(b)\n" + b"Caused by: a.OnceException: again\n" * 3000)
    assert sorted(matched) == ["a.OnceException: again", "a.OnceException: once"]


def test_wrapping_exception_is_recognized_in_linear_time() -> None:
    begun = time.process_time()
    assert not WRAPPING_EXCEPTION.match("SparkException: Task failed while writing rows" + " " * 30_000 + ":")
    assert time.process_time() - begun < 0.3


def many(line: Callable[[int], bytes], lines: int = 3000) -> bytes:
    return b"\n".join(line(number) for number in range(lines))


LEVELS = (b"ERROR", b"FATAL", b"INFO", b"WARN", b"")
WIDE = "\U0001f4a5".encode()
HOSTILE = {
    "distinct exceptions": many(lambda number: b"Traceback (most recent call last):\n  File\na.B%dError: %d" % (number, number)),
    "frames": b"a.BException: x\n" + many(lambda number: b"\tat a.b.C.d(E.java:%d)" % number, 20_000) + b"\nCaused by: a.CException: y",
    "causes": many(lambda number: b"Caused by: a.B%dException: x" % number),
    "headers": many(lambda number: b"Traceback (most recent call last):"),
    "connections": many(lambda number: b"The above exception was the direct cause of the following exception:"),
    "short": many(lambda number: b"E fail", 30_000),
    "announcements": many(lambda number: b"error %d:" % number),
    "exit codes": many(lambda number: b"exit code 1\n\n\n\n"),
    "records": many(lambda number: b'{"error":"%d failed\\nx"}' % number),
    "long lines": many(lambda number: b"error: " + WIDE * 5000, 20),
    "a long line": b"error: " * 100_000,
    "wide text": many(lambda number: b"2026-11-21 %s error: %d " % (LEVELS[number % 5], number) + WIDE * 200, 500) + b"\nerror" + WIDE * 5000,
    "prefixes": many(lambda number: b"x" * 190 + b"Traceback (most recent call last):\n" + b"x" * 190 + b"AError: b"),
    "carriage returns": many(lambda number: b"error\r" * 100, 300),
    "escape sequences": many(lambda number: b"\x1b[" + b"1;" * 300 + b"error\x1b]" + b"x" * 300, 500),
    "blank lines": b"\n" * 200_000 + b"error",
    "nested records": b'{"error":' * 5000 + b"\n" + b"[" * 20_000,
    "deep record": b'{"error":' + b"[" * 5000 + b"]" * 5000 + b"}",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_state_stays_small_and_candidates_exist(name: str) -> None:
    explainer = fed(HOSTILE[name])
    assert len(json.dumps(explainer.state())) <= MAX_STATE_BYTES
    assert explainer.candidates()


PIECES = (
    "a",
    "a ",
    "a.",
    "a: ",
    " failed",
    "error: ",
    "the job ",
    "x" * 40 + " ",
    "(",
    "[",
    "0",
    "= ",
    "does not ",
    "Error in ",
    "1 ",
    "A::",
    "\\",
    '"',
    "\t",
    "error error ",
)


@pytest.mark.slow
@pytest.mark.parametrize("piece", PIECES)
def test_no_pattern_takes_more_than_linear_time(piece: str) -> None:
    log = ("error " + piece * (16_000 // len(piece)) + "!\n").encode() * 30 + (
        "error " + piece * (390 // len(piece)) + "\n"
    ).encode() * 300
    begun = time.process_time()
    explainer = fed(log)
    read = time.process_time()
    assert explainer.candidates()
    assert read - begun < 1
    assert time.process_time() - read < 2


def test_each_rule_has_a_name_of_its_own_and_a_text() -> None:
    assert len({rule.name for rule in RULES} | STRUCTURE.keys()) == len(RULES) + len(STRUCTURE)
    assert (about("disk-full"), about("detail")) == ("a disk or its quota is full", "the line that a message announces")
    assert about("of another release") == "of another release"
    assert all(rule.about and 0 < rule.score < 0.9 for rule in RULES)


def test_scores_are_in_order_and_certain_ones_need_evidence() -> None:
    found = explain(
        b"Traceback (most recent call last):\n  File\nValueError: one\nTraceback (most recent call last):\n  File\nOSError: two\n"
    )
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    assert found[0].score < CERTAIN
