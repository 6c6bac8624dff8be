"""RunlogHandler: records are stored once and in order, without effects on the application."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from chalicelib.lines.formats import ANY
from chalicelib.lines.parsed import ParsedLine
from client.tests.fake_server import FakeServer
from runlake import Archive, Pace, RunlogHandler, Settings, SettingsError
from runlake import run as run_block
from runlake.__main__ import runlake
from runlake.handler import ZonedFormatter
from runlake.outcomes import RunEnd
from runlake.tokens import Token


@contextmanager
def logging_to(handler: RunlogHandler) -> Iterator[logging.Logger]:
    logger = logging.Logger("app", logging.DEBUG)
    logger.addHandler(handler)
    try:
        yield logger
    finally:
        handler.close()


def test_records_are_stored_as_lines(server: FakeServer, settings: Settings) -> None:
    with logging_to(RunlogHandler("svc.pipeline", "run-1", settings=settings)) as logger:
        logger.info("one")
        logger.warning("two %s", "zwei\nlines")
    one, two, lines = server.lines("svc.pipeline", "run-1")
    assert one.endswith(b" INFO app: one")
    assert two.endswith(b" WARNING app: two zwei") and lines == b"lines"
    assert not server.runs["svc.pipeline", "run-1"].closed


@pytest.mark.parametrize(("zone", "offset"), [("UTC", "+00:00"), ("America/New_York", "-05:00"), ("Asia/Kolkata", "+05:30")])
def test_lines_state_their_time_with_its_zone(monkeypatch: pytest.MonkeyPatch, zone: str, offset: str) -> None:
    record = logging.makeLogRecord({"name": "app", "levelname": "INFO", "msg": "one", "created": 1_795_273_200.123})
    with monkeypatch.context() as patched:
        patched.setenv("TZ", zone)
        time.tzset()
        line = ZonedFormatter().format(record)
    time.tzset()
    read = ANY.reader()(line)
    assert line[23:] == f"{offset} INFO app: one"
    assert read == ParsedLine(1_795_273_200_123_000, "INFO", "app", "one")


def test_many_records_are_few_requests(server: FakeServer, settings: Settings) -> None:
    handler = RunlogHandler("svc.pipeline", "run-1", settings=settings)
    with logging_to(handler) as logger:
        for number in range(5000):
            logger.info("record %d", number)
    assert [int(line.split()[-1]) for line in server.lines("svc.pipeline", "run-1")] == list(range(5000))
    assert handler.counts.stored_lines == 5000
    assert len(server.requests) < 100


def test_names_are_encoded_whole(server: FakeServer, settings: Settings) -> None:
    with logging_to(RunlogHandler("a/b c%2F.ü", "run 1+", settings=settings)) as logger:
        logger.info("one")
    assert len(server.lines("a/b c%2F.ü", "run 1+")) == 1


def test_a_flush_waits_until_all_is_stored(server: FakeServer, settings: Settings) -> None:
    with logging_to(RunlogHandler("p", "r", settings=settings, pace=Pace(interval_s=3600))) as logger:
        logger.info("one")
        logger.handlers[0].flush()
        assert len(server.lines("p", "r")) == 1


def test_its_own_requests_are_not_logged_to_it(server: FakeServer, settings: Settings) -> None:
    handler = RunlogHandler("p", "r", settings=settings)
    http = logging.getLogger("httpx")
    http.addHandler(handler)
    http.setLevel(logging.DEBUG)
    try:
        handler.write("one\n")
        handler.flush()
        handler.close()
    finally:
        http.removeHandler(handler)
        http.setLevel(logging.NOTSET)
    assert server.lines("p", "r") == [b"one"]


def test_a_record_that_cannot_be_formatted_does_not_stop_the_application(
    server: FakeServer, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    with logging_to(RunlogHandler("p", "r", settings=settings)) as logger:
        logger.info("%d", "no number")
        logger.info("two")
    assert len(server.lines("p", "r")) == 1
    assert "no number" in capsys.readouterr().err


@pytest.mark.parametrize("events", [False, True])
def test_lines_for_a_closed_run_go_to_its_next_attempt(server: FakeServer, settings: Settings, pace: Pace, *, events: bool) -> None:
    messages: list[str] = []
    server.add("p", "r", b"of the first\n", close=True)
    handler = RunlogHandler("p", "r", events=events, settings=settings, pace=pace, tell=messages.append)
    with logging_to(handler) as logger:
        for number in range(500):
            logger.info("record %d", number)
    assert server.lines("p", "r") == [b"of the first"]
    assert [line.rpartition(b"record ")[2] for line in server.lines("p", "r~2")] == [b"%d" % number for number in range(500)]
    assert (handler.counts.stored_lines, handler.counts.lost_lines, messages) == (500, 0, [])
    assert str(handler.archived_as) == "p/r~2"
    assert server.runs["p", "r~2"].closed, "nobody else closes the attempt that it started"


def test_handler_that_joins_an_open_attempt_leaves_it_open(server: FakeServer, settings: Settings, pace: Pace) -> None:
    server.add("p", "r", b"of the first\n", close=True)
    server.runs["p", "r~2"].start = "of another process"
    with logging_to(RunlogHandler("p", "r", settings=settings, pace=pace)) as logger:
        logger.info("one")
    assert len(server.lines("p", "r~2")) == 1 and not server.runs["p", "r~2"].closed


@pytest.mark.parametrize("away", ["", "/starts/", "/logs/p/r~2"])
def test_forked_process_that_outlives_the_run_closes_the_attempt_that_it_starts(
    server: FakeServer, settings: Settings, pace: Pace, monkeypatch: pytest.MonkeyPatch, away: str
) -> None:
    """Also if its lines are left on disk, because the attempt cannot be started or written."""
    asked = threading.Event()

    def fault(_: str, path: str) -> str:
        is_away = bool(away) and away in path
        if is_away:
            asked.set()
        return "503" if is_away else ""

    handler = RunlogHandler("p", "r", settings=settings, pace=pace, close_run=True, command="./load.sh", tell=lambda text: None)
    server.runs["p", "r"].start = handler.environment["RUNLAKE_START"]
    server.add("p", "r", b"of the parent\n", close=True)
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: -1)
        handler._begin_in_child()
        server.fault = fault
        handler.write("of the child\n")
        assert not away or asked.wait(30)
        handler.finish(0.1 if away else settings.exit_s)
    server.fault = lambda method, path: ""
    if away:
        assert server.lines("p", "r~2") == []
        command = ["--url", server.url, "--spool-dir", settings.spool_dir, "drain", "--next-attempt"]
        assert CliRunner().invoke(runlake, command).exit_code == 0
    assert (server.lines("p", "r"), server.lines("p", "r~2")) == ([b"of the parent"], [b"of the child"])
    assert server.runs["p", "r~2"].closed and ("p", "r~3") not in server.runs


def test_run_that_is_closed_under_its_writer_goes_on_in_its_next_attempt(
    server: FakeServer, settings: Settings, pace: Pace
) -> None:
    handler = RunlogHandler("p", "r", settings=settings, pace=pace, close_run=True, command="./load.sh")
    with logging_to(handler) as logger:
        logger.info("one")
        handler.flush()
        server.runs["p", "r"].closed = True
        logger.info("two")
    assert [len(server.lines("p", run_id)) for run_id in ("r", "r~2")] == [1, 1]
    assert server.runs["p", "r~2"].closed


def test_batch_without_an_answer_waits_on_disk_where_nothing_else_does(server: FakeServer, settings: Settings, pace: Pace) -> None:
    asked = threading.Event()
    server.fault = lambda method, path: (asked.set() or "503") if method == "POST" and server.sessions else ""  # type: ignore[func-returns-value]
    handler = RunlogHandler("p", "r", settings=settings, pace=pace, tell=lambda text: None)
    handler.write("one\n")
    assert asked.wait(30)
    handler.finish(0)
    server.fault = lambda method, path: ""
    assert (handler.counts.kept_lines, server.lines("p", "r")) == (1, [])
    assert CliRunner().invoke(runlake, ["--url", server.url, "--spool-dir", settings.spool_dir, "drain"]).exit_code == 0
    assert server.lines("p", "r") == [b"one"]


@pytest.mark.parametrize(("attempt", "fault"), [(2, ""), (None, "400")], ids=["taken", "refused"])
def test_lines_that_no_attempt_takes_wait_on_disk(
    server: FakeServer, settings: Settings, pace: Pace, attempt: int | None, fault: str
) -> None:
    server.runs["p", "r"].closed = True
    server.runs["p", "r~2"].start = "of another process"
    server.fault = lambda method, path: fault if "/starts/" in path else ""
    messages: list[str] = []
    handler = RunlogHandler(
        "p", "r", settings=settings, pace=pace, tell=messages.append, close_run=True, command="./load.sh", attempt=attempt
    )
    with logging_to(handler) as logger:
        logger.info("one")
    assert (handler.counts.kept_lines, handler.counts.lost_lines) == (1, 0)
    assert server.lines("p", "r") == server.lines("p", "r~2") == []
    assert "1 lines of p/r wait in" in messages[-1]
    server.fault = lambda method, path: ""
    assert CliRunner().invoke(runlake, ["--url", server.url, "--spool-dir", settings.spool_dir, "drain"]).exit_code == 0
    assert len(server.lines("p", "r~3")) == 1 and server.runs["p", "r~3"].closed


@pytest.mark.parametrize(
    ("first", "attempt", "run_id"),
    [("closed", None, "r~2"), ("of another process", None, "r~2"), ("of another process", 3, "r~3"), ("none", None, "r")],
)
def test_processes_of_one_start_write_to_one_attempt_that_only_the_first_closes(
    server: FakeServer,
    settings: Settings,
    pace: Pace,
    monkeypatch: pytest.MonkeyPatch,
    first: str,
    attempt: int | None,
    run_id: str,
) -> None:
    """As a command under ``runlake exec`` that uses the library with the names in its environment."""
    if first != "none":
        server.runs["p", "r"].start = "of another process"
        server.runs["p", "r"].closed = first == "closed"
    supervisor = RunlogHandler("p", "r", settings=settings, pace=pace, command="./load.py", attempt=attempt, close_run=True)
    supervisor.start()
    for name, value in supervisor.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RUNLAKE_ATTEMPT", "7")  # the start has its own number
    for options in ({}, {"close_run": True}, {"command": "load.py", "close_run": True, "attempt": 9}):
        handler = RunlogHandler("p", "r", settings=settings, pace=pace, **options)  # type: ignore[arg-type]
        handler.write("of the command\n")
        handler.close()
    with run_block("p", "r", logger=None, settings=settings, pace=pace) as run:
        run.write("of a block")
    assert not server.runs["p", run_id].closed
    supervisor.write("of the supervisor\n")
    another = supervisor.additional_writer()
    another.event("beside the supervisor")
    another.close()
    supervisor.finish(settings.exit_s, end=RunEnd("failed", exit_code=3))
    assert sorted(server.lines("p", run_id)) == [
        b"beside the supervisor",
        b"of a block",
        *[b"of the command"] * 3,
        b"of the supervisor",
    ]
    assert server.runs["p", run_id].end == {"outcome": "failed", "exitCode": 3}
    assert {name for (_, name), stored in server.runs.items() if stored.lines} == {run_id}
    with run_block("p", "other", logger=None, settings=settings, pace=pace, attempt=1) as other:
        other.write("of another run")
    assert server.runs["p", "other"].closed


@pytest.mark.parametrize("old", [1, 3])
def test_refused_token_is_read_again_and_reported_if_it_is_refused_twice(
    old: int, server: FakeServer, settings: Settings, pace: Pace
) -> None:
    server.token = "new"
    tokens = iter(["old"] * old)
    told: list[str] = []
    handler = RunlogHandler("p", "r", settings=settings, pace=pace, tell=told.append, connect=renewing(server, tokens))
    with logging_to(handler) as logger:
        logger.info("one")
        handler.flush()
        assert len(server.lines("p", "r")) == 1
    assert ["the token does not hold" in text for text in told] == [True][: old - 1]


def test_spool_that_cannot_be_written_is_reported_once(server: FakeServer, settings: Settings, pace: Pace, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    messages: list[str] = []
    without = replace(settings, spool_dir=str(tmp_path / "file" / "spool"))
    handler = RunlogHandler("p", "r", settings=without, pace=pace, tell=messages.append)
    for number in range(3):
        handler.write(f"{number}\n")
        handler.flush()
    handler.close()
    assert server.lines("p", "r") == [b"0", b"1", b"2"]
    assert ["the spool cannot be written" in text for text in messages] == [True]


@pytest.mark.parametrize("close_run", [True, False])
def test_end_is_on_disk_before_the_last_line_if_the_handler_closes_the_run(close_run: bool, settings: Settings) -> None:
    handler = RunlogHandler("p", "r", settings=settings, close_run=close_run)
    handler.record_end(RunEnd("failed"))
    assert handler._buffer.spool.state.close == close_run
    handler.close()


def renewing(server: FakeServer, tokens: Iterator[str]) -> Callable[[], Archive]:

    return lambda: Archive(server.url, Token(lambda: next(tokens, "new")))


@pytest.mark.behavior("The client counts lines that it must drop and marks where they are missing.")
def test_without_room_lines_are_dropped_counted_and_told_where_they_are_missing(server: FakeServer, settings: Settings) -> None:
    server.down()
    small = Settings(url=settings.url, spool_dir=settings.spool_dir, memory_bytes=1000, spool_bytes=0, exit_s=30)
    told: list[str] = []
    fast = Pace(interval_s=0.005, first_wait_s=0.001, most_wait_s=0.01)
    handler = RunlogHandler("p", "r", settings=small, pace=fast, tell=told.append)
    for number in range(3000):
        handler.write(f"{number}\n")
    dropped = handler.counts.dropped_lines
    assert 0 < dropped < 3000
    server.up()
    handler.close()
    lines = server.lines("p", "r")
    gaps = [line for line in lines if line.startswith(b"[runlake]")]
    assert sum(int(line.split()[1]) for line in gaps) == dropped == handler._buffer.spool.state.dropped
    kept = [int(line) for line in lines if line not in gaps]
    assert kept == sorted(kept) and len(kept) == 3000 - dropped
    assert told == [f"{dropped} lines of p/r are lost: dropped={dropped} refused=0"]


def test_the_address_is_asked_for_at_once() -> None:
    with pytest.raises(SettingsError, match="RUNLAKE_URL"):
        RunlogHandler("p")


def test_what_is_logged_after_the_end_is_counted(server: FakeServer, settings: Settings) -> None:
    handler = RunlogHandler("p", "r", settings=settings)
    handler.close()
    handler.write("late\n")
    handler.close()
    assert handler.counts.dropped_lines == 1
    assert server.requests == []


def test_signal_handler_that_logs_while_the_thread_starts_is_stored(
    server: FakeServer, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, handler = threading.Thread.start, RunlogHandler("p", "r", settings=settings)

    def interrupted(thread: threading.Thread) -> None:
        """Python calls the handlers of signals between any two calls of the main thread."""
        if thread.name == "runlake-p/r" and server.requests == []:
            handler.write("of the signal\n")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    handler.write("one\n")
    handler.close()
    assert server.lines("p", "r") == [b"one", b"of the signal"]


def test_message_about_the_disk_may_wait_for_another_thread_that_logs(
    server: FakeServer, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    waited, told = list[bool](), threading.Event()

    def tell(text: str) -> None:
        if "the spool cannot be written" in text:
            other = threading.Thread(target=handler.write, args=("other\n",), daemon=True)
            other.start()
            other.join(5)
            waited.append(other.is_alive())
            told.set()

    handler = RunlogHandler("p", "r", settings=replace(settings, spool_dir=str(tmp_path / "file"), memory_bytes=4), tell=tell)
    handler.write("one two\n")
    assert told.wait(10) and waited == [False]
    handler.close()


@pytest.mark.parametrize("status", [401, 403, 407, 431])
def test_lines_wait_for_other_credentials(status: int, server: FakeServer, settings: Settings, pace: Pace) -> None:
    server.replacement, server.replacement_status = b"", status
    said, told = threading.Event(), list[str]()

    def tell(text: str) -> None:
        told.append(text)
        said.set()

    with logging_to(RunlogHandler("p", "r", settings=settings, pace=pace, tell=tell)) as logger:
        logger.info("one")
        assert said.wait(10)
        server.replacement = None
    assert len(server.lines("p", "r")) == 1 and "(" in told[0]
