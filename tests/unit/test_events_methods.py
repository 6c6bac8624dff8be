"""Logging methods and log browsers, configured independently: the run log, plain files and other stores behave
alike."""

from __future__ import annotations

import io
import json
import traceback
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue, SecretStr

from chalicelib.errors import DamagedLogError, InvalidConfigurationError, InvalidEventError, InvalidInputError, UnavailableError
from chalicelib.events import plugins
from chalicelib.events.configuration import EventsConfiguration, parse_configuration, redact
from chalicelib.events.event import Annotation, Event, Loggable, NewEvent
from chalicelib.events.log_streams import last_lines
from chalicelib.events.methods import SinkMethod, to_target
from chalicelib.events.ports import EventWriter, LogBrowser
from chalicelib.events.registry import Context, Registry, RunLogParts
from chalicelib.events.run_method import RunLogBrowser
from chalicelib.events.snapshots import LogSnapshots
from chalicelib.masking.masker import Masker
from chalicelib.masking.rules import MaskingRule
from chalicelib.ports import PutOptions
from chalicelib.runlog.choice import Choice
from tests.events_harness import INSTANCE, event_parts
from tests.faults.interception import AFTER, Intercepted, StopAt
from tests.sampling import examples
from tests.stored_logs import StoredLog, in_cloudwatch, in_searchable
from tests.support.clock import ManualClock
from tests.vendors import LogsClient, Searchable
from tests.world import RUN, World

LOGGABLE = Loggable.of_run(RUN, INSTANCE)
OTHERS: dict[str, Callable[[ManualClock], StoredLog]] = {
    "elasticsearch": lambda clock: in_searchable(Searchable(), clock),
    "cloudwatch": lambda clock: in_cloudwatch(LogsClient(clock), clock),
}
RULES = [MaskingRule(fqn="*", values=(SecretStr("hunter2-secret"),))]


class House:
    """A registry: ``name`` is the browser and, unless its logs are in another store, the method."""

    def __init__(self, name: str, directory: Path, port: Callable[[Any], Any] = lambda inner: inner) -> None:
        self.world = World()
        self.other: StoredLog | None = OTHERS[name](self.world.clock) if name in OTHERS else None
        self.configuration = EventsConfiguration(
            method="files" if self.other else name,
            browser=name,
            methods={"files": {"directory": str(directory)}},
            browsers={"files": {"directory": str(directory)}},
        )
        self.registry = self.build(port)

    def build(self, port: Callable[[Any], Any] = lambda inner: inner, with_store: bool = True) -> Registry:
        parts, world = event_parts(self.world, port, RULES), self.world
        snapshots = LogSnapshots(world.store, world.index, world.layout)
        run_log = RunLogParts(world.store, parts.log, parts.writers, snapshots, parts.logs, parts.browser, parts.watch)
        mask = Masker(RULES, None, world.clock).mask
        context = Context(world.clock, mask, run_log if with_store else None, make_browser=self._other_browser)
        return Registry(context, self.configuration)

    def _other_browser(self, document: Any, loggable: Loggable) -> LogBrowser:
        assert self.other and document == {"kind": self.configuration.browser}
        return self.other.make_browser(loggable)

    def writer(self, writer: str | None = None, **more: Any) -> EventWriter:
        self.world.clock.advance(0.001)  # other stores order events of different writers by time
        if self.other:
            sink = to_target(self.other.make_target, Masker(RULES, None, self.world.clock), self.world.clock)
            return SinkMethod(sink, self.world.clock).create_writer(LOGGABLE, writer=writer, **more)
        return self.registry.create_writer(LOGGABLE, writer=writer, **more)

    @property
    def browser(self) -> LogBrowser:
        return self.registry.open_browser(LOGGABLE)


@pytest.fixture(params=["runlog", "files", *OTHERS])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> House:
    return House(request.param, tmp_path)


def texts(house: House) -> str:
    text, start = "", 0
    while (answer := house.browser.overall_log(start)).next != start:
        text, start = text + answer.text, answer.next
    return text


