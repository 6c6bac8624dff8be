"""What operators want of pipelines, what workers tell of them, and which handlers get no events: rows that both sides read and write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from chalicelib.errors import PreconditionFailedError, StoreUnavailableError
from chalicelib.pipelines.rows import HANDLER, PIPELINES, STATUS, SWITCH, pipeline_key, row_at
from chalicelib.pipelines.shards import Shard, shards
from chalicelib.pipelines.transactions import transact_with_retry
from chalicelib.ports import ABSENT_ROW, Clause, Clock, Database, Key, Put, Row

DISABLED, FAILED, REPLAYING = "disabled", "failed", "replaying"
"""A handler that gets no events until it is enabled; one that could not be started, which is tried anew at each start; one that gets
again what it missed."""
_MOST_HANDLERS = 1000
_TRIES = 10
_SUMMED = ("lag_events", "runs", "processed", "late", "dropped", "dead")


@dataclass(frozen=True, slots=True)
class HandlerState:
    """Why a handler gets no events, since when, and at which event (``run`` is ``fqn/run_id``; empty: at none)."""

    handler: str
    state: str
    reason: str = ""
    since_ms: int = 0
    run: str = ""
    line: int = 0

    @property
    def receives_events(self) -> bool:
        """Whether it gets events."""
        return self.state == REPLAYING


@dataclass(frozen=True, slots=True)
class DesiredState:
    """What operators want. ``replay_ms``: process again what is not older than that (None: nothing), asked for at ``asked_ms``."""

    enabled: bool = True
    replay_ms: int | None = None
    asked_ms: int = 0

    def replayed(self, from_ms: int, now_ms: int) -> DesiredState:
        """With a replay that is asked for now; ``asked_ms`` is that of no other."""
        earliest_ms = from_ms if self.replay_ms is None else min(from_ms, self.replay_ms)
        return DesiredState(self.enabled, earliest_ms, max(now_ms, self.asked_ms + 1))


class PipelineStateStore:
    """Of all pipelines."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def read(self, name: str) -> tuple[DesiredState, dict[str, HandlerState]]:
        """A pipeline's switch and those of its handlers. One query: its few rows, but for the head."""
        rows, _ = self._database.query(PIPELINES, pipeline_key(name, "").partition, HANDLER, None, limit=_MOST_HANDLERS)
        handlers = {row["at"].removeprefix(HANDLER): _handler(row) for row in rows if row["at"].startswith(HANDLER)}
        switch = next((_switch(row) for row in rows if row["at"] == SWITCH), DesiredState())
        return switch, {name: found for name, found in handlers.items() if found.state}

    def status(self, names: Iterable[str], counts: Mapping[str, int] | None = None) -> dict[str, Row]:
        """What workers reported last of these pipelines, by name; without those that never ran. ``counts``: of shards, whose reports are
        combined; one, where none is named. A request for 100 shards."""
        keys = {status_key(name, shard): name for name in names for shard in shards((counts or {}).get(name, 1))}
        rows = self._database.get_many(list(keys))
        by_name: dict[str, list[Row]] = {}
        for key, name in keys.items():
            if key in rows:
                by_name.setdefault(name, []).append(rows[key])
        return {name: _combined(found) for name, found in by_name.items()}

    def shard_status(self, name: str, of: Sequence[Shard]) -> dict[Shard, Row]:
        """What the workers of some shards reported last. A request for 100."""
        keys = {status_key(name, shard): shard for shard in of}
        return {keys[key]: row for key, row in self._database.get_many(list(keys)).items()}

    def set_handler(self, name: str, switch: HandlerState) -> None:
        """Write a handler's switch; an empty state: it gets events as any other."""
        self._put([handler_row(name, switch)])

    def set_enabled(self, name: str, enabled: bool) -> None:
        """Let a pipeline get events, or stand still. A read and a transaction. Raises UnavailableError."""
        self._change(name, lambda switch: replace(switch, enabled=enabled))

    def replay(self, name: str, from_ms: int, now_ms: int) -> None:
        """Ask for a replay. One that was asked for before and has not begun is part of it: the earlier time counts. A read and a transaction.
        Raises UnavailableError."""
        self._change(name, lambda switch: switch.replayed(from_ms, now_ms))

    def _change(self, name: str, change: Callable[[DesiredState], DesiredState]) -> None:
        """Write a pipeline's switch, if it is still as it was read; else read it again."""
        key = pipeline_key(name, SWITCH)
        for _ in range(_TRIES):
            row = self._database.get_many([key]).get(key)
            seen = _switch(row) if row else DesiredState()
            write = Put(key, _switch_row(key, change(seen)), (_still(seen),) if row else ABSENT_ROW)
            try:
                return transact_with_retry(self._database, self._clock, [write])
            except PreconditionFailedError:
                continue
        raise StoreUnavailableError(f"a switch changes all the time pipeline={name} tries={_TRIES}")

    def clear_handler(self, name: str, seen: HandlerState) -> bool:
        """Let a handler get events as any other, if its switch is still as it was seen. Raises UnavailableError."""
        key, row = handler_row(name, HandlerState(seen.handler, ""))
        when = (Clause(("state",), "=", seen.state), Clause(("since_ms",), "=", seen.since_ms))
        try:
            transact_with_retry(self._database, self._clock, [Put(key, row, (when,))])
        except PreconditionFailedError:
            return False
        return True

    def _put(self, rows: Iterable[tuple[Key, Row]]) -> None:
        self._database.put_many([Put(key, row) for key, row in rows])


