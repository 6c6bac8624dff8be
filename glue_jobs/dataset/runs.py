"""New data in the logs' bucket: the next offset, and the slices between two offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chalicelib.catalog.runs import EXPLAINED_OUTCOMES
from chalicelib.ports import Run
from glue_jobs.dataset.explanations import RecordedExplanations
from glue_jobs.datasource.offsets import Offset
from glue_jobs.datasource.options import Options
from glue_jobs.datasource.problems import Problems
from glue_jobs.datasource.slices import Slice
from glue_jobs.datasource.steps import follower


@dataclass(frozen=True, slots=True)
class Work:
    """Input of a batch. ``arrived_s`` of each run is fixed when it is first read. ``failed``: runs that may have an explanation."""

    slices: Sequence[Slice]
    arrived_s: Mapping[Run, int]
    failed: Collection[Run]
    bytes: int


class NewRuns:
    """Finds new data. ``live``: also of running runs; otherwise only of ended runs, each with all its new data at once, and of failed ones
    when they are explained."""

    def __init__(self, options: Options, explanations: RecordedExplanations, now_s: Callable[[], float], *, live: bool) -> None:
        # An event of a running run ends where the next one begins, or with the run: rows must not depend on the time of the read.
        self._options, self._live = replace(options, flush_after_s=None), live
        self._explanations = explanations
        self._problems = Problems()
        self._follower = follower(self._options, self._problems, now_s)

    def latest(self, stored: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """The offset after all current data, or after as much as a batch may contain; None if nothing is new."""
        previous = self._offset(stored)
        find_awaited = None if self._live else self._explanations.find_awaited
        offset = self._follower.latest(previous, previous, ended_only=not self._live, find_awaited=find_awaited)
        return None if offset == previous else offset.to_json()

    def work(self, start: Mapping[str, Any] | None, end: Mapping[str, Any]) -> Work:
        """The slices between two offsets. Repeated calls give the same rows."""
        slices = self._follower.slices(self._offset(start), self._offset(end))
        arrived_s = {part.run: part.reference_s for part in slices}
        failed = {part.run for part in slices if part.outcome in EXPLAINED_OUTCOMES}
        return Work(slices, arrived_s, failed, sum(part.end.byte - part.start.byte for part in slices))

    def problems(self) -> Counter[str]:
        """Problems by kind that planning found since the last call."""
        kinds = Counter(problem.kind for problem in self._problems.reported)
        self._problems.reported.clear()
        return kinds

    def _offset(self, stored: Mapping[str, Any] | None) -> Offset:
        return Offset.initial(self._options) if stored is None else Offset.from_json(stored, self._options)
