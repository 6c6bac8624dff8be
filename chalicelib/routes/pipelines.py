"""Processing pipelines over HTTP, for operators: status, enable, disable, replay.

A pipeline reads every run, so its permission is not one of a run: the resource to administer is ``pipelines/{name}``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from chalice.app import NotFoundError, Response
from pydantic import ValidationError

from chalicelib import composition
from chalicelib.access.grants import Scope
from chalicelib.catalog.timestamps import iso
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
from chalicelib.routes.pipelines_models import (
    DEFAULT_LIMIT,
    FROM_REQUIRED,
    MAX_LIMIT,
    MAX_PROBLEMS,
    HandlerBody,
    HandlerPosition,
    HandlerStatus,
    InvalidPipelineFile,
    PipelineHandler,
    PipelineStatus,
    ProcessingPipeline,
    ProcessingPipelinePage,
    ReplayBody,
)
from chalicelib.routes.responses import fitting, json_response
from chalicelib.routes.schemas import RequestModel

if TYPE_CHECKING:
    from chalicelib.pipelines.configuration import PipelineFile

_MAX_PLACE_CHARS, _MAX_REASON_CHARS = 500, 500
DISABLED_BY_OPERATOR = "disabled by an operator"
SILENT_AFTER_MS = 10 * 60_000
"""A worker reports its status at least once per minute; without a report for this long it counts as not running."""
_STATES: Mapping[str, HandlerStatus] = {each: each for each in get_args(HandlerStatus)}

_Body = TypeVar("_Body", bound=RequestModel)


def pipelines(request: ApiRequest) -> Response:
    """A page of the pipelines that the principal may see; the first page includes invalid files."""
    gate.require_any_scope(request.full_path, Scope.ADMIN)
    query = request.query
    limit, cursor = integer_parameter(query, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT), query.get("cursor")
    services, who = composition.services(), gate.principal()
    scanned = installed_pipelines(services)
    seen = [file for file in scanned.pipelines if who.may(Scope.ADMIN, resource_of(file.name))]
    files = _after(seen, cursor) if cursor else seen
    problems = scanned.problems if who.may_all(Scope.ADMIN) and not cursor else ()
    listed = [
        InvalidPipelineFile(file=each.location[-_MAX_PLACE_CHARS:], reason=each.reason[:_MAX_REASON_CHARS])
        for each in problems[:MAX_PROBLEMS]
    ]
    room_bytes = PAGE_BYTES - document_bytes([each.model_dump() for each in listed])
    page = fitting(_statuses(services, files[:limit]), room_bytes)
    gate.record_names(resource_of(each.name) for each in page)
    body = ProcessingPipelinePage(
        pipelines=page,
        cursor=page[-1].name if len(page) < len(files) else None,
        problems=listed,
        more_problems=max(0, len(problems) - MAX_PROBLEMS),
    )
    return json_response(body.model_dump())


def enable(request: ApiRequest) -> Response:
    """Enable a pipeline or one of its handlers; a handler receives the events that it missed."""
    return _change(request, HandlerBody, _enabled)


def disable(request: ApiRequest) -> Response:
    """Disable a pipeline or one of its handlers."""
    return _change(request, HandlerBody, _disabled)


def replay(request: ApiRequest) -> Response:
    """Process events again from a time on."""
    return _change(request, ReplayBody, _replayed)


def resource_of(name: str) -> str:
    """The resource that the administrators of a processing pipeline administer."""
    return f"pipelines/{name}"


def pipeline_named(services: Services, name: str) -> PipelineFile:
    """A processing pipeline. Reads the pipelines' files. Raises NotFoundError."""
    file = installed_pipelines(services).named(name)
    if file is None:
        raise NotFoundError(f"there is no such pipeline name={name[:100]!r}")
    return file


def check_handler(file: PipelineFile, handler: str) -> None:
    """Raises InvalidInputError for a handler that the pipeline does not have."""
    if handler not in file.logging.handlers:
        raise InvalidInputError(
            f"the pipeline has no such handler: it has {', '.join(file.logging.handlers)} handler={handler[:80]!r}"
        )


def _after(files: Sequence[PipelineFile], cursor: str) -> Sequence[PipelineFile]:
    """The files after the last one of the previous page."""
    places = [at for at, file in enumerate(files) if file.name == cursor]
    if not places:
        raise InvalidCursorError("the cursor names no pipeline: omit it to start from the first page")
    return files[places[0] + 1 :]


def _change(
    request: ApiRequest, model: type[_Body], change: Callable[[PipelineStateStore, PipelineFile, _Body, int], None]
) -> Response:
    name = request.names["name"]
    gate.require_scope(Scope.ADMIN, resource_of(name))
    services = composition.services()
    file = pipeline_named(services, name)
    note(pipeline=name, action=change.__name__.lstrip("_"))
    change(PipelineStateStore(services.database, services.clock), file, _body(request, model), services.clock.now_ms())
    return json_response(_statuses(services, [file])[0].model_dump())


