"""The state of pipelines and handlers that operators set, and the status that workers report: rows that both sides read and
write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from chalicelib.errors import StoreUnavailableError
from chalicelib.pipelines.rows import HANDLER, PIPELINES, STATUS, SWITCH, pipeline_key, row_at
from chalicelib.pipelines.shards import Shard, shards
from chalicelib.pipelines.transactions import apply_write
from chalicelib.ports import ABSENT_ROW, Clause, Clock, Database, Key, Put, Row

if TYPE_CHECKING:
    from chalicelib.pipelines.configuration import PipelineFile

DISABLED, FAILED, REPLAYING = "disabled", "failed", "replaying"
"""A handler that receives no events until it is enabled; one that could not be started, which is retried at each start; one that
receives the events it missed."""
_MOST_HANDLERS = 1000
_TRIES = 10
_SUMMED = ("lag_events", "runs", "processed", "late", "dropped", "dead")


@dataclass(frozen=True, slots=True)
class HandlerState:
    """The state of a handler, the reason, since when, and at which event (``run`` is ``fqn/run_id``; empty: at none)."""

    handler: str
    state: str
    reason: str = ""
    since_ms: int = 0
    run: str = ""
    line: int = 0

    @property
    def receives_events(self) -> bool:
        """Whether the handler receives events."""
        return self.state == REPLAYING


@dataclass(frozen=True, slots=True)
class DesiredState:
    """The state that operators set. ``replay_ms``: process events from this time on again (None: no replay), requested at
    ``asked_ms``."""

    enabled: bool = True
    replay_ms: int | None = None
    asked_ms: int = 0

    def replayed(self, from_ms: int, now_ms: int) -> DesiredState:
        """The state with a replay that is requested now; ``asked_ms`` is unique to it."""
        earliest_ms = from_ms if self.replay_ms is None else min(from_ms, self.replay_ms)
        return DesiredState(self.enabled, earliest_ms, max(now_ms, self.asked_ms + 1))


class PipelineStateStore:
    """The states of all pipelines."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def read(self, name: str, *, enabled: bool = True) -> tuple[DesiredState, dict[str, HandlerState]]:
        """The states of a pipeline and of its handlers. ``enabled``: the pipeline's, until an operator sets it. One Query of its few
        rows, without the head."""
        rows, _ = self._database.query(PIPELINES, pipeline_key(name, "").partition, HANDLER, None, limit=_MOST_HANDLERS)
        handlers = {row["at"].removeprefix(HANDLER): _handler(row) for row in rows if row["at"].startswith(HANDLER)}
        desired = next((_desired(row) for row in rows if row["at"] == SWITCH), DesiredState(enabled))
        return desired, {name: found for name, found in handlers.items() if found.state}

    def is_enabled(self, file: PipelineFile) -> bool:
        """Whether a pipeline runs. One Query, as ``read``."""
        return self.read(file.name, enabled=file.enabled)[0].enabled

    def status(self, names: Iterable[str], counts: Mapping[str, int] | None = None) -> dict[str, Row]:
        """The last reports of these pipelines' workers, by name; without those that never ran. ``counts``: the number of shards,
        whose reports are combined; 1 by default. One request for 100 shards."""
        keys = {status_key(name, shard): name for name in names for shard in shards((counts or {}).get(name, 1))}
        rows = self._database.get_many(list(keys))
        by_name: dict[str, list[Row]] = {}
        for key, name in keys.items():
            if key in rows:
                by_name.setdefault(name, []).append(rows[key])
        return {name: _combined(found) for name, found in by_name.items()}

    def shard_status(self, name: str, of: Sequence[Shard]) -> dict[Shard, Row]:
        """The last reports of some shards' workers. One request for 100."""
        keys = {status_key(name, shard): shard for shard in of}
        return {keys[key]: row for key, row in self._database.get_many(list(keys)).items()}

    def set_handler(self, name: str, state: HandlerState) -> None:
        """Write a handler's state; an empty one means that it receives events normally."""
        self._put([handler_row(name, state)])

    def set_enabled(self, name: str, enabled: bool) -> None:
        """Enable or disable a pipeline. A read and a transaction. Raises UnavailableError."""
        self._change(name, lambda desired: replace(desired, enabled=enabled))

    def replay(self, name: str, from_ms: int, now_ms: int, *, enabled: bool = True) -> None:
        """Request a replay. A request that has not begun yet is merged with it: the earlier time counts. ``enabled`` as in ``read``. A
        read and a transaction. Raises UnavailableError."""
        self._change(name, lambda desired: desired.replayed(from_ms, now_ms), enabled)

    def _change(self, name: str, change: Callable[[DesiredState], DesiredState], enabled: bool = True) -> None:
        """Write a pipeline's state if it is unchanged since it was read; else read it again."""
        key = pipeline_key(name, SWITCH)
        for _ in range(_TRIES):
            row = self._database.get_many([key]).get(key)
            seen = _desired(row) if row else DesiredState(enabled)
            write = Put(key, _desired_row(key, change(seen)), (_still(seen),) if row else ABSENT_ROW)
            if apply_write(self._database, self._clock, write):
                return
        raise StoreUnavailableError(f"the pipeline's state keeps changing pipeline={name} tries={_TRIES}")

    def clear_handler(self, name: str, seen: HandlerState) -> bool:
        """Let a handler receive events normally, if its state is unchanged since ``seen``. Raises UnavailableError."""
        key, row = handler_row(name, HandlerState(seen.handler, ""))
        when = (Clause(("state",), "=", seen.state), Clause(("since_ms",), "=", seen.since_ms))
        return apply_write(self._database, self._clock, Put(key, row, (when,)))

    def _put(self, rows: Iterable[tuple[Key, Row]]) -> None:
        self._database.put_many([Put(key, row) for key, row in rows])


