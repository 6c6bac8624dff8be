"""Times of lines: at both ends of a segment, and the search for a line by time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from chalicelib.aws.segment_index import entry_of_row, segment_rows
from chalicelib.events.event import NewEvent
from chalicelib.lines.time_search import MAX_PARSED_LINES, MAX_SCANNED_BYTES, first_and_last_ms, first_line_at
from chalicelib.ports import ARRIVAL, LINES
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.segment import metadata_of
from tests.events_harness import event_parts
from tests.world import RUN, START_MS, World

NOW = datetime.fromtimestamp(START_MS / 1000, UTC)
HOUR = timedelta(hours=1)


def at(moment: datetime, text: str = "INFO 42 rows") -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} {text}"


def ms(moment: datetime) -> int:
    return int(moment.replace(microsecond=0).timestamp()) * 1000


A, B, C = NOW - 2 * HOUR, NOW - HOUR, NOW + HOUR
UNKNOWN = "no time here"


@pytest.mark.parametrize(
    ("lines", "times"),
    [
        ([at(A), at(B)], (A, B)),
        ([at(A)], (A, A)),
        ([at(C)], (C, C)),  # a clock an hour ahead is not corrected
        ([f"{A:%Y-%m-%dT%H:%M:%S}+02:00 INFO x"], (A - 2 * HOUR, A - 2 * HOUR)),
        ([f'{{"time": "{B.isoformat()}", "msg": "x"}}', UNKNOWN], (B, B)),
        ([UNKNOWN, at(A), "  indented", at(B), "Traceback (most recent call last):", "  File 1", "ValueError: x"], (A, B)),
        (["  indented"] * 200 + [at(A)], (A, A)),
        ([UNKNOWN] * MAX_PARSED_LINES + [at(A)], (A, A)),  # of one end
        ([UNKNOWN] * MAX_PARSED_LINES + [at(A)] + [UNKNOWN] * MAX_PARSED_LINES, None),
        ([at(NOW + 25 * HOUR), at(A), at(datetime(1999, 12, 31, tzinfo=UTC))], (A, A)),  # neither may be right
        ([f"{A:%H:%M:%S}  Running with dbt=1.7.4", f"{A:%b %d %H:%M:%S} host app: x"], None),  # without a date, or a year
        (["x" * MAX_SCANNED_BYTES, at(A)], (A, A)),
        (["x" * MAX_SCANNED_BYTES], None),
        ([""], None),
        ([], None),
    ],
)
def test_times_of_the_first_and_the_last_line_that_state_one(lines: list[str], times: tuple[datetime, datetime] | None) -> None:
    body = "".join(f"{line}\n" for line in lines).encode()
    expected = None if times is None else tuple(map(ms, times))
    assert first_and_last_ms(body, START_MS) == first_and_last_ms(body.removesuffix(b"\n"), START_MS) == expected


@pytest.mark.parametrize("known", [1, 3])
def test_a_time_leads_to_the_first_line_of_it_or_a_later_one(known: int) -> None:
    """One of every ``known`` lines has a time; the following lines continue its record."""
    moments = [A + timedelta(seconds=number) for number in range(300)]
    lines = [at(moment) if number % known == 0 else "  more" for number, moment in enumerate(moments)]
    body = "".join(f"{line}\n" for line in lines).encode()
    for number in (0, 1, 2, 149, 150, 151, 297, 299, 300):
        expected = next((each for each in range(number, 300) if each % known == 0), None)
        found = first_line_at(body, ms(A) + number * 1000, START_MS)
        assert found == expected if expected is not None else found >= 298


@pytest.mark.parametrize("is_of_events", [False, True])
def test_a_segment_keeps_the_times_of_its_lines_or_of_its_events(is_of_events: bool) -> None:
    world = World()
    parts = event_parts(world)
    if is_of_events:
        parts.log.append(RUN, [NewEvent(message=at(C), timestamp=ms(moment)) for moment in (A, B)])
    else:
        parts.writer.append(RUN, Batch.from_text("\n".join([at(A), at(B)])))
    entry = parts.writer.tails.segment(RUN, 0)
    assert (entry.clock, entry.time_range_ms, entry.appended_ms) == (LINES, (ms(A), ms(B)), START_MS)
    assert entry_of_row(segment_rows(RUN, entry, 60)[0]) == entry


def test_events_of_impossible_times_are_those_of_arrival() -> None:
    world = World()
    parts = event_parts(world)
    parts.log.append(RUN, [NewEvent(message="x", timestamp=0)])
    entry = parts.writer.tails.segment(RUN, 0)
    assert (entry.clock, entry.time_range_ms) == (ARRIVAL, (START_MS, START_MS))
    assert "first-ms" not in metadata_of(entry) and "first_ms" not in segment_rows(RUN, entry, 60)[0]
