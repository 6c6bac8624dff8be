"""The index of events: where each step stands in the log, and which ids of each writer are visible.

Rows in the table of segments, beside theirs, hash ``run``; their ``at``, in which names are percent-encoded::

    event#companion#{sequence:010d}          the segment's companion is indexed whole; written last
    event#step#{step}#{sequence:010d}        a ``Part``
    event#writer#{writer}                    merged ranges of visible ids, when the last one came; moves by its version
    event#told#{step}                        what was told of a step; moves by its version

A row of a companion or a part is a function of the companion: written again it is the same. ``expires_at`` is the table's TTL.
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
from chalicelib.ports import EVENT_ROWS, Clause, Clock, Database, Key, Put, Row, Run, When

EVENTS = "events"
"""The table, as the database knows it."""
MAX_RANGES = 4000
"""Of one writer: a row has no room for more. Higher ids then count as missing, which they are in the meantime."""
_SIDECAR, _STEP, _WRITER, _UPDATE = (f"{EVENT_ROWS}{kind}#" for kind in ("companion", "step", "writer", "told"))
_BEHIND = "~"  # above whatever a name or number has
_PAGE = 5000
_TRIES = 20


@dataclass(frozen=True, slots=True)
class VisibleIds:
    """What is visible of a writer, and when the last of it was indexed; ``last_ms``: the last timestamp of its events."""

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
        """Index companions. A request for 25 rows: one of each step in each, one of each; a query and a conditional write for each writer.
        Repeatable."""
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
        """The numbers from ``first`` on of sidecars that are indexed. A query for each MB of rows."""
        rows = self._rows(run, f"{_SIDECAR}{first:010d}", _SIDECAR + _BEHIND)
        return {int(row["at"][len(_SIDECAR) :]) for row in rows}

    def step_segments(self, run: Run, step: str | None = None, first: int = 0) -> Iterator[StepSegment]:
        """Parts of a step in the log's order, from a segment on; or those of all steps, one step after the other. A query for each MB."""
        begin = f"{_STEP}{_name(step)}#" if step is not None else _STEP
        rows = self._rows(run, begin + (f"{first:010d}" if step is not None else ""), begin + _BEHIND)
        return map(_step_segment, rows)

    def visible(self, run: Run) -> dict[str, VisibleIds]:
        """Of all writers that are known, by name. One query."""
        rows = self._rows(run, _WRITER, _WRITER + _BEHIND)
        return {visible.writer: visible for visible in map(_visible, rows)}

    def put_step_update(self, run: Run, step: str, update: Mapping[str, Any], version: int) -> None:
        """What was told of a step, unless more is known by now. A conditional write."""
        row = {"run": run_key(run), "at": _UPDATE + _name(step), "told": dict(update), "version": version}
        row["expires_at"] = self._expires_at(self.clock.now_ms())
        newer: When = ((Clause(("version",), "absent"),), (Clause(("version",), "<", version),))
        self._when(row, newer)

    def step_updates(self, run: Run) -> dict[str, Mapping[str, Any]]:
        """What was told of steps, by name. One query."""
        rows = self._rows(run, _UPDATE, _UPDATE + _BEHIND)
        return {unquote(row["at"][len(_UPDATE) :]): row["told"] for row in rows}

    def failed_step(self, run: Run) -> str:
        """The step that is stated as failed: of several the first to end, before its parent; empty if there is none. One query: of more steps than
        that answers, those whose names come first."""
        rows, _ = self.database.query(EVENTS, run_key(run), _UPDATE, _UPDATE + _BEHIND, limit=_PAGE)
        failed = {unquote(row["at"][len(_UPDATE) :]): row["told"] for row in rows if row["told"].get("status") == "failed"}
        parents = {update.get("parent") for update in failed.values()}

        def order(step: str) -> tuple[float, bool, str]:
            ended_ms = failed[step].get("endedMs")
            return math.inf if ended_ms is None else float(ended_ms), step in parents, step

        return min(failed, key=order, default="")

    def _add_visible(self, partition: str, writer: str, sidecars: Sequence[Sidecar], ranges: Sequence[Range]) -> None:
        """Add to what is visible of a writer; others may do the same. Raises StoreUnavailableError."""
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
        raise StoreUnavailableError(f"others keep changing what is visible of a writer writer={writer} tries={_TRIES}")

    def _when(self, row: Row, condition: When) -> bool:
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


def run_key(run: Run) -> str:
    """As rows of segments have it (``catalog.segments.run_key``)."""
    return f"{quote(run.fqn, safe='')}/{quote(run.run_id, safe='')}"


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