def replay_done(name: str, desired: DesiredState) -> Put:
    """The write that ends a replay, unless the operator has changed the state meanwhile."""
    key = pipeline_key(name, SWITCH)
    return Put(key, _desired_row(key, replace(desired, replay_ms=None)), (_still(desired),))


def _desired_row(key: Key, desired: DesiredState) -> Row:
    return row_at(key, enabled=desired.enabled, replay_ms=desired.replay_ms, asked_ms=desired.asked_ms)


def _still(desired: DesiredState) -> tuple[Clause, ...]:
    """The condition that the stored state is this one. A new replay changes ``asked_ms``, so "no replay" needs no clause."""
    replay = () if desired.replay_ms is None else (Clause(("replay_ms",), "=", desired.replay_ms),)
    return (Clause(("asked_ms",), "=", desired.asked_ms), Clause(("enabled",), "=", desired.enabled), *replay)


def status_key(name: str, shard: Shard) -> Key:
    """The key of the report of a shard's worker."""
    return pipeline_key(name, STATUS + shard.suffix)


def _combined(rows: Sequence[Row]) -> Row:
    """The reports of all shards as one: sums, the greatest lag, the oldest times."""
    if len(rows) == 1:
        return rows[0]
    errors: Counter[str] = Counter()
    for row in rows:
        errors.update({name: int(count) for name, count in dict(row["errors"]).items()})
    newest_first = sorted(rows, key=lambda row: -int(row["told_ms"]))
    sums = {name: sum(int(row[name]) for row in rows) for name in _SUMMED}
    oldest = {name: min(int(row[name]) for row in rows) for name in ("told_ms", "looked_ms")}
    return {
        **newest_first[0],
        **sums,
        **oldest,
        "lag_ms": max(int(row["lag_ms"]) for row in rows),
        "errors": dict(errors),
        "last_error": next((str(row["last_error"]) for row in newest_first if row["last_error"]), ""),
    }


def handler_row(name: str, state: HandlerState) -> tuple[Key, Row]:
    """The row of a handler."""
    key = pipeline_key(name, HANDLER + state.handler)
    return key, row_at(key, state=state.state, reason=state.reason, since_ms=state.since_ms, run=state.run, line=state.line)


def _handler(row: Row) -> HandlerState:
    return HandlerState(
        row["at"].removeprefix(HANDLER),
        str(row["state"]),
        str(row["reason"]),
        int(row["since_ms"]),
        str(row["run"]),
        int(row["line"]),
    )


def _desired(row: Row) -> DesiredState:
    replay = row["replay_ms"]
    return DesiredState(bool(row["enabled"]), None if replay is None else int(replay), int(row["asked_ms"]))
