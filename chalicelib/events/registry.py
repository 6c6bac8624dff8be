"""Logging methods and log browsers by name: the built-in ones, and those installed as entry points of their groups.

A factory is called with its dependencies (``Context``) and the options of the configuration. The first writer of a run stores the
choice with the run, so that the run is browsed where it was written, even if the configuration changes; plain files replace a
browser that is not installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from chalicelib.errors import DamagedLogError, InvalidConfigurationError, ObjectNotFoundError, PreconditionFailedError
from chalicelib.events.configuration import FILES, RUN_LOG, EventsConfiguration
from chalicelib.events.event import Loggable
from chalicelib.events.event_browser import EventBrowser
from chalicelib.events.files import FilesBrowser, FilesMethod
from chalicelib.events.methods import MakeSink, teed
from chalicelib.events.ports import EventLog, EventWriter, LogBrowser, LoggingMethod
from chalicelib.events.run_method import RunLogBrowser, RunLogMethod, run_of
from chalicelib.events.sinks import WriterSink
from chalicelib.events.snapshots import LogSnapshots
from chalicelib.events.step_log import StepLogs
from chalicelib.events.writers import Writers
from chalicelib.events.writing import SinkWriter
from chalicelib.masking.mask import Masked
from chalicelib.ports import ABSENT, Clock, ObjectStore, PutOptions

METHODS_GROUP, BROWSERS_GROUP = "runlake.logging_methods", "runlake.log_browsers"
DEFAULT_DIRECTORY = "runlake-logs"


@dataclass(frozen=True, slots=True)
class RunLogParts:
    """The parts of the run log, available only with a store."""

    store: ObjectStore
    log: EventLog
    writers: Writers
    snapshots: LogSnapshots
    logs: StepLogs
    events: EventBrowser


@dataclass(frozen=True, slots=True)
class Context:
    """Dependencies of a factory. ``run_log`` None: without AWS. ``mask`` takes the pipeline's name and text. ``make_output``
    returns for an entry of ``outputs`` the factory of its sink; raises InvalidConfigurationError."""

    clock: Clock
    mask: Callable[[str, bytes], Masked]
    run_log: RunLogParts | None = None
    make_output: Callable[[JsonValue], MakeSink] | None = None


Options = Mapping[str, JsonValue]
MethodFactory = Callable[[Context, Options], LoggingMethod]
BrowserFactory = Callable[[Context, Options, Loggable], LogBrowser]


class Registry:
    """Chooses method and browser by configuration. Raises InvalidConfigurationError at construction for a method or browser that is
    not installed, or an invalid output."""

    def __init__(self, context: Context, configuration: EventsConfiguration) -> None:
        self.configuration = configuration
        self._context = context
        self._methods: dict[str, MethodFactory] = {RUN_LOG: _run_log_method, FILES: _files_method, **_installed(METHODS_GROUP)}
        self._browsers: dict[str, BrowserFactory] = {RUN_LOG: _run_log_browser, FILES: _files_browser, **_installed(BROWSERS_GROUP)}
        for what, name, known in (("method", self.method, self._methods), ("browser", self.browser, self._browsers)):
            if name not in known:
                raise InvalidConfigurationError(f"no such {what} is installed {what}={name!r} known={','.join(sorted(known))}")
        make_output = context.make_output
        self._outputs = [make_output(each) for each in configuration.outputs] if make_output else []

    @property
    def method(self) -> str:
        """The method's name; plain files without AWS."""
        return self._without_aws(self.configuration.method)

    @property
    def browser(self) -> str:
        """The browser's name; plain files without AWS."""
        return self._without_aws(self.configuration.browser)

    def create_writer(self, loggable: Loggable, *, writer: str | None = None, step: str | None = None) -> EventWriter:
        """A writer of the chosen method; the choice is stored with the run. One more PUT. Events in the run log are forwarded to
        the outputs by pipelines (docs/forwarding.md); another method's writers send the outputs copies."""
        self._store_choice(loggable)
        method = self._methods[self.method](self._context, self.configuration.methods.get(self.method, {}))
        primary = method.create_writer(loggable, writer=writer, step=step)
        if not self._outputs or self.method == RUN_LOG:
            return primary
        copied = teed(lambda _: WriterSink(primary), self._outputs)
        return SinkWriter(copied(loggable), loggable, self._context.clock, writer=primary.writer, step=step)

    def open_browser(self, loggable: Loggable) -> LogBrowser:
        """The browser stored with the run, else the configured one. One GET."""
        chosen = self._stored_choice(loggable).get("browser", self.browser)
        name = chosen if chosen in self._browsers else FILES
        return self._browsers[name](self._context, self.configuration.browsers.get(name, {}), loggable)

    def describe(self) -> dict[str, Any]:
        """The document of ``GET /v1/configuration``."""
        return self.configuration.redacted() | {
            "method": self.method,
            "browser": self.browser,
            "installed": {"methods": sorted(self._methods), "browsers": sorted(self._browsers)},
        }

    def _without_aws(self, name: str) -> str:
        return FILES if name == RUN_LOG and self._context.run_log is None else name

    def _store_choice(self, loggable: Loggable) -> None:
        if parts := self._context.run_log:
            body = json.dumps({"method": self.method, "browser": self.browser}).encode()
            with suppress(PreconditionFailedError):
                parts.store.put(_chosen(parts, loggable), body, PutOptions(content_type="application/json"), ABSENT)

    def _stored_choice(self, loggable: Loggable) -> dict[str, str]:
        parts = self._context.run_log
        if parts is None:
            return {}
        key = _chosen(parts, loggable)
        try:
            return dict(json.loads(parts.store.get(key).body))
        except ObjectNotFoundError:
            return {}
        except (ValueError, TypeError) as error:
            raise DamagedLogError(f"not a stored choice of method and browser key={key}") from error


def _chosen(parts: RunLogParts, loggable: Loggable) -> str:
    return parts.snapshots.layout.chosen(run_of(loggable))


def _installed(group: str) -> dict[str, Any]:
    """Installed entry points of a group, loaded at first use."""
    return {point.name: _Lazy(point.load) for point in entry_points(group=group)}


@dataclass(frozen=True, slots=True)
class _Lazy:
    load: Callable[[], Any]

    def __call__(self, *arguments: Any) -> Any:
        return self.load()(*arguments)


def _run_log(context: Context) -> RunLogParts:
    if context.run_log is None:
        raise InvalidConfigurationError("the run log needs a store")
    return context.run_log


def _run_log_method(context: Context, options: Options) -> LoggingMethod:
    parts = _run_log(context)
    return RunLogMethod(parts.log, parts.writers, context.clock)


def _run_log_browser(context: Context, options: Options, loggable: Loggable) -> LogBrowser:
    parts = _run_log(context)
    return RunLogBrowser(loggable, parts.store, parts.snapshots, parts.logs, parts.events)


def _files_method(context: Context, options: Options) -> LoggingMethod:
    return FilesMethod(_directory(options), context.clock, context.mask)


def _files_browser(context: Context, options: Options, loggable: Loggable) -> LogBrowser:
    return FilesBrowser(_directory(options), loggable)


def _directory(options: Options) -> Path:
    directory = options.get("directory", DEFAULT_DIRECTORY)
    if not isinstance(directory, str) or not directory or set(options) - {"directory"}:
        raise InvalidConfigurationError("plain files have one option: directory, a path")
    return Path(directory)
