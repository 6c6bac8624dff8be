"""Handlers are notified of deleted generations: at least once, in order, and no event of a generation follows."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.errors import LeaseError, StoreUnavailableError
from chalicelib.pipelines import deletions
from chalicelib.pipelines.configuration import PipelineFile
from chalicelib.pipelines.deletions import AT_ONCE, DELETIONS
from chalicelib.pipelines.files.generations import Generations
from chalicelib.pipelines.pipeline_state import DISABLED, REPLAYING, HandlerState, PipelineStateStore
from chalicelib.pipelines.ports import GENERATION
from chalicelib.pipelines.shards import shard_of, shards
from chalicelib.pipelines.worker import Worker
from chalicelib.ports import Run
from tests.pipelines_harness import PipelinesHarness, line, pipeline, pipeline_of

FQNS = [f"svc.p{number}" for number in range(4)]


class Keeping(logging.Handler):
    """Records, for each of its instances, events and deletions by their generation."""

    happened: list[tuple[int, str, str]] = []  # noqa: RUF012
    failures = 0
    instances = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).instances += 1
        self.number = self.instances

    def emit(self, record: logging.LogRecord) -> None:
        self.happened.append((self.number, "event", record.__dict__[GENERATION]))

    def deleted(self, generation: str) -> None:
        if type(self).failures:
            type(self).failures -= 1
            raise OSError("not now")
        self.happened.append((self.number, "deleted", generation))

    @classmethod
    def forget(cls) -> None:
        cls.happened, cls.failures, cls.instances = [], 0, 0

    @classmethod
    def seen(cls, kind: str) -> list[str]:
        return [generation for _, each, generation in cls.happened if each == kind]


class Site(PipelinesHarness):
    """Pipelines whose runs have generations."""

    def __init__(self) -> None:
        super().__init__()
        self.generations = Generations(self.database, self.clock)
        self.number = 0
        self.deleted: list[str] = []
        self.created: set[str] = set()
        self.current: dict[str, Run] = {}

    def generation_of(self, run: Run) -> str | None:
        row = self.runs.get(run)
        assert row is not None
        found = self.generations.of_run("svc", run.fqn, run.run_id, row.started_ms)
        self.created.add(found or "")
        return found

    def event(self, fqn: str) -> None:
        """Write an event to the current run of a pipeline."""
        self.number += 1
        run = self.current.setdefault(fqn, Run(fqn, f"r{self.number}"))
        self.write(run, [line(self.clock.now_ms(), f"e{self.number}")])

    def delete(self, fqn: str) -> None:
        """Delete a pipeline, completely; its next event begins another run."""
        self.clock.advance(1)
        ended = self.generations.end("svc", fqn)
        self.generations.mark_done(ended)
        self.deleted += [each.generation for each in ended if each.generation not in self.deleted]
        self.current.pop(fqn, None)
        self.clock.advance(1)

    def fleet(self, file: PipelineFile, **changes: Any) -> list[Worker]:
        """Started workers of all shards."""
        self.clock.advance(11)
        given = {"generation": self.generation_of, "deletions": self.generations.deletions, **changes}
        workers = [self.worker(file, owner=f"w{self.clock.now_ms()}", shard=each, **given) for each in shards(file.shards)]
        for worker in workers:
            worker.start()
        return workers

    def steps(self, workers: list[Worker], count: int = 1) -> None:
        for _ in range(count):
            self.clock.advance(11)
            for worker in workers:
                worker.step()


@pytest.fixture
def site() -> Iterator[Site]:
    Keeping.forget()
    yield Site()
    Keeping.forget()


def keeping(count: int = 1, event_delay_ms: int = 20_000, names: str = "h") -> PipelineFile:
    """Events wait for two steps."""
    handlers = {name: {"class": f"{__name__}.Keeping"} for name in names}
    return pipeline_of(handlers, shards=count, properties={"event_delay_ms": event_delay_ms})


class AlwaysFails(logging.Handler):
    """Its hook never succeeds."""

    def deleted(self, generation: str) -> None:
        raise OSError("never")


steps = st.one_of(
    st.tuples(st.sampled_from(["event", "event", "delete"]), st.sampled_from(FQNS)),
    st.tuples(st.sampled_from(["step", "step", "fail"]), st.none()),
    st.tuples(st.sampled_from(["crash", "stop"]), st.sampled_from([1, 1, 2, 3])),
)


@pytest.mark.behavior("Handlers are notified of each deleted generation, at least once, also after a crash.")
@given(st.sampled_from([1, 2, 3]), st.lists(steps, max_size=40))
def test_every_deletion_reaches_the_handler_and_no_event_follows(count: int, actions: list[tuple[str, Any]]) -> None:
    """Over crashes, stops, failing hooks, deletions while events wait in the buffer, and changes of the number of shards."""
    Keeping.forget()
    site = Site()
    workers = site.fleet(keeping(count))
    for action, argument in actions:
        if action in ("event", "delete"):
            getattr(site, action)(argument)
        elif action == "step":
            site.steps(workers)
        elif action == "fail":
            Keeping.failures += 1
        else:
            for worker in workers if action == "stop" else ():
                worker.stop()
            count = argument
            workers = site.fleet(keeping(count))
    Keeping.failures = 0
    site.steps(workers, 5)
    for worker in workers:
        worker.stop()
    received, notified = set(Keeping.seen("event")), Keeping.seen("deleted")
    assert received & set(site.deleted) <= set(notified)
    assert set(notified) == site.created & set(site.deleted)
    ended: set[tuple[int, str]] = set()
    for instance, kind, generation in Keeping.happened:
        assert (instance, generation) not in ended, "an event, or a second call, follows in the same worker"
        if kind == "deleted":
            ended.add((instance, generation))
    before = len(notified)
    workers = site.fleet(keeping(count))
    site.steps(workers, 2)
    assert len(Keeping.seen("deleted")) == before, "what is committed is not repeated"


def delete_one(site: Site, fqn: str = FQNS[0]) -> str:
    """Delete a pipeline whose events were not delivered yet."""
    site.event(fqn)
    assert site.generation_of(site.current[fqn])
    site.delete(fqn)
    return site.deleted[-1]


def test_events_that_wait_in_the_buffer_are_dropped(site: Site) -> None:
    for fqn in (FQNS[0], FQNS[0], FQNS[1]):
        site.event(fqn)
    [worker] = site.fleet(keeping(event_delay_ms=60_000))
    worker.step()
    assert Keeping.happened == [] and worker.buffer.count
    site.delete(FQNS[0])
    site.steps([worker], 7)
    assert [kind for _, kind, _ in Keeping.happened] == ["deleted", "event"]
    assert Keeping.seen("event") != Keeping.seen("deleted") == site.deleted


def test_hook_that_always_fails_keeps_no_other_handler_back(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the limit of its errors, so it is never disabled."""
    monkeypatch.setattr(deletions, "AT_ONCE", 2)
    handlers = {"fails": {"class": f"{__name__}.AlwaysFails"}, "h": {"class": f"{__name__}.Keeping"}}
    [worker] = site.fleet(pipeline_of(handlers))
    for _ in range(5):
        delete_one(site)
    site.steps([worker], 3)
    assert Keeping.seen("deleted") == site.deleted and len(site.deleted) == 5


