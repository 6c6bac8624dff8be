"""Events of a run over HTTP: appends, writers, steps; reads events, the log by position, steps, completeness."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from chalice.app import Response
from pydantic import BaseModel

from chalicelib.access.grants import Scope
from chalicelib.errors import InvalidEventError, InvalidInputError
from chalicelib.events.completeness import MAX_WAIT_S, WriterState
from chalicelib.events.event import MAX_TIMESTAMP_MS
from chalicelib.events.event_browser import DEFAULT_LIMIT, MAX_LIMIT, EventPage
from chalicelib.events.event_view import EventFilter, EventView
from chalicelib.events.names import checked_name
from chalicelib.events.ports import LogText
from chalicelib.events.starts import StartBody
from chalicelib.events.step_updates import StepUpdate
from chalicelib.events.steps import StepSummary
from chalicelib.events.validation import checked_level
from chalicelib.observability import BATCH_SIZE_LINES, LOG_SHIPMENT_MS, LOGS_FAILED, LOGS_SENT, record
from chalicelib.response_size import fits_content
from chalicelib.routes import gate
from chalicelib.routes.api_request import ApiRequest
from chalicelib.routes.event_bodies import read_document, read_items
from chalicelib.routes.events_models import (
    MAX_LINES,
    MAX_LISTED,
    MAX_TEXT_CHARS,
    AcceptedEvents,
    BrowsedEvent,
    BrowsedEventPage,
    ClosedWriter,
    EventOutline,
    HeartbeatResult,
    LogPart,
    MergedStep,
    RegisteredWriter,
    RunCompleteness,
    StartedAttempt,
    StepEntry,
    StepEntryPage,
    WriterCompleteness,
    WriterEnd,
)
from chalicelib.routes.logs import session_cookie, session_of
from chalicelib.routes.parameters import boolean_parameter, integer_parameter
from chalicelib.routes.responses import json_response

MAX_BYTE = 10**15
_TEXT = "text/plain; charset=utf-8"
_ANSWER_WITHIN_S = 4.0
"""Reserve of the function's time for the response after waiting for completeness."""
_COUNT_WITHIN_S = 20.0
"""The same for a run in another store: its events are counted for up to 10 s, and a request to the store may take 6 s."""
_Entry = TypeVar("_Entry", StepEntry, WriterCompleteness)


def _document(request: ApiRequest, model: type[BaseModel]) -> Any:
    """The validated body. Raises InvalidEventError."""
    return read_document(request.event, request.headers, request.budget, model)


def append(request: ApiRequest) -> Response:
    """Append events to a run."""
    gate.require_run_scope(Scope.LOGS_WRITE, request)
    started_s = time.perf_counter()
    run = request.run
    try:
        items = read_items(request.event, request.headers, request.budget, request.services.settings.max_expanded_bytes)
        if items.refused and not items.events:
            raise InvalidEventError(
                f"no event of the batch can be stored: {items.refused[0].reason} index={items.refused[0].index}"
            )
        accepted = request.services.events.log.append(
            run,
            [event for _, event in items.events],
            writer=request.query.get("writer") or None,
            position=session_of(request.headers),
            idempotency_key=request.headers.get("idempotency-key"),
        )
    except Exception:
        record(LOGS_FAILED, 1)
        raise
    if accepted.accepted:
        record(LOG_SHIPMENT_MS, (time.perf_counter() - started_s) * 1000)
        record(LOGS_SENT, 1)
        record(BATCH_SIZE_LINES, accepted.accepted)
    document: AcceptedEvents = {
        "accepted": accepted.accepted,
        "firstLine": accepted.first_line,
        "position": accepted.position,
        "repeated": accepted.repeated,
        "errors": items.error_documents(accepted.refused),
    }
    return json_response(document, Set_Cookie=session_cookie(request.headers, accepted.position))


def start(request: ApiRequest) -> Response:
    """Start an attempt of a run."""
    gate.require_run_scope(Scope.LOGS_WRITE, request)
    body: StartBody = _document(request, StartBody)
    attempt = request.services.events.starts.start(request.run, request.names["start"], body)
    document: StartedAttempt = {
        "runId": attempt.run.run_id,
        "attempt": attempt.start.attempt,
        "startedMs": attempt.start.started_ms,
        "position": attempt.position,
        "joined": attempt.is_joined,
        "instanceId": request.services.settings.instance_id,
    }
    return json_response(document, Set_Cookie=session_cookie(request.headers, attempt.position))


