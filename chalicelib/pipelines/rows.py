"""Table ``pipelines``: what is kept of each pipeline.

key                sort               row
pipeline#{name}    checkpoint         epoch, owner, commit, attempt, and where each run in hand is (packed): the head
pipeline#{name}    checkpoint#{part}  the head of a job's task, or of a shard but the first (``shard.{n}``)
pipeline#{name}    checkpoint+{part}+{n}  a further page of a head
pipeline#{name}    status, status#{n} what the worker of a shard reported last: lag, errors, when
pipeline#{name}    switch             what operators want of it: enabled, replay
pipeline#{name}    handler#{handler}  a handler that gets no events, and why; or one that gets again what it missed
runs#{name}        {fqn}/{run_id}     where a run is that is not in hand, until it expires
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from chalicelib.errors import DamagedPartitionError
from chalicelib.ports import Key, Row, Run

PIPELINES = "pipelines"
HEAD, STATUS, SWITCH, HANDLER = "checkpoint", "status", "switch", "handler#"


def pipeline_key(name: str, sort: str) -> Key:
    """A row of a pipeline."""
    return Key(PIPELINES, f"pipeline#{name}", sort)


def run_key(name: str, run: Run) -> Key:
    """The row of a run of a pipeline."""
    return Key(PIPELINES, f"runs#{name}", f"{run.fqn}/{run.run_id}")


def runs_partition(name: str) -> str:
    """Where a pipeline's runs are."""
    return f"runs#{name}"


def row_at(key: Key, **values: Any) -> dict[str, Any]:
    """A row with the attributes of its key."""
    return {"key": key.partition, "at": key.sort, **values}


@dataclass(frozen=True, slots=True)
class EventPosition:
    """A border between two events of a run: its line, its byte, and the time of what stands before it."""

    line: int = 0
    byte: int = 0
    time_ms: int = 0


@dataclass(frozen=True, slots=True)
class RunCheckpoint:
    """How far a run was processed: ``place`` is its first unprocessed event. ``held``: handlers that are behind it, and where.

    ``replay_line``, ``replay_ms``: of what stands before that line, only what is not older than that time is processed (again).
    """

    position: EventPosition = field(default_factory=EventPosition)
    format: str = ""
    lagging: Mapping[str, EventPosition] = field(default_factory=dict)
    replay_line: int = 0
    replay_ms: int = 0

    def start(self, handlers: Mapping[str, bool]) -> EventPosition:
        """Where reading begins for these handlers: at the first of them that may get events."""
        behind = [position for name, position in self.lagging.items() if handlers.get(name)]
        return min([self.position, *behind], key=lambda position: position.line)

    def line_of(self, handler: str) -> int:
        """From which line on a handler gets events."""
        return self.lagging[handler].line if handler in self.lagging else self.position.line

    @property
    def is_replaying(self) -> bool:
        """Whether a replay of it has not come to its end."""
        return self.position.line < self.replay_line

    def advanced(self, position: EventPosition, handlers: Mapping[str, bool]) -> RunCheckpoint:
        """Everything before ``place`` was processed by the handlers that may get events (True); the others stay behind."""
        lagging = {name: self.lagging.get(name, self.position) for name, gets in handlers.items() if not gets}
        ahead = position if position.line >= self.position.line else self.position
        lagging |= {name: max(position, old, key=_line) for name, old in self.lagging.items() if handlers.get(name)}
        lagging = {name: behind for name, behind in lagging.items() if behind.line < ahead.line}
        return replace(self, position=ahead, lagging=lagging)

    def replayed(self, from_ms: int) -> RunCheckpoint:
        """From its beginning once more: of the lines that every handler has had, those that are not older than a time; the others all.
        A replay that is under way and reaches further back goes on doing so."""
        since_ms = min(from_ms, self.replay_ms) if self.is_replaying else from_ms
        had = min([max(self.position.line, self.replay_line), *(position.line for position in self.lagging.values())])
        return replace(self, position=EventPosition(), lagging={}, replay_line=had, replay_ms=since_ms)

    def packed(self) -> list[Any]:
        """As JSON has it."""
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
            raise DamagedPartitionError(f"a position cannot be read position={str(stored)[:100]!r}") from error


def _line(position: EventPosition) -> int:
    return position.line


def _packed(position: EventPosition) -> list[int]:
    return [position.line, position.byte, position.time_ms]


def pack_checkpoints(checkpoints: Mapping[Run, RunCheckpoint]) -> str:
    """All positions as one text: some 60 bytes a run."""
    listed = [[run.fqn, run.run_id, checkpoint.packed()] for run, checkpoint in checkpoints.items()]
    return base64.b85encode(zlib.compress(json.dumps(listed, separators=(",", ":")).encode(), 6)).decode()


def unpack_checkpoints(text: str) -> dict[Run, RunCheckpoint]:
    """The inverse. Raises DamagedPartitionError."""
    try:
        listed = json.loads(zlib.decompress(base64.b85decode(text)))
        return {Run(fqn, run_id): RunCheckpoint.unpacked(checkpoint) for fqn, run_id, checkpoint in listed}
    except (ValueError, zlib.error, TypeError) as error:
        raise DamagedPartitionError("the positions of a pipeline cannot be read") from error


def checkpoint_row(key: Key, checkpoint: RunCheckpoint, expires_s: int, *, unfinished: bool = False) -> Row:
    """The row of a run that is not in hand. ``unfinished``: it has to be taken in hand, whatever else is known of it."""
    waiting: dict[str, Any] = {"held": ",".join(sorted(checkpoint.lagging))} if checkpoint.lagging else {}
    if unfinished:
        waiting["unfinished"] = True
    return row_at(key, position=json.dumps(checkpoint.packed()), expires_at=expires_s, **waiting)


def checkpoint_of(row: Row) -> RunCheckpoint:
    """What such a row says. Raises DamagedPartitionError."""
    try:
        return RunCheckpoint.unpacked(json.loads(row["position"]))
    except (KeyError, ValueError) as error:
        raise DamagedPartitionError(f"the row of a run cannot be read run={row.get('at')}") from error
