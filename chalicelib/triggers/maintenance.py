"""What the hourly schedule does with the files of pipelines: go on with deletions, let go what is due."""

from __future__ import annotations

from chalicelib.composition import Services
from chalicelib.deadline import Deadline
from chalicelib.errors import RunlakeError
from chalicelib.observability import logger

STOP_BEFORE_S = 5.0
MIN_REMAINING_S = 10.0


def maintain_pipeline_files(services: Services, remaining_ms: int) -> dict[str, int]:
    """As far as the function's time goes; the next hour goes on. Trouble is told, and never that of the sweep's runs."""
    if remaining_ms / 1000 < MIN_REMAINING_S:
        return {}
    try:
        deleted, kept = services.pipeline_files.run_maintenance(Deadline(services.clock, remaining_ms / 1000 - STOP_BEFORE_S))
    except RunlakeError as error:
        logger.warning("the files of pipelines are kept later", extra={"error": str(error)})
        return {}
    done = {
        "files_deleted": deleted.files,
        "runs_deleted": deleted.runs,
        "files_let_go": sum(each.removed for each in kept.values()),
        "bytes_let_go": sum(each.removed_bytes for each in kept.values()),
    }
    if any(done.values()):
        logger.info("files of pipelines were let go", extra=done)
    return done
