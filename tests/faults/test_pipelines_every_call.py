"""A pipeline that stops at any call of a store or a target, before or after it took effect, by an error or a crash: the handler
receives every event at least once, and rows that are committed with the checkpoint exist exactly once. A forwarding handler's
target has every event, in order, except those that it refuses, which are dead letters.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import yaml

from chalicelib.aws.cloudwatch_logs import CloudWatchLogsTarget
from chalicelib.errors import LeaseError, UnavailableError
from chalicelib.events.ports import Target
from chalicelib.events.targets.elasticsearch import ElasticsearchTarget
from chalicelib.events.targets.otlp import OtlpTarget
from chalicelib.events.targets.shippers import ShipperTarget, logstash_record
from chalicelib.pipelines.configuration import PipelineFile, parse_pipeline_file
from chalicelib.pipelines.dead_letters import DeadLetterId
from chalicelib.pipelines.resending import ResendRequests
from chalicelib.pipelines.worker import Worker
from chalicelib.ports import Key, Put, Run, Write
from tests.events_harness import event_parts, make_event
from tests.faults.interception import BEFORE, FAULTS, Crash, Intercepted, StopAt
from tests.pipelines_harness import MODULES, START_MS, PipelinesHarness, line
from tests.vendors import Bulk, LogsClient, Otlp, Shipper, Wire

A, B = Run("svc.a", "r1"), Run("svc.b", "r2")
_MOST_CALLS = 200


class Both(logging.Handler):
    """Records its events, and makes a row for each one: visible once, when the checkpoint commits."""

    got: list[str] = []  # noqa: RUF012
    refused: set[str] = set()  # noqa: RUF012
    number = 0

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() in self.refused:
            raise ValueError(f"no {record.getMessage()}")
        type(self).number += 1
        self.got.append(record.getMessage())
        self.waiting.append((f"{self.number:06d}", record.getMessage()))

    def pending_writes(self) -> Sequence[Write]:
        self.asked = self.waiting[:90]
        return [Put(Key("files", "f", at), {"key": "f", "at": at, "message": message}) for at, message in self.asked]

    def committed(self) -> None:
        del self.waiting[: len(self.asked)]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    Both.got, Both.refused, Both.number = [], set(), 0
    yield
    Both.got, Both.refused = [], set()


FILE = parse_pipeline_file(
    yaml.safe_dump(
        {
            "properties": {"checkpoint_interval_ms": 1000},
            "errors": {"retries": 0},
            "logging": {"version": 1, "handlers": {"h": {"class": f"{__name__}.Both"}}, "root": {"handlers": ["h"]}},
        }
    ),
    "test",
    modules=MODULES,
)
EXPECTED = [f"{run} {number}" for run in "ab" for number in range(4)]


def world_with_logs() -> PipelinesHarness:
    world = PipelinesHarness()
    for name, run in (("a", A), ("b", B)):
        world.write(run, [line(START_MS + number, f"{name} {number}") for number in (0, 1)])
        world.write(run, [line(START_MS + 10 + number, f"{name} {number}") for number in (2, 3)])
    world.end(A)
    return world


def worked(
    world: PipelinesHarness,
    gate: Any,
    owner: str,
    file: PipelineFile = FILE,
    grow: Callable[[], bool] = lambda: False,
    **parts: Any,
) -> None:
    """The life of a worker over stores that may stop it. ``grow``: adds to the logs before each step, if anything is left to add."""
    worker: Worker | None = None
    store, database = Intercepted(world.store, gate), Intercepted(world.database, gate)
    try:
        worker = world.worker(file, owner=owner, store=store, database=database, **parts)
        worker.start()
        for _ in range(8):
            is_growing = grow()
            try:
                if not worker.step() and worker.is_idle and not is_growing:
                    break
            except UnavailableError:
                pass  # the supervisor continues
            world.clock.advance(3)
        worker.stop()
    except (Crash, UnavailableError, LeaseError):
        pass  # restarted by the next tick


Work = Callable[[Any, str], None]
"""The life of a worker, given a gate of its calls and an owner."""


def cases_of(make_work: Callable[[], Work]) -> list[tuple[int, str, str]]:
    """Each fault at each call of a worker that it can meet."""
    calls = {}
    for moment in {moment for moment, _ in FAULTS}:
        gate = StopAt(-1, moment, "error")
        make_work()(gate, "w0")
        calls[moment] = gate.candidates
    return [(number, *fault) for fault in FAULTS for number in range(calls[fault[0]])]


def interrupted(work: Work, number: int, moment: str, how: str) -> None:
    """Work that stops at a call; a second worker continues, and a third one after a write of the first that was late."""
    gate = StopAt(number, moment, how)
    work(gate, "w1")
    assert gate.fired
    work(gate.successor, "w2")
    gate.land()
    work(StopAt(-1, BEFORE, "error"), "w3")


CASES = cases_of(lambda: partial(worked, world_with_logs()))


def test_there_are_calls_to_stop_at() -> None:
    assert 15 < sum((moment, how) == (BEFORE, "error") for _, moment, how in CASES) < _MOST_CALLS


@pytest.mark.behavior("Handlers get each event at least once, and their rows count it exactly once.")
@pytest.mark.sampled(default=40)
@pytest.mark.parametrize(("number", "moment", "how"), CASES)
def test_at_least_once_for_any_handler_and_exactly_once_for_rows(number: int, moment: str, how: str) -> None:
    world = world_with_logs()
    interrupted(partial(worked, world), number, moment, how)
    assert set(Both.got) == set(EXPECTED)
    assert sorted(row["message"] for row in world.database.rows("files")) == EXPECTED
    if how == "error":
        assert sorted(Both.got) == EXPECTED  # a single error repeats nothing


# Forwarding


@dataclass
class Receiver:
    """A target and its fake vendor. ``refuses``: it refuses ``REFUSED``; ``is_named``: it says that it is this event."""

    vendor: Any
    make: Callable[[Any, Any], Target]
    received: Callable[[Any], list[str]]
    is_named: bool = True
    refuses: bool = True


REFUSED = "b 2"
FORWARDING = parse_pipeline_file(
    yaml.safe_dump(
        {
            "properties": {"checkpoint_interval_ms": 1000},
            "logging": {
                "version": 1,
                "handlers": {
                    "h": {"class": f"{__name__}.Both"},
                    "out": {
                        "class": "chalicelib.pipelines.forward_handler.ForwardHandler",
                        "target": {"kind": "logstash", "url": "http://x"},
                    },
                },
                "root": {"handlers": ["h", "out"]},
            },
        }
    ),
    "test",
    modules=MODULES,
)


def _refuses(accepted: int) -> Callable[[Any], int]:
    return lambda document: 400 if document["message"] == REFUSED else accepted


def _streams(client: LogsClient) -> list[str]:
    return [json.loads(row["message"])["message"] for stream in client.groups.get("g", {}).values() for row in stream]


RECEIVERS: dict[str, Callable[[Any], Receiver]] = {
    "elasticsearch": lambda clock: Receiver(
        Bulk(reject=_refuses(201)),
        lambda bulk, gate: ElasticsearchTarget(Intercepted(Wire(bulk), gate), "http://es", "logs"),
        lambda bulk: [each["message"] for each in bulk.documents.values()],
    ),
    "logstash": lambda clock: Receiver(
        Shipper(reject=_refuses(200)),
        lambda shipper, gate: ShipperTarget(Intercepted(Wire(shipper), gate), "http://ls", logstash_record),
        lambda shipper: [each["message"] for each in shipper.records],
    ),
    "otlp": lambda clock: Receiver(
        Otlp(reject=_refuses(200)),
        lambda otlp, gate: OtlpTarget(Intercepted(Wire(otlp), gate), "http://otel"),
        lambda otlp: [each["message"] for each in otlp.records],
        is_named=False,
    ),
    "cloudwatch": lambda clock: Receiver(
        LogsClient(clock),
        lambda client, gate: CloudWatchLogsTarget(Intercepted(client, gate), "g"),
        _streams,
        refuses=False,
    ),
}


class Forwarding:
    """A world with a pipeline that forwards, next to a handler that records."""

    def __init__(self, kind: str) -> None:
        self.world = world_with_logs()
        self.receiver = RECEIVERS[kind](self.world.clock)

    def work(self, gate: Any, owner: str) -> None:
        target = self.receiver.make(self.receiver.vendor, gate)
        worked(self.world, gate, owner, FORWARDING, make_target=lambda *_: target, instance_id="here")

    def check(self) -> None:
        refused = [REFUSED] if self.receiver.refuses else []
        received = list(dict.fromkeys(self.receiver.received(self.receiver.vendor)))
        for run in "ab":
            assert [each for each in received if each[0] == run] == [
                each for each in EXPECTED if each[0] == run and each not in refused
            ]
        letters = self.world.dead_letters()
        if self.receiver.is_named:
            assert [letter["event"]["message"] for letter in letters] == refused
        assert {letter["handler"] for letter in letters} == ({"out"} if refused else set())
        assert set(Both.got) == set(EXPECTED)


def checked_forwarding(kind: str) -> Work:
    forwarding = Forwarding(kind)

    def work(gate: Any, owner: str) -> None:
        forwarding.work(gate, owner)
        forwarding.check()

    return work


FORWARDING_CASES = [(kind, *case) for kind in RECEIVERS for case in cases_of(partial(checked_forwarding, kind))]


@pytest.mark.behavior("A target has each event at least once and in order; what it refuses is a dead letter.")
@pytest.mark.sampled(default=60)
@pytest.mark.parametrize(("kind", "number", "moment", "how"), FORWARDING_CASES)
def test_target_has_every_event_in_order_or_a_dead_letter(kind: str, number: int, moment: str, how: str) -> None:
    forwarding = Forwarding(kind)
    interrupted(forwarding.work, number, moment, how)
    forwarding.check()


def world_with_letters() -> PipelinesHarness:
    """Two dead letters that are to be sent again: the handler accepts one of them."""
    world = PipelinesHarness()
    world.write(A, [line(START_MS, "good"), line(START_MS + 1, "refused")])
    world.end(A)
    Both.refused = {"good", "refused"}
    worked(world, StopAt(-1, BEFORE, "error"), "w0")
    Both.refused, Both.got = {"refused"}, []
    for number in (0, 1):
        ResendRequests(world.database, "test", world.clock).add(DeadLetterId("test", "h", A, number), 60)
    return world


RESEND_CASES = cases_of(lambda: partial(worked, world_with_letters()))


@pytest.mark.behavior("A dead letter that is sent again reaches its handler at least once, and is deleted only if it was accepted.")
@pytest.mark.sampled(default=40)
@pytest.mark.parametrize(("number", "moment", "how"), RESEND_CASES)
def test_letter_that_is_sent_again_is_deleted_only_once_it_is_accepted(number: int, moment: str, how: str) -> None:
    world = world_with_letters()
    interrupted(partial(worked, world), number, moment, how)
    assert set(Both.got) == {"good"} and {row["message"] for row in world.database.rows("files")} == {"good"}
    (letter,) = world.dead_letters()
    assert letter["event"]["message"] == "refused" and letter["attempts"] > 1 and "no refused" in letter["reason"]
    assert not list(ResendRequests(world.database, "test", world.clock).all())


# Running runs


class Growing:
    """A running run that grows while a worker follows it. The catalog knows of each segment."""

    def __init__(self) -> None:
        self.world = PipelinesHarness()
        self.events = event_parts(self.world)
        self.changes = [self.add_line, self.add_event, self.compact, self.add_event, self.add_line, lambda: self.world.end(A)]
        self.expected: list[str] = []
        self.add_line()

    def work(self, gate: Any, owner: str) -> None:
        def port(inner: Any) -> Any:
            return Intercepted(inner, gate)

        sidecars = self.world.sidecars(event_parts(self.world, port), port)
        worked(self.world, gate, owner, grow=self.grow, sidecars=sidecars)

    def grow(self) -> bool:
        """Make the next change, if there is one."""
        if self.changes:
            self.changes.pop(0)()
            return True
        return False

    def add_line(self) -> None:
        self.expected.append(f"a {len(self.expected)}")
        self.world.write(A, [line(self.world.clock.now_ms(), self.expected[-1])])

    def add_event(self) -> None:
        self.expected.append(f"a {len(self.expected)}")
        self.events.log.append(A, [make_event(self.expected[-1], "s", timestamp=self.world.clock.now_ms())])
        self.world.runs.record_segment(A, self.events.writer.tails.segment(A, len(self.expected) - 1))

    def compact(self) -> None:
        self.events.compactor.compact(A, self.world.deadline())

    def check(self) -> None:
        assert set(Both.got) == set(self.expected)
        assert sorted(row["message"] for row in self.world.database.rows("files")) == self.expected


GROWING_CASES = cases_of(lambda: Growing().work)
Both.refused = set()  # other modules use the class, too


@pytest.mark.sampled(default=40)
@pytest.mark.parametrize(("number", "moment", "how"), GROWING_CASES)
def test_run_that_grows_while_it_is_followed_loses_and_repeats_nothing(number: int, moment: str, how: str) -> None:
    growing = Growing()
    interrupted(growing.work, number, moment, how)
    growing.check()
    if how == "error":
        assert sorted(Both.got) == growing.expected
