"""Metrics of a coordinator, by Data Prepper's names: ``<sub-pipeline>_source_coordinator_<name>``."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

RecordMetric = Callable[[str, float], None]
"""Records a metric: ``observability.record`` in a function."""


class Metric(StrEnum):
    """The counters."""

    CREATED = "partitionsCreatedCount"
    COMPLETED = "partitionsCompleted"
    CLOSED = "partitionsClosed"
    ACQUIRED = "partitionsAcquired"
    NONE_ACQUIRED = "noPartitionsAcquired"
    RELEASED = "partitionsGivenUp"
    SUPPLIER_INVOCATIONS = "partitionCreationSupplierInvocations"
    STATES_SAVED = "savePartitionProgressStateInvocationsSuccess"
    NOT_FOUND = "partitionNotFoundErrors"
    NOT_OWNED = "partitionNotOwnedErrors"
    SAVE_STATE_ERRORS = "saveStatePartitionUpdateErrors"
    CLOSE_ERRORS = "closePartitionUpdateErrors"
    COMPLETE_ERRORS = "completePartitionUpdateErrors"


METRIC_NAMES: tuple[str, ...] = tuple(Metric)
"""All counters, for the dashboard of a sub-pipeline."""


def metric_name(sub_pipeline: str, name: str) -> str:
    """The full name of a metric."""
    return f"{sub_pipeline}_source_coordinator_{name}"


class Metrics:
    """The counters of one sub-pipeline."""

    def __init__(self, sub_pipeline: str, record: RecordMetric) -> None:
        self._sub_pipeline, self._record = sub_pipeline, record

    def count(self, metric: Metric, times: int = 1) -> None:
        """Add to a counter."""
        if times:
            self._record(metric_name(self._sub_pipeline, metric), times)
