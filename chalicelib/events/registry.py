"""Logging methods and log browsers by name: the built-in ones, and those installed as entry points of their groups.

A factory is called with its dependencies (``Context``) and the options of the configuration. The first writer of a run stores the
choice with the run, so that the run is browsed where it was written, even if the configuration changes. The run log, or plain files
without AWS, replace a method or browser that has a problem, and a browser that is no longer installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
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
DEFAULT_DIRECTORY = "runlake-logs"
OTHER_STORES = ("elasticsearch", "opensearch", "cloudwatch")
"""Names of built-in browsers of other stores: kinds of targets (``targets.configuration``) whose events can be read."""


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


Options = Mapping[str, JsonValue]
MethodFactory = Callable[[Context, Options], LoggingMethod]
BrowserFactory = Callable[[Context, Options, Loggable], LogBrowser]


class Registry:
    """Chooses method and browser by configuration. Raises InvalidConfigurationError at construction for a method or browser that is
    not installed; for invalid options or an invalid output only where a run has them, and ``plugins`` reports these."""

    def __init__(self, context: Context, configuration: EventsConfiguration, choices: RunChoices | None = None) -> None:
        self.configuration = configuration
        self._context = context
        self._methods: dict[str, MethodFactory] = {RUN_LOG: _run_log_method, FILES: _files_method, **installed(METHODS_GROUP)}
        others = {kind: partial(_other_browser, kind) for kind in OTHER_STORES}
        self._browsers: dict[str, BrowserFactory] = {
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
        choice = replace(configured, method=self._usable(configured.method, self._methods))
        if self._choices:
            choice = self._choices.settle(run, choice)
        name = self._usable(choice.method, self._methods)
        names = configured.outputs if choice.outputs is None else choice.outputs
        make_output = self._context.make_output if name != RUN_LOG else None
        outputs = [make_output(self._outputs[each]) for each in names or () if each in self._outputs] if make_output else []
        method = self._methods[name](self._context, self.configuration.methods.get(name, {}))
        primary = method.create_writer(loggable, writer=writer, step=step, data=data)
        if not outputs:
            return primary
        copied = teed(lambda _: WriterSink(primary), outputs)
        return SinkWriter(copied(loggable), loggable, self._context.clock, writer=primary.writer, step=step, data=data)

    def open_browser(self, loggable: Loggable) -> LogBrowser:
        """The run's browser. Requests: those of ``RunChoices.of``. Raises InvalidEventError for a loggable that is no run."""
        return self._open(self._browser_of(loggable), loggable)

    def open_other_browser(self, loggable: Loggable) -> LogBrowser | None:
        """The run's browser if it is not the run log. Requests: those of ``RunChoices.of``."""
        name = self._browser_of(loggable)
        return None if name == RUN_LOG else self._open(name, loggable)

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
        request. Invalid options have no fallback: requests that need them fail."""
        for kind, factories, used in self._factories():
            for name, factory in sorted(factories.items()):
                if not isinstance(factory, Plugin):
                    yield PluginState(kind, name, PROTOCOL, self._problem_of_options(kind, name) if name in used else None)
                elif name in used or not in_use:
                    yield PluginState(kind, name, factory.protocol, factory.problem, self._default if factory.problem else None)
            if kind == "browser":  # its options are kept for earlier runs
                for name in sorted(used - factories.keys()):
                    yield PluginState(kind, name, None, "is not installed", self._default)
        for name, target in self._outputs.items():
            yield PluginState("output", name, PROTOCOL, _problem(partial(_check_target, target)))

    def _factories(self) -> Sequence[tuple[str, Mapping[str, object], frozenset[str]]]:
        """Kind, factories by name, and the names that the configuration uses."""
        configuration = self.configuration
        return (
            ("method", self._methods, configuration.methods_in_use),
            ("browser", self._browsers, configuration.browsers_in_use),
        )

    def _problem_of_options(self, kind: str, name: str) -> str | None:
        """Of a built-in method or browser. A plugin checks its options itself, when it is called."""
        configuration = self.configuration
        options = (configuration.methods if kind == "method" else configuration.browsers).get(name, {})
        if name == FILES:
            return _problem(partial(_directory, options))
        return _problem(lambda: _check_target(_target(name, options))) if name in OTHER_STORES else None

    @property
    def _default(self) -> str:
        return self._without_aws(RUN_LOG)

    def _without_aws(self, name: str) -> str:
        return FILES if name == RUN_LOG and self._context.run_log is None else name

    def _usable(self, name: str, factories: Mapping[str, object]) -> str:
        """The name, or the fallback's if it is not installed or has a problem."""
        factory = factories.get(name)
        return self._default if factory is None or (isinstance(factory, Plugin) and factory.problem) else name

    def _browser_of(self, loggable: Loggable) -> str:
        choice = self._choices.of(run_of(loggable)) if self._choices else self.choose(loggable.job_id or "")
        return self._usable(choice.browser, self._browsers)

    def _open(self, name: str, loggable: Loggable) -> LogBrowser:
        return self._browsers[name](self._context, self.configuration.browsers.get(name, {}), loggable)


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
    return FilesMethod(_directory(options), context.clock, context.mask)


def _files_browser(context: Context, options: Options, loggable: Loggable) -> LogBrowser:
    return FilesBrowser(_directory(options), loggable)


def _other_browser(kind: str, context: Context, options: Options, loggable: Loggable) -> LogBrowser:
    if context.make_browser is None:
        raise InvalidConfigurationError(f"logs of other stores cannot be read here browser={kind}")
    return context.make_browser(_target(kind, options), loggable)


def _target(kind: str, options: Options) -> dict[str, JsonValue]:
    if "kind" in options:
        raise InvalidConfigurationError(f"the name of a browser is its kind browser={kind} field=kind")
    return {**options, "kind": kind}


def _check_target(document: JsonValue) -> None:
    from chalicelib.events.targets.configuration import target_of  # few configurations have targets

    target_of(document)


def _problem(check: Callable[[], object]) -> str | None:
    """The reason of an invalid configuration, which has no values."""
    try:
        check()
    except InvalidConfigurationError as error:
        return str(error)
    return None


def _directory(options: Options) -> Path:
    directory = options.get("directory", DEFAULT_DIRECTORY)
    if not isinstance(directory, str) or not directory or set(options) - {"directory"}:
        raise InvalidConfigurationError("plain files have one option: directory, a path")
    return Path(directory)
