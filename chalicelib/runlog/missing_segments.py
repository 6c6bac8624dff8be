"""Counts the lines lost from a log: their segments are deleted, and no artifact contains them.

Only a manual deletion, or a lifecycle rule that Runlake did not create, causes that. A log with such a gap is never finalized.
"""

from __future__ import annotations

from functools import partial

from chalicelib.ports import Run
from chalicelib.runlog.compaction import Compactor
from chalicelib.runlog.conflicts import retry_on_change
from chalicelib.runlog.log_end import LogEndFinder


def lost_lines(compactor: Compactor, tails: LogEndFinder, run: Run) -> int:
    """Number of lost lines. Requests: those of ``Compactor.read_state``, and two HEADs per gap; a gap is counted twice, because a concurrent
    compaction may have caused the first result. Raises UnavailableError, DamagedLogError."""
    count = partial(_lost, compactor, tails, run)
    return retry_on_change(count) and retry_on_change(count)


def _lost(compactor: Compactor, tails: LogEndFinder, run: Run) -> int:
    state = compactor.read_state(run)
    numbers = [compactor.layout.sequence_of(run, found.key) for found in state.pending]
    reached, lost = state.base.next_segment if state.base else 0, 0
    for position, number in enumerate(numbers):
        if number != reached:
            before = tails.listed_segment(run, numbers[position - 1]).end_line if position else state.extent.lines
            lost += tails.listed_segment(run, number).line - before
        reached = number + 1
    return lost