def replay_done(name: str, switch: DesiredState) -> Put:
    """What turns a replay off, unless the operator has changed the switch meanwhile."""
    key = pipeline_key(name, SWITCH)
    return Put(key, _switch_row(key, replace(switch, replay_ms=None)), (_still(switch),))


def _switch_row(key: Key, switch: DesiredState) -> Row:
    return row_at(key, enabled=switch.enabled, replay_ms=switch.replay_ms, asked_ms=switch.asked_ms)


def _still(switch: DesiredState) -> tuple[Clause, ...]:
    """That the stored switch is this one. A replay that is asked for changes ``asked_ms``, so that no replay needs no clause of its own."""
    replay = () if switch.replay_ms is None else (Clause(("replay_ms",), "=", switch.replay_ms),)
    return (Clause(("asked_ms",), "=", switch.asked_ms), Clause(("enabled",), "=", switch.enabled), *replay)


def status_key(name: str, shard: Shard) -> Key:
    """Where the worker of a shard reports."""
    return pipeline_key(name, STATUS + shard.suffix)


def _combined(rows: Sequence[Row]) -> Row:
    """The reports of all shards as one: sums, the greatest lag, the oldest times."""
    if len(rows) == 1:
        return rows[0]
    errors: Counter[str] = Counter()
    for row in rows:
        errors.update({name: int(count) for name, count in dict(row.get("errors", {})).items()})
    newest_first = sorted(rows, key=lambda row: -int(row.get("told_ms", 0)))
    sums = {name: sum(int(row.get(name, 0)) for row in rows) for name in _SUMMED}
    oldest = {name: min(int(row.get(name, 0)) for row in rows) for name in ("told_ms", "looked_ms")}
    return {
        **newest_first[0],
        **sums,
        **oldest,
        "lag_ms": max(int(row.get("lag_ms", 0)) for row in rows),
        "errors": dict(errors),
        "last_error": next((str(row["last_error"]) for row in newest_first if row.get("last_error")), ""),
    }


def handler_row(name: str, switch: HandlerState) -> tuple[Key, Row]:
    """A handler's row."""
    key = pipeline_key(name, HANDLER + switch.handler)
    return key, row_at(key, state=switch.state, reason=switch.reason, since_ms=switch.since_ms, run=switch.run, line=switch.line)


def _handler(row: Row) -> HandlerState:
    return HandlerState(
        row["at"].removeprefix(HANDLER),
        str(row.get("state", "")),
        str(row.get("reason", "")),
        int(row.get("since_ms", 0)),
        str(row.get("run", "")),
        int(row.get("line", 0)),
    )


def _switch(row: Row) -> DesiredState:
    replay = row.get("replay_ms")
    return DesiredState(bool(row.get("enabled", True)), None if replay is None else int(replay), int(row.get("asked_ms", 0)))