def test_a_writer_injects_mandatory_data_and_counts_its_ids_from_0(house: House) -> None:
    writer = house.writer("agent")
    note, at = Annotation(position=1, note={"url": "x"}), house.world.clock.now_ms() - 5
    writer.write_event(NewEvent(message="a\nb", timestamp=at, step="s", level="INFO", data={"k": [1]}, annotations=(note,)))
    writer.write_message("c", step="t")
    writer.flush()
    first, second = house.browser.events()
    assert (first.id, first.message, first.timestamp, first.level, first.writer, first.step) == (
        0,
        "a\nb",
        at,
        "INFO",
        "agent",
        "s",
    )
    assert first.annotations == (note,)
    assert first.data == {**LOGGABLE.mandatory_data("s"), "k": [1]}
    assert (second.id, second.timestamp, second.step) == (1, house.world.clock.now_ms(), "t")


def test_data_of_a_writer_is_on_each_of_its_events(house: House) -> None:
    data: dict[str, JsonValue] = {"team": "core", "attempt": 1, "password": "hunter2-secret"}
    writer = house.writer("w", step="s", data=data)
    data["team"] = "changed later"
    writer.write_message("a")
    with writer.stream(step="t") as stream:
        stream.write("b\n")
    writer.write_event(NewEvent(message="c", data={"attempt": 2, "k": None}))
    house.writer("other").write_message("d")
    writer.close()
    own: dict[str, JsonValue] = {"team": "core", "attempt": 1}
    expected = [
        LOGGABLE.mandatory_data("s") | own,
        LOGGABLE.mandatory_data("t") | own,
        LOGGABLE.mandatory_data("s") | own | {"attempt": 2, "k": None},
    ]
    found = [dict(event.data) for event in house.browser.events()]
    assert all("hunter2" not in str(each.pop("password")) for each in found) and found == expected


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"jobId": "another"}, "another run"),
        ({"x": float("nan")}, "must be JSON"),
        ({"x": object()}, "must be a text and its data JSON field=data"),
        ({"x": "y" * 70_000}, "too large"),
        ({"stepId": "t"}, "two different steps"),
    ],
)
def test_invalid_data_of_a_writer_is_refused(house: House, data: Any, reason: str) -> None:
    with pytest.raises(InvalidEventError, match=reason):
        house.registry.create_writer(LOGGABLE, step="s", data=data)


def test_only_runs_have_logs(house: House) -> None:
    with pytest.raises(InvalidEventError):
        house.writer().write_event(NewEvent(message="x", data={"loggableId": "another"}))
    with pytest.raises(InvalidEventError, match="missing=instanceId"):
        house.registry.create_writer(Loggable("", "run", RUN.run_id, RUN.fqn))
    for use in (house.registry.create_writer, house.registry.open_browser):
        with pytest.raises(InvalidEventError, match="only runs have logs loggableType='node'"):
            use(Loggable(INSTANCE, "node", "agent-7", RUN.fqn))


def test_a_stream_is_split_into_lines_and_keeps_the_last_one(house: House) -> None:
    writer = house.writer()
    with writer.stream(step="s") as stream:
        for piece in ("one", " and\ntw", "o\r\n", "\n", "three"):
            stream.write(piece)
    stream.close()
    writer.close()
    assert [event.message for event in house.browser.events()] == ["one and", "two\r", "", "three"]
    assert house.browser.step_log("s", True).text == "one and\ntwo\r\n\nthree\n"


def test_close_is_recorded_once_and_ends_writing(house: House) -> None:
    writer = house.writer()
    writer.write_message("x")
    writer.close()
    writer.close()
    with pytest.raises(InvalidEventError, match="closed"):
        writer.write_message("y")
    if house.configuration.method == "runlog":
        (state,) = event_parts(house.world).watch.check(RUN).writers
        assert (state.opened, state.count, state.last_timestamp_ms) == (True, 1, house.world.clock.now_ms())


@pytest.mark.parametrize("house", ["runlog", "files"], indirect=True)
def test_log_is_complete_when_its_writers_are_closed(house: House) -> None:
    def found() -> tuple[Any, ...]:
        whole, size = house.browser.completeness(), len(texts(house))
        ends = house.browser.overall_log(size).complete, house.browser.step_log("s", False, size).complete
        return whole.state, whole.sealed, *ends, [(each.writer, each.opened, each.count) for each in whole.writers]

    assert found()[:4] == ("pending", False, False, False)
    one, two = house.writer("one"), house.writer("two")
    one.write_message("a", step="s")
    one.close()
    assert found() == ("pending", False, False, False, [("one", True, 1), ("two", True, None)])
    two.close()
    if house.configuration.method == "runlog":
        event_parts(house.world).finalizer.close(RUN)
    assert found() == ("complete", True, True, True, [("one", True, 1), ("two", True, 0)])
    if house.configuration.method == "files":
        house.writer("three").write_message("not sent")
        assert found()[:4] == ("pending", False, False, False)


