"""Explanations of failed runs, from the runs' rows in the catalog: the same that the HTTP API returns (decision 0045)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from chalicelib.catalog.runs import EXPLAIN_WITHIN_MS, EXPLAINED_OUTCOMES, RunCatalog, RunRow
from chalicelib.explanation.explanation import explanation_of
from chalicelib.ports import Run
from glue_jobs.dataset.row_tables import Cause
from glue_jobs.datasource.objects import RunObjects
from glue_jobs.datasource.offsets import Position

_MAX_ROWS = 100
"""Of a request."""


class RecordedExplanations:
    """Reads explanations; without a catalog there are none. One request for each 100 runs. Raises UnavailableError."""

    def __init__(self, runs: RunCatalog | None, now_s: Callable[[], float]) -> None:
        self._runs, self._now_s = runs, now_s

    def find_awaited(self, ended: Mapping[str, tuple[RunObjects, Position]]) -> set[str]:
        """The names of runs that failed or were lost, are not explained yet, and still may be: some minutes after their end, six hours
        at most. Their rows in the dataset could not be completed later."""
        since_s = self._now_s() - EXPLAIN_WITHIN_MS / 1000
        recent = {
            name: (objects.run, position.next)
            for name, (objects, position) in ended.items()
            if position.outcome in EXPLAINED_OUTCOMES and objects.last_written_s > since_s
        }
        if self._runs is None or not recent:
            return set()
        rows = self._rows(run for run, _ in recent.values())
        return {name for name, (run, segments) in recent.items() if not _is_explained(rows.get(run), segments)}

    def causes(self, runs: Iterable[Run]) -> dict[Run, Sequence[Cause]]:
        """The candidates of those runs that are explained, the best first."""
        return {run: _candidates(row) for run, row in self._rows(runs).items() if row.is_explained}

    def _rows(self, runs: Iterable[Run]) -> dict[Run, RunRow]:
        rows: dict[Run, RunRow] = {}
        if self._runs is None:
            return rows
        names = list(runs)
        for first in range(0, len(names), _MAX_ROWS):
            rows |= self._runs.get_many(names[first : first + _MAX_ROWS])
        return rows


def _is_explained(row: RunRow | None, segments: int) -> bool:
    return row is not None and row.is_explained and row.final_segments == segments


def _candidates(row: RunRow) -> Sequence[Cause]:
    explanation = explanation_of(row.explanation)
    return [
        (rank, each["line"], each["rule"], each["family"] or None, each["score"])
        for rank, each in enumerate(explanation.candidates if explanation else (), 1)
    ]
