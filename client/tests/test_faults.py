"""Faults: the server refuses, hangs, answers 500 and 503, cuts connections before and after it stored a batch, and recovers.

Every line arrives once, and in order. Seeds are in the names of the tests.
"""

from __future__ import annotations

import itertools
import json
import random
import threading
from dataclasses import replace

import pytest

from client.tests.fake_server import FakeServer
from runlake import Pace, RunlogHandler, Settings
from runlake.draining import drain_folder, waiting_in
from runlake.spool import STATE_BYTES, folders_in

_LINES = 4000
_FAULTS = ("500", "503", "cut", "lost", "hang")


class BadDay:
    """Random faults from one seed: while they last, about half of the requests fail."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._lock = threading.Lock()
        self.met: set[str] = set()
        self.is_over = False

    def __call__(self, method: str, path: str) -> str:
        with self._lock:
            if self.is_over or self._chance.random() < 0.5:
                return ""
            # A client waits its whole timeout when the server hangs: seldom, for the time of the test.
            fault = self._chance.choices(_FAULTS, (3, 3, 3, 3, 1))[0]
            self.met.add(fault)
            return fault


@pytest.mark.behavior("The client delivers every line once and in order over failures of the server.")
@pytest.mark.parametrize("seed", range(6))
def test_every_line_arrives_once_and_in_order(seed: int, server: FakeServer, settings: Settings, pace: Pace) -> None:
    chance = random.Random(seed)
    server.fault = BadDay(seed)
    hasty = replace(settings, timeout_s=0.15, memory_bytes=8192)
    handler = RunlogHandler("svc.pipeline", "run-1", settings=hasty, pace=pace, close_run=True)
    number = 0
    while number < _LINES:
        for number in range(number, min(number + chance.randrange(1, 600), _LINES)):  # noqa: B020
            handler.write(f"line {number}\n")
        number += 1
        if chance.random() < 0.3:
            server.down()
            for number in range(number, min(number + 200, _LINES)):  # noqa: B020
                handler.write(f"line {number}\n")
            number += 1
            server.up()
        if chance.random() < 0.5:
            handler._shipper.flush(0.02)
    counts = handler.finish(60)
    assert [int(line.split()[1]) for line in server.lines("svc.pipeline", "run-1")] == list(range(_LINES))
    assert counts.stored_lines == _LINES and counts.lost_lines == counts.kept_lines == 0
    assert server.runs["svc.pipeline", "run-1"].closed
    assert counts.failures > 0


@pytest.mark.parametrize("fault", _FAULTS)
def test_each_fault_alone_is_repeated_until_it_works(fault: str, server: FakeServer, settings: Settings, pace: Pace) -> None:
    faults = iter([fault] * 3 + ["", fault])
    server.fault = lambda method, path: next(faults, "")
    handler = RunlogHandler("p", "r", settings=replace(settings, timeout_s=0.2), pace=pace, close_run=True)
    handler.write("one\n")
    handler.flush()
    handler.write("two\n")
    handler.close()
    assert server.lines("p", "r") == [b"one", b"two"]
    assert server.runs["p", "r"].closed
    assert handler.counts.failures == 4


def test_equal_batches_are_stored_each(server: FakeServer, settings: Settings, pace: Pace) -> None:
    """Equal text after another position is not a repeat."""
    handler = RunlogHandler("p", "r", settings=settings, pace=pace)
    for _ in range(3):
        handler.write("same\n")
        handler.flush()
    handler.close()
    assert server.lines("p", "r") == [b"same"] * 3


def test_repeats_have_the_same_bytes(server: FakeServer, settings: Settings, pace: Pace) -> None:
    """More lines come while a batch is repeated: they must not get into it."""
    faults = iter(["", "lost"])
    handler = RunlogHandler("p", "r", settings=settings, pace=pace)

    def fault(method: str, path: str) -> str:
        handler._buffer.put(b"meanwhile\n")
        return next(faults, "")

    server.fault = fault
    handler.write("one\n")
    handler.flush()
    server.fault = lambda method, path: ""
    handler.close()
    lines = server.lines("p", "r")
    assert lines.count(b"one") == 1
    assert len(lines) == handler.counts.stored_lines


def test_the_disk_is_used_while_the_server_is_away_and_emptied_after(server: FakeServer, settings: Settings, pace: Pace) -> None:
    server.down()
    handler = RunlogHandler("p", "r", settings=replace(settings, memory_bytes=1000), pace=pace)
    for number in range(20_000):
        handler.write(f"{number}\n")
    assert (
        sum(chunk.stat().st_size for chunk in settings.spool_root.rglob("*.chunk")) > 50_000
    )  # the shipper has the lines that it took first
    server.up()
    handler.close()
    assert [int(line) for line in server.lines("p", "r")] == list(range(20_000))
    assert list(settings.spool_root.iterdir()) == []


@pytest.mark.behavior("A program ends in bounded time without the server, and its lines stay on disk.")
def test_an_exit_without_the_server_takes_bounded_time_and_keeps_the_lines(
    server: FakeServer, settings: Settings, pace: Pace
) -> None:
    server.down()
    told: list[str] = []
    handler = RunlogHandler("p", "r", settings=replace(settings, memory_bytes=100), pace=pace, tell=told.append, close_run=True)
    for number in range(1000):
        handler.write(f"{number}\n")
    counts = handler.finish(0.05)
    assert counts.kept_lines == 1000 and counts.lost_lines == 0
    command = f"runlake --spool-dir {settings.spool_root} drain"
    assert told == [f"1000 lines of p/r wait in {settings.spool_root}: run `{command}` later"]
    assert len(list(settings.spool_root.glob("*/state"))) == 1


@pytest.mark.parametrize("is_up", [True, False])
def test_a_program_that_is_going_down_starts_no_thread_and_ships_all_the_same(
    is_up: bool, server: FakeServer, settings: Settings, pace: Pace, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_up:
        server.down()
    handler = RunlogHandler("p", "r", settings=settings, pace=pace, tell=lambda text: None, close_run=True)
    monkeypatch.setattr(handler._shipper, "start", lambda: None)
    for number in range(2000):
        handler.write(f"{number}\n")
    counts = handler.finish(30 if is_up else 0.05)
    assert (counts.stored_lines, counts.kept_lines) == ((2000, 0) if is_up else (0, 2000))
    assert server.runs["p", "r"].closed == is_up


@pytest.mark.behavior("What only a person can correct is reported once with its next step, and not waited for at the end.")
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((401, {"code": 401, "message": "no token"}), "no token (log in"),
        ((403, {"code": 403, "message": "no scope"}), "no scope (log in"),
        ((404, {"message": "Not Found"}), "the server at this address is not Runlake"),
        ((200, {"message": "Log in"}), "the response is not Runlake's"),
    ],
)
def test_permanent_error_is_reported_once_retried_slowly_and_not_waited_for(
    answer: tuple[int, dict[str, object]], message: str, server: FakeServer, settings: Settings, pace: Pace
) -> None:
    server.replacement_status, server.replacement = answer[0], json.dumps(answer[1]).encode()
    if answer[0] == 404:
        server.is_foreign = True
    told: list[str] = []
    handler = RunlogHandler("p", "r", settings=settings, pace=pace, tell=told.append, close_run=True, command="./load.sh")
    handler.write("one\n")
    handler._shipper.flush(0.05)
    counts = handler.finish(3600)
    assert (counts.kept_lines, counts.lost_lines) == (1, 0)
    assert [message in text for text in told] == [True, False] and "1 lines of p/r wait in" in told[1]
    server.replacement, server.is_foreign = None, False
    again = RunlogHandler("p", "other", settings=settings, pace=pace, close_run=True, command="./load.sh")
    again.close()
    (folder,) = folders_in(settings.spool_root)
    waiting = waiting_in(folder)
    assert waiting is not None and message.partition(" (")[0] in waiting.state.reason
    drained = drain_folder(folder, settings, 1)
    assert drained is not None and drained.is_done and server.lines("p", "r") == [b"one"]


def test_outage_after_a_corrected_error_is_waited_for(server: FakeServer, settings: Settings, pace: Pace) -> None:
    server.replacement_status, server.replacement = 403, b'{"code": 403, "message": "no scope"}'
    reported = threading.Event()
    handler = RunlogHandler("p", "r", settings=settings, pace=pace, tell=lambda text: reported.set(), close_run=True)
    handler.write("one\n")
    assert reported.wait(30)
    server.replacement = None
    handler.flush()
    assert handler._buffer.spool.state.reason == ""
    faults = iter(["503"] * 3)
    server.fault = lambda method, path: next(faults, "")
    counts = handler.finish(30)
    assert counts.stored_lines == 1 and server.runs["p", "r"].closed


def test_refused_batch_is_put_aside_and_blocks_no_other(server: FakeServer, settings: Settings, pace: Pace) -> None:
    appends = itertools.count()
    server.fault = lambda method, path: "400" if method == "POST" and path.endswith("/r") and next(appends) == 1 else ""
    told: list[str] = []
    handler = RunlogHandler("p", "r", settings=settings, pace=pace, tell=told.append, close_run=True, command="./load.sh")
    for line in ("one\n", "two\n", "three\n"):
        handler.write(line)
        handler.flush()
    counts = handler.finish(5)
    assert (counts.stored_lines, counts.refused_lines, server.lines("p", "r")) == (2, 1, [b"one", b"three"])
    assert server.runs["p", "r"].closed and "as the test requires" in told[0]
    (folder,) = folders_in(settings.spool_root)
    waiting = waiting_in(folder)
    assert waiting is not None and (waiting.lines, waiting.state.is_refused, waiting.state.reason) == (
        1,
        True,
        "as the test requires",
    )


def test_refused_batches_take_no_more_disk_than_the_spool(server: FakeServer, settings: Settings, pace: Pace) -> None:
    server.fault = lambda method, path: "400" if method == "POST" and server.sessions else ""
    small = replace(settings, spool_bytes=2 * STATE_BYTES + 1000)
    handler = RunlogHandler("p", "r", settings=small, pace=pace, tell=lambda text: None)
    for _ in range(4):
        handler.write("line\n")
        handler.flush()
    counts = handler.finish(5)
    assert (counts.refused_lines, len(folders_in(small.spool_root))) == (4, 2)
