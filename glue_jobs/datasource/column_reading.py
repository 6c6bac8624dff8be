"""Reads the events of a slice as Arrow batches: selects them by their numbers, and makes only the columns that are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chalicelib.lines.levels import ORDER
from glue_jobs.columnar.columns import EventColumns, EventSpans
from glue_jobs.columnar.outlines import OutlineParser
from glue_jobs.columnar.parser import ColumnarParser
from glue_jobs.datasource.content import Origin
from glue_jobs.datasource.options import MIB
from glue_jobs.datasource.reading import NumberedLines, OpenSlice, Origins
from glue_jobs.datasource.schema import EVENTS, ORIGIN, arrow_schema
from glue_jobs.datasource.selection import Selection

LEAST_BYTES = 16 * 1024
"""Smaller slices are faster as rows: a block costs one to two milliseconds, whatever its size."""
_BLOCK_BYTES = MIB
_PARSED = frozenset({"timestamp", "level", "logger", "message"})
"""Columns for which lines are parsed."""
_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


def can_read_columns(opened: OpenSlice) -> bool:
    """Whether a slice is read as columns: it is not small, and no event of it was sent as one."""
    return opened.end - opened.start >= LEAST_BYTES and not opened.content.sidecars


def column_batches(opened: OpenSlice, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The selected events in order, with some columns; a batch for each block of at least 1 MiB. Memory: some chunks of 8 MiB, and
    copies of a block; the longest line counts as part of one."""
    numbered = NumberedLines(opened.content, opened.line)
    numbering, origins = _Numbering(), Origins(opened.spec, opened.part.run, numbered)
    count = 0
    with opened.chunks() as chunks:
        blocks = numbering.of(numbered.blocks(chunks))
        for events in _parser(opened, columns).parse_blocks(blocks, 0 if opened.growing else _BLOCK_BYTES):
            line = numbering.lines(events.line + count)
            count += events.line_count
            end = _end(events, line, opened)
            chosen = np.flatnonzero(_selected(events, line, opened.spec.selection)[:end])
            if len(chosen):
                yield _batch(events, chosen, line[chosen], columns, opened, origins)
            if end < len(events):
                return


def _parser(opened: OpenSlice, columns: Sequence[str]) -> ColumnarParser | OutlineParser:
    """Lines are parsed to make or to filter columns; otherwise it is enough to know where events begin."""
    selection = opened.spec.selection
    is_filtered = selection.bounds_time or selection.levels is not None or opened.stop_us is not None
    if is_filtered or not _PARSED.isdisjoint(columns):
        return ColumnarParser(opened.format(), opened.time_parser)
    return OutlineParser(opened.format, opened.time_parser)


class _Numbering:
    """The numbers of lines, by their place among the lines that were read: some between them may be missing."""

    def __init__(self) -> None:
        self._places, self._shifts, self._count = [0], [0], 0

    def of(self, blocks: Iterator[tuple[int, int, bytes]]) -> Iterator[bytes]:
        """The bytes of blocks with numbers."""
        for number, count, block in blocks:
            if (shift := number - self._count) != self._shifts[-1]:
                self._places.append(self._count)
                self._shifts.append(shift)
            self._count += count
            yield block

    def lines(self, places: _Ints) -> _Ints:
        """The numbers of the lines at these places."""
        shifts = np.array(self._shifts, np.int64)[np.searchsorted(self._places, places, side="right") - 1]
        return places + shifts


def _end(events: EventSpans, line: _Ints, opened: OpenSlice) -> int:
    """The place of the first event behind all that can be selected."""
    is_behind = np.zeros(len(events), np.bool_)
    if opened.spec.selection.end_line is not None:
        is_behind |= line >= opened.spec.selection.end_line
    if opened.stop_us is not None and isinstance(events, EventColumns):
        is_behind |= events.has_time & (events.us >= opened.stop_us)
    return int(is_behind.argmax()) if is_behind.any() else len(events)


def _selected(events: EventSpans, line: _Ints, selection: Selection) -> _Bools:
    is_selected: _Bools = line >= selection.first_line
    if not isinstance(events, EventColumns):
        return is_selected
    if selection.bounds_time:
        is_selected &= events.has_time
    if selection.from_us is not None:
        is_selected &= events.us >= selection.from_us
    if selection.to_us is not None:
        is_selected &= events.us < selection.to_us
    if selection.levels is not None:
        is_selected &= np.array([*(level in selection.levels for level in ORDER), False])[events.level]
    return is_selected


def _batch(
    events: EventSpans, chosen: _Ints, line: _Ints, columns: Sequence[str], opened: OpenSlice, origins: Origins
) -> pa.RecordBatch:
    run, outcome = opened.part.run, opened.outcome()
    makers: dict[str, Callable[[], pa.Array]] = {
        "fqn": lambda: pa.repeat(pa.scalar(run.fqn), len(chosen)),
        "run_id": lambda: pa.repeat(pa.scalar(run.run_id), len(chosen)),
        "line": lambda: pa.array(line),
        "raw": lambda: events.raws(chosen),
        "outcome": lambda: pa.repeat(pa.scalar(outcome, pa.string()), len(chosen)),
    }
    if isinstance(events, EventColumns):
        makers |= {
            "timestamp": lambda: events.timestamps(chosen),
            "level": lambda: events.levels(chosen),
            "logger": lambda: events.loggers(chosen),
            "message": lambda: events.messages(chosen),
        }
    if ORIGIN.intersection(columns):
        makers |= _origin_makers(origins, line)
    schema = arrow_schema(columns, EVENTS)
    return pa.RecordBatch.from_arrays([makers[field.name]().cast(field.type) for field in schema], schema=schema)


def _origin_makers(origins: Origins, line: _Ints) -> dict[str, Callable[[], pa.Array]]:
    """Columns of the origins of ascending lines."""
    distinct: list[Origin] = []
    counts: list[int] = []
    place = 0
    while place < len(line):
        first = int(line[place])
        distinct.append(origins.of(first))
        end = origins.end_of(first)
        behind = len(line) if end is None else int(np.searchsorted(line, end))
        counts.append(behind - place)
        place = behind
    places = pa.array(np.repeat(np.arange(len(counts)), counts))
    return {
        "segment": lambda: pa.array([origin.segment for origin in distinct], pa.int64()).take(places),
        "connector_id": lambda: pa.array([origin.connector for origin in distinct], pa.string()).take(places),
        "epoch": lambda: pa.array([origin.epoch for origin in distinct], pa.int32()).take(places),
    }
