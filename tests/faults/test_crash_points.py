"""Every fault (see ``interception``) at every store call of appending, compacting, closing and reopening; recover; compare with the model.

The model is a plain list of the batches in the order in which they were acknowledged (each retried until it was). Recovery is as in
production: the client repeats its request with its last position, and the schedule runs again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from chalicelib.errors import RunClosedError, UnavailableError
from chalicelib.ports import KeyClaim, RunEnd
from chalicelib.runlog.artifact import artifact_of
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.writer import Appended, session_of_key
from tests.faults.interception import FAULTS, LATER, THROTTLED, Crash, Intercepted, StopAt
from tests.world import RUN, START_MS, Parts, World

HOUR_MS = 3_600_000
FAILED, SUCCEEDED = RunEnd("failed", exit_code=3), RunEnd("succeeded")
pytestmark = pytest.mark.usefixtures("small_parts")


@dataclass
class Scenario:
    """A world, the acknowledged lines, and the client's last position."""

    world: World = field(default_factory=World)
    model: list[bytes] = field(default_factory=list)
    position: str | None = None

    def append(self, text: str, parts: Parts | None = None, key: str | None = None) -> Appended:
        batch = Batch.from_text(text, "host-1")
        answer = (parts or self.world.parts()).writer.append(RUN, batch, position=self.position, idempotency_key=key)
        self.position = answer.position
        self.model.append(batch.body)
        return answer

    def settle(self) -> None:
        self.world.parts().finalizer.compact_and_finalize(RUN, self.world.deadline())


Operation = Callable[[Scenario, Parts], object]


def fill(scenario: Scenario, count: int = 3) -> Scenario:
    scenario.world.parts().writer.append(RUN, Batch.from_text(""))
    scenario.position = scenario.world.parts().writer.append(RUN, Batch.from_text("")).position
    for number in range(count):
        scenario.append(f"line {number}\nand its second\n")
    return scenario


def fresh() -> Scenario:
    scenario = Scenario()
    scenario.position = scenario.world.parts().writer.append(RUN, Batch.from_text("")).position
    return scenario


def compacted_once() -> Scenario:
    scenario = fill(Scenario())
    scenario.settle()
    scenario.append("after the compaction\n")
    return scenario


def with_old_segments() -> Scenario:
    scenario = compacted_once()
    scenario.world.clock.advance(21 * 60)
    scenario.append("twenty minutes later\n")
    return scenario


def with_a_large_log() -> Scenario:
    scenario = fill(Scenario())
    scenario.append(("x" * 63 + "\n") * 84)
    scenario.settle()
    scenario.append(("y" * 63 + "\n") * 40)
    scenario.append(("z" * 63 + "\n") * 40)
    scenario.append("small again\n")
    return scenario


def contended() -> Scenario:
    scenario = fill(Scenario())
    mine = scenario.position
    scenario.position = None
    scenario.append("of another writer\n")
    scenario.append("of another writer\n")
    scenario.position = mine
    return scenario


def stale() -> Scenario:
    scenario = contended()
    scenario.world.clock.advance(120)
    return scenario


def claimed() -> Scenario:
    """An attempt with the key died before its PUT, and other writers went on."""
    scenario = fill(Scenario())
    scenario.world.index.claim(RUN, KeyClaim(session_of_key("key"), 3, Batch.from_text("the batch in question\n").digest, START_MS))
    scenario.position = None
    scenario.append("of another writer\n")
    scenario.append("of another writer\n")
    return _cold(scenario)


def abandoned() -> Scenario:
    scenario = compacted_once()
    scenario.world.clock.advance(25 * HOUR_MS / 1000)
    scenario.world.parts().finalizer.abandon(RUN, scenario.world.clock.now_ms() - 24 * HOUR_MS, scenario.world.deadline())
    return scenario


def reopened() -> Scenario:
    scenario = abandoned()
    scenario.append("back again\n")
    return scenario


def sealed_unfinished() -> Scenario:
    scenario = with_a_large_log()
    writer = scenario.world.parts().writer
    writer.seal(RUN, "closed", writer.tails.find(RUN), FAILED)
    return scenario


def append(scenario: Scenario, parts: Parts) -> None:
    scenario.append("the batch in question\n", parts)


def append_with_key(scenario: Scenario, parts: Parts) -> None:
    scenario.append("the batch in question\n", parts, key="key")


def append_large(scenario: Scenario, parts: Parts) -> None:
    scenario.append(("z" * 4095 + "\n") * 20, parts)


def compact(scenario: Scenario, parts: Parts) -> None:
    parts.compactor.compact(RUN, scenario.world.deadline())


def settle(scenario: Scenario, parts: Parts) -> None:
    parts.finalizer.compact_and_finalize(RUN, scenario.world.deadline())


def close(scenario: Scenario, parts: Parts) -> None:
    parts.finalizer.close(RUN, scenario.position, FAILED)


def abandon(scenario: Scenario, parts: Parts) -> None:
    parts.finalizer.abandon(RUN, scenario.world.clock.now_ms() + 1, scenario.world.deadline())


