"""Log browsers by name: the run log, those of other stores, and those installed as entry points.

A factory is called with its dependencies (``Context``), the options of the configuration, and the loggable. The run log replaces a plugin
that cannot be loaded or raises when it is called, and a browser that is no longer installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import JsonValue

from chalicelib.errors import InvalidConfigurationError
from chalicelib.events.choices import RunChoices
from chalicelib.events.configuration import EventsConfiguration
from chalicelib.events.event import Loggable, run_of
from chalicelib.events.options import OTHER_STORES, Options, problem_of_options, problem_of_target, target_document
from chalicelib.events.plugins import PROTOCOL, Plugin, PluginState, installed
from chalicelib.events.ports import LogBrowser
from chalicelib.ports import Clock
from chalicelib.runlog.choice import RUN_LOG, Choice

BROWSERS_GROUP = "runlake.log_browsers"


@dataclass(frozen=True, slots=True)
class Context:
    """Dependencies of a factory. ``make_browser`` returns the browser of a target; raises InvalidConfigurationError. ``grace_ms``: how long
    after a writer's end missing events count as pending."""

    clock: Clock
    grace_ms: int
    make_browser: Callable[[JsonValue, Loggable], LogBrowser]


BrowserFactory = Callable[[Context, Options, Loggable], LogBrowser]


class Registry:
    """Opens the browsers of runs. Raises InvalidConfigurationError at construction for a browser that is not installed; for invalid
    options or an invalid output only where a run has them, and ``plugins`` reports these."""

    def __init__(
        self,
        context: Context,
        configuration: EventsConfiguration,
        choices: RunChoices,
        report: Callable[[PluginState], None] = lambda _: None,
    ) -> None:
        self.configuration = configuration
        self._context, self._choices, self._report = context, choices, report
        others = {kind: partial(_other_browser, kind) for kind in OTHER_STORES}
        self._browsers: dict[str, BrowserFactory | Plugin | None] = {**others, **installed(BROWSERS_GROUP), RUN_LOG: None}
        for name in sorted(configuration.browsers_named - self._browsers.keys()):
            known = ",".join(sorted(self._browsers))
            raise InvalidConfigurationError(f"no such browser is installed browser={name!r} known={known}")

    def open_browser(self, loggable: Loggable) -> LogBrowser | None:
        """The run's browser; None: the run log. A plugin that begins to fail is reported. Requests: those of ``RunChoices.of``. Raises
        InvalidEventError for a loggable that is no run, UnavailableError, InvalidConfigurationError for invalid options, and for a run that is
        written to another store: the run log would show nothing of it."""
        choice = self._choices.of(run_of(loggable))
        made = self._create(choice.browser, loggable)
        if made is None and choice.method != RUN_LOG:
            raise InvalidConfigurationError(
                f"a run in another store needs its browser method={choice.method} browser={choice.browser}"
            )
        return made

    def _create(self, name: str, loggable: Loggable) -> LogBrowser | None:
        factory, options = self._browsers.get(name), self._options(name)
        if not isinstance(factory, Plugin):
            return factory(self._context, options, loggable) if factory else None
        before = factory.problem
        made: LogBrowser | None = factory.create(self._context, options, loggable)
        if made is None and factory.problem != before:
            self._report(_state(name, factory))
        return made

    def describe(self, fqn: str | None = None, patterns: Sequence[str] = ("*",)) -> dict[str, Any]:
        """The document of ``GET /v1/configuration``, of what concerns the FQNs that ``patterns`` match; with ``fqn`` also what a new run
        of that pipeline gets. Loads all plugins."""
        chosen = {} if fqn is None else {"chosen": {"fqn": fqn} | _document(self.configuration.choose(fqn))}
        configuration = self.configuration.part_for([*patterns, *([] if fqn is None else [fqn])])
        effective = [_document(configuration.choice_of(each)) for each in configuration.locators]
        return (
            configuration.redacted()
            | {
                "installed": {"browsers": sorted(self._browsers)},
                "locators": [{"pattern": each.pop("locator")} | each for each in effective],
                "plugins": [each.document() for each in self._plugins(configuration)],
            }
            | chosen
        )

    def plugins(self, *, in_use: bool = False) -> Iterator[PluginState]:
        """Browsers and outputs with their problems. Loads the plugins; ``in_use``: only those that the configuration names. No request.
        Invalid options have no fallback: other data than the run's would be read."""
        return self._plugins(self.configuration, in_use=in_use)

    def _plugins(self, configuration: EventsConfiguration, *, in_use: bool = False) -> Iterator[PluginState]:
        used = configuration.browsers_in_use
        for name, factory in sorted(self._browsers.items()):
            if not isinstance(factory, Plugin):
                yield PluginState(
                    "browser", name, PROTOCOL, problem_of_options(name, self._options(name)) if name in used else None
                )
            elif name in used or not in_use:
                yield _state(name, factory)
        for name in sorted(used - self._browsers.keys()):  # its options are kept for earlier runs
            yield PluginState("browser", name, None, "is not installed", RUN_LOG)
        for name, target in configuration.named_outputs:
            yield PluginState("output", name, PROTOCOL, problem_of_target(target))

    def _options(self, name: str) -> Options:
        return self.configuration.browsers.get(name, {})


def _state(name: str, plugin: Plugin) -> PluginState:
    return PluginState("browser", name, plugin.protocol, plugin.problem, RUN_LOG if plugin.problem else None)


def _document(choice: Choice) -> dict[str, Any]:
    return {"browser": choice.browser, "outputs": list(choice.outputs or ()), "locator": choice.locator}


def _other_browser(kind: str, context: Context, options: Options, loggable: Loggable) -> LogBrowser:
    return context.make_browser(target_document(kind, options), loggable)
