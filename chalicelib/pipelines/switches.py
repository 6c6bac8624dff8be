"""What operators want of pipelines, what workers tell of them, and which handlers get no events: rows that both sides read and write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chalicelib.pipelines.rows import HANDLER, PIPELINES, STATUS, SWITCH, pipeline_key, row_at
from chalicelib.ports import Clock, Database, Key, Put, Row

DISABLED, FAILED, REPLAYING = "disabled", "failed", "replaying"
"""A handler that gets no events until it is enabled; one that could not be started, which is tried anew at each start; one that gets
again what it missed."""
_MOST_HANDLERS = 1000


@dataclass(frozen=True, slots=True)
class HandlerSwitch:
    """Why a handler gets no events, since when, and at which event (``run`` is ``fqn/run_id``; empty: at none)."""

    handler: str
    state: str
    reason: str = ""
    since_ms: int = 0
    run: str = ""
    line: int = 0

    @property
    def gets(self) -> bool:
        """Whether it gets events."""
        return self.state == REPLAYING


@dataclass(frozen=True, slots=True)
class Switch:
    """What operators want. ``replay_ms``: process again what is not older than that (None: nothing), asked for at ``asked_ms``."""

    enabled: bool = True
    replay_ms: int | None = None
    asked_ms: int = 0


class Switches:
    """Of all pipelines."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def of(self, name: str) -> tuple[Switch, dict[str, HandlerSwitch]]:
        """A pipeline's switch and those of its handlers. One query: its few rows, but for the head."""
        rows, _ = self._database.query(PIPELINES, pipeline_key(name, "").partition, HANDLER, None, limit=_MOST_HANDLERS)
        handlers = {row["at"].removeprefix(HANDLER): _handler(row) for row in rows if row["at"].startswith(HANDLER)}
        switch = next((_switch(row) for row in rows if row["at"] == SWITCH), Switch())
        return switch, {name: found for name, found in handlers.items() if found.state}

    def status(self, names: Sequence[str]) -> dict[str, Row]:
        """What workers told last, of those that ever ran. A request for 100."""
        keys = {pipeline_key(name, STATUS): name for name in names}
        return {keys[key]: row for key, row in self._database.get_many(list(keys)).items()}

    def set_handler(self, name: str, switch: HandlerSwitch) -> None:
        """Write a handler's switch; an empty state: it gets events as any other."""
        self._put([handler_row(name, switch)])

    def set_pipeline(self, name: str, switch: Switch) -> None:
        """Write what an operator wants."""
        key = pipeline_key(name, SWITCH)
        self._put([(key, row_at(key, enabled=switch.enabled, replay_ms=switch.replay_ms, asked_ms=switch.asked_ms))])

    def told(self, name: str, status: Mapping[str, Any]) -> None:
        """Write what a worker tells."""
        key = pipeline_key(name, STATUS)
        self._put([(key, row_at(key, **status))])

    def _put(self, rows: Iterable[tuple[Key, Row]]) -> None:
        self._database.put_many([Put(key, row) for key, row in rows])


def handler_row(name: str, switch: HandlerSwitch) -> tuple[Key, Row]:
    """A handler's row."""
    key = pipeline_key(name, HANDLER + switch.handler)
    return key, row_at(key, state=switch.state, reason=switch.reason, since_ms=switch.since_ms, run=switch.run, line=switch.line)


def _handler(row: Row) -> HandlerSwitch:
    return HandlerSwitch(
        row["at"].removeprefix(HANDLER),
        str(row.get("state", "")),
        str(row.get("reason", "")),
        int(row.get("since_ms", 0)),
        str(row.get("run", "")),
        int(row.get("line", 0)),
    )


def _switch(row: Row) -> Switch:
    replay = row.get("replay_ms")
    return Switch(bool(row.get("enabled", True)), None if replay is None else int(replay), int(row.get("asked_ms", 0)))
