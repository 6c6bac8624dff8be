"""Where a run is written and browsed: by the choice that is stored with it, else by the configuration (decisions 0047 and 0055).

A new choice is for new runs only: a run that has lines and no stored choice was begun with the run log.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from threading import Lock

from chalicelib.errors import NoBrowserError, OtherMethodError
from chalicelib.events.configuration import EventsConfiguration
from chalicelib.ports import ObjectStore, Run, after_folder
from chalicelib.runlog.choice import RUN_LOG, Choice, put_choice, read_choice
from chalicelib.runlog.layout import Layout

_MAX_REMEMBERED = 4096


class RunChoices:
    """Choices of runs; also the run log's ``AppendPolicy``. Remembers stored ones, which never change. Thread-safe."""

    def __init__(self, store: ObjectStore, layout: Layout, configuration: EventsConfiguration) -> None:
        self._store, self._layout, self._configuration = store, layout, configuration
        self._remembered: OrderedDict[Run, Choice] = OrderedDict()
        self._lock = Lock()

    def for_new(self, fqn: str) -> Choice:
        """The choice of a new run. No request."""
        return self._configuration.choose(fqn)

    def of(self, run: Run) -> Choice:
        """The choice of a run, or what a new run would get. One GET, none if it is remembered; a LIST more for a run without a stored choice
        whose name is configured otherwise than the run log. Raises DamagedLogError, UnavailableError."""
        return self._stored(run) or self._unless_begun(run, self.for_new(run.fqn))

    def for_start(self, fqn: str, method: str) -> Choice:
        """The choice of a new run of a client with this method. A run in the run log without outputs is read from there: nothing brings its lines
        to another store. No request. Raises NoBrowserError if its log could not be read."""
        choice = replace(self.for_new(fqn), method=method)
        if method == RUN_LOG and not choice.outputs:
            return replace(choice, browser=RUN_LOG)
        if choice.browser == RUN_LOG != method:
            raise NoBrowserError(
                f"this pipeline has no browser for logs in another store: name one in RUNLAKE_EVENTS, in browser or a locator method={method}"
            )
        return choice

    def settle(self, run: Run, choice: Choice) -> None:
        """Store the choice of a run before its first event, unless its pipeline has no other browser. A LIST and a PUT; if the run has lines or a
        choice, a GET too. Otherwise no request, or a GET while another pipeline has another browser. Repeatable. Raises
        OtherMethodError for a run that began with another method, DamagedLogError, UnavailableError."""
        if choice.is_run_log and self.for_new(run.fqn).browser == RUN_LOG:
            return self.check_first_segment(run)
        if not self._has_begun(run) and put_choice(self._store, self._layout, run, choice):
            return
        stored = self._stored(run)
        began = stored.method if stored else RUN_LOG
        if began != choice.method:
            raise OtherMethodError(f"the run began with another logging method began={began} method={choice.method}")

    def check_first_segment(self, run: Run) -> None:
        """See ``AppendPolicy``. No request while the configuration has no other browser than the run log; else a GET, none if the choice is
        remembered."""
        if self._configuration.has_other_browsers and (stored := self._stored(run)) and stored.method != RUN_LOG:
            raise OtherMethodError(f"the log of this run is written to another store than the run log method={stored.method}")

    def segment_metadata(self, run: Run) -> Mapping[str, str]:
        """See ``AppendPolicy``."""
        return self.for_new(run.fqn).segment_metadata()

    def _unless_begun(self, run: Run, choice: Choice) -> Choice:
        if choice.is_run_log or not self._has_begun(run):
            return choice
        return replace(choice, browser=RUN_LOG)

    def _has_begun(self, run: Run) -> bool:
        """Whether the run log has lines of a run: all keys after those of ``events/`` belong to it. One LIST."""
        after = after_folder(self._layout.events(run))
        return bool(self._store.list(self._layout.run_prefix(run), start_after=after, limit=1).objects)

    def _stored(self, run: Run) -> Choice | None:
        with self._lock:
            known = self._remembered.get(run)
        if known is None and (known := read_choice(self._store, self._layout, run)):
            with self._lock:
                self._remembered[run] = known
                if len(self._remembered) > _MAX_REMEMBERED:
                    self._remembered.popitem(last=False)
        return known