def _enabled(states: PipelineStateStore, file: PipelineFile, body: HandlerBody, now_ms: int) -> None:
    handler = _handler(file, body)
    _, handlers = states.read(file.name)
    if handler is None:
        states.set_enabled(file.name, True)
    elif handler in handlers and not handlers[handler].receives_events:
        states.set_handler(file.name, HandlerState(handler, REPLAYING, "", now_ms))


def _disabled(states: PipelineStateStore, file: PipelineFile, body: HandlerBody, now_ms: int) -> None:
    handler = _handler(file, body)
    _, handlers = states.read(file.name)
    if handler is None:
        states.set_enabled(file.name, False)
    elif handler not in handlers or handlers[handler].state != DISABLED:
        states.set_handler(file.name, HandlerState(handler, DISABLED, DISABLED_BY_OPERATOR, now_ms))


def _replayed(states: PipelineStateStore, file: PipelineFile, body: ReplayBody, now_ms: int) -> None:
    states.replay(file.name, body.from_ms(now_ms), now_ms, enabled=file.enabled)


def _handler(file: PipelineFile, body: HandlerBody) -> str | None:
    if body.handler is not None:
        check_handler(file, body.handler)
    return body.handler


def _body(request: ApiRequest, model: type[_Body]) -> _Body:
    raw = request.body
    try:
        document = parse_document(raw) if raw.strip() else {}
    except ValueError:
        raise InvalidInputError("the body is not json") from None
    if not isinstance(document, dict):
        raise InvalidInputError("the body must be a JSON object or empty")
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise InvalidInputError(_reason(error, document, model)) from None


def _reason(error: ValidationError, document: Mapping[str, Any], model: type[RequestModel]) -> str:
    if any(each["type"] == "string_type" for each in error.errors(include_url=False, include_input=False)):
        return "handler must be a string"
    names = [field.alias or name for name, field in model.model_fields.items()]
    if unknown := sorted(document.keys() - names):
        return f"the body may have only {', '.join(names)}, not {', '.join(unknown)[:80]}"
    return FROM_REQUIRED


def _statuses(services: Services, files: Sequence[PipelineFile]) -> list[ProcessingPipeline]:
    states = PipelineStateStore(services.database, services.clock)
    reports = states.status([file.name for file in files], {file.name: file.shards for file in files})
    now_ms = services.clock.now_ms()
    return [_status(file, *states.read(file.name, enabled=file.enabled), reports.get(file.name, {}), now_ms) for file in files]


def _status(
    file: PipelineFile, state: DesiredState, handlers: Mapping[str, HandlerState], report: Row, now_ms: int
) -> ProcessingPipeline:
    """A pipeline in a response. Its lag is the last reported one, and unless that is 0 plus the time since."""
    reported_ms = int(report.get("told_ms", 0))
    silent_ms = now_ms - reported_ms
    lag_ms = _count(report, "lag_ms")
    errors = {name: max(0, int(count)) for name, count in dict(report.get("errors", {})).items()}
    return ProcessingPipeline(
        name=file.name,
        state=_state(state, reported_ms, silent_ms),
        reported_at=iso(reported_ms) if reported_ms else None,
        lag_events=_count(report, "lag_events"),
        lag_s=round((lag_ms + (max(0, silent_ms) if lag_ms else 0)) / 1000, 3),
        runs=_count(report, "runs"),
        events=_count(report, "processed"),
        late=_count(report, "late"),
        dropped=_count(report, "dropped"),
        dead_letters=_count(report, "dead"),
        errors=sum(errors.values()),
        last_error=str(report.get("last_error", ""))[:_MAX_REASON_CHARS] or None,
        replay_from=None if state.replay_ms is None else iso(state.replay_ms),
        handlers=[_handler_status(name, handlers.get(name), errors.get(name, 0)) for name in sorted(file.logging.handlers)],
    )


def _count(report: Row, name: str) -> int:
    """A count of a worker's report; 0 if it is negative, as in a damaged row."""
    return max(0, int(report.get(name, 0)))


def _state(state: DesiredState, reported_ms: int, silent_ms: int) -> PipelineStatus:
    if not state.enabled:
        return "disabled"
    if not reported_ms:
        return "new"
    return "silent" if silent_ms > SILENT_AFTER_MS else "running"


def _handler_status(name: str, state: HandlerState | None, errors: int) -> PipelineHandler:
    """A handler in a response. It receives no events in an unknown state, so that counts as disabled."""
    return PipelineHandler(
        name=name,
        state=_STATES.get(state.state, "disabled") if state else "enabled",
        reason=(state.reason[:_MAX_REASON_CHARS] or None) if state else None,
        since=iso(state.since_ms) if state and state.since_ms else None,
        at=HandlerPosition(run=state.run, line=max(0, state.line)) if state and state.run else None,
        errors=errors,
    )
