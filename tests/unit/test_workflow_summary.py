"""Outcomes from the ends of OpenMetadata workflow logs, for any segmentation by the client, and texts that only look like such ends."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from chalicelib.errors import StoreUnavailableError
from chalicelib.lines.workflow_summary import may_state_end, stated_end
from chalicelib.ports import Run, RunEnd
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.log_end import LogEnd
from chalicelib.runlog.run_end_finder import MAX_BYTES, MAX_SEGMENTS, RunEndFinder
from tests.faults.interception import Intercepted
from tests.world import RUN, World


def record(message: str, level: str = "INFO") -> str:
    return f"[2026-11-26 00:10:00] {level:8} {{metadata.Utils:logger:223}} - {message}\n"


COUNTS = (
    "streamable_logger shutdown:\n  shipped:  records=23 batches=2\n  failed:   posts=0\n"
    "  dropped:  overflow=0 after_close=0 shipping=0 format_error=0\n  errors:   worker=0\n  timeouts: flush=0 shutdown=0\n"
)
DIAGNOSTICS = record("diag.mem_budget rss=96MiB") + record("diag.time_budget\n  operations by share\n    db          12%")
TRACEBACK = (
    'Traceback (most recent call last):\n  File "/ingest.py", line 3, in <module>\n    workflow = create()\n'
    "SourceConnectionException: no route to db:3306\nretried 3 times\n"
)
TABLE = "+--------+---------+\n| From   | Message |\n+========+=========+\n| Source | no view |\n+--------+---------+"
TABLE_TITLE = "\x1b[1mList of failures:"


def printed(message: str, level: str = "INFO") -> str:
    """A record with the terminal's codes, as the workflow prints it."""
    return record(f"{message}\x1b[0m", level)


def step(name: str, errors: int = 0, filtered: int = 0) -> str:
    counts = {"Processed records": 12, "Updated records": 0, "Warnings": 1, **({"Filtered": filtered} if filtered else {})}
    counts |= {"Errors": errors}
    texts = [f"{title}: {count}" for title, count in counts.items()] + [f"Success %: {round(1200 / (12 + errors), 2)}"]
    return printed(f"\x1b[1mWorkflow {name} Summary:") + "".join(map(printed, texts))


def summary(*steps: str, success: str = "100.0", table: str = "", failures: bool = False, in_time: bool = True) -> str:
    texts = [TABLE_TITLE, "\n" + table] if table else []
    texts += [f"\x1b[1m\x1b[36;1mWorkflow Success %: {success}"]
    texts += ["\x1b[1m\x1b[36;1mWorkflow finished in time: 12s 003.000ms"] if in_time else []
    texts += ["\x1b[1m\x1b[31;1mWorkflow finished with failures"] if failures else []
    return "".join(steps) + "".join(map(printed, texts))


BEFORE = record("Reading tables") + record("Fetched table größe\nof two lines") + record("retrying", "WARNING")
SUCCEEDED = summary(step("Source"), step("OpenMetadata", filtered=3))
FAILED = summary(step("Source", 1), step("OpenMetadata"), success="96.15", table=TABLE, failures=True)
OF_SOURCE = RunEnd("failed", exception="Workflow Success %: 96.15", step="Source")
UNCAUGHT = record(f"Workflow terminated with uncaught exception\n{TRACEBACK}".rstrip("\n"), "ERROR")
OF_EXCEPTION = RunEnd("failed", exception="SourceConnectionException: no route to db:3306")
FATAL = "Fatal error running step [TableauSource]: [no session]"
INIT_ERROR = printed("\x1b[31;1m\nError initializing metadata: no route", "ERROR") + printed(
    "\nFor more information, please visit: https://docs.open-metadata.org/x\nOr join us in Slack: https://slack.open-metadata.org/"
)


@pytest.mark.parametrize("counts", ["", COUNTS, DIAGNOSTICS + COUNTS], ids=["summary", "counts", "diagnostics and counts"])
@pytest.mark.parametrize(
    ("text", "end"),
    [
        (SUCCEEDED, RunEnd("succeeded")),
        (summary(step("AppRunner"), in_time=False), RunEnd("succeeded")),
        (FAILED, OF_SOURCE),
        (summary(step("Source"), step("Profiler", 2), success="93.0"), RunEnd("failed", exception="Workflow Success %: 93.0", step="Profiler")),
        (summary(step("Source", 1), success="100.0"), RunEnd("failed", exception="Workflow Success %: 100.0", step="Source")),
        (record(FATAL, "ERROR") + record("closing", "WARNING") + SUCCEEDED, RunEnd("failed", exception=FATAL)),
        (UNCAUGHT, OF_EXCEPTION),
        (record("Workflow terminated with uncaught exception", "ERROR"), RunEnd("failed", exception="Workflow terminated with uncaught exception")),
        (INIT_ERROR, RunEnd("failed", exception="Error initializing metadata: no route")),
    ],
    ids=["succeeded", "one step", "failed", "errors of a later step", "rounded", "fatal", "uncaught", "no traceback", "init"],
)  # fmt: skip
def test_end_that_is_stated(text: str, end: RunEnd, counts: str) -> None:
    assert stated_end(BEFORE + text + counts) == end
    assert may_state_end(text + counts) and may_state_end(counts or text)


