"""Run logs over HTTP in OpenMetadata's protocol of connectors and viewers: append, close, pages, the live stream, downloads, the runs of a
pipeline."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from chalice.app import ChaliceViewError, NotFoundError, Response

from chalicelib.access.grants import Scope
from chalicelib.composition import Services
from chalicelib.deadline import Deadline
from chalicelib.errors import DamagedLogError, StoreUnavailableError
from chalicelib.observability import BATCH_SIZE_LINES, LOG_SHIPMENT_MS, LOGS_FAILED, LOGS_SENT, logger, note, record, record_masked
from chalicelib.ports import LINES, Run
from chalicelib.response_size import fits_response
from chalicelib.routes import gate, queries, sse
from chalicelib.routes.api_request import ApiRequest
from chalicelib.routes.bodies import read_batch, stated_zone
from chalicelib.routes.close_requests import read_run_end
from chalicelib.routes.parameters import boolean_parameter
from chalicelib.routes.responses import json_response
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.layout import checked_fqn
from chalicelib.runlog.reader import LogDownload, Page
from chalicelib.runlog.tombstones import Tombstone, find_tombstone
from chalicelib.runlog.writer import Appended

if TYPE_CHECKING:
    from chalicelib.routes.logs_models import ClosedRun, LogLink, LogPage, RunIdPage, StoredBatch

COOKIE = "PIPELINE_SESSION"
COOKIE_AGE_S = 86_400
_CLOSED: ClosedRun = {"message": "Log stream closed successfully"}
_NO_LINK: LogLink = {"location": None}
_TEXT = "text/plain; charset=utf-8"
_LINK_AGE_S = 900
_TASKS = {
    "application": "application_task",
    "profiler": "profiler_task",
    "usage": "usage_task",
    "lineage": "lineage_task",
    "dbt": "dbt_task",
    "TestSuite": "test_suite_task",
    "dataInsight": "data_insight_task",
    "elasticSearchReindex": "elasticsearch_reindex_task",
    "autoClassification": "auto_classification_task",
}
"""Keys of the text by OpenMetadata's type of a pipeline; ``ingestion_task`` for other types."""
_ANSWER_WITHIN_S = 5.0
"""Reserve of the function's time for the response after a page waited for lines."""
_STREAMED_WITHIN_S = 3.0
"""The same for a stream, which waits longer: its response takes one or two GETs after the wait."""
_UNSAFE_IN_FILENAME = re.compile(r"[^A-Za-z0-9._-]+")


class GoneError(ChaliceViewError):
    """A run that has expired."""

    STATUS_CODE = 410


def append(request: ApiRequest) -> Response:
    """Append lines to a run."""
    gate.require_run_scope(Scope.LOGS_WRITE, request)
    started_s = time.perf_counter()
    try:
        batch = read_batch(request.event, request.headers, request.budget, request.services.settings.max_expanded_bytes)
        batch = replace(_masked(request, batch), zone=stated_zone(request.headers))
        appended = request.services.writer.append(
            request.run, batch, position=session_of(request.headers), idempotency_key=request.headers.get("idempotency-key")
        )
    except Exception:
        record(LOGS_FAILED, 1)
        raise
    if appended.entry:
        record(LOG_SHIPMENT_MS, (time.perf_counter() - started_s) * 1000)
        record(LOGS_SENT, 1)
        record(BATCH_SIZE_LINES, appended.entry.lines)
    return json_response(_appended(appended), Set_Cookie=session_cookie(request.headers, appended.position))


def _masked(request: ApiRequest, batch: Batch) -> Batch:
    """The masked batch. Masked secrets are counted by shape. Raises InvalidNameError."""
    run, masker = request.run, request.services.masker
    masker.check_names(run.fqn, run.fqn, run.run_id)
    masked = masker.mask(run.fqn, batch.body, has_edits=False)
    connector = masker.mask(run.fqn, batch.connector.encode())
    record_masked(Counter(masked.counts) + Counter(connector.counts))
    if connector.counts:
        batch = replace(batch, connector=connector.body.decode())
    return batch.stored_as(masked.body) if masked.counts else batch


def _appended(appended: Appended) -> StoredBatch:
    entry = appended.entry
    if entry is None:
        return {"position": appended.position}
    return {
        "position": appended.position,
        "sequence": entry.sequence,
        "line": entry.line,
        "lines": entry.lines,
        "repeated": appended.repeated,
    }


