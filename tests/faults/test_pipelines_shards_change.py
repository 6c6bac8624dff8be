"""The number of shards changes at any time, while workers of old and new divisions run, die, stall and lose their leases, call by
call: in the end each event is in the files exactly once, as after an undisturbed run of one worker, and a plain handler has
received each event at least once.

The uncommitted window, which bounds what a plain handler gets again: a worker gets only events that no commit before its start
covers, each of them once. The first deliveries of a run's events are in order, whichever workers make them.
"""

from __future__ import annotations

import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from chalicelib.errors import LeaseError, UnavailableError
from chalicelib.pipelines.checkpoints import LayoutChangedError
from chalicelib.pipelines.configuration import PipelineFile
from chalicelib.pipelines.files.generations import Generations
from chalicelib.pipelines.files.rows import FileRow, FileRows
from chalicelib.pipelines.files.service import PipelineFiles
from chalicelib.pipelines.ports import LINE
from chalicelib.pipelines.rows import HEAD, PIPELINES, RunCheckpoint, checkpoint_of, runs_partition, unpack_checkpoints
from chalicelib.pipelines.run_discovery import CatalogRunDiscovery
from chalicelib.pipelines.shards import Shard, shards
from chalicelib.pipelines.worker import Worker
from chalicelib.ports import Database, ObjectStore, Put, Run, Write
from chalicelib.removal.pipeline_runs import PipelineRuns, started_ms
from tests.faults.interception import AFTER, BEFORE, CONFLICT, LATER, WRITES, Crash
from tests.faults.state_machines import run_state_machine
from tests.faults.stepping import Actor
from tests.pipelines_harness import PipelinesHarness, line, pipeline_of
from tests.sampling import IS_COMPLETE, pick, seed_of
from tests.support.clock import ManualClock
from tests.support.database import InMemoryDatabase
from tests.support.object_store import InMemoryObjectStore

SEED = seed_of("change of shards")
EXAMPLES = int(os.environ.get("RUNLAKE_EXAMPLES") or (300 if IS_COMPLETE else pick(8, 40, 300)))
STEPS = int(os.environ.get("RUNLAKE_STEPS", "50"))
PHASES = (Phase.generate,) if IS_COMPLETE else (Phase.generate, Phase.shrink)
"""Shrinking takes minutes: a mutant would be killed by its time limit, and not by the failure. The printed blob repeats it."""
NAMES = [f"svc.{name}" for name in "abcdef"]
MAX_SHARDS, MAX_SESSIONS, MAX_RUNS, PATIENCE = 8, 20, 16, 30
BASE = "files"
ROLLING = "chalicelib.pipelines.files.handler.RollingS3Handler"
INDEXED_S = 21 * 60
"""A run stays in the activity index for at least 20 minutes after its end."""
FAULTS = st.sampled_from([*((moment, how) for moment in (BEFORE, AFTER, LATER) for how in ("error", "crash")), (CONFLICT, "error")])
COUNTS = st.sampled_from([1, 1, 2, 2, 3, *range(4, MAX_SHARDS + 1)])
LOST = st.sampled_from(["none", "the leading one", "the leading one", "all"])
LEAD = st.sampled_from([0, 3, 12])
AGES = st.sampled_from([0, 0, 1, 2])
NUMBERS = st.integers(0, MAX_SESSIONS - 1)
TOTALS: Counter[str] = Counter()
Event = tuple[Run, int]


class Recorder(logging.Handler):
    """A plain handler. It is built right after its worker's start: the checkpoints that are committed then are the first events
    that it may receive."""

    current: ChangesOfShards

    def __init__(self) -> None:
        super().__init__()
        self.committed = dict(self.current.committed)
        self.received: set[Event] = set()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.current.receive(self, Run(*record.pathname.rsplit("/", 1)), record.__dict__[LINE])
        except AssertionError as error:  # the pipeline would count it, and store a dead letter
            raise Crash(str(error)) from error


def file(count: int) -> PipelineFile:
    handlers = {
        "files": {"class": ROLLING, "base": BASE, "format": "jsonl", "workers": 1, "max_bytes": 600},
        "plain": {"class": f"{__name__}.Recorder"},
    }
    properties = {"checkpoint_interval_ms": 1000, "event_delay_ms": 500}
    return pipeline_of(handlers, shards=count, properties=properties, errors={"max": 1_000_000, "retries": 0})


FILES = {count: file(count) for count in range(1, MAX_SHARDS + 1)}


