"""Hourly maintenance: continues removals of runs, and deletions and retention of pipeline files."""

from __future__ import annotations

from chalicelib.composition import Services
from chalicelib.deadline import Deadline
from chalicelib.errors import RunlakeError
from chalicelib.observability import logger

STOP_BEFORE_S = 5.0
MIN_REMAINING_S = 10.0


def maintain_pipeline_files(services: Services, remaining_ms: int) -> dict[str, int]:
    """Run all of it until the function's time ends; the next hour continues. Errors are logged and do not fail the sweep."""
    if remaining_ms / 1000 < MIN_REMAINING_S:
        return {}
    deadline, removed = Deadline(services.clock, remaining_ms / 1000 - STOP_BEFORE_S), 0
    try:
        removed = services.removal.resume(deadline)
    except RunlakeError as error:
        logger.warning("could not remove all deleted runs", extra={"error": str(error)})
    try:
        deleted, retention = services.pipeline_files.run_maintenance(deadline)
    except RunlakeError as error:
        logger.warning("could not maintain the files of pipelines", extra={"error": str(error)})
        return {}
    done = {
        "files_deleted": deleted.files,
        "runs_deleted": deleted.runs + removed,
        "files_let_go": sum(each.removed for each in retention.values()),
        "bytes_let_go": sum(each.removed_bytes for each in retention.values()),
    }
    if any(done.values()):
        logger.info("removed runs, or files of pipelines", extra=done)
    return done
