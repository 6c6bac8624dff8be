"""Events of a run over HTTP: appends, writers, steps; reads events, the log by position, steps, completeness."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from chalice.app import CaseInsensitiveMapping, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from chalicelib import composition
from chalicelib.access.grants import Scope
from chalicelib.composition import Services
from chalicelib.composition.events import EventServices
from chalicelib.errors import InvalidEventError, InvalidInputError
from chalicelib.events.completeness import MAX_WAIT_S, Completeness, WriterState
from chalicelib.events.event import MAX_TIMESTAMP_MS, Timestamp
from chalicelib.events.event_browser import DEFAULT_LIMIT, MAX_LIMIT, EventPage
from chalicelib.events.event_view import EventFilter
from chalicelib.events.names import checked_name
from chalicelib.events.starts import StartBody
from chalicelib.events.step_updates import StepUpdate
from chalicelib.events.steps import StepSummary
from chalicelib.events.validation import checked_level
from chalicelib.events.writers import MAX_COUNT
from chalicelib.observability import BATCH_SIZE_LINES, LOG_SHIPMENT_MS, LOGS_FAILED, LOGS_SENT, note, record
from chalicelib.response_size import fits_content
from chalicelib.routes import budgets, event_paths, gate
from chalicelib.routes.event_bodies import read_document, read_items
from chalicelib.routes.event_paths import EventAction
from chalicelib.routes.logs import session_cookie, session_of
from chalicelib.routes.parameters import boolean_parameter, integer_parameter
from chalicelib.routes.responses import json_response

MAX_LINES = 1_000_000
MAX_BYTE = 10**15
MAX_TEXT_CHARS = 500
MAX_LISTED = 10_000
"""Steps or writers per page: about as many as fit into a response."""
_TEXT = "text/plain; charset=utf-8"
_ANSWER_WITHIN_S = 4.0
"""Reserve of the function's time for the response after waiting for completeness."""
_WRITES = frozenset(
    {EventAction.APPEND, EventAction.OPEN, EventAction.CLOSE, EventAction.UPDATE_STEP, EventAction.START, EventAction.HEARTBEAT}
)


