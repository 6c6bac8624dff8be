"""The choice of method, browser and outputs: by the start and the name of the pipeline, kept with the run; and plugins that cannot be
used."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import EntryPoint
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from chalicelib.errors import (
    DamagedLogError,
    InvalidConfigurationError,
    InvalidEventError,
    NoBrowserError,
    OtherMethodError,
    UnavailableError,
)
from chalicelib.events import plugins
from chalicelib.events.choices import RunChoices
from chalicelib.events.configuration import EventsConfiguration, parse_configuration
from chalicelib.events.event import Loggable
from chalicelib.events.plugins import PluginState
from chalicelib.events.registry import BROWSERS_GROUP, Context, Registry
from chalicelib.events.starts import StartBody, Starts
from chalicelib.masking.masker import Masker
from chalicelib.ports import PutOptions
from chalicelib.runlog.attempts import Attempts
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.choice import Choice, choice_of_segment, put_choice
from chalicelib.runlog.writer import Writer
from tests.events_harness import GRACE_MS
from tests.faults.interception import BEFORE, CONFLICT, FAULTS, THROTTLED, Crash, Intercepted, StopAt
from tests.world import RUN, World

UNNAMED = "logstash-a61bb56a541a"
OUTPUTS = [
    {"kind": "logstash", "url": "https://h", "headers": {"a": "b"}},
    {"kind": "logstash", "url": "https://i", "name": "second"},
]
LOCATORS = [
    {"pattern": "svc.pip*", "browser": "cloudwatch", "outputs": ["second"]},
    {"pattern": "svc.*", "outputs": []},
    {"pattern": "*.[ab]", "browser": "runlog"},
]
CONFIGURATION = parse_configuration(json.dumps({"browser": "b", "outputs": OUTPUTS, "locators": LOCATORS}))
ELSEWHERE = parse_configuration("browser: cloudwatch")
LOGGABLE = Loggable.of_run(RUN, "here")
CHOSEN = Choice("target", "cloudwatch", ())


@pytest.mark.parametrize(
    ("fqn", "expected"),
    [
        ("svc.pipeline", Choice("runlog", "cloudwatch", ("second",), "svc.pip*")),
        ("svc.other/x", Choice("runlog", "b", (), "svc.*")),
        ("x.a", Choice("runlog", "runlog", (UNNAMED, "second"), "*.[ab]")),
        ("SVC.pipeline", Choice("runlog", "b", (UNNAMED, "second"), None)),
        ("", Choice("runlog", "b", (UNNAMED, "second"), None)),
    ],
)
def test_first_locator_that_matches_chooses(fqn: str, expected: Choice) -> None:
    assert CONFIGURATION.choose(fqn) == expected


@pytest.mark.parametrize(
    "document",
    [
        {"locators": [{"browser": "cloudwatch"}]},
        {"locators": [{"pattern": ""}]},
        {"locators": [{"pattern": "x" * 513}]},
        {"locators": [{"pattern": "!test.*"}]},
        {"locators": [{"pattern": "*", "browser": "a b"}]},
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


def choices(world: World, configuration: EventsConfiguration = ELSEWHERE, port: Any = lambda inner: inner) -> RunChoices:
    return RunChoices(port(world.store), world.layout, configuration)


def append(world: World, policy: RunChoices) -> None:
    Writer(world.store, world.index, world.layout, world.signer, world.clock, policy=policy).append(RUN, Batch.from_text("a\n"))


def test_stored_choice_holds_whatever_is_configured() -> None:
    world = World()
    assert put_choice(world.store, world.layout, RUN, CHOSEN)
    for configuration in (ELSEWHERE, CONFIGURATION, parse_configuration("")):
        later = choices(world, configuration)
        assert later.of(RUN) == CHOSEN
    world.store.calls.clear()
    assert later.of(RUN) == CHOSEN and not world.store.calls.total()


def test_run_that_began_in_the_run_log_stays_there() -> None:
    world = World()
    append(world, choices(world, parse_configuration("")))
    assert world.store.calls["get"] == 0, "no other browser is configured"
    assert choices(world).of(RUN).is_run_log
    append(world, choices(world))


@pytest.mark.parametrize(
    "document", ["browser: cloudwatch", "browsers: {cloudwatch: {}}", "locators: [{pattern: x, browser: cloudwatch}]"]
)
def test_run_of_another_method_takes_no_lines(document: str) -> None:
    world = World()
    put_choice(world.store, world.layout, RUN, CHOSEN)
    stored, policy = world.names(), choices(world, parse_configuration(document))
    for _ in range(2):
        with pytest.raises(OtherMethodError, match="method=target"):
            append(world, policy)
    assert world.names() == stored and world.store.calls["get"] == 1


def test_append_is_not_stored_while_the_choice_cannot_be_read() -> None:
    world = World()
    policy = choices(world, ELSEWHERE, lambda port: Intercepted(port, StopAt(0, BEFORE, "error")))
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
    assert [choice_of_segment(each) for each in heads] == [Choice(browser="cloudwatch"), None]
    assert world.store.calls["put"] == 2 and world.store.calls["get"] == 1, "the first append looks for a choice"
    assert choices(world).of(RUN).is_run_log, "until the ingest function has copied it"


TARGET = StartBody(method="target", join=True)


def starts(world: World, configuration: EventsConfiguration = ELSEWHERE, port: Any = lambda inner: inner) -> Starts:
    store = port(world.store)
    attempts = Attempts(store, world.layout, world.parts(store).writer, world.clock)
    return Starts(attempts, Masker([], None, world.clock), choices(world, configuration, port))


@pytest.mark.parametrize(
    ("before", "document", "outcome"),
    [
        ("nothing", "browser: cloudwatch", CHOSEN),
        ("nothing", "locators: [{pattern: 'svc.*', browser: cloudwatch}]", replace(CHOSEN, locator="svc.*")),
        ("nothing", "browsers: {cloudwatch: {}}", "name one in RUNLAKE_EVENTS, in browser or a locator method=target"),
        ("nothing", "browser: cloudwatch\nlocators: [{pattern: '*', browser: runlog}]", "name one in RUNLAKE_EVENTS"),
        ("a start", "browser: cloudwatch", "another logging method began=runlog method=target"),
        ("a line", "browser: cloudwatch", "another logging method began=runlog method=target"),
        (Choice("target", "elasticsearch"), "browser: cloudwatch", Choice("target", "elasticsearch")),
        (Choice("other", "cloudwatch"), "browser: cloudwatch", "another logging method began=other method=target"),
        (Choice(browser="cloudwatch"), "browser: cloudwatch", "another logging method began=runlog method=target"),
    ],
    ids=str,
)
def test_start_settles_the_method_of_a_run_or_is_refused(before: Any, document: str, outcome: Any) -> None:
    world, configuration = World(), parse_configuration(document)
    if before == "a start":
        starts(world, configuration).start(RUN, "other", StartBody())
    elif before == "a line":
        append(world, choices(world, configuration))
    elif before != "nothing":
        put_choice(world.store, world.layout, RUN, before)
    for _ in range(2):
        stored = world.names()
        if isinstance(outcome, str):
            with pytest.raises(NoBrowserError if "name one" in outcome else OtherMethodError, match=outcome):
                starts(world, configuration).start(RUN, "a", TARGET)
            assert "name one" not in outcome or world.names() == stored
        else:
            assert starts(world, configuration).start(RUN, "a", TARGET).run == RUN
            assert choices(world, configuration).of(RUN) == outcome


def test_start_costs_a_list_and_a_put_where_the_browser_is_another() -> None:
    costs = []
    of_others = parse_configuration("browsers: {cloudwatch: {group: runs}}")
    for configuration, method in (
        (EventsConfiguration(), "runlog"),
        (of_others, "runlog"),
        (ELSEWHERE, "runlog"),
        (ELSEWHERE, "target"),
    ):
        world = World()
        world.store.calls.clear()
        starts(world, configuration).start(RUN, "a", StartBody(method=method))
        costs.append(world.store.calls.copy())
    assert [dict(each - costs[0]) for each in costs[1:]] == [{"get": 1}, *2 * [{"list": 1, "put": 1}]]


@pytest.mark.parametrize(("outputs", "browser"), [([], "runlog"), ([{"kind": "otlp", "url": "https://o"}], "cloudwatch")])
def test_run_log_without_outputs_is_read_from_there(outputs: Any, browser: str) -> None:
    world, configuration = World(), parse_configuration(json.dumps({"browser": "cloudwatch", "outputs": outputs}))
    starts(world, configuration).start(RUN, "a", StartBody())
    assert choices(world, configuration).of(RUN).browser == browser


def test_run_log_that_is_browsed_elsewhere_takes_lines() -> None:
    world = World()
    put_choice(world.store, world.layout, RUN, Choice(browser="cloudwatch"))
    append(world, choices(world))
    assert choices(world).of(RUN) == Choice(browser="cloudwatch")


@pytest.mark.parametrize("is_joining", [False, True])
def test_start_by_the_run_log_does_not_take_over_a_run_in_another_store(is_joining: bool) -> None:
    world = World()
    starts(world).start(RUN, "a", TARGET)
    for configuration in (ELSEWHERE, parse_configuration("browsers: {cloudwatch: {group: runs}}")):
        with pytest.raises(OtherMethodError, match="target"):
            starts(world, configuration).start(RUN, "a", StartBody(join=is_joining))


@pytest.mark.parametrize(("moment", "how"), FAULTS)
def test_start_that_is_stopped_at_any_call_and_repeated_has_one_choice(moment: str, how: str) -> None:
    for number in count():
        world, stop = World(), StopAt(number, moment, how)
        with suppress(UnavailableError, Crash):
            starts(world, port=lambda inner, stop=stop: Intercepted(inner, stop)).start(RUN, "a", TARGET)  # type: ignore[misc]
        if not stop.fired:
            assert number or moment in (THROTTLED, CONFLICT)
            return
        other = parse_configuration("browser: elasticsearch")
        assert starts(world, other, lambda inner, stop=stop: Intercepted(inner, stop.successor)).start(RUN, "a", TARGET).run == RUN  # type: ignore[misc]
        chosen = choices(world).of(RUN)
        stop.land()
        assert (chosen.method, chosen.browser) in {("target", "cloudwatch"), ("target", "elasticsearch")}
        assert starts(world).start(RUN, "a", TARGET).run == RUN and choices(world).of(RUN) == chosen
        with pytest.raises(OtherMethodError):
            append(world, choices(world))


def test_of_two_starts_with_different_methods_one_is_refused() -> None:
    """The other one is answered, before or after any call of the first."""
    other, calls = StartBody(method="other", join=True), 0
    for number in count():
        world, outcomes = World(), list[str]()

        def attempt(body: StartBody, port: Any = lambda inner: inner, world: World = world, outcomes: Any = outcomes) -> None:
            try:
                starts(world, port=port).start(RUN, body.method, body)
                outcomes.append(body.method)
            except OtherMethodError:
                outcomes.append("refused")

        numbers = count()

        def gate(_: str, call: Any, numbers: Any = numbers, number: int = number, attempt: Any = attempt) -> Any:
            if next(numbers) == number:
                attempt(other)
            return call()

        attempt(TARGET, lambda inner, gate=gate: Intercepted(inner, gate))
        if len(outcomes) == 1:
            break
        assert sorted(outcomes) == sorted(["refused", choices(world).of(RUN).method])
        calls += 1
    assert calls > 3


def test_abandoned_run_of_another_method_takes_no_lines() -> None:
    """A line after the seal would make it a run in two stores."""
    world = World()
    starts(world).start(RUN, "a", TARGET)
    world.clock.advance(60)
    assert world.parts().finalizer.abandon(RUN, world.clock.now_ms(), world.deadline()).sealed == "abandoned"
    with pytest.raises(OtherMethodError):
        append(world, choices(world))


@pytest.mark.parametrize("body", [b"{", b"[]", b"5", b"{}", b'{"outputs": 5}'])
def test_damaged_choice_is_reported(body: bytes) -> None:
    world = World()
    world.store.put(world.layout.chosen(RUN), body, PutOptions())
    with pytest.raises(DamagedLogError, match="key="):
        choices(world).of(RUN)


def make_registry(world: World, document: str, made: Any = None, report: Any = lambda _: None) -> Registry:
    configuration = parse_configuration(document)
    context = Context(world.clock, GRACE_MS, lambda target, loggable: made)
    return Registry(context, configuration, choices(world, configuration), report)


def install(monkeypatch: pytest.MonkeyPatch, load: Any, name: str = "elsewhere") -> None:
    monkeypatch.setattr(plugins, "entry_points", lambda group: [EntryPoint(name, "x:y", group)] * (group == BROWSERS_GROUP))
    monkeypatch.setattr(EntryPoint, "load", lambda _: load())


def test_only_runs_that_are_browsed_elsewhere_have_a_browser() -> None:
    world, browser = World(), object()
    registry = make_registry(world, "browser: cloudwatch", browser)
    assert registry.open_browser(LOGGABLE) is browser
    with pytest.raises(InvalidEventError, match="only runs have logs loggableType='node'"):
        registry.open_browser(Loggable("here", "node", "agent-7", RUN.fqn))
    append(world, choices(world))
    assert registry.open_browser(LOGGABLE) is None


@pytest.mark.parametrize("method", ["runlog", "target"])
def test_browser_that_is_gone_is_replaced_unless_the_run_is_elsewhere(method: str) -> None:
    world = World()
    put_choice(world.store, world.layout, RUN, Choice(method, browser="gone"))
    registry = make_registry(world, "browser: cloudwatch")
    if method == "runlog":
        assert registry.open_browser(LOGGABLE) is None
    else:
        with pytest.raises(InvalidConfigurationError, match="needs its browser method=target browser=gone"):
            registry.open_browser(LOGGABLE)


def test_browser_that_is_not_installed_cannot_be_chosen() -> None:
    with pytest.raises(InvalidConfigurationError, match="known=cloudwatch,elasticsearch,opensearch,runlog"):
        make_registry(World(), "browser: nonsense")
    with pytest.raises(InvalidConfigurationError, match="field=kind"):
        make_registry(World(), "browser: cloudwatch\nbrowsers: {cloudwatch: {kind: otlp}}").open_browser(LOGGABLE)


@pytest.mark.behavior("Browsers of other packages are loaded from entry points.")
def test_third_party_browser_is_loaded_from_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    def factory(context: Context, options: Any, loggable: Loggable) -> Any:
        return context.grace_ms, options, loggable

    factory.RUNLAKE_PROTOCOL = 1  # type: ignore[attr-defined]
    install(monkeypatch, lambda: factory)
    registry = make_registry(World(), "browser: elsewhere\nbrowsers: {elsewhere: {url: x}}")
    assert registry.open_browser(LOGGABLE) == (GRACE_MS, {"url": "x"}, LOGGABLE)
    assert registry.describe()["installed"] == {"browsers": ["cloudwatch", "elasticsearch", "elsewhere", "opensearch", "runlog"]}


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
    install(monkeypatch, load)
    registry = make_registry(World(), "browser: elsewhere")
    (state,) = [each for each in registry.plugins() if each.name == "elsewhere"]
    assert state == PluginState("browser", "elsewhere", *expected, "runlog" if expected[1] else None)
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
    result: Any, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call tries it again."""
    results: list[Any] = [result]

    def factory(*arguments: Any) -> Any:
        if isinstance(done := results[-1], BaseException):
            raise done
        return done

    factory.RUNLAKE_PROTOCOL = 1  # type: ignore[attr-defined]
    install(monkeypatch, lambda: factory)
    reported = list[PluginState]()
    registry = make_registry(World(), "browser: elsewhere", report=reported.append)
    for _ in range(2):
        assert registry.open_browser(LOGGABLE) is None
    assert reported == [PluginState("browser", "elsewhere", 1, problem, "runlog")]
    assert [each for each in registry.plugins() if each.problem] == reported
    results.append(UnavailableError("the store is away"))
    with pytest.raises(UnavailableError):
        registry.open_browser(LOGGABLE)
    results.append(browser := object())
    assert registry.open_browser(LOGGABLE) is browser
    assert [each.kind for each in registry.plugins() if each.problem] == []
