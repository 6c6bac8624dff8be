"""The index of events in DynamoDB: the byte ranges of each step in the log, and the visible ids of each writer.

Rows in the table of segments, hash key ``run``; the sort key ``at`` has names percent-encoded::

    event#companion#{sequence:010d}          the segment's sidecar is indexed completely; written last
    event#step#{step}#{sequence:010d}        a ``StepSegment``
    event#writer#{writer}                    merged ranges of visible ids, and the time of the last change; versioned
    event#told#{step}                        the step's update; versioned

Rows of sidecars and step segments are functions of the sidecar, so that writing them again changes nothing. ``expires_at`` is the
table's TTL.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from chalicelib.errors import PreconditionFailedError, StoreUnavailableError, WriteConflictError
from chalicelib.events.byte_ranges import decode_ranges, encode_ranges
from chalicelib.events.ranges import Range, merged
from chalicelib.events.sidecar import Sidecar
from chalicelib.events.step_segments import StepSegment, step_segments_of, visible_ids
from chalicelib.ports import EVENT_ROWS, Clause, Clock, Database, Key, Put, Row, RowCondition, Run, run_key

EVENTS = "events"
"""The name of the table for ``Database``."""
MAX_RANGES = 4000
"""Of one writer, bounded by the size of a row. Ids above the last range count as missing until lower gaps are filled."""
_SIDECAR, _STEP, _WRITER, _UPDATE = (f"{EVENT_ROWS}{kind}#" for kind in ("companion", "step", "writer", "told"))
_BEHIND = "~"  # sorts after all characters of names and numbers
_PAGE = 5000
_TRIES = 20


@dataclass(frozen=True, slots=True)
class VisibleIds:
    """The visible ids of a writer, and when the last was indexed. ``last_ms``: the last timestamp of its events."""

    writer: str
    ranges: tuple[Range, ...]
    last_ms: int
    indexed_ms: int


@dataclass(frozen=True, slots=True)
class EventIndex:
    """``retention_s``: how long a row is kept after it was written."""

    database: Database
    clock: Clock
    retention_s: int

    def put(self, run: Run, sidecars: Sequence[Sidecar]) -> None:
        """Index sidecars. A batch write for every 25 rows (one for each step of each sidecar, one for each sidecar); a query and a
        conditional write for each writer. Repeatable."""
        partition = run_key(run)
        rows = [
            _step_row(partition, segment, self._expires_at(each.appended_ms))
            for each in sidecars
            for segment in step_segments_of(each)
        ]
        self.database.put_many([_put(row) for row in rows])
        by_writer: dict[str, list[Sidecar]] = {}
        for each in sidecars:
            by_writer.setdefault(each.writer, []).append(each)
        for writer, its in by_writer.items():
            if ranges := merged(*map(visible_ids, its)):
                self._add_visible(partition, writer, its, ranges)
        self.database.put_many([_put(_sidecar_row(partition, each, self._expires_at(each.appended_ms))) for each in sidecars])

    def indexed(self, run: Run, first: int) -> set[int]:
        """The sequence numbers, from ``first`` on, whose sidecars are indexed. A query for each MB of rows."""
        rows = self._rows(run, f"{_SIDECAR}{first:010d}", _SIDECAR + _BEHIND)
        return {int(row["at"][len(_SIDECAR) :]) for row in rows}

    def step_segments(self, run: Run, step: str | None = None, first: int = 0) -> Iterator[StepSegment]:
        """The segments of a step in the log's order, from sequence number ``first`` on; or those of all steps, step by step. A
        query for each MB."""
        begin = f"{_STEP}{_name(step)}#" if step is not None else _STEP
        rows = self._rows(run, begin + (f"{first:010d}" if step is not None else ""), begin + _BEHIND)
        return map(_step_segment, rows)

    def visible(self, run: Run) -> dict[str, VisibleIds]:
        """The visible ids of all known writers, by name. One query."""
        rows = self._rows(run, _WRITER, _WRITER + _BEHIND)
        return {visible.writer: visible for visible in map(_visible, rows)}

    def put_step_update(self, run: Run, step: str, update: Mapping[str, Any], version: int) -> None:
        """Store the update of a step unless a newer version is stored. A conditional write."""
        row = {"run": run_key(run), "at": _UPDATE + _name(step), "told": dict(update), "version": version}
        row["expires_at"] = self._expires_at(self.clock.now_ms())
        newer: RowCondition = ((Clause(("version",), "absent"),), (Clause(("version",), "<", version),))
        self._when(row, newer)

    def step_updates(self, run: Run) -> dict[str, Mapping[str, Any]]:
        """The updates of all steps, by name. One query."""
        rows = self._rows(run, _UPDATE, _UPDATE + _BEHIND)
        return {unquote(row["at"][len(_UPDATE) :]): row["told"] for row in rows}

    def failed_step(self, run: Run) -> str:
        """The step with status failed; of several the first to end, at the same time a child before its parent; "" without one. One
        query: if a run has more rows than it returns, only the first by name count."""
        rows, _ = self.database.query(EVENTS, run_key(run), _UPDATE, _UPDATE + _BEHIND, limit=_PAGE)
        failed = {unquote(row["at"][len(_UPDATE) :]): row["told"] for row in rows if row["told"].get("status") == "failed"}
        parents = {update.get("parent") for update in failed.values()}

        def order(step: str) -> tuple[float, bool, str]:
            ended_ms = failed[step].get("endedMs")
            return math.inf if ended_ms is None else float(ended_ms), step in parents, step

        return min(failed, key=order, default="")

    def _add_visible(self, partition: str, writer: str, sidecars: Sequence[Sidecar], ranges: Sequence[Range]) -> None:
        """Add ids to the visible ones of a writer; safe for concurrent callers. Raises StoreUnavailableError."""
        last_ms = max((event.timestamp for each in sidecars for event in each.events), default=0)
        since_ms = max(each.appended_ms for each in sidecars)
        at = _WRITER + _name(writer)
        for _ in range(_TRIES):
            seen = next(iter(self.database.query(EVENTS, partition, at, at, limit=1)[0]), None)
            before = [(int(low), int(high)) for low, high in seen["ranges"]] if seen else []
            after = merged(before, ranges)[:MAX_RANGES]
            if seen and after == before:
                return
            row = {
                "run": partition,
                "at": at,
                "ranges": [list(each) for each in after],
                "last_ms": max(last_ms, seen["last_ms"] if seen else 0),
                "indexed_ms": self.clock.now_ms(),
                "version": (seen["version"] if seen else 0) + 1,
                "expires_at": self._expires_at(since_ms),
            }
            clause = Clause(("version",), "=", seen["version"]) if seen else Clause(("version",), "absent")
            if self._when(row, ((clause,),)):
                return
        raise StoreUnavailableError(f"the writer's visible ids are being changed concurrently writer={writer} tries={_TRIES}")

    def _when(self, row: Row, condition: RowCondition) -> bool:
        try:
            self.database.transact([Put(_key(row), row, condition)])
            return True
        except (PreconditionFailedError, WriteConflictError):
            return False

    def _rows(self, run: Run, first: str, last: str) -> Iterator[Row]:
        while True:
            rows, more = self.database.query(EVENTS, run_key(run), first, last, limit=_PAGE)
            yield from rows
            if not more or not rows:
                return
            first = rows[-1]["at"] + "\0"

    def _expires_at(self, since_ms: int) -> int:
        return since_ms // 1000 + self.retention_s


def _name(name: str) -> str:
    return quote(name, safe="")


def _key(row: Row) -> Key:
    return Key(EVENTS, row["run"], row["at"])


def _put(row: Row) -> Put:
    return Put(_key(row), row)


def _sidecar_row(partition: str, sidecar: Sidecar, expires_at: int) -> Row:
    at = f"{_SIDECAR}{sidecar.sequence:010d}"
    return {"run": partition, "at": at, "events": len(sidecar.events), "expires_at": expires_at}


def _step_row(partition: str, segment: StepSegment, expires_at: int) -> Row:
    return {
        "run": partition,
        "at": f"{_STEP}{_name(segment.step)}#{segment.sequence:010d}",
        "spans": encode_ranges(segment.byte_ranges),
        "first_ms": segment.first_ms,
        "last_ms": segment.last_ms,
        "events": segment.events,
        "errors": segment.errors,
        "expires_at": expires_at,
    }


def _step_segment(row: Row) -> StepSegment:
    step, _, number = row["at"][len(_STEP) :].partition("#")
    times = int(row["first_ms"]), int(row["last_ms"])
    return StepSegment(unquote(step), int(number), decode_ranges(row["spans"]), *times, int(row["events"]), int(row["errors"]))


def _visible(row: Row) -> VisibleIds:
    ranges = tuple((int(low), int(high)) for low, high in row["ranges"])
    return VisibleIds(unquote(row["at"][len(_WRITER) :]), ranges, int(row["last_ms"]), int(row["indexed_ms"]))
