"""One definition of an error: the same logs and one expectation for all code that counts or filters errors.

``tests/error_cases.json`` has logs that state errors in their text: plain lines, which the viewer's tests read too, and events.
The viewer requests outlines of events.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chalicelib.events.codecs import otlp
from chalicelib.events.codecs.items import Decoded
from chalicelib.events.event import NewEvent
from chalicelib.events.event_view import EventFilter
from chalicelib.lines.levels import is_error
from chalicelib.pipelines.records import record_maker
from chalicelib.pipelines.rows import EventPosition
from chalicelib.pipelines.run_event_reader import RunEventReader
from chalicelib.ports import Run
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.histogram import histogram
from tests.events_harness import EventParts, event_parts
from tests.pipelines_harness import PipelinesHarness
from tests.spark.memory import Reading

RUN = Run("svc.orders", "run-1")
CASES = json.loads((Path(__file__).parents[1] / "error_cases.json").read_text())


class Case(NamedTuple):
    """``errors``: the first lines of the records that are errors."""

    send: Callable[[EventParts], Any]
    errors: Sequence[int]


def _plain(lines: Sequence[str]) -> Callable[[EventParts], Any]:
    return lambda parts: parts.writer.append(RUN, Batch.from_text("\n".join(lines) + "\n"))


def _events(*events: NewEvent) -> Callable[[EventParts], Any]:
    return lambda parts: parts.log.append(RUN, events)


def _otlp(parts: EventParts) -> Any:
    records = [{"severityNumber": number, "body": {"stringValue": "said"}} for number in (9, 17, 13)]
    items = otlp.decode_json(json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}))
    return parts.log.append(RUN, [item.event for item in items if isinstance(item, Decoded)])


STATED = {
    "OTLP severity": Case(_otlp, [1]),
    "run.event": Case(_events(NewEvent(message="begins"), NewEvent(message="two\nlines", level="ERROR"), NewEvent(message="x")), [1]),
    "failed step": Case(_events(NewEvent(message="the step load failed: ValueError", level="ERROR", step="load", data={"exception": "x"})), [0]),
}  # fmt: skip
PLAIN = {case["name"]: Case(_plain(case["lines"]), case["errors"]) for case in CASES if "lines" in case}
IN_TEXT = {
    case["name"]: Case(_events(*(NewEvent(message=each) for each in case["events"])), case["errors"])
    for case in CASES
    if "events" in case
}


@pytest.mark.parametrize("name", [*PLAIN, *IN_TEXT, *STATED])
def test_all_readers_see_the_same_errors(name: str) -> None:
    case = (PLAIN | IN_TEXT | STATED)[name]
    world = PipelinesHarness()
    parts = event_parts(world)
    case.send(parts)
    segment = parts.writer.tails.segment(RUN, 0)
    world.index.put(RUN, [segment])
    assert segment.errors == len(case.errors)
    assert [bucket.errors for bucket in histogram(world.index, RUN, 1).buckets] == [len(case.errors)]
    outline = parts.browser.page(RUN, EventFilter(), is_last_included=True).events
    assert [event.line for event in outline if is_error(event.severity)] == case.errors
    assert sum(event.lines for event in outline) == segment.lines, "the page marks the last line of a running run too"
    world.end(RUN)
    assert [event.line for event in parts.browser.page(RUN, EventFilter(level="error")).events] == case.errors
    feed = RunEventReader(
        world.parts().reader,
        RUN,
        EventPosition(0, 0, 0),
        "",
        fetch_bytes=1 << 20,
        patience_ms=0,
        clock=world.clock,
        sidecars=world.sidecars(parts),
    )
    make = record_maker(RUN, "1")
    records = [make(each) for each in feed.fetch().events]
    assert [record.lineno for record in records if record.levelname == "ERROR"] == case.errors
    rows = Reading(world.store).rows()
    assert [row["line"] for row in rows if row["level"] == "ERROR"] == case.errors
