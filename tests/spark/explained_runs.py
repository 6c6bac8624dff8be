"""Rows of stored runs in a catalog, and their explanations."""

from __future__ import annotations

from bench.stored_runs import StoredRun
from chalicelib.catalog.runs import RunCatalog
from chalicelib.explanation.explainer import Explainer
from chalicelib.explanation.explanation import Explanation
from chalicelib.ports import Run


def record_finalized(runs: RunCatalog, stored: StoredRun) -> None:
    """Record the segments and the logs.txt of an ended run."""
    run = Run(stored.fqn, stored.run_id)
    for entry in stored.entries:
        runs.record_segment(run, entry)
    runs.record_finalization(run, stored.log.count(b"\n"), len(stored.log), len(stored.entries), stored.at_ms)


def record_explanation(runs: RunCatalog, stored: StoredRun) -> Explanation:
    """Explain a run and record the result, as the schedule does."""
    explainer = Explainer()
    explainer.feed(stored.log)
    explanation = Explanation.of(explainer.candidates(stored.entries[-1].end))
    runs.record_explanation(Run(stored.fqn, stored.run_id), len(stored.entries), explanation.to_text())
    return explanation
