"""Builds the services of events."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from chalicelib.composition import SECONDS_OF_A_DAY, Services
from chalicelib.errors import InvalidConfigurationError, UnavailableError
from chalicelib.events.index import EventIndex
from chalicelib.events.indexing import EventIndexing
from chalicelib.events.step_updates import StepUpdates
from chalicelib.observability import PLUGINS_FAILED, logger, record, record_masked

if TYPE_CHECKING:
    from chalicelib.events.browsed_run import BrowsedRun
    from chalicelib.events.choices import RunChoices
    from chalicelib.events.completeness import CompletenessWatch
    from chalicelib.events.configuration import EventsConfiguration
    from chalicelib.events.event import Loggable
    from chalicelib.events.event_browser import EventBrowser
    from chalicelib.events.plugins import PluginState
    from chalicelib.events.ports import LogBrowser
    from chalicelib.events.registry import Registry
    from chalicelib.events.routing import Router
    from chalicelib.events.run_event_log import RunEventLog
    from chalicelib.events.snapshots import LogSnapshots
    from chalicelib.events.starts import Starts
    from chalicelib.events.step_events import StepEvents
    from chalicelib.events.step_log import StepLogs
    from chalicelib.events.steps import Steps
    from chalicelib.events.tail import EventTails
    from chalicelib.events.writers import Writers
    from chalicelib.masking.mask import Masked
    from chalicelib.ports import Run
    from chalicelib.runlog.choice import Choice

_MS_OF_A_SECOND = 1000


class EventServices:
    """Services of events, each built on first use as in ``Services``. ``indexing`` updates ``index``."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._store, self._layout, self._clock = services.store, services.layout, services.clock
        keep_s = services.settings.expiration_days * SECONDS_OF_A_DAY
        self.index = EventIndex(services.database, services.clock, keep_s)
        self.step_updates = StepUpdates(self._store, self._layout, self.index, self._masked)
        self.indexing = EventIndexing(self._store, self._layout, self.index, self.step_updates)

    def _masked(self, fqn: str, text: bytes) -> Masked:
        """Mask a text; the masker is built on the first write."""
        return self._services.masker.mask(fqn, text)

    @cached_property
    def snapshots(self) -> LogSnapshots:
        """LogSnapshots of a run's segments and objects."""
        from chalicelib.events.snapshots import LogSnapshots

        return LogSnapshots(self._store, self._services.index, self._layout)

    @cached_property
    def writers(self) -> Writers:
        """Registered writers of a run."""
        from chalicelib.events.writers import Writers

        return Writers(self._store, self._layout, self._clock, self._services.masker)

    @cached_property
    def starts(self) -> Starts:
        """Registers starts of runs."""
        from chalicelib.events.starts import Starts
        from chalicelib.runlog.attempts import Attempts

        attempts = Attempts(self._store, self._layout, self._services.writer, self._clock)
        return Starts(attempts, self._services.masker, self.choices)

    @cached_property
    def log(self) -> RunEventLog:
        """Appends events."""
        from chalicelib.events.run_event_log import RunEventLog

        services = self._services
        return RunEventLog(
            self._store, self._layout, self._clock, services.writer, services.reader, services.masker,
            services.settings.instance_id, record_masked,
        )  # fmt: skip

    @cached_property
    def tails(self) -> EventTails:
        """Reads events that are not indexed yet."""
        from chalicelib.events.tail import EventTails

        return EventTails(self.snapshots, self.indexing, self.index, self._clock)

    @cached_property
    def logs(self) -> StepLogs:
        """Reads logs of steps."""
        from chalicelib.events.step_log import StepLogs

        return StepLogs(self.snapshots, self.index, self.tails)

    @cached_property
    def step_events(self) -> StepEvents:
        """Reads events of steps."""
        from chalicelib.events.step_events import StepEvents

        return StepEvents(self.snapshots, self.index, self.indexing, self.tails)

    @cached_property
    def steps(self) -> Steps:
        """Lists the steps of a run."""
        from chalicelib.events.steps import Steps

        return Steps(self.snapshots, self.index, self.tails)

    @cached_property
    def browser(self) -> EventBrowser:
        """Reads events with filters."""
        from chalicelib.events.event_browser import EventBrowser

        services = self._services
        return EventBrowser(
            services.reader, self.snapshots, self.tails, self.indexing, self.step_events, services.index, self._clock,
            services.settings.instance_id,
        )  # fmt: skip

    @cached_property
    def watch(self) -> CompletenessWatch:
        """Reports whether events of a run are missing."""
        from chalicelib.events.completeness import CompletenessWatch

        return CompletenessWatch(self.writers, self.index, self._services.writer.tails, self._clock, self._grace_ms)

    @cached_property
    def router(self) -> Router:
        """Assigns agents' records to runs."""
        from chalicelib.events.routing import Router

        return Router.of(self.configuration.rules)

    @cached_property
    def choices(self) -> RunChoices:
        """Where runs are written and browsed."""
        from chalicelib.events.choices import RunChoices

        return RunChoices(self._store, self._layout, self.configuration)

    @cached_property
    def registry(self) -> Registry:
        """Log browsers by name."""
        from chalicelib.events.registry import Context, Registry

        context = Context(self._clock, self._grace_ms, self._browser_of_target)
        return Registry(context, self.configuration, self.choices, _report)

    @cached_property
    def plugin_problems(self) -> int:
        """The number of configured browsers that are replaced by a fallback or have invalid options, each reported by a log line
        and a metric when this is built. Loads nothing if the configuration names only the run log. Raises InvalidConfigurationError for a
        name that is not installed."""
        if not self.configuration.has_other_browsers:
            return 0
        problems = [each for each in self.registry.plugins(in_use=True) if each.problem and each.kind != "output"]
        for each in problems:
            _report(each)
        return len(problems)

    def choice_of(self, run: Run) -> Choice:
        """Where a run is written and read. No request while the configuration names no other browser, else those of ``RunChoices.of``."""
        from chalicelib.runlog.choice import Choice

        return self.choices.of(run) if self.configuration.has_other_browsers else Choice()

    def browsed_elsewhere(self, run: Run) -> BrowsedRun | None:
        """A run for HTTP reads whose browser is not the run log; None: read the run log. No request while the configuration names no other
        browser, else those of ``RunChoices.of``. Raises DamagedLogError, UnavailableError, also for invalid options of the browser."""
        if not self.configuration.has_other_browsers:
            return None
        from chalicelib.events.browsed_run import BrowsedRun
        from chalicelib.events.event import Loggable

        services = self._services
        try:
            browser = self.registry.open_browser(Loggable.of_run(run, services.settings.instance_id))
        except InvalidConfigurationError as error:
            raise UnavailableError(
                f"the log browser of this run cannot be used until its options are corrected, {error}"
            ) from error

        def is_ended() -> bool:
            row = services.runs.get(run)
            return row is not None and row.status != "open"

        return BrowsedRun(browser, self._clock, is_ended) if browser else None

    @cached_property
    def configuration(self) -> EventsConfiguration:
        """Where events are browsed and forwarded."""
        from chalicelib.events.configuration import parse_configuration

        settings = self._services.settings
        document = settings.events.get_secret_value() if settings.events else ""
        return parse_configuration(document, settings.log_browser)

    @property
    def _grace_ms(self) -> int:
        return self._services.settings.events_lost_after_seconds * _MS_OF_A_SECOND

    def _browser_of_target(self, document: Any, loggable: Loggable) -> LogBrowser:
        from chalicelib.aws.browsers import make_browser
        from chalicelib.events.targets.configuration import target_of

        return make_browser(target_of(document), loggable, self._clock, self._grace_ms)


def _report(state: PluginState) -> None:
    """Problems of outputs are reported by the function ``pipelines``."""
    message = "a plugin is replaced by its fallback" if state.fallback else "options of a log browser are invalid"
    logger.error(message, extra={f"plugin_{key}": value for key, value in state.document().items()})
    record(PLUGINS_FAILED, 1)
