"""Files of processing pipelines over HTTP: merged reads, repair, deletion."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

from chalice.app import Response

from chalicelib import composition
from chalicelib.access.grants import Scope
from chalicelib.deadline import Deadline
from chalicelib.errors import InvalidCursorError, InvalidInputError
from chalicelib.events.validation import checked_level
from chalicelib.observability import logger, note
from chalicelib.pipelines.files.key_layout import LAST_MS, is_base, prefix_of
from chalicelib.pipelines.files.reading import FileEventQuery, MergePosition
from chalicelib.pipelines.files.records import FileEvent
from chalicelib.pipelines.files.repair import FileFinding
from chalicelib.pipelines.files.rows import CLOSED, FileRow
from chalicelib.pipelines.records import split_fqn
from chalicelib.ports import ObjectStore
from chalicelib.response_size import PAGE_BYTES
from chalicelib.routes import gate
from chalicelib.routes.api_request import ApiRequest
from chalicelib.routes.parameters import integer_parameter, time_parameter
from chalicelib.routes.pipeline_files_models import (
    DEFAULT_FILES,
    DEFAULT_LIMIT,
    LINK_AGE_S,
    MAX_FILES,
    MAX_LIMIT,
    NO_LINE,
    DeletionState,
    FileBasePage,
    FileEventItem,
    FileEventItemPage,
    FileFindingItem,
    FileFindingItems,
    PipelineFileItem,
    PipelineFileItemPage,
    RepairedFileItems,
)
from chalicelib.routes.responses import fitting, json_response
from chalicelib.runlog.deletion_marks import DeletionOrder
from chalicelib.runlog.layout import checked_fqn

DEFAULT_BASE = "pipeline-files"
"""Output base of the built-in pipeline."""
READ_S, WORK_S = 8, 20
_MAX_SKIPPED = 10**12
_NO_CURSOR = "invalid cursor: omit it to start from the first page"
_MAX_NAME_CHARS = 1000
_MAX_WARNINGS = 20


def events(request: ApiRequest) -> Response:
    """Events in an application's files in order of time, of pipelines that the principal may read."""
    gate.require_any_scope("pipeline files", Scope.LOGS_READ)
    services, query = composition.services(), request.query
    events_query = _events_query(query)
    limit = integer_parameter(query, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
    level = checked_level(query["level"]) if query.get("level") else None
    page = services.pipeline_files.page(events_query, limit, Deadline(services.clock, READ_S), _place(query), level)
    for what, why in page.left_out[:_MAX_WARNINGS]:
        logger.warning("a file of a pipeline is left out", extra={"what": what, "why": why})
    note(left_out=len(page.left_out), unsupported=page.unsupported)
    application = f"{events_query.namespace}.{events_query.app}"  # of events in formats without names
    gate.record_names(f"{each.fqn or application}/{each.runId}" for each in page.events)
    body = FileEventItemPage(
        events=[_event(each) for each in page.events],
        cursor=_cursor(page.after) if page.after else None,
        leftOut=len(page.left_out),
        unsupported=page.unsupported,
    )
    return json_response(body.model_dump(exclude_unset=True))


def files(request: ApiRequest) -> Response:
    """An application's files with links, of pipelines that the principal may read."""
    gate.require_any_scope("pipeline files", Scope.LOGS_READ)
    query, events_query = request.query, _events_query(request.query)
    limit, after = integer_parameter(query, "limit", DEFAULT_FILES, 1, MAX_FILES), query.get("cursor") or ""
    if after and not after.startswith(prefix_of(events_query.namespace, events_query.app)):
        raise InvalidCursorError("the cursor is of another list: omit it to start from the first page")
    page = composition.services().pipeline_files.files(events_query, limit, after)
    note(left_out=len(page.left_out))
    listed = fitting((_file(row, page.store) for row in page.files), PAGE_BYTES)
    is_cut = len(listed) < len(page.files)
    gate.record_names(f"{each.fqn} {each.key}" for each in listed)
    body = PipelineFileItemPage(
        files=listed, cursor=page.files[len(listed) - 1].at if is_cut else page.after, leftOut=len(page.left_out)
    )
    return json_response(body.model_dump())


def bases(request: ApiRequest) -> Response:
    """The bases that a list or a read of files may name. One Query."""
    gate.require_any_scope("pipeline files", Scope.LOGS_READ)
    limit, after = integer_parameter(request.query, "limit", DEFAULT_FILES, 1, MAX_FILES), request.query.get("cursor") or ""
    if after and not is_base(after):
        raise InvalidCursorError("the cursor is of another list: omit it to start from the first page")
    names, cursor = composition.services().pipeline_files.bases(limit, after)
    return json_response(FileBasePage(bases=names, cursor=cursor).model_dump())


def _file(row: FileRow, store: ObjectStore) -> PipelineFileItem:
    contents = row.contents
    return PipelineFileItem(
        key=row.object_key,
        fqn=row.fqn,
        program=row.context.program,
        format=row.format,
        bytes=contents.size,
        events=max(0, contents.events),
        firstTime=contents.from_ms,
        lastTime=contents.to_ms,
        complete=row.state == CLOSED,
        url=store.presign_get(row.object_key, expires_s=LINK_AGE_S, content_type="application/octet-stream"),
    )


def _events_query(query: Mapping[str, str]) -> FileEventQuery:
    who = gate.principal()
    return FileEventQuery(
        base=_base(query),
        namespace=_name(query, "namespace"),
        app=_name(query, "app"),
        program=_name(query, "program") if query.get("program") else None,
        from_ms=time_parameter(query, "from", 0, LAST_MS),
        to_ms=time_parameter(query, "to", LAST_MS + 1, LAST_MS + 1),
        key=query.get("key") or None,
        may_see=lambda fqn: who.may(Scope.LOGS_READ, fqn),
    )


def delete(request: ApiRequest) -> Response:
    """Delete the logs of a pipeline, or of those in a namespace whose logs the principal may delete: their runs and pipeline files."""
    query = request.query
    fqn, namespace = query.get("fqn"), query.get("namespace")
    if bool(fqn) == bool(namespace):
        gate.require_any_scope("pipeline files", Scope.LOGS_DELETE)
        raise InvalidInputError("either fqn or namespace is required")
    if fqn:
        gate.require_scope(Scope.LOGS_DELETE, fqn)
        checked_fqn(fqn)
    else:
        assert namespace
        gate.require_scope(Scope.LOGS_DELETE, f"{namespace}.*")
        checked_fqn(namespace)
    services, who = composition.services(), gate.principal()
    note(deleted=fqn or f"{namespace}.*")
    of = split_fqn(fqn)[0] if fqn else namespace
    assert of
    may = None if who.may_all(Scope.LOGS_DELETE) else lambda name: who.may(Scope.LOGS_DELETE, name)
    done = services.pipeline_files.delete(of, fqn or None, Deadline(services.clock, WORK_S), may, DeletionOrder(who.name))
    body = DeletionState(
        state="deleted" if done.is_complete else "deleting",
        files=done.files,
        bytes=max(0, done.bytes),  # negative if a damaged row has such a size
        runs=done.runs,
        waiting=done.waiting,
        shared=len(done.shared),
    )
    return json_response(body.model_dump(), 200 if done.is_complete else 202)


def findings(request: ApiRequest) -> Response:
    """Inconsistencies between rows and objects."""
    gate.require_scope(Scope.ADMIN, "*")
    result, is_all = composition.services().pipeline_files.findings(_base(request.query))
    body = FileFindingItems(findings=[_finding(each) for each in result], complete=is_all)
    return json_response(body.model_dump())


def repair(request: ApiRequest) -> Response:
    """Repair inconsistencies between rows and objects."""
    gate.require_scope(Scope.ADMIN, "*")
    services = composition.services()
    repaired, is_complete = services.pipeline_files.repair(_base(request.query), Deadline(services.clock, WORK_S))
    body = RepairedFileItems(mended=[_finding(each) for each in repaired], complete=is_complete)
    return json_response(body.model_dump())


def _event(event: FileEvent) -> FileEventItem:
    """An event in a response. Other programs may have written the file, so its line may be any number."""
    return FileEventItem.model_validate(event.document() | {"line": max(NO_LINE, event.line)})


def _finding(finding: FileFinding) -> FileFindingItem:
    return FileFindingItem(kind=finding.kind, path=finding.path, detail=finding.detail)


def _base(query: Mapping[str, str]) -> str:
    return query.get("base") or DEFAULT_BASE


def _name(query: Mapping[str, str], name: str) -> str:
    value = query.get(name) or ""
    if not 0 < len(value) <= _MAX_NAME_CHARS:
        raise InvalidInputError(f"{name} is required, a string of at most {_MAX_NAME_CHARS} characters {name}={value[:40]!r}")
    return value


def _place(query: Mapping[str, str]) -> MergePosition | None:
    cursor = query.get("cursor")
    if not cursor:
        return None
    try:
        time_ms, at, skipped, next_ms = json.loads(
            base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        )
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidCursorError(_NO_CURSOR) from error
    limits = ((time_ms, LAST_MS), (skipped, _MAX_SKIPPED), (next_ms, LAST_MS + 1))
    if not isinstance(at, str) or not all(type(number) is int and 0 <= number <= most for number, most in limits):
        raise InvalidCursorError(_NO_CURSOR)
    return MergePosition(time_ms, at, skipped, next_ms)


def _cursor(place: MergePosition) -> str:
    packed = json.dumps([place.time_ms, place.at, place.skipped, place.next_ms], separators=(",", ":"))
    return base64.b64encode(packed.encode(), altchars=b"-_").decode().rstrip("=")