def test_events_that_a_writer_counted_and_no_file_has_are_lost(tmp_path: Path) -> None:
    house = House("files", tmp_path)
    writer = house.writer("w")
    for number in range(5):
        writer.write_event(NewEvent(message=str(number), timestamp=number))
        writer.flush()
    writer.close()
    (path,) = tmp_path.rglob("events.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], *lines[3:], lines[1]]))
    found = house.browser.completeness()
    assert (found.state, found.lost, found.writers[0].missing, found.writers[0].last_timestamp_ms) == ("lost", ["w"], [(2, 2)], 4)
    path.with_name("writers.jsonl").write_bytes(b'{"writer": 1}\n[]\n{"wri')
    with pytest.raises(DamagedLogError):
        house.browser.completeness()


def test_browsers_read_the_log_in_every_way(house: House) -> None:
    one, two = house.writer("one"), house.writer("two")
    one.write_message("a", step="s")
    one.flush()
    house.world.clock.advance(0.001)
    two.write_message("b\nc")
    two.flush()
    house.world.clock.advance(0.001)
    one.write_message("d", step="s")
    one.close()
    browser = house.browser
    assert texts(house) == "a\nb\nc\nd\n"
    with browser.open_binary() as binary, browser.open_text() as text:
        assert binary.read() == text.read().encode() == b"a\nb\nc\nd\n"
    assert [browser.lines(most) for most in (0, 2, 99)] == [[], ["c", "d"], ["a", "b", "c", "d"]]
    first = browser.step_log("s", False)
    assert (first.text, first.complete) == ("a\nd\n", False)
    assert browser.step_log("s", False, 2).text == "d\n" and browser.step_log("none", False).text == ""
    path = browser.log_file()
    assert path.read_text() == "a\nb\nc\nd\n"
    browser.delete()
    assert texts(house) == "" and list(house.browser.events()) == []
    if path.exists():
        path.unlink()


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.integers(0, 400), max_size=12), st.booleans(), st.integers(0, 6))
def test_last_lines_of_any_log(lengths: list[int], is_ended: bool, most: int) -> None:
    log = b"\n".join(b"%d\r" % number + b"x" * length for number, length in enumerate(lengths)) + b"\n" * is_ended
    asked: list[int] = []

    def read(start: int, end: int) -> bytes:
        asked.append(end - start)
        return log[start:end]

    whole = [line.decode().removesuffix("\n") for line in io.BytesIO(log)]
    assert last_lines(read, len(log), most) == (whole[-most:] if most else [])
    assert sum(asked) <= 2 * sum(len(line) + 1 for line in whole[-most - 1 :]) + 128 * (most + 1)


@pytest.mark.parametrize(("state", "requests"), [("open", 6), ("compacted", 5), ("finalized", 3)])
def test_last_lines_are_read_from_the_end(tmp_path: Path, state: str, requests: int) -> None:
    house = House("runlog", tmp_path)
    parts, writer = event_parts(house.world), house.writer()
    for number in range(4_000):
        writer.write_message(f"line {number} {'x' * (number % 300)}")
    writer.close()
    if state == "compacted":
        parts.compactor.compact(RUN, house.world.deadline())
    if state == "finalized":
        parts.finalizer.close(RUN)
    before = house.world.store.calls.total()
    assert [line.split()[1] for line in house.browser.lines(100)] == list(map(str, range(3_900, 4_000)))
    assert house.world.store.calls.total() - before == requests
    with pytest.raises(InvalidInputError, match="lines=-1"):
        house.browser.lines(-1)


def test_secrets_are_masked_on_every_path(house: House) -> None:
    writer = house.writer()
    writer.write_event(NewEvent(message="a hunter2-secret", data={"x": "hunter2-secret"}))
    with writer.stream() as stream:
        stream.write("hunter2-secret\n")
    writer.close()
    assert "hunter2" not in texts(house) + repr(list(house.browser.events()))
    assert texts(house).count("***configured-value***") == 2


@settings(deadline=None, max_examples=examples(30))
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["", "x", "y\nz", "\r"])), min_size=1, max_size=4), max_size=5
    )
)
def test_files_are_read_as_the_run_log_is(tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[str, str]]]) -> None:
    seen = []
    for name in ("runlog", "files"):
        house = House(name, tmp_path_factory.mktemp("files"))
        writers = {step: house.writer(step) for step in "ab"}
        for batch in batches:
            for step, message in batch:
                writers[step].write_message(message, step=step)
            for writer in writers.values():
                writer.flush()
        events = [event.model_dump() for event in house.browser.events()]
        seen.append((texts(house), house.browser.step_log("a", True).text, events))
    assert seen[0] == seen[1]


