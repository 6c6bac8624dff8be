"""The choice of method, browser and outputs: by the name of the pipeline, kept with the run; and plugins that cannot be used."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chalicelib.errors import DamagedLogError, InvalidConfigurationError, OtherMethodError, UnavailableError
from chalicelib.events import plugins
from chalicelib.events.choices import RunChoices
from chalicelib.events.configuration import parse_configuration
from chalicelib.events.event import Loggable
from chalicelib.events.files import FilesBrowser
from chalicelib.events.plugins import PluginState
from chalicelib.events.registry import METHODS_GROUP, Context, Registry
from chalicelib.masking.masker import Masker
from chalicelib.ports import PutOptions
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.choice import Choice, choice_of_segment
from chalicelib.runlog.writer import Writer
from tests.faults.interception import AFTER, BEFORE, Intercepted, StopAt
from tests.world import RUN, World

UNNAMED = "logstash-a61bb56a541a"
OUTPUTS = [
    {"kind": "logstash", "url": "https://h", "headers": {"a": "b"}},
    {"kind": "logstash", "url": "https://i", "name": "second"},
]
LOCATORS = [
    {"pattern": "svc.pip*", "browser": "files", "outputs": ["second"]},
    {"pattern": "svc.*", "method": "files", "outputs": []},
    {"pattern": "*.[ab]", "method": "runlog"},
]
CONFIGURATION = parse_configuration(json.dumps({"browser": "b", "outputs": OUTPUTS, "locators": LOCATORS}))
FILES = parse_configuration("method: files\nbrowser: files")


@pytest.mark.parametrize(
    ("fqn", "expected"),
    [
        ("svc.pipeline", Choice("runlog", "files", ("second",), "svc.pip*")),
        ("svc.other/x", Choice("files", "b", (), "svc.*")),
        ("x.a", Choice("runlog", "b", (UNNAMED, "second"), "*.[ab]")),
        ("SVC.pipeline", Choice("runlog", "b", (UNNAMED, "second"), None)),
        ("", Choice("runlog", "b", (UNNAMED, "second"), None)),
    ],
)
def test_first_locator_that_matches_chooses(fqn: str, expected: Choice) -> None:
    assert CONFIGURATION.choose(fqn) == expected


@pytest.mark.parametrize(
    "document",
    [
        {"locators": [{"method": "files"}]},
        {"locators": [{"pattern": ""}]},
        {"locators": [{"pattern": "x" * 513}]},
        {"locators": [{"pattern": "!test.*"}]},
        {"locators": [{"pattern": "*", "method": "a b"}]},
        {"locators": [{"pattern": "*", "outputs": ["absent"]}]},
        {"locators": [{"pattern": "*", "other": 1}]},
        {"locators": [{"pattern": "*"}] * 1001},
        {"outputs": [{"kind": "logstash"}, {"kind": "logstash"}]},
        {"outputs": [{"kind": "logstash", "name": "a"}, {"kind": "otlp", "name": "a"}]},
        {"outputs": [{"kind": "a b"}]},
        {"outputs": [{"kind": "logstash", "name": "a b"}]},
        {"outputs": [{"kind": "logstash", "name": 5}]},
    ],
)
def test_bad_locators_and_names_of_outputs_are_rejected(document: Any) -> None:
    with pytest.raises(InvalidConfigurationError, match="variable=RUNLAKE_EVENTS") as raised:
        parse_configuration(json.dumps(document))
    assert "absent" not in str(raised.value)


def test_output_has_its_patterns_in_order() -> None:
    assert list(CONFIGURATION.patterns_of(UNNAMED)) == [("svc.pip*", False), ("svc.*", False), ("*.[ab]", True), ("*", True)]
    assert [name for name, _ in CONFIGURATION.named_outputs] == [UNNAMED, "second"]
    assert CONFIGURATION.named_outputs[1][1] == {"kind": "logstash", "url": "https://i"}


def choices(world: World, configuration: Any = FILES, port: Any = lambda inner: inner) -> RunChoices:
    return RunChoices(port(world.store), world.layout, configuration)


def append(world: World, policy: RunChoices) -> None:
    Writer(world.store, world.index, world.layout, world.signer, world.clock, policy=policy).append(RUN, Batch.from_text("a\n"))


def test_choice_holds_for_the_run_and_changes_for_new_runs() -> None:
    world = World()
    chosen = choices(world).settle(RUN, FILES.choose(RUN.fqn))
    assert json.loads(world.store.get(world.layout.chosen(RUN)).body) == asdict(chosen) | {"outputs": []}
    for configuration in (FILES, CONFIGURATION, parse_configuration("")):
        later = choices(world, configuration)
        assert later.of(RUN) == later.settle(RUN, later.for_new(RUN.fqn)) == chosen
    world.store.calls.clear()
    assert later.of(RUN) == chosen and not world.store.calls.total()


def test_run_that_began_in_the_run_log_stays_there() -> None:
    """Its lines are there: neither a reader nor a writer in Python goes elsewhere, and clients go on."""
    world = World()
    append(world, choices(world, parse_configuration("browser: files")))
    assert world.store.calls["get"] == 0, "no other method is configured"
    assert choices(world).of(RUN).is_run_log
    append(world, choices(world))
    assert choices(world).settle(RUN, FILES.choose(RUN.fqn)).is_run_log


def test_append_to_a_new_run_of_another_method_is_refused() -> None:
    world = World()
    with pytest.raises(OtherMethodError, match="method=files"):
        append(world, choices(world))
    assert world.names() == []
    choices(world).settle(RUN, FILES.choose(RUN.fqn))
    with pytest.raises(OtherMethodError):
        append(world, choices(world))


@pytest.mark.parametrize("document", ["methods: {files: {}}", "locators: [{pattern: other, method: files}]"])
def test_run_of_another_method_is_not_split_after_the_configuration_goes_back(document: str) -> None:
    world, back = World(), parse_configuration(document)
    choices(world).settle(RUN, FILES.choose(RUN.fqn))
    stored = world.names()
    policy = choices(world, back)
    for _ in range(2):
        with pytest.raises(OtherMethodError, match="method=files"):
            append(world, policy)
    assert world.names() == stored and world.store.calls["get"] == 1


def test_append_is_not_stored_while_the_choice_cannot_be_read() -> None:
    world, back = World(), parse_configuration("methods: {files: {}}")
    policy = choices(world, back, lambda port: Intercepted(port, StopAt(0, BEFORE, "error")))
    with pytest.raises(UnavailableError):
        append(world, policy)
    assert world.names() == []
    append(world, policy)
    assert world.names() != []


def test_first_segment_carries_the_browser_and_later_ones_take_no_other_request() -> None:
    world = World()
    append(world, choices(world, CONFIGURATION))
    append(world, choices(world, CONFIGURATION))
    heads = [world.store.head(world.layout.segment(RUN, number)).metadata for number in (0, 1)]
    assert [choice_of_segment(each) for each in heads] == [Choice(browser="files"), None]
    assert world.store.calls["put"] == 2 and world.store.calls["get"] == 1, (
        "another method is named: the first append looks for a choice"
    )
    assert choices(world).of(RUN).is_run_log, "until the ingest function has copied it"


@pytest.mark.parametrize("moment", [BEFORE, AFTER])
@pytest.mark.parametrize("number", range(3))
def test_choice_that_could_not_be_stored_is_the_same_after_a_repeat(number: int, moment: str) -> None:
    world, chosen = World(), FILES.choose(RUN.fqn)
    stop = StopAt(number, moment, "error")
    failing = choices(world, FILES, lambda port: Intercepted(port, stop))
    for _ in range(2):
        try:
            assert failing.settle(RUN, chosen) == chosen
        except UnavailableError:
            continue
    assert choices(world).settle(RUN, CONFIGURATION.choose(RUN.fqn)) == chosen


@pytest.mark.parametrize("body", [b"{", b"[]", b"5", b"{}", b'{"outputs": 5}'])
def test_damaged_choice_is_reported(body: bytes) -> None:
    world = World()
    world.store.put(world.layout.chosen(RUN), body, PutOptions())
    with pytest.raises(DamagedLogError, match="key="):
        choices(world).of(RUN)


def fake(protocol: Any) -> Any:
    def factory(*arguments: Any) -> Any:
        """A third-party factory."""

    if protocol is not None:
        factory.RUNLAKE_PROTOCOL = protocol  # type: ignore[attr-defined]
    return factory


def broken() -> Any:
    raise ImportError("hunter2")


def of_a_module() -> Any:
    """A factory whose module declares the version."""
    factory = fake(None)
    factory.__module__ = "declaring"
    return factory


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        (lambda: fake(1), (1, None)),
        (of_a_module, (1, None)),
        (lambda: fake(2), (2, "implements another version of the protocol version=2 supported=1")),
        (lambda: fake(None), (None, "declares no version of the protocol attribute=RUNLAKE_PROTOCOL")),
        (lambda: fake(True), (None, "declares no version of the protocol attribute=RUNLAKE_PROTOCOL")),
        (broken, (None, "cannot be loaded error=ImportError")),
        (sys.exit, (None, "cannot be loaded error=SystemExit")),
    ],
)
def test_plugin_states_its_protocol_or_its_problem(load: Any, expected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "declaring", SimpleNamespace(RUNLAKE_PROTOCOL=1))
    monkeypatch.setattr(plugins, "entry_points", lambda group: [EntryPoint("elsewhere", "x:y", group)] * (group == METHODS_GROUP))
    monkeypatch.setattr(EntryPoint, "load", lambda _: load())
    registry = Registry(Context(World().clock, Masker([], None, World().clock).mask), parse_configuration("method: elsewhere"))
    (state,) = [each for each in registry.plugins() if each.name == "elsewhere"]
    assert state == PluginState("method", "elsewhere", *expected, "files" if expected[1] else None)
    assert state in list(registry.plugins(in_use=True))


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (ValueError("hunter2"), "raises when it is called error=ValueError"),
        (SystemExit(3), "raises when it is called error=SystemExit"),
        (None, "returns nothing when it is called"),
    ],
)
def test_factory_that_fails_when_it_is_called_is_replaced_and_reported_once(
    result: Any, problem: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each call tries it again. A run that is written meanwhile is the fallback's, also for later readers."""
    results: list[Any] = []

    def factory(*arguments: Any) -> Any:
        if isinstance(done := results[-1], BaseException):
            raise done
        return done

    factory.RUNLAKE_PROTOCOL = 1  # type: ignore[attr-defined]
    monkeypatch.setattr(plugins, "entry_points", lambda group: [EntryPoint("elsewhere", "x:y", group)])
    monkeypatch.setattr(EntryPoint, "load", lambda _: factory)
    monkeypatch.chdir(tmp_path)
    world, reported = World(), list[PluginState]()
    configuration = parse_configuration("method: elsewhere\nbrowser: elsewhere")
    stored = choices(world, configuration)
    registry = Registry(Context(world.clock, Masker([], None, world.clock).mask), configuration, stored, reported.append)
    loggable = Loggable.of_run(RUN, "here")
    results.append(result)
    for _ in range(2):
        assert isinstance(registry.open_browser(loggable), FilesBrowser)
    registry.create_writer(loggable).close()
    assert stored.of(RUN).method == "files"
    assert reported == [PluginState(kind, "elsewhere", 1, problem, "files") for kind in ("browser", "method")]
    assert [each for each in registry.plugins() if each.problem] == reported[::-1]
    results.append(UnavailableError("the store is away"))
    with pytest.raises(UnavailableError):
        registry.open_browser(loggable)
    results.append(browser := object())
    assert registry.open_browser(loggable) is browser
    assert [each.kind for each in registry.plugins() if each.problem] == ["method"]
