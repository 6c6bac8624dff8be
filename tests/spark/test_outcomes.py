"""The outcome of runs in rows, from each of its sources."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.stored_runs import Bucket, StoredRun
from chalicelib.ports import RunEnd
from glue_jobs.datasource.steps import latest, offset_of

FAILED = RunEnd("failed", exit_code=2, exception="ValueError: 42")
LINE = b"2026-11-21 03:00:01,000 - svc.load - INFO - row\n"


def _reopened(run: StoredRun) -> StoredRun:
    return run.seal("abandoned").finalize("abandoned").retire().reopen().append(LINE)


RUNS: dict[str, tuple[Callable[[StoredRun], object], str, int]] = {
    "open": (lambda run: run, "running", 0),
    "compacted": (lambda run: run.compact(), "running", 0),
    "closed": (lambda run: run.seal(end=FAILED), "failed", 1),
    "closed without an outcome": (lambda run: run.seal(), "unknown", 1),
    "finalized": (lambda run: run.seal(end=RunEnd("succeeded")).finalize(), "succeeded", 0),
    "finalized, segments deleted": (lambda run: run.seal(end=RunEnd("cancelled")).finalize().retire(), "cancelled", 0),
    "finalized without an outcome": (lambda run: run.seal().finalize().retire(), "unknown", 0),
    "abandoned": (lambda run: run.seal("abandoned"), "lost", 1),
    "abandoned and finalized": (lambda run: run.seal("abandoned").finalize("abandoned").retire(), "lost", 0),
    "reopened": (lambda run: _reopened(run), "running", 0),
    "reopened and closed": (lambda run: _reopened(run).seal(end=FAILED), "failed", 1),
}
"""What became of a run, its outcome, and the HEADs that it takes more than without the column."""


@pytest.mark.parametrize("name", RUNS)
def test_outcome_of_a_run(bucket: Bucket, name: str) -> None:
    happen, outcome, heads = RUNS[name]
    happen(bucket.run().append(LINE, LINE))

    def head_requests(columns: str) -> int:
        bucket.server.traffic.reset()
        assert {row.get("outcome", outcome) for row in bucket.rows(columns=columns)} == {outcome}
        return bucket.server.traffic.requests.get("HEAD", 0)

    assert head_requests("fqn outcome") - head_requests("fqn") == heads
    end = latest(bucket.options)
    assert offset_of(end.text, bucket.options) == end
    bucket.server.traffic.reset()
    assert {row["outcome"] for row in bucket.rows(endingOffsets=end.text)} == {outcome}


def test_rows_between_offsets_have_the_outcome_of_that_time(bucket: Bucket) -> None:
    run = bucket.run().append(LINE, LINE)
    options = {**bucket.options, "flushAfter": "none"}
    first = latest(options)
    run.seal(end=FAILED)
    second = latest(options, first)
    run.finalize().retire()
    assert {row["outcome"] for row in bucket.rows(endingOffsets=first.text)} == {"running"}
    rows = bucket.rows(startingOffsets=first.text, endingOffsets=second.text)
    assert [(row["line"], row["outcome"]) for row in rows] == [(1, "failed")]
