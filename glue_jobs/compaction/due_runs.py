"""Runs that bulk compaction checks: those that are due by the catalog, or all runs of a bucket listing."""

from __future__ import annotations

from collections.abc import Iterator

from chalicelib.catalog.runs import RunRow
from chalicelib.composition import Services
from chalicelib.ports import Run
from chalicelib.runlog.compaction import RETIRABLE_MS
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.log_end import list_all
from glue_jobs.datasource.clients import Bucket
from glue_jobs.datasource.listing import RunFinder
from glue_jobs.datasource.objects import RunObjects
from glue_jobs.datasource.options import options_of, parse_options
from glue_jobs.datasource.selection import Names, Pattern, Selection

DueRun = tuple[str, str, int, int, int, bool, bool, bool]
"""A row of ``transforms.compaction.RUNS``."""


def by_catalog(services: Services, fqn: str, idle_ms: int) -> Iterator[DueRun]:
    """Runs in the activity index that have work and whose last line is older than ``idle_ms``. 64 queries, and one for each
    further MB. Memory: 0.5 KB a run."""
    names, now_ms, marked = _names(fqn), services.clock.now_ms(), _marked(services)
    for row in services.runs.active(now_ms + 1 - idle_ms):
        if row.run.fqn in names and _is_due(row, now_ms):
            yield _of_catalog(row, has_markers=row.run in marked)


def by_bucket(services: Services, fqn: str, idle_ms: int) -> Iterator[DueRun]:
    """All runs that have objects, independent of the catalog. A LIST for each 1,000 objects. Memory: 12 bytes a segment."""
    settings, before_ms = services.settings, services.clock.now_ms() - idle_ms
    marked = _marked(services)
    finder = RunFinder(Bucket(parse_options(options_of(settings))), Layout(settings.prefix))
    for objects in finder.find(Selection(fqns=_names(fqn))):
        if objects.base == services.layout.run_prefix(objects.run) and objects.last_written_s * 1000 <= before_ms:
            yield _of_bucket(objects, has_markers=objects.run in marked)


def _marked(services: Services) -> set[Run]:
    """Runs with markers. A LIST for each 1,000 markers, instead of one for each run when it is finalized."""
    keys = (listed.key for listed in list_all(services.store, services.layout.all_markers()))
    return {parsed.run for key in keys if (parsed := services.layout.parse(key))}


def _is_due(row: RunRow, now_ms: int) -> bool:
    if row.status == "finalized":
        return now_ms - row.last_append_ms >= RETIRABLE_MS and not row.awaits_explanation(now_ms)
    return row.is_due


def _of_catalog(row: RunRow, *, has_markers: bool) -> DueRun:
    return (
        row.run.fqn,
        row.run.run_id,
        row.pending_bytes,
        row.pending_segments,
        row.segments,
        True,
        row.status == "finalized",
        has_markers,
    )


def _of_bucket(objects: RunObjects, *, has_markers: bool) -> DueRun:
    """A listing does not show which segments an artifact already contains, so all of them count as unread."""
    sizes = [size for segment_range in objects.segment_ranges for size in segment_range.sizes]
    return (objects.run.fqn, objects.run.run_id, sum(sizes), len(sizes), objects.end, False, False, has_markers)


def _names(pattern: str) -> Names:
    return Names((Pattern(pattern),)) if pattern else Names()
