"""Record the result of a compaction or finalization in the catalog at once, since notifications may be late or lost."""

from __future__ import annotations

from chalicelib.catalog.runs import RunCatalog
from chalicelib.ports import Run
from chalicelib.runlog.compaction import Compaction
from chalicelib.runlog.finalization import Finalization


def record_compaction(
    runs: RunCatalog,
    run: Run,
    compaction: Compaction,
    end: Finalization,
    final_segments: int | None,
    now_ms: int,
    *,
    retires: bool,
) -> None:
    """Write one row, or none if nothing has changed. ``final_segments``: the segment count of a run that the catalog already has
    as finalized, so that only its old segments can have been deleted. ``retires``: such a run needs no more background work."""
    if end.finalized and final_segments is not None:
        if retires:
            runs.mark_retired(run, final_segments)
    elif end.finalized:
        runs.record_finalization(run, end.lines, end.bytes, end.next_segment, now_ms)
    elif compaction.next_segment:
        runs.record_compaction(run, compaction.bytes, compaction.next_segment, now_ms)
