"""Processing pipelines over HTTP, for operators: status, enable, disable, replay.

A pipeline reads every run, so its permission is not one of a run: the resource to administer is ``pipelines/{name}``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chalice.app import NotFoundError, Response

from chalicelib import composition
from chalicelib.access.grants import Scope
from chalicelib.catalog.timestamps import iso, parse_time_ms
from chalicelib.composition import Services
from chalicelib.composition.pipelines import installed_pipelines
from chalicelib.errors import InvalidCursorError, InvalidInputError
from chalicelib.observability import note
from chalicelib.pipelines.pipeline_state import DISABLED, REPLAYING, DesiredState, HandlerState, PipelineStateStore
from chalicelib.ports import Row
from chalicelib.response_size import PAGE_BYTES, document_bytes
from chalicelib.routes import gate
from chalicelib.routes.api_request import ApiRequest
from chalicelib.routes.json_bodies import parse_document
from chalicelib.routes.parameters import integer_parameter
from chalicelib.routes.responses import json_response

if TYPE_CHECKING:
    from chalicelib.pipelines.configuration import PipelineFile

DEFAULT_LIMIT, MAX_LIMIT = 100, 200
MAX_PROBLEMS, _MAX_PLACE_CHARS, _MAX_REASON_CHARS = 100, 500, 500
DISABLED_BY_OPERATOR = "disabled by an operator"
SILENT_AFTER_MS = 10 * 60_000
"""A worker reports its status at least once per minute; without a report for this long it counts as not running."""


def pipelines(request: ApiRequest) -> Response:
    """A page of the pipelines that the principal may see; the first page includes invalid files."""
    gate.require_any_scope(f"{request.prefix}{request.path}", Scope.ADMIN)
    query = request.query
    limit, cursor = integer_parameter(query, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT), query.get("cursor")
    services, who = composition.services(), gate.principal()
    scanned = installed_pipelines(services)
    seen = [file for file in scanned.pipelines if who.may(Scope.ADMIN, _resource(file.name))]
    files = _after(seen, cursor) if cursor else seen
    problems = scanned.problems if who.may_all(Scope.ADMIN) and not cursor else ()
    listed = [
        {"file": each.location[-_MAX_PLACE_CHARS:], "reason": each.reason[:_MAX_REASON_CHARS]} for each in problems[:MAX_PROBLEMS]
    ]
    page = _fitting(_documents(services, files[:limit]), PAGE_BYTES - document_bytes(listed))
    following = page[-1]["name"] if len(page) < len(files) else None
    return json_response({
        "pipelines": page,
        "cursor": following,
        "problems": listed,
        "more_problems": max(0, len(problems) - MAX_PROBLEMS),
    })  # fmt: skip


def enable(request: ApiRequest) -> Response:
    """Enable a pipeline or one of its handlers; a handler receives the events that it missed."""
    return _change(request, _enabled)


def disable(request: ApiRequest) -> Response:
    """Disable a pipeline or one of its handlers."""
    return _change(request, _disabled)


def replay(request: ApiRequest) -> Response:
    """Process events again from a time on."""
    return _change(request, _replayed)


def _after(files: Sequence[PipelineFile], cursor: str) -> Sequence[PipelineFile]:
    """The files after the last one of the previous page."""
    places = [at for at, file in enumerate(files) if file.name == cursor]
    if not places:
        raise InvalidCursorError("the cursor names no pipeline: omit it to start from the first page")
    return files[places[0] + 1 :]


def _fitting(documents: Sequence[dict[str, Any]], room_bytes: int) -> list[dict[str, Any]]:
    """The first documents that fit into ``room_bytes``; at least one."""
    page: list[dict[str, Any]] = []
    size = 0
    for document in documents:
        size += document_bytes(document)
        if page and size > room_bytes:
            break
        page.append(document)
    return page


def _change(request: ApiRequest, change: Any) -> Response:
    name = request.names["name"]
    gate.require_scope(Scope.ADMIN, _resource(name))
    services = composition.services()
    file = installed_pipelines(services).named(name)
    if file is None:
        raise NotFoundError(f"there is no such pipeline name={name[:100]!r}")
    note(pipeline=name, action=change.__name__.lstrip("_"))
    change(PipelineStateStore(services.database, services.clock), file, _body(request), services.clock.now_ms())
    return json_response(_documents(services, [file])[0])


def _enabled(states: PipelineStateStore, file: PipelineFile, body: Mapping[str, Any], now_ms: int) -> None:
    handler = _handler(file, body)
    _, handlers = states.read(file.name)
    if handler is None:
        states.set_enabled(file.name, True)
    elif handler in handlers and not handlers[handler].receives_events:
        states.set_handler(file.name, HandlerState(handler, REPLAYING, "", now_ms))


def _disabled(states: PipelineStateStore, file: PipelineFile, body: Mapping[str, Any], now_ms: int) -> None:
    handler = _handler(file, body)
    _, handlers = states.read(file.name)
    if handler is None:
        states.set_enabled(file.name, False)
    elif handler not in handlers or handlers[handler].state != DISABLED:
        states.set_handler(file.name, HandlerState(handler, DISABLED, DISABLED_BY_OPERATOR, now_ms))


def _replayed(states: PipelineStateStore, file: PipelineFile, body: Mapping[str, Any], now_ms: int) -> None:
    _known(body, "from")
    if body.get("from") is None:
        raise InvalidInputError("the field from is required: the time to replay from (ISO 8601, or ms since the epoch)")
    states.replay(file.name, parse_time_ms(body["from"], now_ms), now_ms)


def _handler(file: PipelineFile, body: Mapping[str, Any]) -> str | None:
    _known(body, "handler")
    handler = body.get("handler")
    if handler is not None and handler not in file.logging.handlers:
        raise InvalidInputError(
            f"the pipeline has no such handler: it has {', '.join(file.logging.handlers)} handler={str(handler)[:80]!r}"
        )
    return handler


def _known(body: Mapping[str, Any], name: str) -> None:
    if unknown := sorted(set(body) - {name}):
        raise InvalidInputError(f"the body may have only {name}, not {', '.join(unknown)[:80]}")


def _body(request: ApiRequest) -> Mapping[str, Any]:
    raw = request.body
    try:
        document = parse_document(raw) if raw.strip() else {}
    except ValueError:
        raise InvalidInputError("the body is not json") from None
    if not isinstance(document, dict) or not all(isinstance(name, str) for name in document):
        raise InvalidInputError("the body must be a JSON object or empty")
    if not isinstance(document.get("handler"), str | None):
        raise InvalidInputError("handler must be a string")
    return document


def _resource(name: str) -> str:
    return f"pipelines/{name}"


def _documents(services: Services, files: Sequence[PipelineFile]) -> list[dict[str, Any]]:
    states = PipelineStateStore(services.database, services.clock)
    statuses = states.status([file.name for file in files], {file.name: file.shards for file in files})
    now_ms = services.clock.now_ms()
    return [_document(file, *states.read(file.name), statuses.get(file.name, {}), now_ms) for file in files]


def _document(
    file: PipelineFile, state: DesiredState, handlers: Mapping[str, HandlerState], status: Row, now_ms: int
) -> dict[str, Any]:
    """A pipeline in a response. Its lag is the last reported one, and unless that is 0 plus the time since."""
    reported_ms = int(status.get("told_ms", 0))
    silent_ms = now_ms - reported_ms
    lag_ms = int(status.get("lag_ms", 0))
    errors = {name: int(count) for name, count in dict(status.get("errors", {})).items()}
    return {
        "name": file.name,
        "state": _state(state, reported_ms, silent_ms),
        "told_at": iso(reported_ms) if reported_ms else None,
        "lag_events": int(status.get("lag_events", 0)),
        "lag_s": round((lag_ms + (max(0, silent_ms) if lag_ms else 0)) / 1000, 3),
        "runs": int(status.get("runs", 0)),
        "events": int(status.get("processed", 0)),
        "late": int(status.get("late", 0)),
        "dropped": int(status.get("dropped", 0)),
        "dead_letters": int(status.get("dead", 0)),
        "errors": sum(errors.values()),
        "last_error": str(status.get("last_error", ""))[:_MAX_REASON_CHARS] or None,
        "replay_from": None if state.replay_ms is None else iso(state.replay_ms),
        "handlers": [_handler_document(name, handlers.get(name), errors.get(name, 0)) for name in sorted(file.logging.handlers)],
    }


def _state(state: DesiredState, reported_ms: int, silent_ms: int) -> str:
    if not state.enabled:
        return "disabled"
    if not reported_ms:
        return "new"
    return "silent" if silent_ms > SILENT_AFTER_MS else "running"


def _handler_document(name: str, state: HandlerState | None, errors: int) -> dict[str, Any]:
    place = {"run": state.run, "line": state.line} if state and state.run else None
    return {
        "name": name,
        "state": state.state if state else "enabled",
        "reason": (state.reason[:_MAX_REASON_CHARS] or None) if state else None,
        "since": iso(state.since_ms) if state and state.since_ms else None,
        "at": place,
        "errors": errors,
    }
