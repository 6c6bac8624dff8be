"""Processing pipelines over HTTP, for operators: how each is, on and off, again from a time.

A pipeline reads every run, so its name is no run's: what may be administered is ``pipelines/{name}``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chalice.app import NotFoundError, Request, Response

from chalicelib import composition
from chalicelib.access.grants import Scope
from chalicelib.catalog.moments import iso, moment_ms
from chalicelib.composition import Services
from chalicelib.composition.pipelines import installed_pipelines
from chalicelib.errors import InvalidCursorError, InvalidInputError
from chalicelib.observability import note
from chalicelib.pipelines.pipeline_state import DISABLED, REPLAYING, DesiredState, HandlerState, PipelineStateStore
from chalicelib.ports import Row
from chalicelib.response_size import PAGE_BYTES, document_bytes
from chalicelib.routes import gate
from chalicelib.routes.answers import json_answer
from chalicelib.routes.json_bodies import document_of
from chalicelib.routes.parameters import whole_number
from chalicelib.routes.paths import PIPELINES, decoded, segments_below

if TYPE_CHECKING:
    from chalicelib.pipelines.configuration import PipelineFile

DEFAULT_LIMIT, MAX_LIMIT = 100, 200
MAX_PROBLEMS, _MAX_PLACE_CHARS, _MAX_REASON_CHARS = 100, 500, 500
BY_OPERATOR = "disabled by an operator"
QUIET_MS = 10 * 60_000
"""A worker tells how it is each minute at least: one that was silent for so long does not run."""


def pipelines(request: Request) -> Response:
    """Pipelines that may be seen, by pages, and with the first page files that are none."""
    gate.permit_some(request.context["path"], Scope.ADMIN)
    query: Mapping[str, str] = request.query_params or {}
    limit, cursor = whole_number(query, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT), query.get("cursor")
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
    return json_answer({
        "pipelines": page,
        "cursor": following,
        "problems": listed,
        "more_problems": max(0, len(problems) - MAX_PROBLEMS),
    })  # fmt: skip


def enable(request: Request) -> Response:
    """Let a pipeline, or one of its handlers, get events; a handler gets what it missed."""
    return _change(request, _enabled)


def disable(request: Request) -> Response:
    """Let a pipeline stand still, or one of its handlers get nothing."""
    return _change(request, _disabled)


def replay(request: Request) -> Response:
    """Process again what is not older than a time."""
    return _change(request, _replayed)


def _after(files: Sequence[PipelineFile], cursor: str) -> Sequence[PipelineFile]:
    """Those behind the last one of the page before."""
    places = [at for at, file in enumerate(files) if file.name == cursor]
    if not places:
        raise InvalidCursorError("there is no such place: leave the cursor out to begin anew")
    return files[places[0] + 1 :]


def _fitting(documents: Sequence[dict[str, Any]], room_bytes: int) -> list[dict[str, Any]]:
    """As many as there is room for, from the first on; one at least."""
    page: list[dict[str, Any]] = []
    size = 0
    for document in documents:
        size += document_bytes(document)
        if page and size > room_bytes:
            break
        page.append(document)
    return page


def _change(request: Request, change: Any) -> Response:
    name, action = (decoded(segment) for segment in segments_below(request.context["path"], PIPELINES)[:2])
    gate.permit(Scope.ADMIN, _resource(name))
    services = composition.services()
    file = installed_pipelines(services).named(name)
    if file is None:
        raise NotFoundError(f"there is no such pipeline name={name[:100]!r}")
    note(pipeline=name, action=action)
    change(PipelineStateStore(services.database, services.clock), file, _body(request), services.clock.now_ms())
    return json_answer(_documents(services, [file])[0])


def _enabled(switches: PipelineStateStore, file: PipelineFile, body: Mapping[str, Any], now_ms: int) -> None:
    handler = _handler(file, body)
    _, handlers = switches.read(file.name)
    if handler is None:
        switches.set_enabled(file.name, True)
    elif handler in handlers and not handlers[handler].receives_events:
        switches.set_handler(file.name, HandlerState(handler, REPLAYING, "", now_ms))


def _disabled(switches: PipelineStateStore, file: PipelineFile, body: Mapping[str, Any], now_ms: int) -> None:
    handler = _handler(file, body)
    _, handlers = switches.read(file.name)
    if handler is None:
        switches.set_enabled(file.name, False)
    elif handler not in handlers or handlers[handler].state != DISABLED:
        switches.set_handler(file.name, HandlerState(handler, DISABLED, BY_OPERATOR, now_ms))


def _replayed(switches: PipelineStateStore, file: PipelineFile, body: Mapping[str, Any], now_ms: int) -> None:
    _known(body, "from")
    if body.get("from") is None:
        raise InvalidInputError("replay takes the time from which on: from (ISO 8601, or ms since the epoch)")
    switches.replay(file.name, moment_ms(body["from"], now_ms), now_ms)


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
        raise InvalidInputError(f"the body may have {name}, not {', '.join(unknown)[:80]}")


def _body(request: Request) -> Mapping[str, Any]:
    raw = request.raw_body or b""
    try:
        given = document_of(raw) if raw.strip() else {}
    except ValueError:
        raise InvalidInputError("the body is no json") from None
    if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
        raise InvalidInputError("the body is a json object, or empty")
    if not isinstance(given.get("handler"), str | None):
        raise InvalidInputError("handler is a text")
    return given


def _resource(name: str) -> str:
    return f"pipelines/{name}"


def _documents(services: Services, files: Sequence[PipelineFile]) -> list[dict[str, Any]]:
    switches = PipelineStateStore(services.database, services.clock)
    told = switches.status([file.name for file in files], {file.name: file.shards for file in files})
    now_ms = services.clock.now_ms()
    return [_document(file, *switches.read(file.name), told.get(file.name, {}), now_ms) for file in files]


def _document(
    file: PipelineFile, switch: DesiredState, handlers: Mapping[str, HandlerState], status: Row, now_ms: int
) -> dict[str, Any]:
    """A pipeline as it is answered. Lag is as its worker told it last; it grows with the time since."""
    told_ms = int(status.get("told_ms", 0))
    silent_ms = now_ms - told_ms
    lag_ms = int(status.get("lag_ms", 0))
    errors = {name: int(count) for name, count in dict(status.get("errors", {})).items()}
    return {
        "name": file.name,
        "state": _state(switch, told_ms, silent_ms),
        "told_at": iso(told_ms) if told_ms else None,
        "lag_events": int(status.get("lag_events", 0)),
        "lag_s": round((lag_ms + (max(0, silent_ms) if lag_ms else 0)) / 1000, 3),
        "runs": int(status.get("runs", 0)),
        "events": int(status.get("processed", 0)),
        "late": int(status.get("late", 0)),
        "dropped": int(status.get("dropped", 0)),
        "dead_letters": int(status.get("dead", 0)),
        "errors": sum(errors.values()),
        "last_error": str(status.get("last_error", ""))[:_MAX_REASON_CHARS] or None,
        "replay_from": None if switch.replay_ms is None else iso(switch.replay_ms),
        "handlers": [_handler_document(name, handlers.get(name), errors.get(name, 0)) for name in sorted(file.logging.handlers)],
    }


def _state(switch: DesiredState, told_ms: int, silent_ms: int) -> str:
    if not switch.enabled:
        return "disabled"
    if not told_ms:
        return "new"
    return "silent" if silent_ms > QUIET_MS else "running"


def _handler_document(name: str, switch: HandlerState | None, errors: int) -> dict[str, Any]:
    place = {"run": switch.run, "line": switch.line} if switch and switch.run else None
    return {
        "name": name,
        "state": switch.state if switch else "enabled",
        "reason": (switch.reason[:_MAX_REASON_CHARS] or None) if switch else None,
        "since": iso(switch.since_ms) if switch and switch.since_ms else None,
        "at": place,
        "errors": errors,
    }
