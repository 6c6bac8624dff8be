"""A drain that is interrupted at every step and repeated stores every line once, in order."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from runlake.leftovers import Leftover, claimed, leftovers_in, write_leftover

from client.tests.fake_server import FakeServer
from runlake import Archive, RunClosedError, RunName, draining
from runlake.deliveries import EventDelivery, WriterEnd
from runlake.draining import Drain
from runlake.outcomes import RunEnd
from runlake.starts import Start

RUN = RunName("p", "r")
LINES = [b"%05d %s" % (number, b"x" * (number % 40)) for number in range(400)]
TEXT = b"\n".join(LINES)


_REQUESTS = ("open_session", "start_run", "append", "close_run", "register_writer", "append_events", "close_writer")


class PowerCutError(BaseException):
    """The process ends here."""


class Steps:
    """Counts the side effects of a drain, and ends the process before or after one of them."""

    def __init__(self, at: int, *, after: bool) -> None:
        self.at, self.after, self.taken = at, after, 0

    def step(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def acted(*arguments: Any, **more: Any) -> Any:
            number, self.taken = self.taken, self.taken + 1
            if number == self.at and not self.after:
                raise PowerCutError
            answer = act(*arguments, **more)
            if number == self.at:
                raise PowerCutError
            return answer

        return acted


def leave(root: Path, server: FakeServer, *, sent: bytes, position: str | None) -> None:
    """The leftover of a program: an unanswered batch, and chunks that are split anywhere."""
    folder = root / "left"
    folder.mkdir(parents=True)
    rest = TEXT[len(sent) :]
    for number, begin in enumerate(range(0, len(rest), 3001)):
        (folder / f"{number:010d}.chunk").write_bytes(rest[begin : begin + 3001])
    leftover = Leftover(server.url, RUN, position, close=True, sent=sent.count(b"\n"))
    write_leftover(folder, leftover, gzip.compress(sent) if sent else None)


def drained(root: Path, steps: Steps | None = None) -> int:
    """The number of lines that are left."""
    left = 0
    for folder in leftovers_in(root):
        with claimed(folder) as leftover, pytest.MonkeyPatch.context() as patched:
            assert leftover
            with Archive(leftover.url) as archive:
                if steps:
                    for name in _REQUESTS:
                        patched.setattr(archive, name, steps.step(getattr(archive, name)))
                    for name in ("replace", "unlink", "rmdir"):
                        patched.setattr(Path, name, steps.step(getattr(Path, name)))
                left += Drain(folder, leftover, archive, patience_s=0.05, pause=lambda seconds: None).run()
    return left


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "BATCH_BYTES", 2500)


@pytest.mark.behavior("Lines left on disk are delivered once, however often the drain is killed.")
@pytest.mark.slow
@pytest.mark.parametrize("has_sent", [False, True])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_drain_that_is_killed_at_any_step_is_repeated(has_sent: bool, after: bool, server: FakeServer, tmp_path: Path) -> None:
    at, was_cut = 0, True
    while was_cut:
        root = tmp_path / f"{at}"
        server.runs.clear()
        sent, position = b"", None
        if has_sent:  # it was stored, and the response lost
            sent = b"".join(line + b"\n" for line in LINES[:7])
            with Archive(server.url) as archive:
                position = archive.open_session(RUN)
                archive.append(RUN, gzip.compress(sent), position)
        leave(root, server, sent=sent, position=position)
        steps = Steps(at, after=after)
        try:
            drained(root, steps)
        except PowerCutError:
            drained(root)
        was_cut = steps.taken > at
        assert server.lines("p", "r") == LINES, at
        assert server.runs["p", "r"].closed
        assert list(root.glob("*/run.json")) == []
        at += 1
    assert at > 10


def test_unsent_lines_stay_on_disk_and_are_counted(server: FakeServer, tmp_path: Path) -> None:
    leave(tmp_path, server, sent=b"", position=None)
    server.fault = lambda method, path: "500" if len(server.runs["p", "r"].lines) > 100 else ""
    left = drained(tmp_path)
    assert 0 < left == 400 - len(server.lines("p", "r"))
    server.down()
    assert drained(tmp_path) == left
    server.up()
    server.fault = lambda method, path: ""
    assert drained(tmp_path) == 0
    assert server.lines("p", "r") == LINES
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_lines_of_a_closed_run_go_to_its_next_attempt_wherever_the_drain_is_killed(
    server: FakeServer, tmp_path: Path, *, after: bool
) -> None:
    for at in count():
        server.runs.clear()
        server.add("p", "r", b"of another\n", close=True)
        folder = tmp_path / str(at)
        leave(folder, server, sent=b"", position=None)
        steps = Steps(at, after=after)
        with suppress(PowerCutError):
            drained(folder, steps)
        if folder.exists():
            assert drained(folder) == 0
        assert server.lines("p", "r") == [b"of another"]
        assert server.lines("p", "r~2") == LINES and server.runs["p", "r~2"].closed
        assert ("p", "r~3") not in server.runs
        if steps.taken <= at:
            return


@pytest.mark.parametrize("after", [False, True])
def test_end_without_lines_is_reported_once_wherever_the_drain_is_killed(
    server: FakeServer, tmp_path: Path, *, after: bool
) -> None:
    for at in count():
        server.runs.clear()
        start, end = Start("id", "./load.sh"), RunEnd("failed", exit_code=3, ended_ms=int(time.time() * 1000) - 60_000)
        write_leftover(tmp_path / str(at) / "left", Leftover(server.url, RUN, None, close=True, start=start, end=end), None)
        steps = Steps(at, after=after)
        with suppress(PowerCutError):
            drained(tmp_path / str(at), steps)
        assert drained(tmp_path / str(at)) == 0
        assert server.runs["p", "r"].end == {"outcome": "failed", "exitCode": 3} and list(server.runs) == [("p", "r")]
        assert server.runs["p", "r"].end_age_ms >= 60_000
        if steps.taken <= at:
            return


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_events_of_a_closed_run_are_complete_in_its_next_attempt_wherever_the_drain_is_killed(
    server: FakeServer, tmp_path: Path, *, after: bool
) -> None:
    events = [b'{"id":%d,"timestamp":1,"message":"%d"}\n' % (number, number) for number in range(100)]
    for at in count():
        server.runs.clear()
        with Archive(server.url) as archive:
            archive.register_writer(RUN, "w")
            archive.append_events(RUN, "w", b"".join(events[:3]), "k")
        server.runs["p", "r"].closed = True
        folder = tmp_path / str(at) / "left"
        folder.mkdir(parents=True)
        (folder / "0000000000.chunk").write_bytes(b"".join(events[3:]))
        of_writer = EventDelivery(RUN, "w", lambda: WriterEnd(len(events), 1)).facts()
        write_leftover(folder, Leftover(server.url, RUN, "e.3", close=False, facts=of_writer), None)
        steps = Steps(at, after=after)
        with suppress(PowerCutError):
            drained(folder.parent, steps)
        if folder.exists():
            assert drained(folder.parent) == 0
        counts = []
        for run_id in ("r", "r~2"):
            stored = server.runs["p", run_id].events
            assert [event["id"] for event in stored.stored] == list(range(len(stored.stored)))
            assert stored.writers["w"]["count"] == len(stored.stored)
            counts.append(len(stored.stored))
        assert counts == [3, 97] and server.runs["p", "r~2"].closed and ("p", "r~3") not in server.runs
        if steps.taken <= at:
            return


@pytest.mark.parametrize(
    ("is_joining", "of_another", "is_closed"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_drain_closes_an_attempt_that_was_to_stay_open_only_if_it_joins_and_starts_it(
    server: FakeServer, tmp_path: Path, *, is_joining: bool, of_another: bool, is_closed: bool
) -> None:
    server.runs["p", "r"].start = "of another process" if of_another else ""
    folder = tmp_path / "left"
    write_leftover(folder, Leftover(server.url, RUN, None, close=False, start=Start("id", is_joining=is_joining)), None)
    (folder / "0000000000.chunk").write_bytes(b"one\n")
    assert drained(tmp_path) == 0
    assert (server.lines("p", "r"), server.runs["p", "r"].closed) == ([b"one"], is_closed)


def test_lines_of_a_closed_run_whose_next_start_is_refused_stay(server: FakeServer, tmp_path: Path) -> None:
    server.fault = lambda method, path: "400" if "/starts/" in path else ""
    leave(tmp_path, server, sent=b"", position=None)
    server.add("p", "r", b"of another\n", close=True)
    with pytest.raises(RunClosedError):
        drained(tmp_path)
    assert server.lines("p", "r") == [b"of another"]
    assert b"".join(chunk.read_bytes() for chunk in sorted(tmp_path.glob("left/*.chunk"))) == TEXT
