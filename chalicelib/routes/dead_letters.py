"""Dead letters over HTTP: list, inspect, drop, send again.

They quote logs, so seeing them requires ``logs:read`` of their FQN; changing what a processing pipeline delivers requires ``admin`` of
``pipelines/{name}``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chalice.app import NotFoundError, Response

from chalicelib.access.grants import Scope
from chalicelib.catalog.timestamps import iso
from chalicelib.composition import SECONDS_OF_A_DAY
from chalicelib.errors import InvalidInputError, ObjectNotFoundError
from chalicelib.observability import note
from chalicelib.pipelines.dead_letter_listing import DeadLetterQuery, ListedDeadLetter, list_dead_letters
from chalicelib.pipelines.dead_letters import DeadLetter, DeadLetterId, find_dead_letter
from chalicelib.pipelines.files.key_layout import LAST_MS
from chalicelib.pipelines.resending import ResendRequests
from chalicelib.response_size import document_bytes
from chalicelib.routes import gate
from chalicelib.routes.api_request import ApiRequest
from chalicelib.routes.cursors import decrypt_cursor, encrypt_cursor
from chalicelib.routes.dead_letters_models import (
    DEFAULT_LIMIT,
    MAX_HANDLER_CHARS,
    MAX_LIMIT,
    MAX_LINE,
    DeadLetterDetails,
    DeadLetterEvent,
    DeadLetterItem,
    DeadLetterItemPage,
    ResendState,
)
from chalicelib.routes.parameters import integer_parameter, time_parameter
from chalicelib.routes.pipelines import check_handler, pipeline_named, resource_of
from chalicelib.routes.responses import json_response, truncated
from chalicelib.runlog.layout import checked_fqn, checked_run

if TYPE_CHECKING:
    from chalicelib.composition import Services

_MESSAGE_BYTES, _DATA_BYTES = 3 * 1024 * 1024, 1024 * 1024
_READ = (Scope.LOGS_READ,)


def letters(request: ApiRequest) -> Response:
    """A page of the dead letters that the principal may read. Requests as of ``list_dead_letters``."""
    query = _letters_query(request)
    limit = integer_parameter(request.query, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
    bound_to = ("dead letters", query.fqn or "", query.run_id or "")
    after = decrypt_cursor(request.query.get("cursor") or "", _READ, *bound_to)
    page = list_dead_letters(request.services.store, query, after, limit)
    cursor = encrypt_cursor(page.after, _READ, *bound_to) if page.after else None
    gate.record_names(f"{each.id.run.fqn}/{each.id.run.run_id}" for each in page.letters)
    return json_response(DeadLetterItemPage(letters=[_item(each) for each in page.letters], cursor=cursor).model_dump())


def letter(request: ApiRequest) -> Response:
    """A dead letter with its event. One GET, one read of a row."""
    _readable_fqn(request)
    id, services = _id(request), request.services
    found = find_dead_letter(services.store, id.key)
    if found is None:
        raise _missing(id)
    asked_ms = _requests(services, id).asked_ms(id)
    return json_response(_details(found, asked_ms, gate.principal().may(Scope.ADMIN, resource_of(id.pipeline))).model_dump())


def drop(request: ApiRequest) -> Response:
    """Delete a dead letter. A HEAD and a DELETE. A request to send it again is ignored from then on."""
    id = _administered_id(request)
    _check_exists(request.services, id)
    request.services.store.delete(id.key)
    return Response("", status_code=204)


def resend(request: ApiRequest) -> Response:
    """Request that the pipeline's worker sends a dead letter again. Reads the pipelines' files; a HEAD, and one write of a row."""
    id, services = _administered_id(request), request.services
    check_handler(pipeline_named(services, id.pipeline), id.handler)
    _check_exists(services, id)
    asked_ms = _requests(services, id).add(id, services.settings.expiration_days * SECONDS_OF_A_DAY)
    return json_response(ResendState(requestedAt=iso(asked_ms)).model_dump(), 202)


def _letters_query(request: ApiRequest) -> DeadLetterQuery:
    """Without ``fqn``: letters of all pipelines that the principal may read."""
    query, who = request.query, gate.principal()
    names = {name: query.get(name) or None for name in ("pipeline", "handler")}
    run_id = query.get("runId") or None
    if run_id is not None or query.get("fqn"):
        fqn = _readable_fqn(request)
        if run_id is not None:
            checked_run(fqn, run_id)
    else:
        gate.require_any_scope("dead letters", Scope.LOGS_READ)
        fqn = None
    return DeadLetterQuery(
        fqn,
        run_id,
        **names,
        from_ms=time_parameter(query, "from", 0, LAST_MS),
        to_ms=time_parameter(query, "to", LAST_MS + 1, LAST_MS + 1),
        may_see=lambda fqn: who.may(Scope.LOGS_READ, fqn),
    )


def _readable_fqn(request: ApiRequest) -> str:
    fqn = request.query.get("fqn")
    if not fqn:
        gate.require_any_scope("dead letters", Scope.LOGS_READ)
        raise InvalidInputError("fqn is required")
    note(fqn=fqn)
    gate.require_scope(Scope.LOGS_READ, fqn)
    return checked_fqn(fqn)


def _administered_id(request: ApiRequest) -> DeadLetterId:
    name = request.names["name"]
    note(pipeline=name)
    gate.require_scope(Scope.ADMIN, resource_of(name))
    return _id(request)


def _id(request: ApiRequest) -> DeadLetterId:
    query = request.query
    run = checked_run(query.get("fqn") or "", query.get("runId") or "")
    handler = query.get("handler") or ""
    if not 0 < len(handler) <= MAX_HANDLER_CHARS:
        raise InvalidInputError(f"handler is required, a string of at most {MAX_HANDLER_CHARS} characters handler={handler[:40]!r}")
    return DeadLetterId(request.names["name"], handler, run, integer_parameter(query, "line", -1, 0, MAX_LINE))


def _check_exists(services: Services, id: DeadLetterId) -> None:
    try:
        services.store.head(id.key)
    except ObjectNotFoundError:
        raise _missing(id) from None


def _missing(id: DeadLetterId) -> NotFoundError:
    return NotFoundError(f"there is no such dead letter handler={id.handler[:80]!r} line={id.line}")


def _requests(services: Services, id: DeadLetterId) -> ResendRequests:
    return ResendRequests(services.database, id.pipeline, services.clock)


def _item(listed: ListedDeadLetter) -> DeadLetterItem:
    id = listed.id
    return DeadLetterItem(
        pipeline=id.pipeline,
        handler=id.handler,
        fqn=id.run.fqn,
        runId=id.run.run_id,
        line=id.line,
        storedAt=iso(listed.stored_ms),
        bytes=listed.bytes,
    )


def _details(letter: DeadLetter, asked_ms: int | None, is_admin: bool) -> DeadLetterDetails:
    """A letter in a response. A handler's traceback may quote its own configuration, so only the pipeline's administrators see it."""
    event, run = letter.event, letter.id.run
    message, data = truncated(event["message"], _MESSAGE_BYTES), event.get("data")
    shown = data if isinstance(data, dict) and document_bytes(data) <= _DATA_BYTES else {}
    return DeadLetterDetails(
        pipeline=letter.id.pipeline,
        handler=letter.id.handler,
        reason=letter.reason,
        trace=letter.trace if is_admin else None,
        attempts=letter.attempts,
        failedAt=iso(letter.dead_ms),
        resendRequestedAt=None if asked_ms is None else iso(asked_ms),
        event=DeadLetterEvent(
            fqn=run.fqn,
            runId=run.run_id,
            line=letter.id.line,
            time=event["time_ms"],
            level=event["level"],
            logger=event["logger"],
            message=message,
            step=str(event.get("step", "")),
            data=shown,
        ),
        truncated=message != event["message"] or shown != (data or {}),
    )
