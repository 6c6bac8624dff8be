"""A pipeline at work, in one thread: start, then steps of reading, ordering, giving to handlers, flushing and checkpointing, then stop.

::

    find runs ► take them in hand ► read a piece of each ► ordering buffer ► handlers ► flush ► checkpoint ► let go what is done

A crash anywhere loses nothing: processing begins again at the last checkpoint, so each event gets to each handler at least once. A
store that does not answer delays checkpoints and reading, never what is in the buffer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from chalicelib.errors import LeaseError, PreconditionFailedError, UnavailableError
from chalicelib.pipelines.checkpoints import MAX_RUNS, Checkpoints, Part
from chalicelib.pipelines.configuration import FINALIZED, LIVE, PipelineFile
from chalicelib.pipelines.context import Caught, LoggingContext, build
from chalicelib.pipelines.dead_letters import DeadLetters
from chalicelib.pipelines.delivery import Delivery, Progress
from chalicelib.pipelines.feed import Logs
from chalicelib.pipelines.finding import Finder, Known
from chalicelib.pipelines.in_hand import Generation, RunsInHand
from chalicelib.pipelines.ordering import OrderingBuffer, Pending
from chalicelib.pipelines.ports import LINE, CommitsWithCheckpoint, Fence, HandlerContext, TakesContext
from chalicelib.pipelines.rows import STATUS, Position, pipeline_key, row_at
from chalicelib.pipelines.switches import DISABLED, FAILED, REPLAYING, HandlerSwitch, Switch, Switches, handler_row
from chalicelib.ports import Clock, Database, ObjectStore, Put, Run, Write

Tell = Callable[..., None]
"""A warning: what, and facts by name."""
LOOK_MS = 5000
"""How often runs are looked for."""
QUIET_STATUS_MS = 60_000
BATCH = 500
_GAP_MS = 15 * 60_000
"""Runs stay in the index of activity for longer than that after they have ended."""
_MARGIN_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Parts:
    """What a worker works with. ``buffer_bytes``: where the file leaves the size to us; ``generation`` None for what was deleted;
    ``part``: of a job, which works the finder's runs and no others."""

    logs: Logs
    finder: Finder
    store: ObjectStore
    database: Database
    clock: Clock
    keep_s: int
    buffer_bytes: int
    tell: Tell
    generation: Generation = lambda _: ""
    stores: Callable[[str], ObjectStore] | None = None
    most_runs: int = MAX_RUNS
    part: Part | None = None


