"""Background work on runs over HTTP, for operators: list it with errors, retry it, release it from its worker.

A partition of work is a run, its key ``fqn/run_id``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from chalice.app import NotFoundError, Response

from chalicelib import composition
from chalicelib.access.grants import Scope
from chalicelib.catalog.runs import partition_key, run_of
from chalicelib.catalog.timestamps import FIRST_MS, LAST_MS, iso
from chalicelib.composition import SOURCES
from chalicelib.coordination import Administration, Partition, Status
from chalicelib.coordination.partition import parse_timestamp_ms
from chalicelib.errors import InvalidCursorError, InvalidInputError
from chalicelib.observability import note
from chalicelib.routes import gate
from chalicelib.routes.api_request import ApiRequest
from chalicelib.routes.coordination_models import DEFAULT_LIMIT, MAX_LIMIT, PartitionItem, PartitionItemPage
from chalicelib.routes.cursors import decrypt_cursor, encrypt_cursor
from chalicelib.routes.parameters import integer_parameter
from chalicelib.routes.responses import json_response

ORDER = (Status.COMPLETED, Status.CLOSED, Status.ASSIGNED, Status.UNASSIGNED)
"""Order of a list of all statuses: the most urgent for an operator first."""
_ALL = "ALL"
_ERROR_CHARS = 1000

Page = tuple[Sequence[Partition], str | None]


def partitions(request: ApiRequest) -> Response:
    """A page of a source's partitions, of one status or of all, without those that the principal may not see."""
    gate.require_any_scope(request.full_path, Scope.ADMIN)
    services, who, source = request.services, gate.principal(), request.names["source"]
    administration = _administration(source)
    query = request.query
    status = _status(query)
    bound_to = ("coordination", source, status or _ALL)
    after = decrypt_cursor(query.get("cursor") or "", (Scope.ADMIN,), *bound_to)
    limit = integer_parameter(query, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
    listed, cursor = _page(administration, status, limit, after)
    if cursor:
        cursor = encrypt_cursor(cursor, (Scope.ADMIN,), *bound_to)
    now_ms = services.clock.now_ms()
    seen = [partition_item(each, now_ms) for each in listed if who.may(Scope.ADMIN, run_of(each.key).fqn)]
    gate.record_names(f"{each.fqn}/{each.run_id}" for each in seen)
    return json_response(PartitionItemPage(partitions=seen, cursor=cursor).model_dump())


def retry(request: ApiRequest) -> Response:
    """Retry a partition."""
    return _changed(request, Administration.retry)


def release(request: ApiRequest) -> Response:
    """Release a partition from its owner."""
    return _changed(request, Administration.release)


def _changed(request: ApiRequest, change: Callable[[Administration, str], Partition]) -> Response:
    run = request.run
    gate.require_run_scope(Scope.ADMIN, request)
    administration = _administration(request.names["source"])
    note(source=request.names["source"], action=change.__name__)
    changed = change(administration, partition_key(run))
    return json_response(partition_item(changed, request.services.clock.now_ms()).model_dump())


def partition_item(partition: Partition, now_ms: int) -> PartitionItem:
    """A partition in a response. Unreadable parts of its state count as missing, since other programs may write the item."""
    run = run_of(partition.key)
    error, failed_ms = _failure(partition.state)
    since_ms = _since_ms(partition, failed_ms)
    return PartitionItem(
        key=partition.key,
        fqn=run.fqn,
        run_id=run.run_id,
        status=partition.status.value,
        set_aside=partition.status is Status.COMPLETED and error is not None,
        failures=partition.closed_count,
        error=error,
        failed_at=_iso(failed_ms),
        reopen_at=_iso(_moment(partition.reopen_ms)),
        owner=partition.owner,
        owned_until=_iso(_moment(partition.timeout_ms)),
        since=_iso(since_ms),
        age_s=None if since_ms is None else max(0, now_ms - since_ms) // 1000,
        version=partition.version,
    )


def _failure(state: str | None) -> tuple[str | None, int | None]:
    """The last failure in a partition's state: error and time."""
    try:
        stored = json.loads(state or "null")
    except (ValueError, RecursionError):
        return None, None
    if not isinstance(stored, dict) or not isinstance(stored.get("error"), str):
        return None, None
    return stored["error"][:_ERROR_CHARS].encode(errors="replace").decode(), _moment(stored.get("failed_ms"))


def _since_ms(partition: Partition, failed_ms: int | None) -> int | None:
    """The time since which a partition waits, is postponed or is set aside. An item does not have the time of its acquisition."""
    if partition.status is Status.ASSIGNED:
        return None
    if partition.status is not Status.UNASSIGNED:
        return failed_ms
    try:
        return _moment(parse_timestamp_ms(partition.priority))
    except ValueError:
        return None


def _moment(ms: object) -> int | None:
    return ms if type(ms) is int and FIRST_MS <= ms <= LAST_MS else None


def _iso(ms: int | None) -> str | None:
    return None if ms is None else iso(ms)


def _administration(source: str) -> Administration:
    if source not in SOURCES:
        raise NotFoundError(f"there is no such source of work: it is one of {', '.join(SOURCES)} source={source[:80]!r}")
    return composition.administration(composition.services(), source)


def _page(administration: Administration, requested: Status | None, limit: int, cursor: str) -> Page:
    """List status by status until the page is full."""
    statuses, after = _rest(requested, cursor)
    listed: list[Partition] = []
    for at, status in enumerate(statuses, 1):
        page = administration.list(status, limit=limit - len(listed), cursor=after)
        listed += page.partitions
        if page.cursor:
            return listed, _cursor(requested, status, page.cursor)
        if len(listed) >= limit and at < len(statuses):
            return listed, _cursor(requested, statuses[at], "")
        after = None
    return listed, None


def _cursor(requested: Status | None, status: Status, after: str) -> str:
    return f"{requested or _ALL}.{status}.{after}"


def _rest(requested: Status | None, cursor: str) -> tuple[Sequence[Status], str | None]:
    """The remaining statuses, and the cursor in the first of them. Raises InvalidCursorError."""
    statuses = (requested,) if requested else ORDER
    if not cursor:
        return statuses, None
    match cursor.split("."):
        case [of, status, after] if of == (requested or _ALL) and status in statuses:
            return statuses[statuses.index(Status(status)) :], after or None
    raise InvalidCursorError(
        f"invalid cursor, or the cursor of another status: omit it to start from the first page cursor={cursor[:40]!r}"
    )


def _status(query: Mapping[str, str]) -> Status | None:
    text = query.get("status")
    if not text:
        return None
    try:
        return Status(text.upper())
    except ValueError:
        raise InvalidInputError(f"status must be one of {', '.join(ORDER)} status={text[:40]!r}") from None
