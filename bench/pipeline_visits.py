"""Requests of a pipeline's visit to a running run that it has read to its end, over an in-memory store."""

from __future__ import annotations

from bench.bench_world import Function
from bench.measure import Measure
from tests.pipelines_harness import LiveRun

MOST = 4


def pipeline_visits(function: Function, batches: int = 120) -> list[Measure]:
    """Of runs of this many batches. The requests of checkpoints are those of ``python -m bench.pipelines``."""
    lines, events = LiveRun(batches=batches), LiveRun(has_events=True, batches=batches)
    spent = [len(run.visit(new)) for new in (1, 2) for run in (lines, events)]
    lines.visit(1)
    pause = len(lines.visit())
    return [
        Measure(
            "requests of a pipeline's visit to a running run: a new batch of lines; of events; two of lines; of events",
            f"at most {MOST}",
            "; ".join(map(str, spent)),
            max(spent) <= MOST,
        ),
        Measure("the same, if nothing is new and the last event may continue", "at most 1", str(pause), pause <= 1),
    ]
