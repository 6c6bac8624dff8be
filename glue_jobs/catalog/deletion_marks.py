"""Restores the rows that mark deleted runs, from their marks on S3."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from chalicelib.composition import Services
from chalicelib.ports import Run
from chalicelib.removal.run_removal import put_rows
from chalicelib.runlog.deletion_marks import find_mark, marked_runs

_THREADS = 8


def restore_marks(services: Services, is_selected: Callable[[str], bool]) -> int:
    """Write the rows of every deleted run. Idempotent. Returns their number. A LIST for 1,000 runs, a GET and two writes for each. Raises
    UnavailableError, DamagedLogError."""

    def restore(run: Run) -> int:
        mark = find_mark(services.store, run)
        if mark is None:
            return 0
        put_rows(mark, services.runs, services.index)
        return 1

    with ThreadPoolExecutor(_THREADS) as threads:
        return sum(threads.map(restore, (run for run in marked_runs(services.store) if is_selected(run.fqn))))