def heartbeat(request: ApiRequest) -> Response:
    """Record that the process of a run is alive."""
    gate.require_run_scope(Scope.LOGS_WRITE, request)
    services = request.services
    recorded = services.runs.record_heartbeat(request.run, services.clock.now_ms())
    if not recorded:
        _check_deleted(request)
    return json_response(HeartbeatResult(recorded=recorded))


def _check_deleted(request: ApiRequest) -> None:
    """Raises RunDeletedError. One query, as an append without a position makes."""
    request.services.writer.tails.check_deleted(request.run)


def open_writer(request: ApiRequest) -> Response:
    """Open a writer."""
    gate.require_run_scope(Scope.LOGS_WRITE, request)
    _check_deleted(request)
    request.services.events.writers.open(request.run, request.names["writer"])
    return json_response(RegisteredWriter(writer=request.names["writer"]))


def close_writer(request: ApiRequest) -> Response:
    """Close a writer with the number of its events."""
    gate.require_run_scope(Scope.LOGS_WRITE, request)
    end: WriterEnd = _document(request, WriterEnd)
    _check_deleted(request)
    request.services.events.writers.close(request.run, request.names["writer"], end.count, end.last_timestamp)
    return json_response(ClosedWriter(writer=request.names["writer"], count=end.count))


def update_step(request: ApiRequest) -> Response:
    """Update a step."""
    gate.require_run_scope(Scope.LOGS_WRITE, request)
    update: StepUpdate = _document(request, StepUpdate)
    _check_deleted(request)
    known = request.services.events.step_updates.record(request.run, request.names["step"], update)
    document: MergedStep = {
        "step": request.names["step"],
        "name": known.name,
        "parent": known.parent,
        "startedMs": known.started_ms,
        "endedMs": known.ended_ms,
        "status": known.status,
    }
    return json_response(document)


