"""Events and steps: events belong to the current step, ids count from 0, and a lost writer is missed."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import json
import logging
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

import runlake
from client.tests.fake_events import StoredEvents
from client.tests.fake_server import FakeServer
from client.tests.test_faults import BadDay
from runlake import Pace, RunlogHandler, Settings, SettingsError
from runlake.deliveries import EventDelivery, WriterEnd
from runlake.events import MAX_EVENT_BYTES

_SRC = Path(__file__).parents[1] / "src"


def events_of(server: FakeServer) -> StoredEvents:
    return server.runs["p", "r"].events


def said(server: FakeServer) -> list[tuple[str, str | None]]:
    """Messages without their times, and the names of their steps."""
    events = events_of(server)
    names = {step: facts["name"] for step, facts in events.steps.items()}
    return [(event["message"].split(": ")[-1], event["step"] and names[event["step"]]) for event in events.stored]


def test_what_is_logged_in_a_step_is_attributed_to_it(server: FakeServer, settings: Settings) -> None:
    logger = logging.Logger("app")
    with runlake.run("p", "r", logger=logger, events=True, settings=settings) as run:
        logger.info("before")
        with run.step("compile") as compiling:
            logger.info("compiling")
            with run.step("link") as linking:
                run.write("linking\n")
                compiling.event("of compile")
            print("printed", end="")
            with run.capture_prints():
                print("printed in compile")
        run.event("after", level="NOTICE", data={"n": 1})
    assert said(server) == [
        ("before", None), ("compiling", "compile"), ("linking", "link"), ("of compile", "compile"),
        ("printed in compile", "compile"), ("after", None),
    ]  # fmt: skip
    events = events_of(server)
    assert [event["id"] for event in events.stored] == list(range(6))
    assert (linking.parent, compiling.parent) == (compiling.id, None)
    assert events.stored[0]["level"] == "INFO" and events.stored[0]["data"] == {"logger": "app"}
    assert (events.stored[5]["level"], events.stored[5]["data"]) == ("NOTICE", {"n": 1})
    assert b"INFO app: before" in server.lines("p", "r")[0]
    assert events.unregistered == []
    assert server.runs["p", "r"].closed


def test_steps_tell_their_start_end_and_failure(server: FakeServer, settings: Settings) -> None:
    with runlake.run("p", "r", logger=None, events=True, settings=settings) as run:
        with run.step("fine", "step-1"):
            pass
        with pytest.raises(ZeroDivisionError), run.step("outer", "step-2"), run.step("inner"):
            _ = 1 / 0
        with pytest.raises(SystemExit), run.step("leaves"):
            sys.exit(0)
        with run.step("open") as opened:
            run.handler.flush()
            assert events_of(server).steps[opened.id]["status"] == "running"
            assert events_of(server).steps[opened.id]["endedMs"] is None
    steps = events_of(server).steps
    assert [(facts["name"], facts["status"]) for facts in steps.values()] == [
        ("fine", "succeeded"), ("outer", "failed"), ("inner", "failed"), ("leaves", "succeeded"), ("open", "succeeded"),
    ]  # fmt: skip
    assert all(facts["startedMs"] <= facts["endedMs"] for facts in steps.values())
    assert next(iter(steps)) == "step-1"
    inner, outer = events_of(server).stored
    assert inner["message"] == "the step inner failed: ZeroDivisionError: division by zero" and inner["level"] == "ERROR"
    assert outer["step"] == "step-2" and outer["data"] == {"exception": "ZeroDivisionError: division by zero"}


def test_an_exception_is_in_the_message_and_in_the_data(server: FakeServer, settings: Settings) -> None:
    logger = logging.Logger("app")
    with runlake.run("p", "r", logger=logger, events=True, settings=settings):
        try:
            _ = 1 / 0
        except ZeroDivisionError:
            logger.exception("it failed")
    (event,) = events_of(server).stored
    assert event["data"] == {"logger": "app", "exception": "ZeroDivisionError: division by zero"}
    assert event["message"].splitlines()[1] == "Traceback (most recent call last):"
    assert event["lines"] == len(server.lines("p", "r")) > 3


@pytest.mark.behavior("Lines of a step belong to it across threads and tasks.")
def test_steps_of_threads_and_tasks_do_not_mix(server: FakeServer, settings: Settings) -> None:
    logger = logging.Logger("app")

    def work(number: int, run: runlake.Run) -> None:
        with run.step(f"thread {number}"):
            for _ in range(50):
                logger.info("of thread %d", number)

    async def task(number: int, run: runlake.Run) -> None:
        with run.step(f"task {number}"):
            for _ in range(20):
                logger.info("of task %d", number)
                await asyncio.sleep(0)

    async def tasks(run: runlake.Run) -> None:
        await asyncio.gather(*(task(number, run) for number in range(5)))

    with runlake.run("p", "r", logger=logger, events=True, settings=settings) as run:
        threads = [threading.Thread(target=work, args=(number, run)) for number in range(8)]
        for thread in threads:
            thread.start()
        asyncio.run(tasks(run))
        for thread in threads:
            thread.join()
        with run.step("whole"):
            context = contextvars.copy_context()
            inside = threading.Thread(target=context.run, args=(logger.info, "of whole"))
            inside.start()
            inside.join()
    for message, step in said(server):
        assert message == f"of {step}"
    assert sorted(event["id"] for event in events_of(server).stored) == list(range(8 * 50 + 5 * 20 + 1))
    assert [event["id"] for event in events_of(server).stored] == list(range(501)), "the log has the order of the ids"


def test_two_runs_at_once_have_their_own_steps(server: FakeServer, settings: Settings) -> None:
    options = {"logger": None, "events": True, "settings": settings}
    one, two = runlake.run("p", "r", **options), runlake.run("p", "other", **options)  # type: ignore[arg-type]
    with one, two, one.step("of one"), two.step("of two"):
        one.write("one\n")
        two.write("two\n")
    assert said(server) == [("one", "of one")]
    assert [step["parent"] for step in server.runs["p", "other"].events.steps.values()] == [None]


def test_a_writer_registers_writes_and_closes(server: FakeServer, settings: Settings) -> None:
    with runlake.run("p", "r", logger=None, settings=settings) as run:
        run.write("a line")
        run.handler.flush()
        with run.events("agent-7") as writer:
            writer.write("one", level="INFO", timestamp_ms=1_780_000_000_123)
            with writer.step("deploy"):
                writer.write("two\nlines", annotations=[runlake.link(0, 3, "https://example.com/"), runlake.fold()])
                with writer.stream(level="DEBUG") as stream:
                    print("three\nfo", end="", file=stream)
                    print("ur\nfive", end="", file=stream)
            assert writer.name == "agent-7"
        events = events_of(server)
        assert events.writers["agent-7"]["closed"] and events.writers["agent-7"]["count"] == 5
        assert not server.runs["p", "r"].closed
        run.events("never-closed").write("six")
    assert server.lines("p", "r") == [b"a line", b"one", b"two", b"lines", b"three", b"four", b"five", b"six"]
    assert events.stored[0]["timestamp"] == 1_780_000_000_123
    assert events.writers["agent-7"]["lastTimestamp"] >= 1_780_000_000_123
    assert events.stored[1]["annotations"] == [
        {"position": 0, "note": {"kind": "link", "length": 3, "href": "https://example.com/"}},
        {"position": 0, "note": {"kind": "fold"}},
    ]
    assert [(writer["closed"], writer["count"]) for writer in events.writers.values()] == [(True, 5), (True, 1)]


def test_data_of_a_writer_is_on_each_of_its_events(server: FakeServer, settings: Settings) -> None:
    data: dict[str, object] = {"team": "core", "key": "s3cret-value", "tries": 1}
    with runlake.run(
        "p", "r", logger=None, events=True, data={"of": "the run"}, secrets=["s3cret-value"], settings=settings
    ) as run:
        with run.events("w", data) as writer:
            data.clear()
            writer.write("one")
            writer.write("two", data={"tries": 2, "k": []})
        run.event("three")
    own = {"team": "core", "key": "***configured-value***", "tries": 1}
    assert {event["message"]: event["data"] for event in events_of(server).stored} == {
        "one": own, "two": own | {"tries": 2, "k": []}, "three": {"of": "the run"},
    }  # fmt: skip


def test_line_that_is_written_in_parts_has_the_time_of_the_first(
    server: FakeServer, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = SimpleNamespace(ms=0)
    monkeypatch.setattr("runlake.events.time.time_ns", lambda: now.ms * 1_000_000)
    run = runlake.run("p", "r", logger=None, events=True, settings=settings)
    with run, run.events("w") as writer, run.capture_prints(), writer.stream() as stream:
        for now.ms, piece in enumerate(("a", "b\nc", "d\n", "e\nf"), 1):
            stream.write(piece)
            sys.stdout.write(piece)
    times = [(event["message"], event["timestamp"]) for event in events_of(server).stored]
    assert sorted(times) == sorted(2 * [("ab", 1), ("cd", 2), ("e", 4), ("f", 4)])


def test_a_writer_is_registered_before_it_has_anything_to_say(server: FakeServer, settings: Settings) -> None:
    with runlake.run("p", "r", logger=None, settings=settings) as run, run.events("quiet"):
        _eventually(lambda: "quiet" in events_of(server).writers)
    assert events_of(server).writers["quiet"] == {"closed": True, "count": 0, "lastTimestamp": None}


def test_without_events_a_step_says_what_is_missing(server: FakeServer, settings: Settings) -> None:
    with runlake.run("p", "r", logger=None, settings=settings) as run:
        for act in (lambda: run.step("compile"), lambda: run.event("hello")):
            with pytest.raises(SettingsError, match="events=True"):
                act()


def test_an_event_that_is_too_long_is_cut_and_says_so(server: FakeServer, settings: Settings) -> None:
    with runlake.run("p", "r", logger=None, events=True, settings=settings) as run:
        run.event("\0" * (MAX_EVENT_BYTES // 2), level="INFO", data={"a": "b"})
        run.event("short", data={"a": "x" * MAX_EVENT_BYTES})
        assert run.counts.cut_lines == 2
    long, short = events_of(server).stored
    shown, _, note = long["message"].partition("\n")
    assert note == f"[runlake] cut here: {MAX_EVENT_BYTES // 2 - len(shown)} more characters" and len(shown) > 50_000
    assert (long["level"], long["data"], short["message"], short["data"]) == ("INFO", {}, "short", {})


def test_what_the_archive_would_refuse_is_left_out_or_told_at_once(server: FakeServer, settings: Settings) -> None:
    with runlake.run("p", "r", logger=None, events=True, settings=settings) as run:
        run.event("much beside", data={"a": "ü" * 15_000}, level="WARN")
        with pytest.raises(SettingsError, match="no such level"):
            run.event("never", level="LOUD")
        run.event("noted", annotations=[runlake.colour(6, 1, "red"), runlake.colour(2, 2, "red")])
        for name in ("", "x" * 201, "a\nb", "ü" * 150):
            with pytest.raises(SettingsError, match="a step must have 1 to 200"):
                run.event("never", step=name or "\0")
            with pytest.raises(SettingsError, match="a writer must have 1 to 200"):
                run.events(name)
        with run.step("n" * 500):
            run.event("in it")
    events = events_of(server)
    assert events.messages() == ["much beside", "noted", "in it"] and run.counts.refused_lines == 0
    assert [len(note["annotations"]) for note in events.stored] == [0, 1, 0]
    assert (events.stored[0]["data"], events.stored[0]["level"]) == ({}, "WARN")
    assert [len(facts["name"]) for facts in events.steps.values()] == [200]


@pytest.mark.slow
def test_no_request_has_more_events_than_the_archive_takes(server: FakeServer, settings: Settings) -> None:
    handler = RunlogHandler("p", "r", events=True, settings=settings, pace=Pace(batch_bytes=1 << 21, interval_s=5))
    for _ in range(25_000):
        handler.event("")
    handler.close()
    assert len(events_of(server).stored) == handler.counts.stored_lines == 25_000
    assert len(server.requests) < 10


def test_values_that_are_not_json_become_their_repr(server: FakeServer, settings: Settings) -> None:
    cycle: list[object] = []
    cycle.append(cycle)
    with runlake.run("p", "r", logger=None, events=True, settings=settings) as run:
        run.event("\ud800\0", data={"path": Path("x"), "cycle": cycle, 1: (1, 2.5, None, True), "inf": float("inf")})
    (event,) = events_of(server).stored
    assert event["message"] == "?\0"
    assert event["data"]["path"] == repr(Path("x")) and event["data"]["1"] == [1, 2.5, None, True] and event["data"]["inf"] == "inf"
    assert "..." in json.dumps(event["data"]["cycle"])


@pytest.mark.slow
@pytest.mark.sampled(default=2)
@pytest.mark.parametrize("seed", range(4))
def test_a_bad_day_each_event_and_step_once_and_in_order(seed: int, server: FakeServer, settings: Settings, pace: Pace) -> None:
    chance = random.Random(seed)
    server.fault = BadDay(seed)
    hasty = replace(settings, timeout_s=0.15, memory_bytes=8192)
    with runlake.run("p", "r", logger=None, events=True, writer="w", settings=hasty, pace=pace) as run:
        for number in range(20):
            with run.step(f"step {number}"):
                for line in range(chance.randrange(1, 120)):
                    run.event(f"{number}.{line}")
                if chance.random() < 0.2:
                    server.down()
                    run.event(f"{number}.away")
                    server.up()
    events = events_of(server)
    assert [event["id"] for event in events.stored] == list(range(len(events.stored)))
    assert events.writers["w"]["closed"] and events.writers["w"]["count"] == len(events.stored) == run.counts.stored_lines
    assert [facts["status"] for facts in events.steps.values()] == ["succeeded"] * 20
    assert all(event["message"].split(".")[0] == events.steps[event["step"]]["name"].split()[1] for event in events.stored)
    assert server.runs["p", "r"].closed and run.counts.lost_lines == 0


def test_events_that_do_not_fit_are_missed_by_their_ids(server: FakeServer, settings: Settings) -> None:
    server.down()
    told: list[str] = []
    small = replace(settings, memory_bytes=2000, spool_bytes=0)
    fast = Pace(interval_s=0.005, first_wait_s=0.001, most_wait_s=0.01)
    handler = RunlogHandler("p", "r", events=True, writer="w", settings=small, pace=fast, tell=told.append, close_run=True)
    for number in range(500):
        handler.event(f"{number}")
    dropped = handler.counts.dropped_lines
    server.up()
    handler.close()
    events = events_of(server)
    gaps = [event for event in events.stored if event["message"].startswith("[runlake]")]
    assert sum(int(event["message"].split()[1]) for event in gaps) == dropped > 0
    assert events.writers["w"]["count"] == 500 + len(gaps)
    with runlake.Archive(server.url) as archive:
        found = archive.completeness(handler.run)
    assert (found["state"], found["lost"]) == ("lost", ["w"])
    assert told == [f"{dropped} events of p/r are lost: dropped={dropped} refused=0"]


def test_events_that_are_refused_are_counted_and_told_once(server: FakeServer, settings: Settings) -> None:
    told: list[str] = []
    handler = RunlogHandler("p", "r", events=True, settings=settings, tell=told.append)
    handler.event("good")
    handler.event("refuse this")
    handler.flush()
    handler.event("refuse all")
    handler.close()
    assert events_of(server).messages() == ["good"]
    assert (handler.counts.stored_lines, handler.counts.refused_lines) == (1, 2)
    assert [text for text in told if "as the test requires" in text] == told[:1]


def test_without_the_server_events_are_kept_and_drained_with_their_writer(
    server: FakeServer, settings: Settings, pace: Pace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    from runlake.__main__ import runlake as command

    told: list[str] = []
    handler = RunlogHandler("p", "r", events=True, writer="w", settings=settings, pace=pace, tell=told.append, close_run=True)
    handler.event("stored")
    handler.flush()
    server.down()
    with handler.step("late", "late"):
        for number in range(300):
            handler.event(f"{number}")
    counts = handler.finish(0.05)
    assert (counts.stored_lines, counts.lost_lines) == (1, 0)
    server.up()
    environment = {"RUNLAKE_SPOOL_DIR": settings.spool_dir, "RUNLAKE_URL": server.url}
    drained = CliRunner().invoke(command, ["drain", "--json"], env=environment)
    assert json.loads(drained.output) == {"stored": 300, "kept": 0, "failed": 0}
    events = events_of(server)
    assert events.messages() == ["stored", *map(str, range(300))]
    assert [event["id"] for event in events.stored] == list(range(301))
    assert (events.writers["w"]["count"], events.writers["w"]["closed"]) == (301, True)
    assert events.steps["late"]["status"] == "succeeded"
    assert server.runs["p", "r"].closed


def assert_complete_from_0(server: FakeServer, run_id: str, messages: list[str]) -> None:
    stored = server.runs["p", run_id]
    assert (stored.events.messages("w"), [event["id"] for event in stored.events.stored]) == (messages, list(range(len(messages))))
    assert stored.events.writers["w"]["count"] == len(messages) and stored.closed
    with runlake.Archive(server.url) as archive:
        assert archive.completeness(runlake.RunName("p", run_id))["state"] == "complete"


@pytest.mark.parametrize("fault", ["cut", "lost"])
def test_events_of_a_run_that_is_closed_under_them_are_complete_in_both_attempts(
    fault: str, server: FakeServer, settings: Settings, pace: Pace
) -> None:
    """For each request after the close as the one without a response."""
    at, requests = 0, 1
    while at < requests:
        server.runs.clear()
        server.fault = lambda method, path: ""
        with runlake.run("p", "r", logger=None, events=True, writer="w", settings=settings, pace=pace) as run:
            for number in range(3):
                run.event(f"first {number}")
            run.handler.flush()
            server.runs["p", "r"].closed = True
            numbers = itertools.count()
            server.fault = lambda method, path, at=at, numbers=numbers: fault if next(numbers) == at else ""  # type: ignore[misc]
            for number in range(2):
                run.event(f"second {number}")
        requests, at = next(numbers), at + 1
        server.fault = lambda method, path: ""
        assert_complete_from_0(server, "r", [f"first {number}" for number in range(3)])
        assert_complete_from_0(server, "r~2", [f"second {number}" for number in range(2)])
        assert ("p", "r~3") not in server.runs and run.counts.stored_lines == 5
    assert at > 6


def test_as_many_events_as_one_request_takes_are_counted_without_what_is_told_of_steps() -> None:
    event, step = b'{"id":0}\n', b'{"@step":"s"}\n'
    delivery = EventDelivery(runlake.RunName("p", "r"), "w", lambda: WriterEnd(0))
    most = step + 9_999 * event + step + event
    assert [delivery.fit_to_request(batch) for batch in (most, most + step, most + step + event, event)] == [
        most, most, most, event
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("by", ["handler", "drain"])
def test_each_of_many_events_is_in_one_attempt_when_the_run_is_closed_between_two_requests(
    by: str, server: FakeServer, settings: Settings
) -> None:
    from click.testing import CliRunner

    from runlake.__main__ import runlake as command

    count, taken, requests = 25_000, 10_000, itertools.count()

    def close_before_the_second(method: str, path: str) -> str:
        if is_away:
            return "503"
        if "writer=w" in path and next(requests) == 1:
            server.runs["p", "r"].closed = True
        return ""

    is_away, server.fault = by == "drain", close_before_the_second
    pace = Pace(batch_bytes=1 << 21, interval_s=5, first_wait_s=0.01)
    options = {"settings": settings, "pace": pace, "tell": lambda text: None, "command": "./load.sh", "close_run": True}
    handler = RunlogHandler("p", "r", events=True, writer="w", **options)  # type: ignore[arg-type]
    for number in range(count):
        handler.event(str(number))
    handler.finish(0.1 if is_away else 30)
    if is_away:
        is_away = False
        environment = {"RUNLAKE_SPOOL_DIR": settings.spool_dir, "RUNLAKE_URL": server.url}
        assert CliRunner().invoke(command, ["drain", "--next-attempt"], env=environment).exit_code == 0
    assert_complete_from_0(server, "r", [str(number) for number in range(taken)])
    assert_complete_from_0(server, "r~2", [str(number) for number in range(taken, count)])


@pytest.mark.parametrize("away", ["/api/", "/starts/", "/writers/"])
def test_kept_events_of_a_run_that_was_closed_are_complete_in_both_attempts(
    away: str, server: FakeServer, settings: Settings, pace: Pace
) -> None:
    """Everything fails after the close, or only the requests that begin a later attempt."""
    from click.testing import CliRunner

    from runlake.__main__ import runlake as command

    options = {"settings": settings, "pace": pace, "tell": lambda text: None, "command": "./load.sh", "close_run": True}
    handler = RunlogHandler("p", "r", events=True, writer="w", **options)  # type: ignore[arg-type]
    handler.event("first")
    handler.flush()
    server.runs["p", "r"].closed = True
    server.fault = lambda method, path: "503" if away in path else ""
    handler.event("second")
    handler.event("third")
    handler.finish(0.1)
    server.fault = lambda method, path: ""
    environment = {"RUNLAKE_SPOOL_DIR": settings.spool_dir, "RUNLAKE_URL": server.url}
    assert CliRunner().invoke(command, ["drain", "--next-attempt"], env=environment).exit_code == 0
    assert_complete_from_0(server, "r", ["first"])
    assert_complete_from_0(server, "r~2", ["second", "third"])
    assert ("p", "r~3") not in server.runs


def test_a_run_stays_open_for_a_writer_whose_events_are_kept(server: FakeServer, settings: Settings, pace: Pace) -> None:
    server.fault = lambda method, path: "503" if "writer=second" in path else ""
    told: list[str] = []
    hasty = replace(settings, exit_s=0.5)
    with runlake.run("p", "r", logger=None, events=True, settings=hasty, pace=pace, tell=told.append) as run:
        run.event("of the first")
        run.handler.flush()
        run.events("second").write("of the second")
    assert not server.runs["p", "r"].closed
    command = f"runlake --spool-dir {settings.spool_root} drain"
    assert told == [
        f"1 events of p/r wait in {settings.spool_root}: run `{command}` later",
        f"p/r is left running, because events wait on disk: run `{command}`, then `runlake close p r`",
    ]


def test_a_writer_that_is_killed_is_named(server: FakeServer, tmp_path: Path) -> None:
    code = "import runlake, sys, time\nrun = runlake.run('p', 'r', logger=None, events=True, writer='doomed')\n"
    code += "run.event('one'); run.handler.flush(); print('ready', flush=True); time.sleep(60)\n"
    environ = {**os.environ, "PYTHONPATH": str(_SRC), "RUNLAKE_URL": server.url, "RUNLAKE_SPOOL_DIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
    with runlake.Archive(server.url) as archive:
        archive.close_run(runlake.RunName("p", "r"))
        assert archive.completeness(runlake.RunName("p", "r"))["lost"] == ["doomed"]


def test_completeness_has_the_writers_of_all_pages(server: FakeServer) -> None:
    run = runlake.RunName("p", "r")
    with runlake.Archive(server.url) as archive:
        for number in range(5):
            httpx.put(f"{server.url}/v1/events/p/r/writers/w{number}")
        archive.close_run(run)
        document = archive.completeness(run)
    names = [f"w{number}" for number in range(5)]
    assert [each["writer"] for each in document["writers"]] == document["lost"] == names
    assert document["state"] == "lost"


def _in_child(number: int) -> None:
    logging.getLogger("forked.events").warning("child %d", number)


def test_after_a_fork_each_process_is_a_writer_of_its_own(server: FakeServer, settings: Settings) -> None:
    logger = logging.getLogger("forked.events")
    with runlake.run("p", "r", logger=logger, events=True, writer="w", settings=settings) as run, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, which is the point
        with run.step("parallel"):
            logger.warning("parent")
            children = [multiprocessing.get_context("fork").Process(target=_in_child, args=(number,)) for number in range(3)]
            for child in children:
                child.start()
            for child in children:
                child.join()
    events = events_of(server)
    assert sorted(said(server)) == [*((f"child {number}", "parallel") for number in range(3)), ("parent", "parallel")]
    assert len(events.writers) == 4 and sum(name.startswith("w-") for name in events.writers) == 3
    assert all((writer["closed"], writer["count"]) == (True, 1) for writer in events.writers.values())


def _eventually(holds: object) -> None:
    give_up = time.monotonic() + 20
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < give_up
        time.sleep(0.005)