class Pause:
    """What a worker waits for between two steps: a call like those of the stores, so that others may go on there."""

    def end(self) -> None:
        """The pause is over."""


@dataclass(eq=False, repr=False)
class Session:
    """A worker's life under one lease, as ``Supervisor`` runs it. ``is_stale``: its lease belongs to another worker, perhaps."""

    shard: Shard
    owner: str
    is_stale: bool = False
    is_stopping: bool = False
    actor: Actor = field(init=False)

    def fence(self) -> None:
        if self.is_stale:
            raise LeaseError("the lease is lost")

    def run(self, make: Callable[[], Worker], pause: Pause) -> None:
        for _ in range(PATIENCE):
            try:
                return self._work(make(), pause)
            except LayoutChangedError:
                pause.end()  # until the leading shard has divided the runs

    def _work(self, worker: Worker, pause: Pause) -> None:
        worker.start()
        is_lost = True
        try:
            while not self.is_stopping and not worker.wants_restart:
                try:
                    worker.step()
                    pause.end()
                except UnavailableError:
                    pass  # the supervisor continues
            is_lost = False
        finally:
            worker.stop(lost=is_lost)


class ChangesOfShards(RuleBasedStateMachine):
    """Each rule is one decision: of an operator, of a writer of logs, of the scheduler, or a fault."""

    def __init__(self) -> None:
        super().__init__()
        Recorder.current = self
        self.world = PipelinesHarness()
        self.lines: dict[Run, list[str]] = {}
        self.ended_s: dict[Run, float] = {}
        self.deleted: set[Run] = set()
        self.counts = [1]
        self.max_runs = 100
        self.sessions: list[Session] = []
        self.begun = 0
        self.late: list[Actor] = []
        self.committed: dict[Run, int] = {}
        self.received: dict[Run, int] = {}
        self._watch_commits()

    # Checks of each step.

    def _watch_commits(self) -> None:
        transact = self.world.database.transact

        def watched(writes: Sequence[Write]) -> None:
            transact(writes)
            for write in writes:
                if isinstance(write, Put) and write.key.table == PIPELINES:
                    self._check_commit(write)

        self.world.database.transact = watched  # type: ignore[method-assign]

    def _check_commit(self, write: Put) -> None:
        """A write of a transaction that was applied."""
        _, _, number = write.key.sort.partition(f"{HEAD}#shard.")
        if number:
            lead = next(row for row in self.world.database.rows(PIPELINES) if row["at"] == HEAD)
            assert int(number) < lead["shards"] and not lead["moving"], f"a shard commits in a division that is over {number=}"
        for run, checkpoint in checkpoints_in(write):
            stored = checkpoint.position.line
            assert stored >= self.committed.get(run, 0), f"a checkpoint moves back {run=} {stored=}"
            assert stored <= self.received.get(run, 0) or run in self.deleted, f"a commit passes events {run=} {stored=}"
            self.committed[run] = stored

    def receive(self, recorder: Recorder, run: Run, number: int) -> None:
        """A plain handler receives an event."""
        TOTALS["received"] += 1
        TOTALS["repeated"] += number < self.received.get(run, 0)
        assert number >= recorder.committed.get(run, 0), f"an event that was committed is repeated {run=} {number=}"
        assert (run, number) not in recorder.received, f"one worker delivers an event twice {run=} {number=}"
        assert number <= self.received.get(run, 0), f"the first deliveries are not in order {run=} {number=}"
        recorder.received.add((run, number))
        self.received[run] = max(number + 1, self.received.get(run, 0))

    # Logs.

    @initialize(room=st.sampled_from([2, 5, 100]), count=COUNTS, is_new=st.booleans())
    def begin(self, room: int, count: int, is_new: bool) -> None:
        """Of a new pipeline, or of one whose shards have all looked for runs just now."""
        self.max_runs, self.counts = room, [count]
        self.append_everywhere(2)
        if not is_new:
            self._work_until_idle([Session(shard, f"first.{shard.number}") for shard in shards(count)])

    @rule(name=st.sampled_from(NAMES), lines=st.integers(1, 3))
    def append(self, name: str, lines: int) -> None:
        """To the latest run of a name, or to a new one after its end."""
        of_name = [run for run in self.lines if run.fqn == name]
        if not of_name or of_name[-1] in self.ended_s or of_name[-1] in self.deleted:
            if len(self.lines) >= MAX_RUNS:
                return
            self.world.clock.advance(1)  # a run that starts in the second of a deletion belongs to what it deletes
            of_name.append(Run(name, f"r{len(of_name)}"))
        run = of_name[-1]
        written = self.lines.setdefault(run, [])
        now_ms, first = self.world.clock.now_ms(), len(written)
        added = [line(now_ms, f"{run.fqn} {run.run_id} {first + number}") for number in range(lines)]
        self.world.write(run, added)
        written += added

    @rule(lines=st.integers(1, 2))
    def append_everywhere(self, lines: int) -> None:
        for name in NAMES:
            self.append(name, lines)

    @rule(name=st.sampled_from(NAMES))
    def end(self, name: str) -> None:
        for run in [each for each in self.lines if each.fqn == name and each not in self.ended_s and each not in self.deleted]:
            self.world.end(run)
            self.ended_s[run] = self.world.clock.monotonic_s()

    @rule(name=st.sampled_from(NAMES))
    @precondition(lambda self: self.begun > 3)
    def delete(self, name: str) -> None:
        """The files and logs of a name; a later run of the same name is in the next generation. A second request, before the first
        deletion is done, would resume that one."""
        if not any(run.fqn == name for run in self.deleted):
            self.deleted |= {run for run in self.lines if run.fqn == name}
            self._pipeline_files(self.world.store, self.world.database).delete("svc", name, self.world.deadline())

    @rule(seconds=st.sampled_from([1, 4, 12]))
    def time_passes(self, seconds: int) -> None:
        self._advance(seconds)

    @rule(ended=st.lists(st.sampled_from(NAMES), max_size=3))
    def standstill(self, ended: list[str]) -> None:
        """Runs get last lines and end, and nobody goes on until they are in no index any more."""
        for name in ended:
            self.append(name, 1)
            self.end(name)
        self._advance(INDEXED_S)

    @rule(count=COUNTS, is_settled=st.booleans(), is_checked=st.booleans())
    def outage(self, count: int, is_settled: bool, is_checked: bool) -> None:
        """As after a long outage of the logs' store alone: every worker has died, and active runs have ended and left the index,
        although discovery is complete until now. The next workers may have another configuration. ``is_settled``: all shards had
        processed everything before; ``is_checked``: the next workers process these runs at once, not only after a standstill."""
        self._kill_all()
        if is_settled:
            self._work_until_idle([Session(shard, f"before.{shard.number}") for shard in shards(self.counts[-1])])
        self.counts.append(count)
        heads = [row for row in self.world.database.rows(PIPELINES) if row["at"].startswith(HEAD)]
        gone: list[Run] = []
        for run in [run for row in heads for run in unpack_checkpoints(row["runs"])]:
            if run not in self.deleted:
                self.append(run.fqn, 1)
                self.end(run.fqn)
                if self.committed.get(run, 0) < len(self.lines[run]) and self._is_indexed(run):
                    self.world.leave_index(run)
                    gone.append(run)
        if is_checked:
            self._work_until_idle([Session(shard, f"after.{shard.number}") for shard in shards(count)])
            assert [self.received.get(run, 0) for run in gone] == [len(self.lines[run]) for run in gone], "events are lost"

    def _is_indexed(self, run: Run) -> bool:
        return run in {row.run for row in self.world.runs.active(1 << 60)}

    def _kill_all(self) -> None:
        while self.sessions:
            self.sessions.pop().actor.step((BEFORE, "crash"))

    def _advance(self, seconds: float) -> None:
        self.world.clock.advance(seconds)
        now_s = self.world.clock.monotonic_s()
        for run in [run for run, ended_s in self.ended_s.items() if now_s - ended_s >= INDEXED_S]:
            if self._is_indexed(run):
                self.world.leave_index(run)

    # Workers.

    @rule(count=COUNTS, lost=LOST, lead=LEAD)
    def change(self, count: int, lost: str, lead: int) -> None:
        """The schedule's next minute has another configuration. The leases of some workers may have ended, whatever they are doing:
        with that of the leading one, the runs are divided under the others."""
        TOTALS["changes"] += count != self.counts[-1]
        self.counts.append(count)
        self.begin_workers(0, lost, lead)

    @rule(age=AGES, lost=LOST, lead=LEAD)
    def begin_workers(self, age: int, lost: str, lead: int) -> None:
        """Workers of the present configuration, or of an earlier one; each is ``lead`` calls ahead of the next one."""
        for session in self.sessions:
            if lost == "all" or (lost == "the leading one" and session.shard.leads):
                self._lose(session)
        for number in range(self._count(age)):
            self.begin_worker(number, age)
            self._step(self.sessions[-1:], lead)

    @rule(number=st.integers(0, MAX_SHARDS - 1), age=AGES)
    def begin_worker(self, number: int, age: int) -> None:
        """One lease has one worker; a further one begins only after the first has lost it."""
        count = self._count(age)
        shard = Shard(number % count, count)
        is_leased = any(each.shard.suffix == shard.suffix and not each.is_stale for each in self.sessions)
        if is_leased or len(self.sessions) >= MAX_SESSIONS:
            return
        self.begun += 1
        session = Session(shard, f"w{self.begun}")
        self.sessions.append(session)
        session.actor = Actor(session.owner, lambda wrap: session.run(lambda: self._worker(session, wrap), wrap(Pause())))
        self._reap(session)

    def _count(self, age: int) -> int:
        """The configured number of shards, some changes ago."""
        return self.counts[max(-1 - age, -len(self.counts))]

    @rule(rounds=st.sampled_from([5, 30, 90]), pause_s=st.sampled_from([0, 1, 3]))
    @precondition(lambda self: self.sessions)
    def run_all(self, rounds: int, pause_s: int) -> None:
        """In turns, a call each."""
        for _ in range(3):
            self._step(list(self.sessions), rounds // 3)
            self._advance(pause_s)

    @rule(picks=st.lists(NUMBERS, min_size=10, max_size=80))
    @precondition(lambda self: self.sessions)
    def interleave(self, picks: list[int]) -> None:
        """In any order."""
        for number in picks:
            if self.sessions:
                self._step([self._session(number)], 1)

    @rule(number=NUMBERS, calls=st.integers(1, 60))
    @precondition(lambda self: self.sessions)
    def run_one(self, number: int, calls: int) -> None:
        self._step([self._session(number)], calls)

    @rule(number=NUMBERS, calls=st.integers(0, 30), fault=FAULTS)
    @precondition(lambda self: self.sessions)
    def fail(self, number: int, calls: int, fault: tuple[str, str]) -> None:
        session = self._session(number)
        self._step([session], calls)
        if session not in self.sessions:
            return
        moment, how = fault
        operation = session.actor.waiting_for
        if (moment == LATER and operation not in WRITES) or (moment == CONFLICT and operation != "transact"):
            moment = BEFORE
        TOTALS["crashes" if how == "crash" else "errors"] += 1
        if moment == LATER:
            self.late.append(session.actor)
        session.actor.step((moment, how))
        self._reap(session)

    @rule(number=NUMBERS)
    @precondition(lambda self: self.sessions)
    def lose_lease(self, number: int) -> None:
        """The next worker begins while this one is still at its last call, and goes on until it notices."""
        session = self._session(number)
        self._lose(session)
        age = next(age for age in range(len(self.counts)) if self._count(age) == session.shard.count)
        self.begin_worker(session.shard.number, age)

    def _lose(self, session: Session) -> None:
        TOTALS["leases lost"] += not session.is_stale
        session.is_stale = True

    @rule(number=NUMBERS)
    @precondition(lambda self: self.sessions)
    def stop(self, number: int) -> None:
        self._session(number).is_stopping = True

    def _session(self, number: int) -> Session:
        return self.sessions[number % len(self.sessions)]

    @rule()
    @precondition(lambda self: self.late)
    def land(self) -> None:
        """Writes that are late take effect, if their conditions are still true."""
        for actor in self.late:
            actor.land()
        self.late.clear()

    def _step(self, sessions: Sequence[Session], rounds: int) -> None:
        for _ in range(rounds):
            for session in sessions:
                if session in self.sessions:
                    session.actor.step()
                    self._reap(session)

    def _reap(self, session: Session) -> None:
        actor = session.actor
        TOTALS["calls"] += 1
        if not actor.done:
            return
        self.sessions.remove(session)
        if actor.error is None or isinstance(actor.error, UnavailableError | LeaseError):
            return
        if not isinstance(actor.error, Crash) or actor.error.__cause__ is not None:
            raise actor.error

    def _worker(self, session: Session, wrap: Callable[[Any], Any] = lambda port: port, **changes: Any) -> Worker:
        store, database, runs = wrap(self.world.store), wrap(self.world.database), wrap(self.world.runs)
        definition = FILES[session.shard.count]

        def names(_: str) -> tuple[list[str], None]:
            return NAMES, None

        given: dict[str, Any] = {
            "owner": session.owner,
            "shard": session.shard,
            "fence": session.fence,
            "max_runs": self.max_runs,
            "store": store,
            "database": database,
            "discovery": CatalogRunDiscovery(runs, names, definition.source, self.world.clock),
            "generation": self._pipeline_files(store, database).generation_of,
        }
        return self.world.worker(definition, **given | changes)

    def _pipeline_files(self, store: ObjectStore, database: Database) -> PipelineFiles:
        world = self.world

        run_logs = PipelineRuns(store, world.layout, world.runs, world.removal(world.runs, store, database=database))
        return PipelineFiles(database, world.clock, lambda _: store, run_logs, partial(started_ms, world.runs))

    # The end.

    def teardown(self) -> None:
        """Every worker dies; the present number of shards is processed until nothing is left."""
        self._kill_all()
        self._work_until_idle([Session(shard, f"last.{shard.number}") for shard in shards(self.counts[-1])])
        self.land()
        self._work_until_idle([Session(shard, f"over.{shard.number}") for shard in shards(self.counts[-1])])
        self._check()
        TOTALS["examples"] += 1

    def _work_until_idle(self, sessions: Sequence[Session], **changes: Any) -> None:
        workers = [self._worker(session, **changes) for session in sessions]
        for worker in workers:
            worker.start()
        for _ in range(300):
            are_idle = [not worker.step() and worker.is_idle for worker in workers]
            if all(are_idle):
                break
            self._advance(1)
        else:
            raise AssertionError("the workers never become idle")
        for worker in workers:
            worker.stop()

    def _check(self) -> None:
        expected = {run: len(lines) for run, lines in self.lines.items() if run not in self.deleted}
        assert {run: lines for run, lines in self.received.items() if run in expected} == expected, "events are lost"
        found = committed_events(self.world.store, self.world.database)
        assert max(found.values(), default=1) == 1, "an event is in the files twice"
        store, database, received = InMemoryObjectStore(self.world.clock), InMemoryDatabase(), self.received
        self.committed, self.received, self.max_runs = {}, {}, 100
        self._work_until_idle(
            [Session(Shard(), "undisturbed")],
            store=store,
            database=database,
            logs=self.world.parts().reader,
            generation=lambda run: None if run in self.deleted else "one",
        )
        assert found == committed_events(store, database)
        assert Counter(event[1:] for event in found) == Counter(
            (run.fqn, run.run_id, number) for run, lines in expected.items() for number in range(lines)
        )
        assert received.items() >= self.received.items()


def checkpoints_in(write: Put) -> list[tuple[Run, RunCheckpoint]]:
    """The checkpoints of runs that a write of the table stores."""
    if write.key.partition == runs_partition("test"):
        fqn, _, run_id = write.key.sort.rpartition("/")
        return [(Run(fqn, run_id), checkpoint_of(write.row))]
    return list(unpack_checkpoints(write.row["runs"]).items()) if write.key.sort.startswith(HEAD) else []


def committed_events(store: ObjectStore, database: Database) -> Counter[tuple[str, str, str, int]]:
    """How often the rows of files name each event, with the folder of the file; without files of deleted generations. The events
    of a run are in order within each file."""
    dead: Mapping[str, Any] = {each.generation: each for each in Generations(database, ManualClock()).dead()}
    found: Counter[tuple[str, str, str, int]] = Counter()
    for row in FileRows(database).listed(BASE, ""):
        if not isinstance(row, FileRow) or not row.contents.size or row.generation in dead:
            continue
        folder, last = row.object_key.rpartition("/")[0], dict[str, int]()
        for each in store.get(row.object_key).body[: row.contents.size].splitlines():
            event = json.loads(each)
            assert last.get(event["runId"], -1) < event["line"], "a file is not in order"
            last[event["runId"]] = event["line"]
            found[folder, event["fqn"], event["runId"], event["line"]] += 1
    return found


@pytest.mark.behavior("Any change of a pipeline's number of shards, under kills, keeps files exact and loses no event.")
def test_any_change_of_the_number_of_shards_keeps_files_exact_and_loses_no_event() -> None:
    run_state_machine(ChangesOfShards, seed=SEED, examples=EXAMPLES, steps=STEPS, phases=PHASES)
    print(", ".join(f"{name}: {count}" for name, count in sorted(TOTALS.items())))
    assert TOTALS["examples"] >= EXAMPLES
