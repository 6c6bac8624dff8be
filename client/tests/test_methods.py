"""Logging methods: how one is chosen, and that a run by another method than the run log has all of its events there, once."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import runlake
from client.tests.fake_server import INSTANCE_ID, FakeServer
from client.tests.test_commands import call
from runlake import Pace, RunName, Settings, SettingsError, load_settings
from runlake.errors import UnavailableError
from runlake.heartbeats import Heartbeats
from runlake.methods import GROUP, choose_method
from runlake.settings import RUN_LOG
from runlake.starts import Start

TARGET = {"kind": "elasticsearch", "url": "http://127.0.0.1:9", "index": "logs"}
FILE = """
method = "other"
methods.target = {kind = "otlp", url = "http://127.0.0.1:9"}
[[locators]]
pattern = "batch.*"
method = "runlog"
[profiles.test]
[[profiles.test.locators]]
pattern = "*"
method = "target"
"""


@dataclass
class Store:
    """Another system, as a method: stores an event once by its run, writer and id. ``fault`` is called before and after each call."""

    events: dict[tuple[RunName, str, int], Mapping[str, Any]] = field(default_factory=dict)
    ends: dict[tuple[RunName, str], int] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    fault: Any = lambda: None
    opened: int = 0
    last_ms: list[int | None] = field(default_factory=list)

    def create_writer(self, run: RunName, writer: str, instance_id: str) -> StoreWriter:
        assert instance_id == INSTANCE_ID
        self.opened += 1
        return StoreWriter(self, run, writer)

    def messages(self, run_id: str = "r") -> list[str]:
        return [str(event["message"]) for (run, *_), event in self.events.items() if run.run_id == run_id]


@dataclass
class StoreWriter:
    store: Store
    run: RunName
    writer: str

    def write(self, events: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        assert events
        self.store.fault()
        good = [each for each in events if "refuse" not in each["message"]]
        for each in good:
            self.store.events.setdefault((self.run, self.writer, each["id"]), each)
        self.store.fault()
        return ["as the test requires"] * (len(events) - len(good))

    def end(self, count: int, last_timestamp_ms: int | None) -> None:
        self.store.fault()
        self.store.ends[self.run, self.writer] = count
        self.store.last_ms.append(last_timestamp_ms)
        self.store.fault()

    def close(self) -> None:
        self.store.opened -= 1
        raise OSError("the connection is gone already")


@dataclass
class Point:
    """An entry point."""

    name: str
    made: Any

    def load(self) -> Any:
        if isinstance(self.made, BaseException):
            raise self.made
        return self.made


def factory(protocol: object, make: Any) -> Any:
    def made(options: Mapping[str, Any]) -> Any:
        return make(options)

    made.RUNLAKE_PROTOCOL = protocol  # type: ignore[attr-defined]
    return made


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    made = Store()
    points = [
        Point("store", factory(1, lambda options: replace(made, options=options) if options else made)),
        Point("next", factory(2, Store)),
        Point("none", Store),
        Point("broken", ImportError("no module")),
        Point("nothing", factory(1, lambda options: None)),
        Point("strict", factory(1, lambda options: options["url"])),
    ]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points if group == "runlake.logging_methods" else [])
    return made


@pytest.mark.parametrize(
    ("settings", "fqn", "name", "expected"),
    [
        (Settings(), "p", None, "runlog"),
        (Settings(method="store"), "p", None, "store"),
        (Settings(method="store"), "p", "runlog", "runlog"),
        (Settings(method="store", locators=(("q*", "next"), ("p*", "runlog"), ("*", "next"))), "p", None, "runlog"),
        (Settings(method="store", locators=(("p*", "runlog"),), origins={"method": "argument"}), "p", None, "store"),
        (Settings(method="store", locators=(("p*", "runlog"),), origins={"method": "environment"}), "p", None, "store"),
        (Settings(methods={"target": TARGET}), "p", "target", "target"),
        *[(Settings(), "p", name, "runlog") for name in ("next", "none", "broken", "nothing")],
    ],
)
def test_method_by_argument_variable_locator_and_setting(
    store: Store, settings: Settings, fqn: str, name: str | None, expected: str
) -> None:
    chosen = choose_method(settings, fqn, name)
    assert (chosen.name, chosen.method is None) == (expected, expected == RUN_LOG)
    assert bool(chosen.problem) == (name in ("next", "none", "broken", "nothing"))


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("stroe", {}, "there are broken, next, none, nothing, runlog, store, strict, target"),
        ("strict", {}, "refuses its options: 'url'"),
        ("target", {}, "[methods.target] is missing"),
        ("target", {"url": "http://h"}, "field=kind"),
        ("target", {**TARGET, "url": "ftp://h"}, "field=elasticsearch.url"),
        ("target", {**TARGET, "index": {1, 2}}, "set is not JSON"),
    ],
)
def test_mistaken_method_raises_before_the_run(store: Store, name: str, options: Any, problem: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(problem)):
        choose_method(Settings(methods={name: options}), "p", name)


def test_target_without_the_extra_names_its_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "runlake_forwarding", None)
    with pytest.raises(SettingsError, match="forwarding is not installed") as raised:
        choose_method(Settings(methods={"target": TARGET}), "p", "target")
    assert "pip install" in raised.value.next_step


def test_file_has_options_and_locators_of_methods(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(FILE)
    load = partial(load_settings, environ={"RUNLAKE_CONFIG": str(path)})
    assert (load().method_of("batch.a"), load().method_of("b")) == ("runlog", "other")
    assert load({"profile": "test"}).method_of("b") == "target" and load({"method": "x"}).method_of("batch.a") == "x"
    assert load({"profile": "test"}).methods == {"target": {"kind": "otlp", "url": "http://127.0.0.1:9"}}
    for wrong in ("methods = 1", "methods.a = 1", "locators = 1", "locators = [1]", 'locators = [{pattern = "a"}]',
                  'locators = [{pattern = "!a", method = "a"}]', 'locators = [{pattern = "", method = "a"}]',
                  'locators = [{pattern = "a", method = 1}]'):  # fmt: skip
        path.write_text(wrong)
        with pytest.raises(SettingsError, match="must be tables"):
            load()


def test_run_by_a_method_has_all_there_and_its_frame_in_the_archive(server: FakeServer, settings: Settings, store: Store) -> None:
    chosen = replace(settings, locators=(("p", "store"),))
    with runlake.run("p", "r", logger=None, settings=chosen, secrets=["hunter2"]) as run:
        run.write("one hunter2\n")
        with run.step("load", "load-1"):
            run.event("two", level="warn", data={"n": 1, "jobId": "x"})
        with run.events("w", {"of": "w"}) as writer:
            writer.write("three", timestamp_ms=5)
    assert sorted(store.messages()) == ["one ***configured-value***", "three", "two"]
    by_message = {event["message"]: event for event in store.events.values()}
    mandatory = {"instanceId": INSTANCE_ID, "loggableType": "run", "loggableId": "r", "jobId": "p"}
    assert by_message["two"]["data"] == {"n": 1, **mandatory, "stepId": "load-1"}
    assert by_message["two"]["level"] == "warn" and "step" not in by_message["two"]
    assert by_message["three"] == {"id": 0, "timestamp": 5, "message": "three", "data": {"of": "w", **mandatory}}
    stored = server.runs["p", "r"]
    assert stored.closed and stored.lines == [] and stored.events.steps["load-1"]["status"] == "succeeded"
    counts = {writer: state["count"] for writer, state in stored.events.writers.items()}
    assert counts == {writer: count for (_, writer), count in store.ends.items()} and sorted(counts.values()) == [1, 2]
    assert {start["method"] for start in server.starts} == {"store"} and store.opened == 0 and 5 in store.last_ms


def test_method_failing_before_or_after_each_call_has_each_event_once(
    server: FakeServer, settings: Settings, store: Store, pace: Pace
) -> None:
    for error in (TimeoutError("away"), UnavailableError("away"), KeyError("a bug"), SystemExit("a package")):
        for failing in range(100):
            calls = iter(range(1000))
            said: list[str] = []

            def fault(error: BaseException = error, calls: Any = calls, failing: int = failing) -> None:
                if next(calls) == failing:
                    raise error

            store.fault = fault
            run_id = f"{type(error).__name__}-{failing}"
            with runlake.run("p", run_id, logger=None, settings=settings, method="store", pace=pace, tell=said.append) as run:
                for number in range(3):
                    run.write(f"{number}")
                    run.handler.flush()
            assert store.messages(run_id) == ["0", "1", "2"]
            assert server.runs["p", run_id].closed and not list(Path(settings.spool_dir).glob("*/state"))
            taken = next(calls)
            problem = {TimeoutError: "cannot write: away", KeyError: "fails: KeyError", SystemExit: "fails: SystemExit"}.get(
                type(error)
            )
            assert [problem in each for each in said] == [True] * (failing < taken) if problem else said == []
            if failing >= taken:
                break
        else:
            raise AssertionError("the calls do not end")


@pytest.mark.parametrize("answer", [None, "text", ["a reason"] * 2])
def test_wrong_answer_of_a_method_keeps_the_events_on_disk(
    server: FakeServer, settings: Settings, store: Store, pace: Pace, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    said: list[str] = []
    monkeypatch.setattr(StoreWriter, "write", lambda *_: answer)
    with runlake.run(
        "p", "r", logger=None, settings=replace(settings, exit_s=0.1), method="store", pace=pace, tell=said.append
    ) as run:
        run.write("one")
    assert (run.counts.stored_lines, run.counts.kept_lines) == (0, 1) and any("store fails: TypeError" in each for each in said)


def test_archive_that_is_away_makes_no_event_written_again(
    server: FakeServer, settings: Settings, store: Store, pace: Pace, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults, writes, ends = ["503"] * 3, list[int](), list[int]()
    server.fault = lambda method, path: faults.pop() if faults and ("/steps/" in path or path.endswith("/close")) else ""
    write, end, beats = StoreWriter.write, StoreWriter.end, list[int]()
    monkeypatch.setattr(Heartbeats, "sent", lambda _: beats.append(1))
    monkeypatch.setattr(StoreWriter, "write", lambda *args: writes.append(1) or write(*args))

    def counted_end(*args: Any) -> None:
        assert all(not each["closed"] for each in server.runs["p", "r"].events.writers.values()), (
            "the archive counts what is stored"
        )
        ends.append(1)
        end(*args)

    monkeypatch.setattr(StoreWriter, "end", counted_end)
    with runlake.run("p", "r", logger=None, settings=settings, method="store", pace=pace) as run:
        run.event("one")
        run.handler.update_step("s", {"status": "running"})
        run.handler.flush()
        assert faults == []
        faults += ["503"] * 3
    assert (len(writes), len(ends)) == (1, 1) and server.runs["p", "r"].closed and faults == []
    assert beats == [], "the archive sees nothing of a batch"


def test_refused_event_is_counted_with_its_reason(server: FakeServer, settings: Settings, store: Store) -> None:
    said: list[str] = []
    with runlake.run("p", "r", logger=None, settings=settings, method="store", tell=said.append) as run:
        run.write("refuse this")
        run.write("good")
    assert (run.counts.stored_lines, run.counts.refused_lines) == (1, 1) and store.messages() == ["good"]
    assert any("as the test requires" in each for each in said) and list(store.ends.values()) == [2]


def test_events_wait_on_disk_while_the_archive_refuses_the_method(
    server: FakeServer, settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    server.has_browser = False
    with runlake.run("p", "r", logger=None, settings=settings, method="store", tell=said.append) as run:
        run.write("one")
        run.write("two")
    assert store.events == {} and run.counts.kept_lines == 2 and any("log browser" in each for each in said)
    monkeypatch.setenv("RUNLAKE_SPOOL_DIR", settings.spool_dir)
    assert call(server, "drain").exit_code == 1 and store.events == {}
    server.has_browser = True
    assert call(server, "drain").exit_code == 0
    assert store.messages() == ["one", "two"] and list(store.ends.values()) == [2] and server.runs["p", "r"].closed


def test_events_of_a_store_that_is_away_at_the_end_are_drained_once(
    server: FakeServer, settings: Settings, store: Store, pace: Pace, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_away = iter([*[False] * 3, *[True] * 10_000])

    def fault() -> None:
        if next(is_away):
            raise ConnectionError("away")

    store.fault = fault
    with runlake.run("p", "r", logger=None, settings=replace(settings, exit_s=0.1), method="store", pace=pace) as run:
        for number in range(4):
            run.write(f"{number}")
            run.handler.flush()
    assert run.counts.kept_lines and not server.runs["p", "r"].closed
    store.fault = lambda: None
    monkeypatch.setenv("RUNLAKE_SPOOL_DIR", settings.spool_dir)
    points = {point.name: point for point in importlib.metadata.entry_points(group=GROUP)}
    points["store"].made, made = Store, points["store"].made
    assert "protocol, not 1 (RUNLAKE_PROTOCOL): install its package again" in call(server, "drain").output
    points["store"].made = made
    result = call(server, "drain")
    assert result.exit_code == 0, result.output
    assert store.messages() == ["0", "1", "2", "3"] and list(store.ends.values()) == [4] and server.runs["p", "r"].closed


def test_commands_say_that_a_log_is_in_another_store(server: FakeServer, tmp_path: Path) -> None:
    server.add("p", "r", b"fine\n", close=True)
    server.elsewhere.add("p")
    fetched = call(server, "download", "p", "r", "-o", str(tmp_path / "log"))
    assert fetched.exit_code == 0 and "not verified" in fetched.output and (tmp_path / "log").read_bytes() == b"fine\n"
    assert "log\tin another store, read by opensearch" in call(server, "status", "p", "r").output
    why = call(server, "why", "p", "r")
    assert why.exit_code == 2 and "is in another store" in why.output and "runlake cat p r" in why.output
    server.fault = lambda method, path: "503" if path.endswith("/completeness") else ""
    status = call(server, "status", "p", "r")
    assert status.exit_code == 0 and "cannot be counted browser=opensearch" in status.output


def test_settings_show_methods_without_their_secrets(server: FakeServer, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(FILE + '[methods.other]\nkind = "x"\nheaders = {Authorization = "hunter2"}\nurl = "https://u:hunter2@h/p"\n')
    shown = call(server, "config", environ={"RUNLAKE_CONFIG": str(path)}).output
    assert (
        "runs of batch.* are written by runlog" in shown
        and "method other: kind=x url=https://h" in shown
        and "hunter2" not in shown
    )
    path.write_text('[method.target]\nheaders = {Authorization = "hunter2"}\n')
    path.chmod(0o600)
    wrong = call(server, "config", environ={"RUNLAKE_CONFIG": str(path)})
    assert wrong.exit_code == 2 and "method must be a single value, not a table" in wrong.output and "hunter2" not in wrong.output


def test_handler_without_a_command_starts_the_run_for_its_method(server: FakeServer, settings: Settings, store: Store) -> None:
    handler = runlake.RunlogHandler("p", "r", settings=settings, method="store")
    handler.write("one")
    handler.close()
    assert store.messages() == ["one"] and server.runs["p", "r"].closed, "it opened the attempt"
    (start,) = server.starts
    assert (start["method"], start["join"], start["heartbeatS"]) == ("store", True, 300), "its events show the archive nothing"


def test_writers_of_two_processes_with_one_name_store_both_events(server: FakeServer, settings: Settings, store: Store) -> None:
    handlers = [runlake.RunlogHandler("p", "r", settings=settings, method="store", writer="w") for _ in range(2)]
    for handler in handlers:
        handler.write("one")
        handler.flush()
    for handler in handlers:
        handler.close()
    assert store.messages() == ["one", "one"] and all(writer.startswith("w-") for _, writer in store.ends)


def test_each_line_of_a_command_is_an_event(
    server: FakeServer, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNLAKE_SPOOL_DIR", str(tmp_path))
    script = "printf 'one\\ntwo'; printf '%s\\n' \" $RUNLAKE_START_METHOD$RUNLAKE_METHOD\""
    result = call(server, "exec", "--method", "store", "--run-id", "r", "p", "--", "sh", "-c", script)
    assert result.exit_code == 0, result.output
    assert store.messages()[:2] == ["one", "two store"] and store.messages()[2].startswith("[runlake] exit status 0 after")
    assert list(store.ends.values()) == [3] and server.runs["p", "r"].lines == []


def test_line_without_an_end_takes_no_more_memory_than_an_event(settings: Settings, store: Store) -> None:
    handler = runlake.RunlogHandler("p", "r", settings=settings, method="store")
    for _ in range(40):
        handler.write_bytes(b"x" * 65_536, 1.0)
    handler.write_bytes(b"\ny", 1.0)
    handler.close()
    assert "".join(store.messages()) == "x" * 40 * 65_536 + "y" and handler.counts.cut_lines == 0
    assert all(store.messages()) and len(store.messages()) > 20


def test_command_writes_to_its_run_by_its_method_and_to_others_by_theirs(
    settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Start.now(RunName("p", "r"), "", method="store")
    for name, value in start.environment(RunName("p", "r")).items():
        monkeypatch.setenv(name, value)
    methods = [runlake.RunlogHandler(fqn, "r", settings=settings, method="runlog")._method.name for fqn in ("p", "q")]
    assert methods == ["store", "runlog"]


def test_package_that_cannot_be_used_leaves_the_run_in_the_run_log(server: FakeServer, settings: Settings, store: Store) -> None:
    said: list[str] = []
    with runlake.run("p", "r", logger=None, settings=settings, method="next", tell=said.append) as run:
        run.write("one")
    assert server.lines("p", "r") == [b"one"] and "method" not in server.starts[0]
    assert "implements version 2 of the protocol, not 1" in said[0]
