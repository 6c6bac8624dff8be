"""Table ``pipelines``: the stored state of each pipeline.

key                sort               row
pipeline#{name}    checkpoint         epoch, owner, commit, attempt, and the packed checkpoints of active runs: the head
pipeline#{name}    checkpoint#{part}  the head of a job's task, or of a shard other than the first (``shard.{n}``)
pipeline#{name}    checkpoint+{part}+{n}  a further page of a head
pipeline#{name}    status, status#{n} the last report of a shard's worker: lag, errors, time
pipeline#{name}    switch             the state that operators set: enabled, replay
pipeline#{name}    deletions#{shards}.{n}  the last deletion that each handler was notified of by a shard's worker
pipeline#{name}    handler#{handler}  a handler that receives no events, with the reason; or one that receives the events it missed
runs#{name}        {fqn}/{run_id}     the checkpoint of a run that is not active, until it expires
resends#{name}     key of the letter  a dead letter that a worker is to send again, until that was tried or it expires
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from chalicelib.errors import DamagedPartitionError
from chalicelib.ports import Database, Key, Row, Run

PIPELINES = "pipelines"
HEAD, STATUS, SWITCH, HANDLER = "checkpoint", "status", "switch", "handler#"
_PAGE_ROWS = 1000


def pipeline_key(name: str, sort: str) -> Key:
    """The key of a pipeline's row."""
    return Key(PIPELINES, f"pipeline#{name}", sort)


def run_key(name: str, run: Run) -> Key:
    """The key of the row of a pipeline's run."""
    return Key(PIPELINES, f"runs#{name}", f"{run.fqn}/{run.run_id}")


def runs_partition(name: str) -> str:
    """The partition of a pipeline's runs."""
    return f"runs#{name}"


def resends_partition(name: str) -> str:
    """The partition of a pipeline's dead letters that are to be sent again."""
    return f"resends#{name}"


def row_at(key: Key, **values: Any) -> dict[str, Any]:
    """A row with the attributes of its key."""
    return {"key": key.partition, "at": key.sort, **values}


def stored_rows(database: Database, partition: str, first: str | None = None, last: str | None = None) -> Iterator[Row]:
    """The rows of a partition of the table, in order, from one sort key to another: a Query for each 1,000 or each MB. Raises
    UnavailableError."""
    while True:
        rows, more = database.query(PIPELINES, partition, first, last, limit=_PAGE_ROWS)
        yield from rows
        if not more or not rows:
            return
        first = f"{rows[-1]['at']}\0"


@dataclass(frozen=True, slots=True)
class EventPosition:
    """A boundary between two events of a run: its line, its byte, and the time of the event before it."""

    line: int = 0
    byte: int = 0
    time_ms: int = 0


@dataclass(frozen=True, slots=True)
class RunCheckpoint:
    """The progress in a run: ``position`` is its first unprocessed event. ``lagging``: handlers that are behind it, with their
    positions.

    ``replay_line``, ``replay_ms``: of the events before that line, only those at or after that time are processed (again)."""

    position: EventPosition = field(default_factory=EventPosition)
    format: str = ""
    lagging: Mapping[str, EventPosition] = field(default_factory=dict)
    replay_line: int = 0
    replay_ms: int = 0

    def start(self, handlers: Mapping[str, bool]) -> EventPosition:
        """Where reading begins: the first position of those handlers that receive events."""
        behind = [position for name, position in self.lagging.items() if handlers.get(name)]
        return min([self.position, *behind], key=lambda position: position.line)

    def line_of(self, handler: str) -> int:
        """The line from which a handler receives events."""
        return self.lagging[handler].line if handler in self.lagging else self.position.line

    @property
    def is_replaying(self) -> bool:
        """Whether a replay of the run is incomplete."""
        return self.position.line < self.replay_line

    def advanced(self, position: EventPosition, handlers: Mapping[str, bool]) -> RunCheckpoint:
        """The checkpoint after the handlers that receive events (True) processed everything before ``position``; handlers that do
        not receive events lag."""
        lagging = {name: self.lagging.get(name, self.position) for name, gets in handlers.items() if not gets}
        ahead = position if position.line >= self.position.line else self.position
        lagging |= {name: max(position, old, key=_line) for name, old in self.lagging.items() if handlers.get(name)}
        lagging = {name: behind for name, behind in lagging.items() if behind.line < ahead.line}
        return replace(self, position=ahead, lagging=lagging)

    def replayed(self, from_ms: int) -> RunCheckpoint:
        """The checkpoint of a replay from the run's beginning: of the lines that every handler has received, those at or after a
        time, and all later lines. An earlier start of a replay that is in progress still counts."""
        since_ms = min(from_ms, self.replay_ms) if self.is_replaying else from_ms
        had = min([max(self.position.line, self.replay_line), *(position.line for position in self.lagging.values())])
        return replace(self, position=EventPosition(), lagging={}, replay_line=had, replay_ms=since_ms)

    def packed(self) -> list[Any]:
        """For JSON."""
        lagging = {name: _packed(position) for name, position in self.lagging.items()}
        return [*_packed(self.position), self.format, lagging, self.replay_line, self.replay_ms]

    @classmethod
    def unpacked(cls, stored: Any) -> RunCheckpoint:
        """The inverse. Raises DamagedPartitionError."""
        try:
            line, byte, time_ms, format_, lagging, replay_line, replay_ms = stored
            behind = {name: EventPosition(*position) for name, position in lagging.items()}
            return cls(EventPosition(line, byte, time_ms), format_, behind, replay_line, replay_ms)
        except (TypeError, ValueError, AttributeError) as error:
            raise DamagedPartitionError(f"a checkpoint cannot be read checkpoint={str(stored)[:100]!r}") from error


def _line(position: EventPosition) -> int:
    return position.line


def _packed(position: EventPosition) -> list[int]:
    return [position.line, position.byte, position.time_ms]


def pack_checkpoints(checkpoints: Mapping[Run, RunCheckpoint]) -> str:
    """Pack all checkpoints into one text: some 60 bytes a run."""
    listed = [[run.fqn, run.run_id, checkpoint.packed()] for run, checkpoint in checkpoints.items()]
    return base64.b85encode(zlib.compress(json.dumps(listed, separators=(",", ":")).encode(), 6)).decode()


def unpack_checkpoints(text: str) -> dict[Run, RunCheckpoint]:
    """The inverse. Raises DamagedPartitionError."""
    try:
        listed = json.loads(zlib.decompress(base64.b85decode(text)))
        return {Run(fqn, run_id): RunCheckpoint.unpacked(checkpoint) for fqn, run_id, checkpoint in listed}
    except (ValueError, zlib.error, TypeError) as error:
        raise DamagedPartitionError("the checkpoints of a pipeline cannot be read") from error


def checkpoint_row(key: Key, checkpoint: RunCheckpoint, expires_s: int, *, unfinished: bool = False) -> Row:
    """The row of a run that is not active. ``unfinished``: a worker has to make it active again, regardless of its known state."""
    waiting: dict[str, Any] = {"held": ",".join(sorted(checkpoint.lagging))} if checkpoint.lagging else {}
    if unfinished:
        waiting["unfinished"] = True
    return row_at(key, position=json.dumps(checkpoint.packed()), expires_at=expires_s, **waiting)


def checkpoint_of(row: Row) -> RunCheckpoint:
    """The checkpoint of such a row. Raises DamagedPartitionError."""
    try:
        return RunCheckpoint.unpacked(json.loads(row["position"]))
    except (KeyError, ValueError) as error:
        raise DamagedPartitionError(f"the row of a run cannot be read run={row.get('at')}") from error
