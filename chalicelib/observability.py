"""Logs, metrics and traces.

An invocation prints one line of metrics (CloudWatch EMF) that is its access log as well: its metadata name the operation and the caller. (A
metric with more than a hundred values makes further lines, without the metadata.) Metric names are the seed's (``om_streamable_logs_…``),
dimension ``service``. The logger reports failures.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import quote

from aws_lambda_powertools.logging import Logger
from aws_lambda_powertools.metrics import Metrics, MetricUnit
from aws_lambda_powertools.metrics.functions import is_metrics_disabled

from chalicelib.errors import UnavailableError
from chalicelib.ports import (
    ANY,
    Condition,
    Folders,
    Listing,
    ObjectInfo,
    ObjectStore,
    ObjectVersion,
    OpenUpload,
    PutOptions,
    SignedRequest,
    StoredObject,
)

SERVICE = "runlake"
NAMESPACE = "Runlake"
_PREFIX = "om_streamable_logs_"

LOG_SHIPMENT_MS = _PREFIX + "log_shipment"
LOGS_SENT = _PREFIX + "logs_sent"
LOGS_FAILED = _PREFIX + "logs_failed"
BATCH_SIZE_LINES = _PREFIX + "batch_size"
S3_READ_LATENCY_MS = _PREFIX + "s3_read_latency"
S3_WRITE_LATENCY_MS = _PREFIX + "s3_write_latency"
S3_ERRORS = _PREFIX + "s3_errors"
PENDING_FLUSH_BYTES = _PREFIX + "pending_flush_bytes"
PENDING_FLUSH_SEGMENTS = _PREFIX + "pending_flush_segments"
CONSECUTIVE_FLUSH_FAILURES = _PREFIX + "consecutive_flush_failures"
FLUSH_ALERTS = _PREFIX + "flush_alerts"
FLUSH_MS = _PREFIX + "flush"
FLUSH_UPLOADED_BYTES = _PREFIX + "flush_uploaded_bytes"
FLUSH_COPIED_BYTES = _PREFIX + "flush_copied_bytes"
RUNS_FINALIZED = _PREFIX + "runs_finalized"
RUNS_EXPLAINED = _PREFIX + "runs_explained"
SIDECARS_BUNDLED = _PREFIX + "sidecars_bundled"
CATALOG_REQUESTS = _PREFIX + "catalog_requests"
REPORTS_PUBLISHED = _PREFIX + "reports_published"
ACCESS_REFUSED = _PREFIX + "access_refused"
PIPELINE_LAG_EVENTS = "runlake_pipeline_lag_events"
PIPELINE_LAG_MS = "runlake_pipeline_lag"
PIPELINE_EVENTS = "runlake_pipeline_events"
PIPELINE_ERRORS = "runlake_pipeline_errors"
PIPELINE_DEAD_LETTERS = "runlake_pipeline_dead_letters"
PIPELINE_HANDLERS_OFF = "runlake_pipeline_handlers_off"
PIPELINES_FAILED = "runlake_pipelines_failed"
PIPELINE_PROBLEMS = "runlake_pipeline_problems"
PLUGINS_FAILED = "runlake_plugins_failed"
MASKED_SECRETS = _PREFIX + "masked_secrets"
"""The sum over all shapes; ``record_masked`` also counts each shape."""

_UNITS = {
    LOG_SHIPMENT_MS: MetricUnit.Milliseconds,
    S3_READ_LATENCY_MS: MetricUnit.Milliseconds,
    S3_WRITE_LATENCY_MS: MetricUnit.Milliseconds,
    FLUSH_MS: MetricUnit.Milliseconds,
    PIPELINE_LAG_MS: MetricUnit.Milliseconds,
    PENDING_FLUSH_BYTES: MetricUnit.Bytes,
    FLUSH_UPLOADED_BYTES: MetricUnit.Bytes,
    FLUSH_COPIED_BYTES: MetricUnit.Bytes,
}

_redact: Callable[[str], str] | None = None


def redact_with(redact: Callable[[str], str] | None) -> None:
    """Mask secrets in the output of this process from now on: log lines, metadata of metrics, ``redacted``. None: no masking."""
    global _redact
    _redact = redact


def redacted(text: str) -> str:
    """A caller's text for a response or a log line, with configured secrets masked."""
    return _redact(text) if _redact else text