def test_a_batch_that_could_not_be_sent_is_sent_again_and_stored_once(tmp_path: Path) -> None:
    house = House("runlog", tmp_path)
    for number in range(8):
        stop = StopAt(number, AFTER, "error")
        house = House("runlog", tmp_path, lambda port, stop=stop: Intercepted(port, stop))  # type: ignore[misc]
        writer, written = None, False
        for _ in range(3):
            try:
                writer = writer or house.writer("w")
                if not written:
                    writer.write_message("a")
                    written = True
                writer.close()
            except UnavailableError:
                continue
        house.registry = house.build()
        assert texts(house) == "a\n"
        assert [event.id for event in house.browser.events()] == [0]


def test_the_choice_is_kept_with_the_run(tmp_path: Path) -> None:
    house = House("runlog", tmp_path)
    writer = house.writer()
    writer.write_message("x")
    writer.close()
    house.configuration = EventsConfiguration(method="files", browser="files")
    house.registry = house.build()
    assert texts(house) == "x\n"
    key = house.world.layout.chosen(RUN)
    assert json.loads(house.world.store.get(key).body) == {
        "method": "runlog", "browser": "runlog", "outputs": [], "locator": None,
    }  # fmt: skip


def test_a_browser_that_is_gone_falls_back_to_the_run_log(tmp_path: Path) -> None:
    house = House("runlog", tmp_path)
    house.world.store.put(house.world.layout.chosen(RUN), json.dumps(asdict(Choice(browser="gone"))).encode(), PutOptions())
    assert isinstance(house.browser, RunLogBrowser)


@pytest.mark.behavior("Events go to plain files where no AWS is configured.")
def test_without_aws_it_is_plain_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    house = House("runlog", tmp_path)
    house.registry = house.build(with_store=False)
    assert (house.registry.method, house.registry.browser) == ("files", "files")
    writer = house.writer()
    writer.write_message("x")
    writer.close()
    assert texts(house) == "x\n" and (tmp_path / "svc.pipeline" / RUN.run_id / "log.txt").read_text() == "x\n"


class Elsewhere:
    """A third-party method and browser."""

    RUNLAKE_PROTOCOL = 1

    def __init__(self, context: Context, options: Any, loggable: Loggable | None = None) -> None:
        self.options = options


@pytest.mark.behavior("Methods of other packages are loaded from entry points.")
def test_third_party_methods_are_loaded_from_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def points(group: str) -> list[EntryPoint]:
        return [EntryPoint("elsewhere", "tests.unit.test_events_methods:Elsewhere", group)]

    monkeypatch.setattr(plugins, "entry_points", points)
    monkeypatch.setattr(EntryPoint, "load", lambda _: Elsewhere)
    house = House("runlog", tmp_path)
    house.configuration = parse_configuration("browser: elsewhere\nbrowsers: {elsewhere: {url: x}}")
    registry = house.build()
    browser: Any = registry.open_browser(LOGGABLE)
    assert browser.options == {"url": "x"}
    assert registry.describe()["installed"] == {
        "methods": ["elsewhere", "files", "runlog"],
        "browsers": ["cloudwatch", "elasticsearch", "elsewhere", "files", "opensearch", "runlog"],
    }


def test_configuration_by_environment_and_yaml_is_validated() -> None:
    found = parse_configuration("method: files\nmethods:\n  files: {directory: /x}\n", None, "runlog")
    assert (found.method, found.browser, found.methods) == ("files", "runlog", {"files": {"directory": "/x"}})
    assert parse_configuration('{"method": "files"}', "runlog").method == "runlog"
    assert parse_configuration("") == EventsConfiguration()
    for document in (
        "- a",
        "{",
        "a: [",
        "methd: files",
        "method: 5",
        "method: 'a b'",
        "methods: [1]",
        "!!python/object:os.system {}",
        "outputs: [{kind: otlp, headers: {Authorization: hunter2}",
    ):
        with pytest.raises(InvalidConfigurationError, match="variable=RUNLAKE_EVENTS") as refused:
            parse_configuration(document)
        assert "hunter2" not in "".join(traceback.format_exception(refused.value)), "as the function's start logs it"