class Worker:
    """One pipeline, worked by one thread under one lease. ``fence`` raises LeaseError when that is lost; ``owner``: whose it is.

    ``progress`` may be read by other threads. ``wants_restart``: an operator has changed something since the start."""

    def __init__(self, file: PipelineFile, parts: Parts, fence: Fence, owner: str) -> None:
        self.file, self._parts, self._fence, self._owner = file, parts, fence, owner
        self.name = file.name
        self._clock = parts.clock
        self._switches = Switches(parts.database, parts.clock)
        self.checkpoints = Checkpoints(parts.database, self.name, parts.clock, parts.keep_s, parts.part)
        self.buffer = OrderingBuffer(file.properties.event_delay_ms, file.properties.buffer_bytes or parts.buffer_bytes)
        self.hand = RunsInHand(parts.logs, self.buffer, file.properties, parts.clock, parts.generation, self._trouble)
        self.progress = Progress()
        self.wants_restart = False
        self.processed = 0
        self._waiting: dict[Run, Known] = {}
        self._forced: set[Run] = set()
        self._caught_up: dict[Run, tuple[int, bool]] = {}
        self._listing: Iterator[Known] = iter(())
        self._looked_ms = self._committed_ms = self._told_ms = self._known_until_ms = 0
        self._listed = False
        self._back: set[str] = set()
        self._unsaved: dict[str, HandlerSwitch] = {}
        self._saving: dict[str, HandlerSwitch] = {}
        self._moving: dict[Run, Position] = {}
        self._committing: list[str] = []

    def start(self) -> None:
        """Take the pipeline over, and build and start its handlers. One that fails is told, and the others go on. Raises
        InvalidConfigurationError, LeaseError, UnavailableError."""
        self._fence()
        self.checkpoints.take_over(self._owner)
        self._switch, self._handler_switches = self._switches.of(self.name)
        context = build(self.file.logging, self.file.properties, self._clock.now_ms)
        failures = dict(context.failures)
        handed = HandlerContext(self._parts.store, self._parts.database, self._clock, self.name, self._fence, self._parts.stores)
        for name, handler in context.handlers.items():
            if isinstance(handler, TakesContext):
                try:
                    handler.use(handed)
                except Caught as error:
                    failures[name] = f"{type(error).__name__}: {error}"[:500]
        self._deliver(context, failures)
        for name, reason in failures.items():
            self._parts.tell("a handler could not be started: the others go on", pipeline=self.name, handler=name, reason=reason)
            self._unsaved[name] = HandlerSwitch(name, FAILED, reason, self._clock.now_ms())
        self._go_on_where_it_was()

    def _deliver(self, context: LoggingContext, failures: Mapping[str, str]) -> None:
        gets = {name: name not in failures and self._may_get(name) for name in {*context.attached(), *failures}}
        dead = DeadLetters(self._parts.store, self.name, self._clock)
        self.context = context
        self.delivery = Delivery(context, self.file.errors, dead, self._clock, self._given_up, gets, self.progress)

    def _may_get(self, name: str) -> bool:
        switch = self._handler_switches.get(name)
        return switch is None or switch.state in (REPLAYING, FAILED)

    def _go_on_where_it_was(self) -> None:
        gets = self.delivery.gets
        back = {name for name, switch in self._handler_switches.items() if gets.get(name) and switch.state in (REPLAYING, FAILED)}
        for run, position in self.checkpoints.in_hand().items():
            self._waiting[run] = _known(run, position)
        if self._parts.part is not None:
            self._forced = set(self._waiting)
            return
        if self._switch.replay_ms is not None:
            self._replay(self._switch.replay_ms)
        self._forced = set(self._waiting)
        if back:
            for run, position in self.checkpoints.let_go():
                if back & set(position.held):
                    self._waiting[run] = _known(run, position)
                    self._forced.add(run)
        self._back = back
        row = self._switches.status([self.name]).get(self.name, {})
        self._known_until_ms = int(row.get("looked_ms", 0))
        if self._clock.now_ms() - self._known_until_ms > _GAP_MS:
            self._listing = iter(self._parts.finder.all(max(0, self._known_until_ms - _MARGIN_MS)))

    def _replay(self, from_ms: int) -> None:
        """All runs that have something so late begin anew. Repeatable: the switch is turned off behind it."""
        self.checkpoints.release(list(self.checkpoints.in_hand()))
        late = ((run, position) for run, position in self.checkpoints.let_go() if position.place.time_ms >= from_ms)
        while batch := dict(islice(late, MAX_RUNS)):
            self.checkpoints.put_rows({run: position.replayed(from_ms) for run, position in batch.items()})
            for run, position in batch.items():
                self._waiting[run] = _known(run, position)
        self._switch = Switch(self._switch.enabled, None, self._switch.asked_ms)
        self._switches.set_pipeline(self.name, self._switch)

    def step(self) -> bool:
        """Do what there is to do now, once. Whether anything was: if not, there is time to wait. Raises LeaseError, UnavailableError (the
        next step goes on)."""
        self._fence()
        self._look()
        self._admit()
        came = self.hand.read()
        done = self._process()
        now_ms = self._clock.now_ms()
        self.context.forget_routes(now_ms)
        flushed = self.delivery.flush()
        if now_ms - self._committed_ms >= self.file.properties.checkpoint_interval_ms or self._is_crowded():
            self._checkpoint(flushed)
        return bool(came or done)

    @property
    def is_idle(self) -> bool:
        """Whether all that is known of was processed."""
        return (
            not self._waiting and self._listed and not self.buffer.count and all(held.is_done for held in self.hand.runs.values())
        )

    def stop(self, *, lost: bool = False) -> None:
        """Flush, checkpoint, and close the handlers. ``lost``: without a checkpoint, which is another's. Raises nothing but what ends a
        process."""
        try:
            if not lost:
                self._fence()
                self._checkpoint(self.delivery.flush(at_once=True))
        except (LeaseError, UnavailableError) as error:
            self._parts.tell("the last checkpoint failed: what came after the one before is processed again", **self._about(error))
        finally:
            for name, why in self.context.close():
                self._parts.tell("a handler could not be closed", handler=name, **self._about(why))

    def _look(self) -> None:
        now_ms = self._clock.now_ms()
        if self._looked_ms and now_ms - self._looked_ms < LOOK_MS:
            return
        self._learn(self._parts.finder.live())
        self._looked_ms = now_ms

    def _learn(self, found: Iterator[Known] | list[Known] | Any) -> None:
        for known in self.hand.news(found):
            if self._caught_up.get(known.run) != (known.bytes, known.ended):
                self._waiting[known.run] = known

    def _admit(self) -> None:
        """Take runs in hand, as many as there is room for."""
        room = self._parts.most_runs - len(self.hand)
        if room <= 0:
            return
        if len(self._waiting) < room:
            found = list(islice(self._listing, room))
            self._listed = len(found) < room
            self._learn(found)
        batch = list(islice(self._waiting.values(), room))
        positions = self.checkpoints.find([known.run for known in batch]) if batch else {}
        for known in batch:
            del self._waiting[known.run]
            position = positions.get(known.run)
            if position is None and not self._wants(known):
                self._caught(known)
                continue
            position = position or Position()
            if not self._has_work(known, position):
                self._caught(known)
                continue
            self._forced.discard(known.run)
            self.hand.take(known, position, self.delivery.gets)

    def _wants(self, known: Known) -> bool:
        """Whether a run is worked of which nothing was processed yet."""
        return (FINALIZED if known.ended else LIVE) in self.file.source.include

    def _has_work(self, known: Known, position: Position) -> bool:
        behind = any(self.delivery.gets.get(name) for name in position.held)
        return behind or known.run in self._forced or position.place.byte < known.bytes

    def _caught(self, known: Known) -> None:
        if len(self._caught_up) >= _MOST_REMEMBERED:
            self._caught_up.clear()
        self._caught_up[known.run] = (known.bytes, known.ended)

    def _process(self) -> int:
        """Give out what is due, and of a full buffer what brings it to half."""
        count = 0
        while True:
            full = self.buffer.is_full
            taken = self.buffer.drain(BATCH) if full else self.buffer.take(self._clock.now_ms(), BATCH)
            if not taken:
                break
            while full and self.buffer.bytes * 2 > self.buffer.most_bytes and (more := self.buffer.drain(BATCH)):
                taken += more
            self._give(taken)
            count += len(taken)
            if full:
                break
        return count

    def _give(self, taken: list[Pending]) -> None:
        now_ms = self._clock.now_ms()
        deliver, of = self.delivery.deliver, self.hand.of
        for at, pending in enumerate(taken):
            held = of(pending)
            behind, skip = _behind(held.position, pending)
            if not skip and held.make is not None:
                try:
                    deliver(held.make(pending), behind, now_ms)
                except UnavailableError:
                    self.buffer.put_back(taken[at:])
                    raise
            del held.unprocessed[pending.line]
        self.processed += len(taken)

    def _is_crowded(self) -> bool:
        """Whether others wait while half of what is in hand is done."""
        if not self._waiting or len(self.hand) < self._parts.most_runs:
            return False
        return 2 * sum(held.is_done for held in self.hand.runs.values()) >= len(self.hand)

    def _checkpoint(self, flushed: bool) -> None:
        """Commit where runs are, unless a flush failed. Raises LeaseError; a store that is away is told, and it is tried again."""
        try:
            if self.checkpoints.in_doubt and self.checkpoints.settle():
                self._committed()
            if flushed:
                self._commit()
            self._committed_ms = self._clock.now_ms()
            self._let_go()
            self.wants_restart = self.wants_restart or self._was_switched()
        except UnavailableError as error:
            self._committed_ms = self._clock.now_ms()
            self._parts.tell("a checkpoint failed: processing goes on, and it is tried again", **self._about(error))
        except PreconditionFailedError as error:
            self._committed_ms = self._clock.now_ms()
            for name in self._committing:
                self.delivery.failed(name, error)
            self._parts.tell("a handler's rows were refused: nothing was checkpointed", **self._about(error))

    def _commit(self) -> None:
        gets, committed = self.delivery.gets, self.checkpoints.in_hand()
        moved: dict[Run, Position] = {}
        for run, held in self.hand.runs.items():
            position = held.moved(gets)
            if position != committed.get(run, _NOTHING):
                moved[run] = position
        writes = self._writes()
        if writes is None:
            return
        self._welcome_back()
        if self._parts.part is not None:
            self._told_ms = self._clock.now_ms()
        now_ms = self._clock.now_ms()
        if not moved and not writes and not self._unsaved and now_ms - self._told_ms < QUIET_STATUS_MS:
            return
        key = pipeline_key(self.name, STATUS)
        status = [] if self._parts.part else [Put(key, row_at(key, **self.status(now_ms)))]
        switches = [Put(*handler_row(self.name, switch)) for switch in self._unsaved.values()]
        self._saving = dict(self._unsaved)
        self._moving = moved
        self._fence()
        self.checkpoints.commit(moved, [*status, *switches, *writes])
        self._committed()

    def _welcome_back(self) -> None:
        """Handlers that have got all that they missed are as any other."""
        if not self._back or self._forced:
            return
        behind = {name for held in self.hand.runs.values() for name in held.position.held}
        for name in self._back - behind:
            self._unsaved[name] = HandlerSwitch(name, "")
        self._back &= behind

    def _writes(self) -> list[Write] | None:
        """The rows of handlers; None when one of them could not tell."""
        writes: list[Write] = []
        self._committing = []
        for name, handler in self.context.handlers.items():
            if not self.delivery.gets.get(name) or not isinstance(handler, CommitsWithCheckpoint):
                continue
            try:
                pending = list(handler.pending_writes())
            except Caught as error:
                self.delivery.failed(name, error)
                return None
            if pending:
                writes += pending
                self._committing.append(name)
        return writes

    def _committed(self) -> None:
        """What was sent in the last commit is stored."""
        for run, position in self._moving.items():
            if run in self.hand.runs:
                self.hand.runs[run].position = position
        for name, switch in self._saving.items():
            if self._unsaved.get(name) == switch:
                del self._unsaved[name]
            self._handler_switches.pop(name, None)
            if switch.state:
                self._handler_switches[name] = switch
        self._moving, self._saving = {}, {}
        self._told_ms = self._clock.now_ms()
        for name in self._committing:
            handler = self.context.handlers[name]
            assert isinstance(handler, CommitsWithCheckpoint)
            try:
                handler.committed()
            except Caught as error:
                self.delivery.failed(name, error)
        self._committing = []

    def _let_go(self) -> None:
        """Of runs that are done: those that have ended, and where others wait for room, those that go on."""
        crowded = bool(self._waiting) and len(self.hand) >= self._parts.most_runs
        done = [
            run
            for run, held in self.hand.runs.items()
            if held.is_done
            and (held.final or crowded)
            and held.moved(self.delivery.gets) == self.checkpoints.in_hand().get(run, _NOTHING)
        ]
        if not done:
            return
        self.checkpoints.release(done)
        for run in done:
            self._caught(self.hand.runs[run].known)
            self.hand.drop(run)

    def _was_switched(self) -> bool:
        """Whether an operator has changed something."""
        switch, handlers = self._switches.of(self.name)
        ours = {name for name, each in self._handler_switches.items() if each.state == DISABLED}
        ours |= {name for name, each in self._unsaved.items() if each.state == DISABLED}
        theirs = {name for name, each in handlers.items() if each.state == DISABLED}
        enabled = {name for name, each in handlers.items() if each.state == REPLAYING and not self.delivery.gets.get(name, True)}
        return switch != self._switch or bool(theirs - ours) or bool(enabled)

    def _given_up(self, name: str, reason: str, record: logging.LogRecord | None) -> None:
        about = (record.pathname, int(record.__dict__[LINE])) if record is not None else ("", 0)
        self._unsaved[name] = HandlerSwitch(name, DISABLED, reason, self._clock.now_ms(), *about)
        self._parts.tell(
            "a handler is disabled: it fails too often",
            pipeline=self.name,
            handler=name,
            reason=reason,
            run=about[0],
            line=about[1],
        )

    def status(self, now_ms: int) -> dict[str, Any]:
        """What is told of the pipeline: lag in events (lines) and ms, errors, late events, dead letters."""
        lag_events, lag_ms = self.hand.lag(now_ms)
        waiting = sum(known.lines for known in self._waiting.values())
        return {
            "told_ms": now_ms,
            "looked_ms": self._looked_ms if self._listed and not self._waiting else self._known_until_ms,
            "lag_events": lag_events + waiting,
            "lag_ms": lag_ms,
            "runs": len(self.hand),
            "processed": self.processed,
            "late": self.buffer.late,
            "dropped": self.hand.dropped,
            "dead": self.delivery.dead.count,
            "errors": dict(self.delivery.budget.total),
            "last_error": self.delivery.last_error,
        }

    def _trouble(self, message: str, run: Run, error: Exception) -> None:
        self._parts.tell(message, fqn=run.fqn, run_id=run.run_id, **self._about(error))

    def _about(self, error: BaseException) -> dict[str, str]:
        return {"pipeline": self.name, "error": f"{type(error).__name__}: {error}"[:500]}


_NOTHING = Position()
_MOST_REMEMBERED = 100_000


def _known(run: Run, position: Position) -> Known:
    """A run of which a position is all that is known."""
    return Known(run, position.place.byte, position.place.line, False, position.place.time_ms)


def _behind(position: Position, pending: Pending) -> tuple[Callable[[str], bool] | None, bool]:
    """Which handlers have had an event, and whether nobody wants it."""
    line = pending.line
    skip = line < position.replay_line and pending.time_ms < position.replay_ms
    if not position.held and line >= position.place.line:
        return None, skip
    return (lambda name: line < position.line_of(name)), skip
