"""Logging methods and log browsers by name: the built-in ones, and those installed as entry points of their groups.

A factory is called with its dependencies (``Context``) and the options of the configuration. The first writer of a run stores the
choice with the run, so that the run is browsed where it was written, even if the configuration changes. The run log, or plain files
without AWS, replace a plugin that cannot be loaded or raises when it is called, and a browser that is no longer installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from pydantic import JsonValue

from chalicelib.errors import InvalidConfigurationError
from chalicelib.events.choices import RunChoices
from chalicelib.events.completeness import CompletenessWatch
from chalicelib.events.configuration import FILES, EventsConfiguration
from chalicelib.events.event import Loggable, run_of
from chalicelib.events.event_browser import EventBrowser
from chalicelib.events.files import FilesBrowser, FilesMethod
from chalicelib.events.methods import MakeSink, teed
from chalicelib.events.options import OTHER_STORES, Options, directory_of, problem_of_options, problem_of_target, target_document
from chalicelib.events.plugins import PROTOCOL, Plugin, PluginState, installed
from chalicelib.events.ports import NO_DATA, EventLog, EventWriter, LogBrowser, LoggingMethod, WriterData
from chalicelib.events.run_method import RunLogBrowser, RunLogMethod
from chalicelib.events.sinks import WriterSink
from chalicelib.events.snapshots import LogSnapshots
from chalicelib.events.step_log import StepLogs
from chalicelib.events.writers import Writers
from chalicelib.events.writing import SinkWriter
from chalicelib.masking.mask import Masked
from chalicelib.ports import Clock, ObjectStore
from chalicelib.runlog.choice import RUN_LOG, Choice

METHODS_GROUP, BROWSERS_GROUP = "runlake.logging_methods", "runlake.log_browsers"


@dataclass(frozen=True, slots=True)
class RunLogParts:
    """The parts of the run log, available only with a store."""

    store: ObjectStore
    log: EventLog
    writers: Writers
    snapshots: LogSnapshots
    logs: StepLogs
    events: EventBrowser
    watch: CompletenessWatch


@dataclass(frozen=True, slots=True)
class Context:
    """Dependencies of a factory. ``run_log`` None: without AWS. ``mask`` takes the pipeline's name and text. ``make_output``
    returns for an entry of ``outputs`` the factory of its sink, and ``make_browser`` for the same kind of document the browser of the
    target; both raise InvalidConfigurationError."""

    clock: Clock
    mask: Callable[[str, bytes], Masked]
    run_log: RunLogParts | None = None
    make_output: Callable[[JsonValue], MakeSink] | None = None
    make_browser: Callable[[JsonValue, Loggable], LogBrowser] | None = None


MethodFactory = Callable[[Context, Options], LoggingMethod]
BrowserFactory = Callable[[Context, Options, Loggable], LogBrowser]


class Registry:
    """Chooses method and browser by configuration. Raises InvalidConfigurationError at construction for a method or browser that is
    not installed; for invalid options or an invalid output only where a run has them, and ``plugins`` reports these."""

    def __init__(
        self,
        context: Context,
        configuration: EventsConfiguration,
        choices: RunChoices | None = None,
        report: Callable[[PluginState], None] = lambda _: None,
    ) -> None:
        self.configuration = configuration
        self._context, self._report = context, report
        self._methods: dict[str, MethodFactory | Plugin] = {
            RUN_LOG: _run_log_method,
            FILES: _files_method,
            **installed(METHODS_GROUP),
        }
        others = {kind: partial(_other_browser, kind) for kind in OTHER_STORES}
        self._browsers: dict[str, BrowserFactory | Plugin] = {
            RUN_LOG: _run_log_browser, FILES: _files_browser, **others, **installed(BROWSERS_GROUP),
        }  # fmt: skip
        _check_installed("method", configuration.methods_in_use, self._methods)
        _check_installed("browser", configuration.browsers_named, self._browsers)
        self._outputs = dict(configuration.named_outputs)
        parts = context.run_log
        self._choices = choices or (RunChoices(parts.store, parts.snapshots.layout, configuration) if parts else None)

    @property
    def method(self) -> str:
        """The name of the method without a locator; plain files without AWS."""
        return self._without_aws(self.configuration.method)

    @property
    def browser(self) -> str:
        """The name of the browser without a locator; plain files without AWS."""
        return self._without_aws(self.configuration.browser)

    def choose(self, fqn: str) -> Choice:
        """The choice for a new run of a pipeline; plain files without AWS."""
        choice = self.configuration.choose(fqn)
        return replace(choice, method=self._without_aws(choice.method), browser=self._without_aws(choice.browser))

    def create_writer(
        self, loggable: Loggable, *, writer: str | None = None, step: str | None = None, data: WriterData = NO_DATA
    ) -> EventWriter:
        """A writer of the run's method, see ``LoggingMethod``, the choice is stored with the run. Events in the run log are
        forwarded to the outputs by pipelines (docs/forwarding.md); another method's writers send copies to the run's outputs. Requests:
        those of the method and of ``RunChoices.settle``."""
        run = run_of(loggable)
        configured = self.choose(run.fqn)
        method: LoggingMethod
        name, method = self._create("method", configured.method)
        choice = replace(configured, method=name)
        if self._choices and (choice := self._choices.settle(run, choice)).method != name:
            name, method = self._create("method", choice.method)
        names = configured.outputs if choice.outputs is None else choice.outputs
        make_output = self._context.make_output if name != RUN_LOG else None
        outputs = [make_output(self._outputs[each]) for each in names or () if each in self._outputs] if make_output else []
        primary = method.create_writer(loggable, writer=writer, step=step, data=data)
        if not outputs:
            return primary
        copied = teed(lambda _: WriterSink(primary), outputs)
        return SinkWriter(copied(loggable), loggable, self._context.clock, writer=primary.writer, step=step, data=data)

    def open_browser(self, loggable: Loggable) -> LogBrowser:
        """The run's browser. Requests: those of ``RunChoices.of``. Raises InvalidEventError for a loggable that is no run,
        InvalidConfigurationError for invalid options."""
        browser: LogBrowser
        _, browser = self._create("browser", self._browser_of(loggable), loggable)
        return browser

    def open_other_browser(self, loggable: Loggable) -> LogBrowser | None:
        """The run's browser if it is not the run log. Requests: those of ``RunChoices.of``. Raises InvalidConfigurationError."""
        if (chosen := self._browser_of(loggable)) == RUN_LOG:
            return None
        browser: LogBrowser
        name, browser = self._create("browser", chosen, loggable)
        return None if name == RUN_LOG else browser

    def describe(self, fqn: str | None = None) -> dict[str, Any]:
        """The document of ``GET /v1/configuration``; with ``fqn`` also what a new run of that pipeline gets. Loads all plugins."""
        chosen = {} if fqn is None else {"chosen": {"fqn": fqn} | _document(self.choose(fqn))}
        effective = [_document(self.configuration.choice_of(each)) for each in self.configuration.locators]
        return (
            self.configuration.redacted()
            | {
                "method": self.method,
                "browser": self.browser,
                "installed": {"methods": sorted(self._methods), "browsers": sorted(self._browsers)},
                "locators": [{"pattern": each.pop("locator")} | each for each in effective],
                "plugins": [each.document() for each in self.plugins()],
            }
            | chosen
        )

    def plugins(self, *, in_use: bool = False) -> Iterator[PluginState]:
        """Methods, browsers and outputs with their problems. Loads the plugins; ``in_use``: only those that the configuration names. No
        request. Invalid options have no fallback: other data than the run's would be read."""
        for kind, factories, used in self._factories():
            for name, factory in sorted(factories.items()):
                if not isinstance(factory, Plugin):
                    problem = problem_of_options(name, self._options(kind, name)) if name in used else None
                    yield PluginState(kind, name, PROTOCOL, problem)
                elif name in used or not in_use:
                    yield self._state(kind, name, factory)
            if kind == "browser":  # its options are kept for earlier runs
                for name in sorted(used - factories.keys()):
                    yield PluginState(kind, name, None, "is not installed", self._default)
        for name, target in self._outputs.items():
            yield PluginState("output", name, PROTOCOL, problem_of_target(target))

    def _factories(self) -> Sequence[tuple[str, Mapping[str, object], frozenset[str]]]:
        """Kind, factories by name, and the names that the configuration uses."""
        configuration = self.configuration
        return (
            ("method", self._methods, configuration.methods_in_use),
            ("browser", self._browsers, configuration.browsers_in_use),
        )

    @property
    def _default(self) -> str:
        return self._without_aws(RUN_LOG)

    def _without_aws(self, name: str) -> str:
        return FILES if name == RUN_LOG and self._context.run_log is None else name

    def _options(self, kind: str, name: str) -> Options:
        configuration = self.configuration
        return (configuration.methods if kind == "method" else configuration.browsers).get(name, {})

    def _state(self, kind: str, name: str, plugin: Plugin) -> PluginState:
        return PluginState(kind, name, plugin.protocol, plugin.problem, self._default if plugin.problem else None)

    def _create(self, kind: str, name: str, *arguments: Any) -> tuple[str, Any]:
        """Calls a factory, or the fallback's if it is not installed or fails; returns the name whose result it is. A plugin that begins
        to fail is reported. Raises InvalidConfigurationError for invalid options, UnavailableError."""
        factory = (self._methods if kind == "method" else self._browsers).get(name)
        if isinstance(factory, Plugin):
            before = factory.problem
            if (made := factory.create(self._context, self._options(kind, name), *arguments)) is not None:
                return name, made
            if factory.problem != before:
                self._report(self._state(kind, name, factory))
        elif factory is not None:
            return name, factory(self._context, self._options(kind, name), *arguments)
        if name == self._default:  # a plugin has the fallback's name
            raise InvalidConfigurationError(f"the {kind} that replaces others cannot be used {kind}={name}")
        return self._create(kind, self._default, *arguments)

    def _browser_of(self, loggable: Loggable) -> str:
        choice = self._choices.of(run_of(loggable)) if self._choices else self.choose(loggable.job_id or "")
        return choice.browser