def close(request: ApiRequest) -> Response:
    """Close a run."""
    gate.require_run_scope(Scope.LOGS_WRITE, request)
    request.services.masker.check_names(request.run.fqn, request.run.fqn, request.run.run_id)
    now_ms = request.services.clock.now_ms()
    end = read_run_end(request.event, lambda text: request.services.masker.mask(request.run.fqn, text).body, now_ms)
    request.services.finalizer.close(request.run, session_of(request.headers), end, request.services.end_finder.find)
    return json_response(_CLOSED)


def page(request: ApiRequest) -> Response:
    """A page of a run's lines."""
    gate.require_run_scope(Scope.LOGS_READ, request)
    return json_response(_log_page(_read_page(request, request.run)))


def last_page(request: ApiRequest) -> Response:
    """A page of the newest run's lines."""
    fqn, pipeline_type = _permitted_pipeline(request)
    run = _newest(request, fqn)
    page = _read_page(request, run) if run else Page("", None, 0, streaming=False)
    return json_response(_task_page(page, pipeline_type) if pipeline_type else _log_page(page))


def _permitted_pipeline(request: ApiRequest) -> tuple[str, str]:
    """FQN and type of a pipeline. The path has its id, as on OpenMetadata's older pages, or its FQN; then the type is empty. Requires the scope
    for the FQN. Raises ForbiddenError."""
    pipeline = request.services.settings.pipeline_ids.get(request.names["fqn"].lower())
    if pipeline is None:
        gate.require_run_scope(Scope.LOGS_READ, request)
        return request.names["fqn"], ""
    note(fqn=pipeline.fqn)
    # The error names the requested id: the FQN is for those who may read the log.
    gate.require_scope(Scope.LOGS_READ, pipeline.fqn, requested=request.names["fqn"])
    return pipeline.fqn, pipeline.type


def _read_page(request: ApiRequest, run: Run) -> Page:
    spare_s = request.context.get_remaining_time_in_millis() / 1000 - _ANSWER_WITHIN_S
    wanted = queries.page_request(request.query, spare_s)
    elsewhere = request.services.events.browsed_elsewhere(run)
    return elsewhere.page(wanted) if elsewhere else request.services.reader.page(run, wanted)


def _log_page(page: Page) -> LogPage:
    after = None if page.after is None else str(page.after)
    document: LogPage = {"logs": page.logs, "after": after, "total": page.total, "streaming": page.streaming}
    if page.clock is not None:
        document["clock"] = page.clock
    if page.clock == LINES and page.zone:
        document["zone"] = page.zone
    return document


def _task_page(page: Page, pipeline_type: str) -> dict[str, str]:
    """A page as OpenMetadata's older pages read it: the text is under the key of the type's task too, numbers are text, and ``after`` of the
    last page is ``total``."""
    total = str(page.total)
    after = total if page.after is None else str(page.after)
    return {_TASKS.get(pipeline_type, "ingestion_task"): page.logs, "logs": page.logs, "after": after, "total": total}


def stream(request: ApiRequest) -> Response:
    """Existing lines, or those that arrive within the function's remaining time. Each response is a part of the stream."""
    gate.require_run_scope(Scope.LOGS_READ, request)
    run = request.run
    spare_s = request.context.get_remaining_time_in_millis() / 1000 - _STREAMED_WITHIN_S
    wanted = queries.follow_request(request.query, request.headers.get("last-event-id"))
    if elsewhere := request.services.events.browsed_elsewhere(run):
        return sse.update_response(run, elsewhere.follow(wanted, queries.hold_s(request.query, spare_s)))
    try:
        update = request.services.follower.follow(run, wanted, queries.hold_s(request.query, spare_s))
    except DamagedLogError as error:
        logger.exception("a log is damaged")
        return sse.failed_response(run.run_id, str(error))
    if update.tombstone:
        return sse.failed_response(run.run_id, _expired(run, update.tombstone))
    return sse.update_response(run, update)


def runs(request: ApiRequest) -> Response:
    """The runs of a pipeline, newest first."""
    gate.require_run_scope(Scope.LOGS_READ, request)
    checked_fqn(request.names["fqn"])
    page = request.services.runs.newest(request.names["fqn"], queries.runs_limit(request.query), request.query.get("cursor"))
    gate.record_names(f"{row.run.fqn}/{row.run.run_id}" for row in page.rows)
    listed: RunIdPage = {"runs": [row.run.run_id for row in page.rows], "cursor": page.cursor}
    return json_response(listed)