CASES: list[tuple[str, Callable[[], Scenario], Operation]] = [
    ("append to a new run", fresh, append),
    ("append, cold", lambda: _cold(fill(Scenario())), append),
    ("append, warm", lambda: fill(Scenario()), append),
    ("append of a large batch", lambda: fill(Scenario()), append_large),
    ("append among other writers", contended, append),
    ("append with an old position", stale, append),
    ("append with an old position to a compacted run", with_old_segments, append),
    ("append with a key to a new run", fresh, append_with_key),
    ("append with a key, cold", lambda: _cold(fill(Scenario())), append_with_key),
    ("append with a key among other writers", contended, append_with_key),
    ("append with a key whose number is taken", claimed, append_with_key),
    ("append with a key to a reopened run", abandoned, append_with_key),
    ("compact the first time", lambda: fill(Scenario()), compact),
    ("compact again", compacted_once, compact),
    ("compact and retire", with_old_segments, compact),
    ("compact a large log", with_a_large_log, compact),
    ("close", compacted_once, close),
    ("close without any compaction", lambda: fill(Scenario()), close),
    ("close a large log", with_a_large_log, close),
    ("close an empty run", fresh, close),
    ("finalize what a close left", sealed_unfinished, settle),
    ("abandon", compacted_once, abandon),
    ("close an abandoned run", abandoned, close),
    ("reopen", abandoned, append),
    ("compact a reopened run", reopened, compact),
    ("close a reopened run", reopened, close),
]


def _cold(scenario: Scenario) -> Scenario:
    # A client without cookies cannot mark its repeat, so duplicates are allowed; lost lines or a corrupt log are not.
    scenario.position = None
    return scenario


@pytest.mark.behavior("An append, compaction or close that is interrupted at any call loses and repeats no line.")
@pytest.mark.sampled(default=100)
@pytest.mark.parametrize(("moment", "how"), FAULTS)
@pytest.mark.parametrize(("name", "prepare", "operation"), CASES, ids=[name for name, _, _ in CASES])
def test_stop_at_every_call(name: str, prepare: Callable[[], Scenario], operation: Operation, moment: str, how: str) -> None:
    number = 0
    while _stopped_at(name, prepare, operation, moment, StopAt(number, moment, how)):
        number += 1
    assert number > 0 or moment == THROTTLED, "an append from a position reads nothing; everything writes"


def _stopped_at(name: str, prepare: Callable[[], Scenario], operation: Operation, moment: str, stop: StopAt) -> bool:
    """Run a scenario with one stop. False if the operation makes fewer calls."""
    scenario = prepare()
    world, acknowledged = scenario.world, list(scenario.model)
    parts = world.parts(Intercepted(world.store, stop), Intercepted(world.index, stop))  # type: ignore[arg-type]
    failed = False
    try:
        operation(scenario, parts)
    except (UnavailableError, Crash):
        failed = True
    if not stop.fired:
        return False
    _check_entries(world)
    _check_readable(world, acknowledged, scenario)
    if failed:
        operation(scenario, world.parts(Intercepted(world.store, stop.successor), Intercepted(world.index, stop.successor)))  # type: ignore[arg-type]
    if moment == LATER:
        _go_on(scenario, retire=operation not in (append, append_large, append_with_key))
    stop.land()
    _check_log(world, scenario, cold=name == "append, cold", end=FAILED if operation in (close, settle) else SUCCEEDED)
    return True


def _go_on(scenario: Scenario, *, retire: bool) -> None:
    """The run grows, is compacted, and 15 minutes pass, the validity of a request's signature at S3. ``retire``: more time, so that
    segments are retired too. Only an append relies on the signature's age (decision 0001)."""
    with suppress(RunClosedError):
        for text in ("after the stop\n", "and a segment that is never deleted\n") if scenario.position else ():
            scenario.append(text)
    scenario.settle()
    scenario.world.clock.advance((21 if retire else 15) * 60)
    scenario.settle()


def _check_readable(world: World, acknowledged: list[bytes], scenario: Scenario) -> None:
    """Right after the stop: all acknowledged lines in order, followed at most by the interrupted batch."""
    read = "".join(f"{line}\n" for line in world.read_all())
    before = b"".join(acknowledged).decode()
    assert read.startswith(before)
    assert len(read) == len(before) or read.endswith(("the batch in question\n", "z\n"))


def _check_entries(world: World) -> None:
    """For each number up to the last one, S3 contains the segment, or its entry."""
    live = [
        world.layout.sequence_of(RUN, world.layout.run_prefix(RUN) + key) for key in world.names() if key.startswith("segments/")
    ]
    kept = {entry.sequence for entry in world.retired_entries()}
    assert kept | set(live) == set(range(max(live, default=-1) + 1))


def _check_log(world: World, scenario: Scenario, *, cold: bool, end: RunEnd) -> None:
    """After recovery and at the end: exactly the model, in pages and in the bytes of logs.txt, and the end of the first close."""
    expected = b"".join(scenario.model)
    if cold and len(b"\n".join(scenario.model)) < sum(map(len, _segments(world))):
        expected += scenario.model[-1]
    assert _lines(world) == expected.decode().split("\n")[:-1]
    world.parts().finalizer.close(RUN, None, SUCCEEDED)
    scenario.settle()
    assert world.body("logs.txt") == expected
    assert artifact_of(world.store.head(world.layout.logs(RUN))).end == end
    assert "partial.txt" not in world.names()
    with pytest.raises(RunClosedError):
        world.parts().writer.append(RUN, Batch.from_text("too late"), position=scenario.position)
    world.clock.advance(21 * 60)
    scenario.settle()
    _check_entries(world)
    assert _lines(world) == expected.decode().split("\n")[:-1]
    assert [key for key in world.names() if key.startswith("segments/")][1:] == []
    assert START_MS <= world.clock.now_ms()


def _lines(world: World) -> list[str]:
    return world.read_all(limit=700)


def _segments(world: World) -> list[bytes]:
    return [world.body(key) for key in world.names() if key.startswith("segments/")]