@pytest.mark.parametrize(
    "text",
    [
        "", BEFORE, COUNTS, BEFORE + COUNTS, SUCCEEDED + record("one more"), FAILED + "not a record\n", UNCAUGHT + record("goes on") + COUNTS,
        COUNTS + record("goes on"), printed("Workflow Success %: 100.0"), BEFORE + printed("Workflow finished with failures"),
        record("Workflow finished in time: 1ms") + COUNTS, printed("No steps to process.") + printed("Workflow finished in time: 1ms"),
        SUCCEEDED.replace("Workflow Success %: 100.0", "Workflow Success %: all"), record("Workflow terminated with uncaught exception"),
        record("x") + printed("For more information, please visit: https://x"), "Workflow finished with failures\n",
        record("Workflow Source Summary: Workflow Success %: 100.0"), SUCCEEDED.replace("[2026-11-26 00:10:00]", "2026-11-26"),
    ],
)  # fmt: skip
def test_text_that_states_no_end(text: str) -> None:
    assert stated_end(text) is None


@pytest.mark.parametrize("text", [SUCCEEDED, FAILED, UNCAUGHT], ids=["succeeded", "failed", "uncaught"])
def test_beginning_that_is_cut_off_never_makes_a_failure_a_success(text: str) -> None:
    expected = stated_end(text)
    assert expected
    for start in range(len(text)):
        end = stated_end(text[start:])
        assert end is None or end.outcome == expected.outcome, text[start:]


def closed(
    segments: Sequence[str], gate: Callable[[str, Callable[[], Any]], Any] = lambda name, call: call(), step: str = ""
) -> RunEnd | None:
    """The end on the seal of a run whose close reports none."""
    world = World()
    for segment in segments:
        world.parts().writer.append(RUN, Batch.from_text(segment, "host-1"))
    finder = RunEndFinder(Intercepted(world.store, gate), world.layout, lambda run: step)
    world.parts().finalizer.close(RUN, find_end=finder.find)
    return world.parts().writer.tails.segment(RUN, len(segments)).end


def _halves(text: str) -> tuple[str, str]:
    """Two texts of whole lines, smaller than ``MAX_BYTES`` and larger together."""
    middle = text.index("\n", len(text) // 2) + 1
    assert middle < MAX_BYTES < len(text)
    return text[:middle], text[middle:]


@pytest.mark.parametrize("segments", [1, 2, 3, MAX_SEGMENTS])
def test_summary_is_found_however_the_client_cuts_it(segments: int) -> None:
    lines = (BEFORE + FAILED + COUNTS).splitlines(keepends=True)
    begin = BEFORE.count("\n")
    cuts = [begin + at * (len(lines) - begin) // segments for at in range(segments)]
    parts = ["".join(lines[start:end]) for start, end in itertools.pairwise([0, *cuts[1:], len(lines)])]
    assert closed([BEFORE, *parts]) == OF_SOURCE


@pytest.mark.parametrize(
    ("segments", "gets", "end"),
    [
        ([], 0, None),
        (["one\n"] * 9, 1, None),
        ([BEFORE + FAILED + record("goes on")] * 9, 1, None),
        ([FAILED, "one\n"], 1, None),
        ([SUCCEEDED], 1, RunEnd("succeeded")),
        (["one\n"] * 9 + [SUCCEEDED, COUNTS], MAX_SEGMENTS, RunEnd("succeeded")),
        ([SUCCEEDED, *(["one\n"] * MAX_SEGMENTS), COUNTS], MAX_SEGMENTS, None),
        ([record("x" * MAX_BYTES) + FAILED], 2, OF_SOURCE),
        ([record("x" * MAX_BYTES) + FAILED, COUNTS], 3, OF_SOURCE),
        ([FAILED.replace(TABLE, "\n".join(TABLE.split("\n") * 2000)), COUNTS], 3, replace(OF_SOURCE, step="")),
        ([*_halves(FAILED.replace(TABLE, "\n".join(TABLE.split("\n") * 900))), COUNTS], 4, replace(OF_SOURCE, step="")),
        ([FAILED, "x" * MAX_BYTES], 2, None),
    ],
    ids=["no run", "lines", "middle", "segment before", "one segment", "counts alone", "too far", "large", "large, counts", "table",
         "table in two segments", "long line"],
)  # fmt: skip
def test_requests_of_a_close_are_bounded(segments: Sequence[str], gets: int, end: RunEnd | None) -> None:
    names: list[str] = []

    def count(name: str, call: Callable[[], Any]) -> Any:
        names.append(name)
        return call()

    assert closed(segments, count) == end
    assert names == ["get"] * gets


def test_failed_step_comes_first_and_an_unavailable_store_fails_no_close() -> None:
    def away(name: str, call: Callable[[], Any]) -> Any:
        raise StoreUnavailableError("the store is away")

    assert closed([SUCCEEDED], step="load") == closed([SUCCEEDED], away, step="load") == RunEnd("failed", step="load")
    assert closed([SUCCEEDED], away) is None


def test_append_that_takes_the_number_of_the_seal_is_looked_at_too() -> None:
    world = World()
    writer, finalizer = world.parts().writer, world.parts().finalizer
    appended = writer.append(RUN, Batch.from_text(FAILED, "host-1"))
    found: list[RunEnd | None] = []

    def find(run: Run, tail: LogEnd) -> RunEnd | None:
        found.append(RunEndFinder(world.store, world.layout, lambda run: "").find(run, tail))
        if len(found) == 1:
            writer.append(RUN, Batch.from_text("goes on\n", "host-2"))
        return found[-1]

    finalizer.close(RUN, appended.position, find_end=find)
    assert found == [OF_SOURCE, None]
    assert writer.tails.segment(RUN, 2).end is None