def download(request: ApiRequest) -> Response:
    """The log of a run."""
    gate.require_run_scope(Scope.LOGS_READ, request)
    return _download_of(request, request.run)


def last_download(request: ApiRequest) -> Response:
    """The log of the newest run."""
    fqn, _ = _permitted_pipeline(request)
    run = _newest(request, fqn)
    if run is None:
        raise NotFoundError(f"the pipeline has no runs fqn={fqn!r}")
    return _download_of(request, run)


def _download_of(request: ApiRequest, run: Run) -> Response:
    """Inline if the log is small UTF-8 text; otherwise a redirect to the object with exactly the log's bytes. A page that sends a token cannot
    follow the redirect, because the store would have to allow its origin: it requests the link and opens it."""
    wants_link = boolean_parameter(request.query, "link")
    if elsewhere := request.services.events.browsed_elsewhere(run):
        content = elsewhere.download()
        if not content:
            raise _gone(request, run)
        return json_response(_NO_LINK) if wants_link else _attachment(run, content)
    log = request.services.reader.download(run)
    if log is None:
        raise _gone(request, run)
    text = _as_text(log)
    if text is None:
        return _redirect(request, run, log.key or _settled_key(request.services, run), 200 if wants_link else 307)
    return json_response(_NO_LINK) if wants_link else _attachment(run, text)


def _attachment(run: Run, text: str) -> Response:
    disposition = f'attachment; filename="{_filename(run)}"'
    return Response(text, headers={"Content-Type": _TEXT, "Content-Disposition": disposition})


def _gone(request: ApiRequest, run: Run) -> ChaliceViewError:
    """The error for a run without a log: expired if it has a tombstone. One GET."""
    tombstone = find_tombstone(request.services.store, request.services.layout, run)
    if tombstone is None:
        return NotFoundError(f"there is no such run run={run.fqn}/{run.run_id}")
    return GoneError(_expired(run, tombstone))


def _expired(run: Run, tombstone: Tombstone) -> str:
    return f"the run has expired run={run.fqn}/{run.run_id} reason={tombstone.reason} plan={tombstone.plan}"


def _as_text(log: LogDownload) -> str | None:
    """A log's text if it is valid UTF-8 and its escaped form fits into a response; otherwise None."""
    if log.body is None:
        return None
    try:
        text = log.body.decode()
    except UnicodeDecodeError:
        return None
    return text if fits_response(text) else None


def _settled_key(services: Services, run: Run) -> str:
    """Compact a log of several objects; returns the key of the one object that contains it."""
    services.finalizer.compact_and_finalize(run, Deadline(services.clock))
    state = services.compactor.read_state(run)
    if state.base is None or state.pending:
        raise StoreUnavailableError(f"appends outpace compaction run={run.fqn}/{run.run_id}")
    return state.base.key


def _redirect(request: ApiRequest, run: Run, key: str, status: int) -> Response:
    url = request.services.store.presign_get(key, expires_s=_LINK_AGE_S, filename=_filename(run), content_type=_TEXT)
    link: LogLink = {"location": url}
    return json_response(link, status, Location=url)


def _filename(run: Run) -> str:
    return _UNSAFE_IN_FILENAME.sub("_", f"{run.fqn}-{run.run_id}")[-150:] + ".log"


def _newest(request: ApiRequest, fqn: str) -> Run | None:
    checked_fqn(fqn)
    rows = request.services.runs.newest(fqn, 1, None).rows
    gate.record_names(f"{row.run.fqn}/{row.run.run_id}" for row in rows)
    return rows[0].run if rows else None


def session_cookie(headers: Mapping[str, str], position: str) -> str:
    """The cookie with a position. ``Secure`` only for requests over https, since clients over http must return it too."""
    secure = "; Secure" if headers.get("x-forwarded-proto", "").partition(",")[0].strip() == "https" else ""
    return f"{COOKIE}={position}; Path=/; Max-Age={COOKIE_AGE_S}; HttpOnly; SameSite=Lax{secure}"


def session_of(headers: Mapping[str, str]) -> str | None:
    """The position in the client's cookie."""
    cookies: str = headers.get("cookie", "")
    for part in cookies.split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value.strip('"')
    return None