class WriterEnd(BaseModel):
    """The end of a writer, as the writer reports it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)

    count: Annotated[int, Field(ge=0, le=MAX_COUNT)]
    last_timestamp: Timestamp | None = Field(None, alias="lastTimestamp")


@dataclass(frozen=True, slots=True)
class EventRequest:
    """One request under ``events/``."""

    services: Services
    events: EventServices
    path: event_paths.EventPath
    event: Mapping[str, Any]
    headers: CaseInsensitiveMapping
    query: Mapping[str, str]
    context: Any

    def document(self, model: type[BaseModel]) -> Any:
        """The validated body. Raises InvalidEventError."""
        return read_document(self.event, self.headers, budgets.current_budget(), model)


def events(request: Request) -> Response:
    """All requests under ``events/``."""
    path = event_paths.parse(request.method, request.context["path"])
    note(fqn=path.fqn, run_id=path.run_id)
    gate.require_scope(Scope.LOGS_WRITE if path.action in _WRITES else Scope.LOGS_READ, path.fqn)
    services = composition.services()
    call = EventRequest(
        services=services,
        events=services.events,
        path=path,
        event=request.to_original_event(),
        headers=request.headers,
        query=request.query_params or {},
        context=request.lambda_context,
    )
    return _ACTIONS[path.action](call)


def _append(call: EventRequest) -> Response:
    started_s = time.perf_counter()
    run = call.path.run
    try:
        items = read_items(call.event, call.headers, budgets.current_budget(), call.services.settings.max_expanded_bytes)
        if items.refused and not items.events:
            raise InvalidEventError(
                f"no event of the batch can be stored: {items.refused[0].reason} index={items.refused[0].index}"
            )
        accepted = call.events.log.append(
            run,
            [event for _, event in items.events],
            writer=call.query.get("writer") or None,
            position=session_of(call.headers),
            idempotency_key=call.headers.get("idempotency-key"),
        )
    except Exception:
        record(LOGS_FAILED, 1)
        raise
    if accepted.accepted:
        record(LOG_SHIPMENT_MS, (time.perf_counter() - started_s) * 1000)
        record(LOGS_SENT, 1)
        record(BATCH_SIZE_LINES, accepted.accepted)
    document = {
        "accepted": accepted.accepted,
        "firstLine": accepted.first_line,
        "position": accepted.position,
        "repeated": accepted.repeated,
        "errors": items.error_documents(accepted.refused),
    }
    return json_response(document, Set_Cookie=session_cookie(call.headers, accepted.position))


def _start(call: EventRequest) -> Response:
    body: StartBody = call.document(StartBody)
    attempt = call.events.starts.start(call.path.run, call.path.name, body)
    document = {
        "runId": attempt.run.run_id,
        "attempt": attempt.start.attempt,
        "startedMs": attempt.start.started_ms,
        "position": attempt.position,
        "joined": attempt.is_joined,
    }
    return json_response(document, Set_Cookie=session_cookie(call.headers, attempt.position))


def _heartbeat(call: EventRequest) -> Response:
    services = call.services
    return json_response({"recorded": services.runs.record_heartbeat(call.path.run, services.clock.now_ms())})


def _open(call: EventRequest) -> Response:
    call.events.writers.open(call.path.run, call.path.name)
    return json_response({"writer": call.path.name})


def _close(call: EventRequest) -> Response:
    end: WriterEnd = call.document(WriterEnd)
    call.events.writers.close(call.path.run, call.path.name, end.count, end.last_timestamp)
    return json_response({"writer": call.path.name, "count": end.count})


def _update_step(call: EventRequest) -> Response:
    update: StepUpdate = call.document(StepUpdate)
    known = call.events.step_updates.record(call.path.run, call.path.name, update)
    return json_response({"step": call.path.name} | known.model_dump(by_alias=True))


def _events(call: EventRequest) -> Response:
    limit = integer_parameter(call.query, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
    first, is_outline = integer_parameter(call.query, "after", 0, 0, MAX_BYTE), boolean_parameter(call.query, "outline")
    page = call.events.browser.page(call.path.run, _event_filter(call.query), first, limit, is_last_included=is_outline)
    documents, after = _fitting(page, is_outline=is_outline)
    return json_response({"events": documents, "after": None if after is None else str(after)})


def _fitting(page: EventPage, *, is_outline: bool) -> tuple[list[dict[str, Any]], int | None]:
    """As many of a page's events as fit into a response, and the start of the next page. A single event that is too large is truncated."""
    documents: list[dict[str, Any]] = [each.outline() if is_outline else each.document() for each in page.events]
    after = page.after
    while not fits_content(documents):
        if len(documents) > 1:
            documents = documents[: len(documents) // 2]
            after = page.events[len(documents)].line
        else:
            (document,) = documents
            documents = [document | {"message": document["message"][: len(document["message"]) // 2], "truncated": True}]
    return documents, after


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


def _log(call: EventRequest) -> Response:
    run, query = call.path.run, call.query
    start = integer_parameter(query, "start", 0, 0, MAX_BYTE)
    lines = integer_parameter(query, "maxLines", 0, 1, MAX_LINES) if query.get("maxLines") else None
    step, is_raw = query.get("step"), boolean_parameter(query, "raw")
    logs = call.events.logs
    found = logs.step_log(run, checked_name("step", step), start, lines) if step else logs.overall_log(run, start, lines)
    if is_raw:
        progress = {"X-Next": str(found.next), "X-Complete": "true" if found.complete else "false"}
        return Response(found.text, headers={"Content-Type": _TEXT, "X-Content-Type-Options": "nosniff", **progress})
    return json_response({"text": found.text, "next": found.next, "complete": found.complete, "lines": found.text.count("\n")})


def _steps(call: EventRequest) -> Response:
    documents, after = _listed(call, [_step(each) for each in call.events.steps.all(call.path.run)])
    return json_response({"steps": documents, "after": after})


def _listed(call: EventRequest, documents: Sequence[dict[str, Any]]) -> tuple[Sequence[dict[str, Any]], str | None]:
    """A page of a complete list: documents from ``after`` on, as many as ``limit`` and the response allow, which may repeat each writer's
    name once."""
    begin = integer_parameter(call.query, "after", 0, 0, MAX_BYTE)
    limit = integer_parameter(call.query, "limit", MAX_LISTED, 1, MAX_LISTED)
    page = documents[begin : begin + limit]
    while not fits_content([page, [each.get("writer") for each in page]]):
        page = page[: len(page) // 2]
    end = begin + len(page)
    return page, str(end) if end < len(documents) else None


def _step(facts: StepSummary) -> dict[str, Any]:
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
        "status": facts.status,
        "complete": facts.complete,
    }


def _completeness(call: EventRequest) -> Response:
    spare_s = call.context.get_remaining_time_in_millis() / 1000 - _ANSWER_WITHIN_S
    wait_s = min(integer_parameter(call.query, "wait", 0, 0, int(MAX_WAIT_S)), max(spare_s, 0.0))
    found = completeness_document(call.events.watch.wait(call.path.run, wait_s))
    writers, after = _listed(call, found["writers"])
    listed = {each["writer"] for each in writers}
    lost = [name for name in found["lost"] if name in listed]
    return json_response(found | {"writers": writers, "lost": lost, "after": after})


def completeness_document(completeness: Completeness) -> dict[str, Any]:
    """The completeness of a run in a response."""
    return {
        "state": completeness.state,
        "sealed": completeness.sealed,
        "writers": [_writer(each) for each in completeness.writers],
        "lost": completeness.lost,
    }


def _writer(state: WriterState) -> dict[str, Any]:
    return {
        "writer": state.writer,
        "opened": state.opened,
        "closed": state.closed,
        "count": state.count,
        "visible": state.visible,
        "missing": [list(each) for each in state.missing],
        "lastTimestamp": state.last_timestamp_ms,
    }


_ACTIONS: dict[EventAction, Callable[[EventRequest], Response]] = {
    EventAction.APPEND: _append,
    EventAction.START: _start,
    EventAction.HEARTBEAT: _heartbeat,
    EventAction.OPEN: _open,
    EventAction.CLOSE: _close,
    EventAction.UPDATE_STEP: _update_step,
    EventAction.EVENTS: _events,
    EventAction.LOG: _log,
    EventAction.STEPS: _steps,
    EventAction.COMPLETENESS: _completeness,
}