def test_what_is_not_installed_cannot_be_chosen(tmp_path: Path) -> None:
    house = House("runlog", tmp_path)
    house.configuration = EventsConfiguration(method="nonsense")
    with pytest.raises(InvalidConfigurationError, match="known=files,runlog"):
        house.build()
    house.configuration = EventsConfiguration(method="files", methods={"files": {"dir": "x"}})
    with pytest.raises(InvalidConfigurationError, match="directory"):
        house.build().create_writer(LOGGABLE)


def test_secrets_of_a_configuration_are_hidden() -> None:
    document = {
        "url": "https://user:hunter2@host:9200/x", "api_key": "hunter2", "nested": [{"Password": "hunter2", "plain": "x"}],
        "tokens": ["hunter2"], "auth": {"client_secret": 5}, "apiKey": "hunter2", "on": True,
    }  # fmt: skip
    found = parse_configuration(json.dumps({"methods": {"m": document}, "outputs": [document], "rules": [document]})).redacted()
    assert "hunter2" not in json.dumps(found)
    assert found["methods"]["m"]["url"] == "https://***@host:9200/***" and found["methods"]["m"]["nested"][0]["plain"] == "x"
    assert redact({"client_secret": 5}) == {"client_secret": "***"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("https://h/x?token=abc&q=1#frag", "https://h/***?token=***&q=***#***"),
        ("https://h/x?abc", "https://h/***?***"),
        ("//u:p@h/x", "//***@h/***"),
        ({"url": "https://h:1/inputs/TOKEN/tag/http/"}, {"url": "https://h:1/***"}),
        ("https://h/", "https://h/"),
        ("https://h", "https://h"),
        ("http://[broken/?token=abc", "***"),
        ("/var/log/runs", "/var/log/runs"),
        ("plain text? yes=no", "plain text? yes=no"),
        (
            {"headers": {"X-Honeycomb-Team": "abc", "Content-Type": "x"}},
            {"headers": {"X-Honeycomb-Team": "***", "Content-Type": "x"}},
        ),
        (
            {"DD-API-KEY": "abc", "ingest_key": "abc", "auth": "abc", "sig": "abc"},
            dict.fromkeys(("DD-API-KEY", "ingest_key", "auth", "sig"), "***"),
        ),
    ],
)
def test_parameters_and_unusual_headers_are_hidden(given: Any, expected: Any) -> None:
    assert redact(given) == expected


@pytest.mark.behavior("Outputs of plain files get copies of accepted events in order; the run log's are forwarded by pipelines.")
@pytest.mark.parametrize("method", ["files", "runlog"])
def test_outputs_get_copies_of_what_the_method_took(tmp_path: Path, method: str) -> None:
    """Copies have the primary's ids, writer and order, and are masked by the output."""
    house, copies = House("runlog", tmp_path), list[Event]()

    class Copy:
        def add(self, event: Event) -> None:
            copies.append(event)

        def flush(self) -> None:
            """Does nothing."""

        def close(self) -> None:
            """Does nothing."""

    parts = event_parts(house.world, lambda inner: inner, RULES)
    snapshots = LogSnapshots(house.world.store, house.world.index, house.world.layout)
    run_log = RunLogParts(house.world.store, parts.log, parts.writers, snapshots, parts.logs, parts.browser, parts.watch)
    context = Context(
        house.world.clock, Masker(RULES, None, house.world.clock).mask, run_log, lambda document: lambda loggable: Copy()
    )
    options = {"files": {"directory": str(tmp_path)}}
    configuration = EventsConfiguration(outputs=[{"kind": "any"}], method=method, browser=method, methods=options, browsers=options)
    registry = Registry(context, configuration)
    writer = registry.create_writer(LOGGABLE, writer="w", step="compile")
    for number in range(2500):
        writer.write_event(NewEvent(message=f"line {number}", step="test" if number % 2 else None, timestamp=number))
    writer.close()
    kept = list(registry.open_browser(LOGGABLE).events())
    assert [event.message for event in kept] == [f"line {number}" for number in range(2500)]
    if method == "runlog":
        assert copies == []
        return
    assert [(event.id, event.writer, event.message, event.step) for event in copies] == [
        (number, "w", f"line {number}", "test" if number % 2 else "compile") for number in range(2500)
    ]
    assert [(event.id, event.writer, event.step) for event in kept] == [(event.id, event.writer, event.step) for event in copies]