def _document(choice: Choice) -> dict[str, Any]:
    return asdict(choice) | {"outputs": list(choice.outputs or ())}


def _check_installed(kind: str, names: frozenset[str], factories: Mapping[str, object]) -> None:
    for name in sorted(names - factories.keys()):
        raise InvalidConfigurationError(f"no such {kind} is installed {kind}={name!r} known={','.join(sorted(factories))}")


def _run_log(context: Context) -> RunLogParts:
    if context.run_log is None:
        raise InvalidConfigurationError("the run log needs a store")
    return context.run_log


def _run_log_method(context: Context, options: Options) -> LoggingMethod:
    parts = _run_log(context)
    return RunLogMethod(parts.log, parts.writers, context.clock)


def _run_log_browser(context: Context, options: Options, loggable: Loggable) -> LogBrowser:
    parts = _run_log(context)
    return RunLogBrowser(loggable, parts.store, parts.snapshots, parts.logs, parts.events, parts.watch)


def _files_method(context: Context, options: Options) -> LoggingMethod:
    return FilesMethod(directory_of(options), context.clock, context.mask)


def _files_browser(context: Context, options: Options, loggable: Loggable) -> LogBrowser:
    return FilesBrowser(directory_of(options), loggable)


def _other_browser(kind: str, context: Context, options: Options, loggable: Loggable) -> LogBrowser:
    if context.make_browser is None:
        raise InvalidConfigurationError(f"logs of other stores cannot be read here browser={kind}")
    return context.make_browser(target_document(kind, options), loggable)