def _redacted_document(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {redacted(str(name)): _redacted_document(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted_document(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float) else redacted(str(value))


def _log_line(document: dict[str, Any]) -> str:
    """A document as one line of ASCII: in UTF-8 a lone surrogate fails to be written, and some readers end lines at U+2028."""
    return json.dumps(_redacted_document(document) if _redact else document, default=str, separators=(",", ":"))


_service = os.environ.get("POWERTOOLS_SERVICE_NAME") or SERVICE
logger = Logger(service=_service, json_serializer=_log_line)
_decisions = Logger(
    service=f"{_service}-access", level="INFO", json_serializer=_log_line
)  # a separate logger: written at any POWERTOOLS_LOG_LEVEL
metrics = Metrics(namespace=os.environ.get("POWERTOOLS_METRICS_NAMESPACE") or NAMESPACE, service=_service)
_metrics_lock = Lock()
Answer = TypeVar("Answer")


def record(name: str, value: float) -> None:
    """Add one value to this invocation's metrics, unless POWERTOOLS_METRICS_DISABLED is set: Powertools would still print every hundredth
    value. Thread-safe."""
    if is_metrics_disabled():
        return
    with _metrics_lock:
        metrics.add_metric(name=name, unit=_UNITS.get(name, MetricUnit.Count), value=round(value, 3))


def record_statistics(dimensions: Mapping[str, str], statistics: Mapping[str, Mapping[str, float]]) -> None:
    """Print one line of metrics of its own. ``statistics``: ``count``, ``sum``, ``min`` and ``max`` by metric; they stand in the line as AWS's
    own exporter of OpenTelemetry writes them. Names of dimensions and metrics must differ."""
    if is_metrics_disabled():
        return
    facts = {"Namespace": metrics.namespace, "Dimensions": [list(dimensions)], "Metrics": [{"Name": name} for name in statistics]}
    values = {name: {key.capitalize(): each for key, each in value.items()} for name, value in statistics.items()}
    # CloudWatch takes ASCII only, and no colon first
    escaped = {name: quote(value, safe="/@+=,;()[]") for name, value in dimensions.items()}
    line = {"_aws": {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [facts]}, **escaped, **values}
    print(json.dumps(line, separators=(",", ":")))


def record_masked(counts: Mapping[str, int]) -> None:
    """Record masked secrets by shape: their sum, and each shape under a name such as ``…_masked_secrets_jwt``."""
    for shape, count in counts.items():
        record(MASKED_SECRETS, count)
        record(f"{MASKED_SECRETS}_{shape.replace('-', '_')}", count)


def note(**facts: Any) -> None:
    """Add metadata to this invocation's line of metrics."""
    with _metrics_lock:
        for name, value in facts.items():
            metrics.add_metadata(name, _redacted_document(value) if _redact else value)


def report_decision(
    *,
    principal: str,
    kind: str,
    action: str,
    resource: str,
    allowed: bool,
    reason: str,
    caller: Mapping[str, Any] | None = None,
    count: int = 1,
) -> None:
    """Write one audit line: principal, action, resource and decision. ``caller``: further facts, such as the source address. Never any part
    of credentials. ``count``: the number of decisions, or of names, that the line summarizes."""
    if not allowed:
        record(ACCESS_REFUSED, count)
    outcome = "allowed" if allowed else "refused"
    facts = {"principal": principal, "auth": kind, "action": action, "resource": resource, "outcome": outcome, "reason": reason}
    _decisions.info("access", extra=facts | dict(caller or {}) | ({"count": count} if count > 1 else {}))


def report_stale_identity(error: UnavailableError) -> None:
    """Log that the issuer's keys or the policy could not be refreshed."""
    logger.warning("could not refresh the issuer's keys or the policy", extra={"error": str(error)})


@contextmanager
def invocation(operation: str, context: Any) -> Iterator[None]:
    """One invocation of a function. Its metrics and metadata are printed at its end, also after an error; its log lines carry its request id."""
    facts = {"operation": operation, "request_id": getattr(context, "aws_request_id", None)}
    logger.append_keys(**facts)
    _decisions.append_keys(**facts)
    # Also at the start: a metric with more than a hundred values is printed before the end.
    note(**facts)
    started_s = time.perf_counter()
    try:
        with span(operation):
            yield
    finally:
        note(**facts, duration_ms=round((time.perf_counter() - started_s) * 1000, 3))
        _flush()


def _flush() -> None:
    with _metrics_lock:
        if metrics.provider.metric_set:
            metrics.flush_metrics()
        metrics.clear_metrics()


def span(name: str) -> AbstractContextManager[Any]:
    """A subsegment of the invocation's trace; without tracing a null context."""
    recorder = trace_recorder()
    span_: AbstractContextManager[Any] = recorder.in_subsegment(name=f"## {name}") if recorder else nullcontext()
    return span_


@cache
def trace_recorder() -> Any | None:
    """X-Ray's recorder, with botocore patched, where a daemon listens; elsewhere None, and the library is not imported."""
    if "AWS_XRAY_DAEMON_ADDRESS" not in os.environ:
        return None
    from aws_lambda_powertools.tracing import Tracer

    tracer = Tracer(service=_service, patch_modules=("botocore",))
    return None if tracer.disabled else tracer.provider


class ObservedStore(ObjectStore):
    """A store that records metrics of its calls: latency of reads and writes, errors. A false condition is not an error."""

    def __init__(self, inner: ObjectStore) -> None:
        self._inner = inner

    def put(self, key: str, body: bytes, options: PutOptions, condition: Condition = ANY) -> str:
        return self._measured(S3_WRITE_LATENCY_MS, self._inner.put, key, body, options, condition)

    def get(self, key: str, start: int | None = None, end: int | None = None, *, if_match: str | None = None) -> StoredObject:
        return self._measured(S3_READ_LATENCY_MS, self._inner.get, key, start, end, if_match=if_match)

    def head(self, key: str) -> ObjectInfo:
        return self._measured(S3_READ_LATENCY_MS, self._inner.head, key)

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> Listing:
        return self._measured(S3_READ_LATENCY_MS, self._inner.list, prefix, start_after=start_after, limit=limit)

    def list_folders(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> Folders:
        return self._measured(S3_READ_LATENCY_MS, self._inner.list_folders, prefix, start_after=start_after, limit=limit)

    def delete(self, key: str, *, if_match: str | None = None) -> None:
        self._measured(S3_WRITE_LATENCY_MS, self._inner.delete, key, if_match=if_match)

    def delete_many(self, keys: Sequence[str]) -> None:
        self._measured(S3_WRITE_LATENCY_MS, self._inner.delete_many, keys)

    def old_versions(self, prefix: str, limit: int = 1000) -> Sequence[ObjectVersion]:
        return self._measured(S3_READ_LATENCY_MS, self._inner.old_versions, prefix, limit)

    def delete_versions(self, versions: Sequence[ObjectVersion]) -> None:
        self._measured(S3_WRITE_LATENCY_MS, self._inner.delete_versions, versions)

    def open_uploads(self, prefix: str) -> Sequence[OpenUpload]:
        return self._measured(S3_READ_LATENCY_MS, self._inner.open_uploads, prefix)

    def create_multipart(self, key: str, options: PutOptions) -> str:
        return self._measured(S3_WRITE_LATENCY_MS, self._inner.create_multipart, key, options)

    def upload_part(self, key: str, upload_id: str, number: int, body: bytes) -> str:
        return self._measured(S3_WRITE_LATENCY_MS, self._inner.upload_part, key, upload_id, number, body)

    def copy_part(self, key: str, upload_id: str, number: int, source: str, start: int, end: int, *, if_match: str) -> str:
        return self._measured(
            S3_WRITE_LATENCY_MS, self._inner.copy_part, key, upload_id, number, source, start, end, if_match=if_match
        )

    def complete_multipart(self, key: str, upload_id: str, parts: Sequence[tuple[int, str]], condition: Condition = ANY) -> str:
        return self._measured(S3_WRITE_LATENCY_MS, self._inner.complete_multipart, key, upload_id, parts, condition)

    def abort_multipart(self, key: str, upload_id: str) -> None:
        self._measured(S3_WRITE_LATENCY_MS, self._inner.abort_multipart, key, upload_id)

    def presign_get(self, key: str, *, expires_s: int, content_type: str, filename: str = "", content_encoding: str = "") -> str:
        options = {"content_type": content_type, "filename": filename, "content_encoding": content_encoding}
        return self._inner.presign_get(key, expires_s=expires_s, **options)

    def presign_put(self, key: str, size: int, metadata: Mapping[str, str], *, expires_s: int) -> SignedRequest:
        return self._inner.presign_put(key, size, metadata, expires_s=expires_s)

    def presign_part(self, key: str, upload_id: str, number: int, size: int, *, expires_s: int) -> str:
        return self._inner.presign_part(key, upload_id, number, size, expires_s=expires_s)

    def presign_complete(self, key: str, upload_id: str, *, expires_s: int) -> str:
        return self._inner.presign_complete(key, upload_id, expires_s=expires_s)

    def presign_abort(self, key: str, upload_id: str, *, expires_s: int) -> str:
        return self._inner.presign_abort(key, upload_id, expires_s=expires_s)

    @staticmethod
    def _measured(metric: str, call: Callable[..., Answer], *args: Any, **options: Any) -> Answer:
        started_s = time.perf_counter()
        try:
            return call(*args, **options)
        except UnavailableError as error:
            record(S3_ERRORS, 1)
            logger.warning("a store call failed", extra={"call": call.__name__, "key": args[0], "error": str(error)})
            raise
        finally:
            record(metric, (time.perf_counter() - started_s) * 1000)