def test_worker_without_its_lease_makes_no_call(site: Site) -> None:
    is_lost = [False]

    def fence() -> None:
        if is_lost[0]:
            raise LeaseError("lost")

    [worker] = site.fleet(keeping(), fence=fence)
    delete_one(site)
    is_lost[0] = True
    with pytest.raises(LeaseError):
        worker._notify_of_deletions()
    assert Keeping.happened == []


def test_overtaken_worker_commits_no_number(site: Site) -> None:
    [old] = site.fleet(keeping())
    generation = delete_one(site)
    [new] = site.fleet(keeping())
    with pytest.raises(LeaseError):
        site.steps([old])
    site.steps([new])
    assert (2, "deleted", generation) in Keeping.happened


def test_disabled_handler_is_notified_once_it_is_enabled(site: Site) -> None:
    states = PipelineStateStore(site.database, site.clock)
    states.set_handler("test", HandlerState("h", DISABLED))
    generation = delete_one(site)
    workers = site.fleet(keeping())
    site.steps(workers, 2)
    workers[0].stop()
    assert Keeping.happened == []
    states.set_handler("test", HandlerState("h", REPLAYING))
    site.steps(site.fleet(keeping()))
    assert Keeping.seen("deleted") == [generation]


def test_handler_that_is_disabled_while_its_worker_runs_is_not_notified(site: Site) -> None:
    [worker] = site.fleet(keeping())
    worker.delivery.receiving["h"] = False
    delete_one(site)
    site.steps([worker], 2)
    assert Keeping.happened == []


@pytest.mark.parametrize("count", [1, 2])
def test_handler_that_could_not_be_built_keeps_its_place(site: Site, count: int) -> None:
    """Also if the number of shards has changed meanwhile."""
    handlers = {name: {"class": f"{__name__}.Keeping"} for name in "gh"}
    file = pipeline_of(handlers)
    broken = pipeline_of({**handlers, "g": {"class": "tests.no.such.Handler"}}, shards=count)
    first = delete_one(site)
    site.steps(site.fleet(file), 2)
    second = delete_one(site)
    site.steps(site.fleet(broken), 2)
    assert Keeping.seen("deleted") == [first, first, second]
    third = delete_one(site)
    site.steps(site.fleet(file.model_copy(update={"shards": count})), 2)
    assert sorted(Keeping.seen("deleted")) == sorted([first, first, second, second, third, third])


def test_error_of_the_hook_counts_for_the_handler_and_later_deletions_wait(site: Site) -> None:
    generations = [delete_one(site, fqn) for fqn in FQNS[:2]]
    Keeping.failures = 1
    workers = site.fleet(keeping())
    site.steps(workers)
    assert Keeping.happened == [] and workers[0].delivery.budget.total == {"h": 1}
    assert workers[0].delivery.last_error == "OSError: not now"
    site.steps(workers)
    assert Keeping.seen("deleted") == generations