def events(request: ApiRequest) -> Response:
    """A page of events."""
    gate.require_run_scope(Scope.LOGS_READ, request)
    limit = integer_parameter(request.query, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
    first, is_outline = integer_parameter(request.query, "after", 0, 0, MAX_BYTE), boolean_parameter(request.query, "outline")
    services, run, event_filter = request.services.events, request.run, _event_filter(request.query)
    if elsewhere := services.browsed_elsewhere(run):
        page = elsewhere.events(event_filter, first, limit)
    else:
        page = services.browser.page(run, event_filter, first, limit, is_last_included=is_outline)
    documents, after = _fitting(page, is_outline=is_outline)
    return json_response(BrowsedEventPage(events=documents, after=None if after is None else str(after)))


def _fitting(page: EventPage, *, is_outline: bool) -> tuple[list[BrowsedEvent | EventOutline], int | None]:
    """As many of a page's events as fit into a response, and the start of the next page. A single event that is too large is truncated."""
    documents = [event_outline(each) if is_outline else browsed_event(each) for each in page.events]
    after = page.after
    while not fits_content(documents):
        if len(documents) > 1:
            documents = documents[: len(documents) // 2]
            after = page.events[len(documents)].line
        else:
            (document,) = cast(list[BrowsedEvent], documents)
            documents = [document | {"message": document["message"][: len(document["message"]) // 2], "truncated": True}]
    return documents, after


def browsed_event(event: EventView) -> BrowsedEvent:
    """An event in a response."""
    return {
        "line": event.line,
        "lines": event.lines,
        "severity": event.severity,
        "hasData": event.has_data,
        "id": event.id,
        "writer": event.writer,
        "timestamp": event.timestamp,
        "level": event.level,
        "step": event.step,
        "message": event.message,
        "data": dict(event.data),
        "annotations": [dict(each) for each in event.annotations],
    }


def event_outline(event: EventView) -> EventOutline:
    """The fields that decide how its lines are displayed."""
    return {"line": event.line, "lines": event.lines, "severity": event.severity, "hasData": event.has_data}


def _event_filter(query: Mapping[str, str]) -> EventFilter:
    text = query.get("text") or ""
    if len(text) > MAX_TEXT_CHARS:
        raise InvalidInputError(f"text must have at most {MAX_TEXT_CHARS} characters length={len(text)}")
    step, level = query.get("step"), query.get("level")
    return EventFilter(
        step=checked_name("step", step) if step else None,
        level=checked_level(level) if level else None,
        from_ms=_time(query, "from"),
        to_ms=_time(query, "to"),
        text=text,
    )


def _time(query: Mapping[str, str], name: str) -> int | None:
    return integer_parameter(query, name, 0, 0, MAX_TIMESTAMP_MS) if query.get(name) else None


def log(request: ApiRequest) -> Response:
    """Text of the log by position, or of one step."""
    gate.require_run_scope(Scope.LOGS_READ, request)
    query = request.query
    start = integer_parameter(query, "start", 0, 0, MAX_BYTE)
    lines = integer_parameter(query, "maxLines", 0, 1, MAX_LINES) if query.get("maxLines") else None
    is_raw = boolean_parameter(query, "raw")
    step = checked_name("step", named) if (named := query.get("step")) else None
    found = _log_text(request, step, start, lines)
    if is_raw:
        progress = {"X-Next": str(found.next), "X-Complete": "true" if found.complete else "false"}
        return Response(found.text, headers={"Content-Type": _TEXT, **progress})
    return json_response(LogPart(text=found.text, next=found.next, complete=found.complete, lines=found.text.count("\n")))


def _log_text(request: ApiRequest, step: str | None, start: int, lines: int | None) -> LogText:
    services, run = request.services.events, request.run
    if elsewhere := services.browsed_elsewhere(run):
        return elsewhere.step_log(step, start, lines) if step else elsewhere.log(start, lines)
    return services.logs.step_log(run, step, start, lines) if step else services.logs.overall_log(run, start, lines)


def steps(request: ApiRequest) -> Response:
    """A page of the run's steps."""
    gate.require_run_scope(Scope.LOGS_READ, request)
    documents, after = _listed(request, [_step(each) for each in request.services.events.steps.all(request.run)])
    return json_response(StepEntryPage(steps=documents, after=after))


def _listed(request: ApiRequest, documents: Sequence[_Entry]) -> tuple[Sequence[_Entry], str | None]:
    """A page of a complete list: documents from ``after`` on, as many as ``limit`` and the response allow, which may repeat each writer's
    name once."""
    begin = integer_parameter(request.query, "after", 0, 0, MAX_BYTE)
    limit = integer_parameter(request.query, "limit", MAX_LISTED, 1, MAX_LISTED)
    page = documents[begin : begin + limit]
    while not fits_content([page, [each.get("writer") for each in page]]):
        page = page[: len(page) // 2]
    end = begin + len(page)
    return page, str(end) if end < len(documents) else None


def _step(facts: StepSummary) -> StepEntry:
    return {
        "step": facts.step,
        "name": facts.name,
        "parent": facts.parent,
        "startedMs": facts.started_ms,
        "endedMs": facts.ended_ms,
        "durationMs": facts.duration_ms,
        "lines": facts.lines,
        "bytes": facts.bytes,
        "errors": facts.errors,
        "firstLine": facts.first_line,
        "lineRanges": facts.line_ranges,
        "status": facts.status,
        "complete": facts.complete,
    }


def completeness(request: ApiRequest) -> Response:
    """Whether events are missing."""
    gate.require_run_scope(Scope.LOGS_READ, request)
    elsewhere = request.services.events.browsed_elsewhere(request.run)
    spare_s = request.context.get_remaining_time_in_millis() / 1000 - (_COUNT_WITHIN_S if elsewhere else _ANSWER_WITHIN_S)
    wait_s = min(integer_parameter(request.query, "wait", 0, 0, int(MAX_WAIT_S)), max(spare_s, 0.0))
    found = request.services.events.watch.wait(request.run, wait_s, elsewhere.visible if elsewhere else None)
    writers, after = _listed(request, [_writer(each) for each in found.writers])
    listed = {each["writer"] for each in writers}
    document: RunCompleteness = {
        "state": found.state,
        "sealed": found.sealed,
        "writers": writers,
        "lost": [name for name in found.lost if name in listed],
        "after": after,
    }
    return json_response(document)


def _writer(state: WriterState) -> WriterCompleteness:
    return {
        "writer": state.writer,
        "opened": state.opened,
        "closed": state.closed,
        "count": state.count,
        "visible": state.visible,
        "missing": state.missing,
        "lastTimestamp": state.last_timestamp_ms,
    }
