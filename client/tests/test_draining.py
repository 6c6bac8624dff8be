"""A drain that is killed at every step and repeated stores every line once, in order."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from client.tests.dead_programs import RUN, DeadProgram, leave, replace_state
from client.tests.fake_server import FakeServer
from runlake import Archive, Pace, RunlogHandler, RunName, Settings, SettingsError, draining, spool
from runlake.buffer import hole_line
from runlake.deliveries import EventDelivery, TextDelivery, WriterEnd
from runlake.draining import BackgroundDrain, Drained, discard, drain_folder, waiting_in
from runlake.outcomes import RunEnd
from runlake.spool import claim, folders_in
from runlake.starts import Start

LINES = [b"%05d %s" % (number, b"x" * (number % 40)) for number in range(50)]
TEXT = b"".join(line + b"\n" for line in LINES)
EVENTS = [b'{"id":%d,"timestamp":1,"message":"%d"}\n' % (number, number) for number in range(30)]
_PACE = Pace(interval_s=0, first_wait_s=0.001, most_wait_s=0.01, access_wait_s=0.001)
FAILED = RunEnd("failed", exit_code=3, ended_ms=int(time.time() * 1000) - 60_000)
END = {"outcome": "failed", "exitCode": 3}

_REQUESTS = ("open_session", "start_run", "append", "close_run", "register_writer", "append_events", "close_writer")


class PowerCutError(BaseException):
    """The process ends here."""


class Steps:
    """Counts the effects of a drain, and ends the process before one of them, or within one of its writes to disk."""

    def __init__(self, at: int, *, within: bool) -> None:
        self.at, self.within, self.taken, self.is_dead = at, within, 0, False

    def install(self, patched: pytest.MonkeyPatch) -> None:
        for owner, names in ((Archive, _REQUESTS), (os, ("unlink", "rmdir"))):
            for name in names:
                patched.setattr(owner, name, self._step(getattr(owner, name), is_counted=not self.within))
        patched.setattr(os, "pwrite", self._step(os.pwrite, is_counted=True))

    def _step(self, act: Callable[..., Any], *, is_counted: bool) -> Callable[..., Any]:
        def acted(*arguments: Any, **more: Any) -> Any:
            if is_counted and not self.is_dead:
                self.is_dead = self.taken == self.at
                self.taken += not self.is_dead
                if self.is_dead and self.within:
                    file, data, at = arguments
                    act(file, data[: len(data) // 2], at)
            if self.is_dead:
                raise PowerCutError
            return act(*arguments, **more)

        return acted


def drained(root: Path, url: str, steps: Steps | None = None, **options: Any) -> list[Drained]:
    """Of each folder."""
    with ExitStack() as connections, pytest.MonkeyPatch.context() as patched:
        patched.setattr(draining, "_PACE", replace(_PACE, batch_bytes=500 if steps else 700))
        if steps:
            steps.install(patched)
        options["connect"] = lambda: connections.enter_context(Archive(url))
        results = [drain_folder(folder, Settings(url=url), 0.05, **options) for folder in folders_in(root)]
    return [result for result in results if result]


def kill_at_each_step(
    tmp_path: Path, url: str, make: Callable[[Path], object], check: Callable[[], object], within: bool, **options: Any
) -> None:
    """Make a folder, drain it until a step, drain the rest in other batches, and check; for each step."""
    for at in count():
        root, steps = tmp_path / f"{at}", Steps(at, within=within)
        make(root)
        with suppress(PowerCutError):
            drained(root, url, steps, **options)
        drained(root, url, **options)
        assert folders_in(root) == [], at
        check()
        if not steps.is_dead:
            assert at > 0
            return


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "CHUNK_BYTES", 401)


@pytest.mark.behavior("Lines left on disk are delivered once, however often the drain is killed.")
@pytest.mark.slow
@pytest.mark.parametrize("has_sent", [False, True])
@pytest.mark.parametrize("state", [{"is_ended": True}, {"run_end": FAILED}, {}], ids=["ended", "has an outcome", "killed"])
@pytest.mark.parametrize("within", [False, True], ids=["before", "within"])
def test_drain_killed_at_any_step_is_repeated(
    within: bool, state: dict[str, Any], has_sent: bool, server: FakeServer, tmp_path: Path
) -> None:
    def make(root: Path) -> None:
        server.runs.clear()
        program = DeadProgram(root, server.url, TEXT)
        if has_sent:  # a batch with other bounds than the drain's: it was stored, and the response lost
            with Archive(server.url) as archive:
                position = archive.open_session(RUN)
                archive.append(RUN, TextDelivery(RUN).pack(program.send(200, position).data), position)
        program.spool.record(close=bool(state), **state)
        program.die()

    def check() -> None:
        run = server.runs["p", "r"]
        assert (run.lines, run.closed, run.end) == (LINES, bool(state), END if "run_end" in state else {})

    kill_at_each_step(tmp_path, server.url, make, check, within)


def test_program_killed_within_a_write_left_no_part_of_a_line(server: FakeServer, tmp_path: Path) -> None:
    folder = DeadProgram(tmp_path, server.url, TEXT).die()
    with open(max(folder.glob("*.chunk")), "ab") as chunk:
        chunk.write(b"00050 xx")
    (result,) = drained(tmp_path, server.url)
    assert (result.stored, result.left, result.is_done) == (50, 0, True)
    assert server.lines("p", "r") == [*LINES, hole_line(1)[:-1]] and not server.runs["p", "r"].closed


@pytest.mark.parametrize("what", ["a chunk", "a sent batch", "an event"])
def test_drain_stores_one_line_for_a_hole(what: str, server: FakeServer, tmp_path: Path) -> None:
    facts = EventDelivery(RUN, "w", lambda: WriterEnd(0)).facts() if what == "an event" else {}
    program = DeadProgram(tmp_path, server.url, b"".join(EVENTS) if facts else TEXT, facts=facts)
    _, second, third, *_ = program.spool.chunks
    begin, end = second.first_line, third.first_line
    if what == "a sent batch":
        program.acknowledge(program.send(second.begin, "s1.0"), "s1.0")
        sent = program.send(third.end - second.begin, "s1.0")
        begin, end = sent.first_line, sent.end_line
    program.die()
    second.path.unlink()
    drained(tmp_path, server.url)
    if facts:
        assert [event["id"] for event in server.runs["p", "r"].events.stored] == [*range(begin), *range(end, len(EVENTS))]
    else:
        before = LINES[:begin] if what == "a chunk" else []
        assert server.lines("p", "r") == [*before, hole_line(end - begin)[:-1], *LINES[end:]]


def test_unsent_lines_stay_on_disk_and_are_counted(server: FakeServer, tmp_path: Path) -> None:
    leave(tmp_path, server.url, TEXT)
    server.fault = lambda method, path: "500" if len(server.runs["p", "r"].lines) > 20 else ""
    (result,) = drained(tmp_path, server.url)
    assert 0 < result.left == 50 - result.stored == 50 - len(server.lines("p", "r"))
    server.down()
    assert [again.left for again in drained(tmp_path, server.url)] == [result.left]
    server.up()
    server.fault = lambda method, path: ""
    assert [again.left for again in drained(tmp_path, server.url)] == [0]
    assert server.lines("p", "r") == LINES
    assert list(tmp_path.iterdir()) == []


def test_outcome_of_a_killed_program_waits_for_the_archive(server: FakeServer, tmp_path: Path) -> None:
    program = DeadProgram(tmp_path, server.url, TEXT, close=True, run_end=FAILED)
    folder = program.die()
    server.fault = lambda method, path: "503" if path.endswith("/close") else ""
    (result,) = drained(tmp_path, server.url)
    assert (result.stored, result.left, result.is_done) == (50, 0, False) and folder.exists()
    server.fault = lambda method, path: ""
    (result,) = drained(tmp_path, server.url)
    assert (result.stored, result.is_done) == (0, True) and server.runs["p", "r"].end == END


def test_batch_that_is_refused_again_stays_in_its_folder(server: FakeServer, tmp_path: Path) -> None:
    server.fault = lambda method, path: "400" if path.endswith("/logs/p/r") else ""
    folder = leave(tmp_path, server.url, TEXT, is_refused=True, position="s1.0")
    (result,) = drained(tmp_path, server.url)
    assert (result.left, result.aside, result.reason) == (50, 0, "as the test requires")
    assert folders_in(tmp_path) == [folder]


def test_lines_of_a_closed_run_stay_unless_an_attempt_is_asked_for(server: FakeServer, tmp_path: Path) -> None:
    server.add("p", "r", b"of another\n", close=True)
    leave(tmp_path, server.url, TEXT)
    for _ in range(2):
        (result,) = drained(tmp_path, server.url)
        assert (result.stored, result.left, result.is_done) == (0, 50, False) and "is closed" in result.reason
        assert list(server.runs) == [("p", "r")] and server.lines("p", "r") == [b"of another"]
    (result,) = drained(tmp_path, server.url, starts_again=True)
    assert (result.stored, result.stored_as.run_id) == (50, "r~2") and server.lines("p", "r~2") == LINES


@pytest.mark.parametrize(
    "state", [{}, {"run_end": FAILED}, {"position": "s1.1"}], ids=["killed", "has an outcome", "has a position"]
)
def test_lines_of_a_deleted_run_are_dropped_with_a_message(state: dict[str, Any], server: FakeServer, tmp_path: Path) -> None:
    server.deleted["p", "r"] = ""
    folder = leave(tmp_path, server.url, TEXT, **state)
    (result,) = drained(tmp_path, server.url, starts_again=True)
    assert (result.stored, result.left, result.aside, result.is_done) == (0, 0, 0, True)
    assert "p/r: the run was deleted" in result.notices[0] and "50 lines of p/r are lost: dropped=0 refused=50" in result.notices
    assert not folder.exists() and not server.runs


@pytest.mark.slow
@pytest.mark.parametrize("within", [False, True], ids=["before", "within"])
def test_next_attempt_of_a_closed_run_has_all_lines(within: bool, server: FakeServer, tmp_path: Path) -> None:
    def make(root: Path) -> None:
        server.runs.clear()
        server.add("p", "r", b"of another\n", close=True)
        leave(root, server.url, TEXT)

    def check() -> None:
        assert server.lines("p", "r") == [b"of another"]
        assert server.lines("p", "r~2") == LINES and server.runs["p", "r~2"].closed
        assert ("p", "r~3") not in server.runs

    kill_at_each_step(tmp_path, server.url, make, check, within, starts_again=True)


@pytest.mark.parametrize("within", [False, True], ids=["before", "within"])
def test_end_without_lines_is_reported_once(within: bool, server: FakeServer, tmp_path: Path) -> None:
    def make(root: Path) -> None:
        server.runs.clear()
        leave(root, server.url, b"", start=Start("id", "./load.sh"), run_end=FAILED)

    def check() -> None:
        assert server.runs["p", "r"].end == END and list(server.runs) == [("p", "r")]
        assert server.runs["p", "r"].end_age_ms >= 60_000

    kill_at_each_step(tmp_path, server.url, make, check, within)


@pytest.mark.slow
@pytest.mark.parametrize("within", [False, True], ids=["before", "within"])
def test_events_of_a_closed_run_are_complete_in_its_next_attempt(within: bool, server: FakeServer, tmp_path: Path) -> None:
    of_writer = EventDelivery(RUN, "w", lambda: WriterEnd(len(EVENTS), 1))

    def make(root: Path) -> None:
        server.runs.clear()
        program = DeadProgram(root, server.url, b"".join(EVENTS), facts=of_writer.facts())
        sent = program.send(len(b"".join(EVENTS[:3])), "")
        with Archive(server.url) as archive:
            of_writer.open(archive)
            program.acknowledge(sent, of_writer.append(archive, sent.data, "").position)
        server.runs["p", "r"].closed = True
        program.end(close=False, facts=of_writer.facts() | of_writer.end_facts())

    def check() -> None:
        counts = []
        for run_id in ("r", "r~2"):
            stored = server.runs["p", run_id].events
            assert [event["id"] for event in stored.stored] == list(range(len(stored.stored)))
            assert stored.writers["w"]["count"] == len(stored.stored)
            counts.append(len(stored.stored))
        assert counts == [3, 27] and server.runs["p", "r~2"].closed and ("p", "r~3") not in server.runs

    kill_at_each_step(tmp_path, server.url, make, check, within, starts_again=True)


@pytest.mark.parametrize(
    ("is_joining", "of_another", "is_killed", "is_closed"),
    [(True, False, False, True), (True, True, False, False), (False, False, False, False), (True, False, True, False)],
)
def test_drain_closes_only_an_attempt_that_its_joining_writer_had_opened(
    server: FakeServer, tmp_path: Path, *, is_joining: bool, of_another: bool, is_killed: bool, is_closed: bool
) -> None:
    server.runs["p", "r"].start = "of another process" if of_another else ""
    program = DeadProgram(tmp_path, server.url, b"one\n", start=Start("id", is_joining=is_joining))
    program.die() if is_killed else program.end(close=False)
    drained(tmp_path, server.url)
    assert (server.lines("p", "r"), server.runs["p", "r"].closed) == ([b"one"], is_closed)


def test_lines_of_a_closed_run_whose_next_start_is_refused_stay(server: FakeServer, tmp_path: Path) -> None:
    server.fault = lambda method, path: "400" if "/starts/" in path else ""
    leave(tmp_path, server.url, TEXT)
    server.add("p", "r", b"of another\n", close=True)
    (result,) = drained(tmp_path, server.url, starts_again=True)
    assert (result.stored, result.left) == (0, 50) and server.lines("p", "r") == [b"of another"]
    server.fault = lambda method, path: ""
    drained(tmp_path, server.url, starts_again=True)
    assert server.lines("p", "r~2") == LINES


def test_folder_of_a_living_writer_or_another_drain_is_left_alone(server: FakeServer, tmp_path: Path) -> None:
    program = DeadProgram(tmp_path, server.url, TEXT)
    (folder,) = folders_in(tmp_path)
    for owner in ("program", "another drain"):
        assert drain_folder(folder, Settings(url=server.url), 0) is None, owner
        assert waiting_in(folder) is None and not discard(folder), owner
        if owner == "program":
            program.end()
            drain = claim(folder)
    assert drain and server.requests == []
    opened = len(os.listdir("/dev/fd"))
    assert claim(folder) is None and len(os.listdir("/dev/fd")) == opened
    drain.close()
    assert len(drained(tmp_path, server.url)) == 1 and server.lines("p", "r") == LINES


def test_folder_shipped_between_open_and_lock_is_not_shipped_again(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, is_locked = leave(tmp_path, server.url), spool.StateFile.is_locked

    def ship_first(file: spool.StateFile) -> bool:
        monkeypatch.setattr(spool.StateFile, "is_locked", is_locked)
        drained(tmp_path, server.url)
        return is_locked(file)

    monkeypatch.setattr(spool.StateFile, "is_locked", ship_first)
    assert claim(folder) is None and server.lines("p", "r") == [b"one"]


def test_child_forked_while_a_folder_is_locked_has_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, is_locked, codes = leave(tmp_path, "http://x"), spool.StateFile.is_locked, list[int]()

    def fork(file: spool.StateFile) -> bool:
        locked, names = is_locked(file), Path("/dev/fd")
        if (child := os.fork()) == 0:
            os._exit(any(each.exists() and each.samefile(folder / "state") for each in names.iterdir()))
        codes.append(os.waitpid(child, 0)[1])
        return locked

    monkeypatch.setattr(spool.StateFile, "is_locked", fork)
    claimed = claim(folder)
    assert claimed and codes == [0]
    claimed.close()


@pytest.mark.parametrize(
    ("settings", "is_sent"),
    [
        ({"token": "secret"}, False),
        ({"token": "secret", "url": "http://127.0.0.1:1/api"}, False),
        ({"token_command": "echo secret"}, False),
        ({"token_file": "/dev/null"}, False),
        ({"token": "secret", "url": "here"}, True),
        ({"url": "http://127.0.0.1:1/api"}, True),
        ({}, True),
    ],
    ids=str,
)
def test_token_is_sent_only_to_its_own_address(settings: dict[str, str], is_sent: bool, server: FakeServer, tmp_path: Path) -> None:
    folder = leave(tmp_path, server.url)
    named = Settings(**settings | ({"url": server.url} if settings.get("url") == "here" else {}))  # type: ignore[arg-type]
    with nullcontext() if is_sent else pytest.raises(SettingsError) as refused:
        drain_folder(folder, named, 0)
    assert refused is None or f"--url {server.url}" in refused.value.next_step
    assert bool(server.requests) == is_sent != folder.exists()


def test_newest_complete_state_is_in_force(tmp_path: Path) -> None:
    path = tmp_path / "state"
    file = spool.StateFile.create(path)
    file.write(b"first")
    file.write(b"second")
    file.close()
    data = path.read_bytes()
    for damage, state in ((b"secon!", b"first"), (b"second", b"second")):
        path.write_bytes(data.replace(b"second", damage))
        again = spool.StateFile.open(path)
        assert again.read() == state
        again.close()


def in_background(root: Path, url: str, *, is_stopped: bool = False, **values: Any) -> list[str]:
    """The messages of a drain in the background."""
    messages: list[str] = []
    drain = BackgroundDrain(Settings(url=url, spool_dir=str(root), **values), messages.append)
    if is_stopped:
        drain.stop()
    drain.run()
    return messages


def test_background_drain_leaves_refused_batches_and_other_servers_alone(server: FakeServer, tmp_path: Path) -> None:
    refused = leave(tmp_path, server.url, name="refused", is_refused=True)
    other = leave(tmp_path, "http://127.0.0.1:1/api", name="other")
    own = leave(tmp_path, server.url)
    assert in_background(tmp_path, server.url, token="secret", is_stopped=True) == [] and server.requests == []
    assert in_background(tmp_path, server.url, token="secret") == in_background(tmp_path, server.url) == []
    assert (refused.exists(), other.exists(), own.exists()) == (True, True, False) and server.lines("p", "r") == [b"one"]
    waiting = waiting_in(other)
    assert waiting is not None and waiting.state.reason == "", "its server was asked"


def test_background_drain_begins_and_ends_with_its_handler(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draining, "_is_started", False)
    folder = leave(tmp_path, server.url)
    handler = RunlogHandler("p", "other", settings=Settings(url=server.url, spool_dir=str(tmp_path)))
    for thread in threading.enumerate():
        if thread.name == "runlake-drain":
            thread.join()
    assert not folder.exists()
    handler.close()
    folder = leave(tmp_path, server.url)
    handler._background.run()
    assert folder.exists()


def test_background_drain_is_bounded_and_continues_later(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draining, "_PACE", replace(_PACE, batch_bytes=300))
    monkeypatch.setattr(draining, "_MOST_BYTES", 500)
    leave(tmp_path, server.url, TEXT)
    stored = []
    while folders_in(tmp_path):
        in_background(tmp_path, server.url)
        stored.append(len(server.runs["p", "r"].data))
    assert server.lines("p", "r") == LINES and 500 <= stored[0] < 800 and len(stored) == 3


def leave_each(root: Path, url: str, names: str) -> None:
    """A folder of four bytes for each run of these names, the oldest first."""
    for age, name in enumerate(reversed(names)):
        os.utime(leave(root, url, name=name, run=RunName("p", name)), (time.time() - age,) * 2)


@pytest.mark.parametrize(("bound", "value", "drained"), [("_MOST_S", -1, ""), ("_MOST_FOLDERS", 2, "ab"), ("_MOST_BYTES", 5, "ab")])
def test_background_drain_starts_no_folder_beyond_a_bound(
    bound: str, value: int, drained: str, server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draining, bound, value)
    leave_each(tmp_path, server.url, "abcd")
    in_background(tmp_path, server.url)
    assert [run_id for _, run_id in server.runs] == [*drained]


def test_background_drain_stops_after_three_failures_in_a_row(server: FakeServer, tmp_path: Path) -> None:
    server.fault = lambda method, path: "" if path.endswith(("/c", "/c/close")) else "503"
    leave_each(tmp_path, server.url, "abcdefg")
    in_background(tmp_path, server.url)
    assert [folder.name for folder in folders_in(tmp_path)] == [*"abdefg"]
    assert {path.split("/p/")[1][0] for _, path, _ in server.requests} == {*"abcdef"}


def test_oldest_folders_beyond_the_bound_are_dropped_with_a_message(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draining, "_LEAST_LIMIT_BYTES", 0)
    server.down()
    living = DeadProgram(tmp_path, server.url, TEXT * 5)
    for name, age in (("newer", 0), ("older", 1), ("unreadable", 2)):
        os.utime(leave(tmp_path, server.url, TEXT, name=name), (time.time() - age,) * 2)
    replace_state(tmp_path / "unreadable", b"{}")
    messages = in_background(tmp_path, server.url, spool_bytes=len(TEXT))
    assert messages == [] and len(folders_in(tmp_path)) == 4
    assert in_background(tmp_path, server.url, spool_bytes=len(TEXT) // 3, is_stopped=True) == []
    messages = in_background(tmp_path, server.url, spool_bytes=len(TEXT) // 3)
    assert messages == [f"50 lines of p/r are dropped: too many wait in {tmp_path}"]
    assert sorted(folder.name for folder in folders_in(tmp_path) if folder != living.spool.folder) == ["newer", "unreadable"]
    assert discard(tmp_path / "unreadable")
    living.die()


def test_background_drain_deletes_old_unfinished_folders_of_writers_only(server: FakeServer, tmp_path: Path) -> None:
    own = f"{'0' * 16}-{'f' * 32}"
    names = [f"making-{own}", own.replace("f", "e"), own, "my-project", "making-of"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
        os.utime(tmp_path / name, (0, time.time() - (60 if name == own else 8 * 86_400)))
    in_background(tmp_path, server.url)
    assert {path.name for path in tmp_path.iterdir()} == set(names[2:])