def test_handler_is_notified_after_its_flush_succeeded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: logging.Handler) -> None:
        raise OSError("not now")

    generation = delete_one(site)
    workers = site.fleet(keeping())
    with monkeypatch.context() as patched:
        patched.setattr(Keeping, "flush", failing)
        site.steps(workers)
        assert Keeping.happened == []
    site.steps(workers)
    assert Keeping.seen("deleted") == [generation]


def test_watchdog_sees_a_hook_that_does_not_return(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    calling: list[str] = []
    workers = site.fleet(keeping())
    monkeypatch.setattr(Keeping, "deleted", lambda *_: calling.append(workers[0].progress.calling))
    delete_one(site)
    site.steps(workers)
    assert calling == ["h"] and workers[0].progress.calling == ""


def test_number_of_calls_at_a_checkpoint_is_bounded(site: Site) -> None:
    generations = [delete_one(site, f"svc.many{number}") for number in range(AT_ONCE + 1)]
    workers = site.fleet(keeping())
    site.steps(workers)
    assert Keeping.seen("deleted") == generations[:AT_ONCE]
    site.steps(workers)
    assert Keeping.seen("deleted") == generations


def test_stored_state_is_a_number_for_each_handler_of_the_file(site: Site) -> None:
    for names in ("gh", "h"):
        for fqn in FQNS[:2]:
            delete_one(site, fqn)
        workers = site.fleet(keeping(names=names))
        site.steps(workers, 2)
    deleted = workers[0]._deletions
    assert deleted and deleted.writes() == [], "an unchanged number is not written again"
    rows = [row for row in site.database.rows("pipelines") if row["at"].startswith(DELETIONS)]
    assert [(row["at"], row["reached"]) for row in rows] == [("deletions#1.0", {"h": 4})]


@pytest.mark.parametrize("behind", [[], [0], [1]])
def test_new_division_continues_where_every_shard_of_the_old_one_was(site: Site, behind: list[int]) -> None:
    """A shard that was behind leaves its deletions to whoever gets its FQNs. The other shard's are repeated then."""
    early = [delete_one(site, fqn) for fqn in FQNS]
    workers = site.fleet(keeping(2))
    site.steps(workers)
    late = {fqn: delete_one(site, fqn) for fqn in FQNS}
    site.steps([worker for number, worker in enumerate(workers) if number not in behind])
    site.steps(site.fleet(keeping(3)))
    seen = Keeping.seen("deleted")
    assert set(seen) == {*early, *late.values()}
    assert all(seen.count(generation) == 1 for generation in early)
    again = {fqn for fqn, generation in late.items() if seen.count(generation) > 1}
    assert again == ({fqn for fqn in FQNS if shard_of(fqn, 2) not in behind} if behind else set())


def test_division_in_which_a_shard_never_ran_proves_nothing(site: Site) -> None:
    generations = [delete_one(site, fqn) for fqn in FQNS]
    site.steps(site.fleet(keeping(2))[:1])
    site.steps(site.fleet(keeping(3)))
    assert set(Keeping.seen("deleted")) == set(generations)


def test_deletions_at_the_same_time_have_numbers_of_their_own(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for fqn in FQNS[:2]:
        site.event(fqn)
        site.generation_of(site.current[fqn])
    site.clock.advance(1)
    transact, others = site.database.transact, [FQNS[1]]

    def overtaken(writes: Any) -> None:
        if others:
            Generations(site.database, site.clock).end("svc", others.pop())
        transact(writes)

    monkeypatch.setattr(site.database, "transact", overtaken)
    site.generations.end("svc", FQNS[0])
    assert [(each.number, each.fqn) for each in site.generations.deletions(0, 10)] == [(1, FQNS[1]), (2, FQNS[0])]


def test_handlers_without_the_hook_cost_no_request(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> list[Any]:
        raise AssertionError("deletions were read")

    monkeypatch.setattr(deletions, "stored_rows", refused)
    delete_one(site)
    workers = site.fleet(pipeline(), deletions=refused)
    site.steps(workers, 2)
    assert not [row for row in site.database.rows("pipelines") if row["at"].startswith(DELETIONS)]


def test_processing_continues_while_deletions_cannot_be_read(site: Site) -> None:
    def away(after: int, limit: int) -> list[Any]:
        raise StoreUnavailableError("away")

    site.event(FQNS[0])
    workers = site.fleet(keeping(), deletions=away)
    site.steps(workers, 4)
    assert len(Keeping.seen("event")) == 1 and workers[0].checkpoints.active()
    assert "handlers could not be notified of deletions: it is retried" in {each["message"] for each in site.told}


def test_namespace_and_pipelines_that_never_existed_have_no_number(site: Site) -> None:
    site.delete("svc.never")
    site.generations.end("svc", None)
    assert site.generations.deletions(0, 10) == []
