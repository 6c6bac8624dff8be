"""Deletion of runs and pipelines over HTTP."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from chalice.app import NotFoundError, Response

from chalicelib.access.grants import Scope
from chalicelib.deadline import Deadline
from chalicelib.errors import DeadlineExceededError, InvalidInputError, ObjectNotFoundError
from chalicelib.observability import note
from chalicelib.pipelines.records import split_fqn
from chalicelib.routes import gate
from chalicelib.routes.api_request import ApiRequest
from chalicelib.routes.removal_models import (
    DATASET_UNTIL,
    LATE_UNTIL,
    NEWER,
    NEWER_UNTIL,
    OUTSIDE,
    SHARED,
    SHARED_UNTIL,
    OutstandingRemoval,
    RunDeletion,
)
from chalicelib.routes.responses import json_response
from chalicelib.runlog.deletion_marks import MAX_REASON_CHARS, DeletionMark, DeletionOrder, last_dataset_ms
from chalicelib.runlog.layout import checked_fqn

WORK_S = 20


def delete_run(request: ApiRequest) -> Response:
    """Delete a run and its later attempts. Raises NotFoundError."""
    gate.require_run_scope(Scope.LOGS_DELETE, request)
    run, removal, order = request.run, request.services.removal, _order(request)
    is_cut = False
    try:
        removal.delete(run, order, Deadline(request.services.clock, WORK_S))
    except DeadlineExceededError:
        is_cut = True
    except ObjectNotFoundError as error:
        raise NotFoundError(str(error)) from error
    mark = removal.deletion(run)
    assert mark, "a deletion begins with its mark"
    return _answer(request, mark, is_cut=is_cut, is_waiting=not mark.is_done)


def delete_pipeline(request: ApiRequest) -> Response:
    """Delete a pipeline with all of its runs. Raises NotFoundError."""
    gate.require_run_scope(Scope.LOGS_DELETE, request)
    services, fqn, order = request.services, checked_fqn(request.names["fqn"]), _order(request)
    generations, namespace, who = services.pipeline_files.generations, split_fqn(fqn)[0], gate.principal()
    known = generations.of_pipeline(namespace, fqn)
    if not services.pipelines.exists(fqn):
        if known is None:
            raise NotFoundError(f"there is no such pipeline fqn={fqn!r}")
        if known[1]:
            return _answer(request, _mark(fqn, known, {}), is_cut=False, is_waiting=False)
    may = None if who.may_all(Scope.LOGS_DELETE) else lambda name: who.may(Scope.LOGS_DELETE, name)
    done = services.pipeline_files.delete(namespace, fqn, Deadline(services.clock, WORK_S), may, order)
    counts = Counter(runs=done.runs, files=done.files) + done.counts
    mark = _mark(fqn, generations.of_pipeline(namespace, fqn), counts)
    kept = [(NEWER, NEWER_UNTIL, done.newer), (SHARED, SHARED_UNTIL, done.shared)]
    remaining = [OutstandingRemoval(what=f"{what}: {len(runs)}", until=until) for what, until, runs in kept if runs]
    return _answer(request, mark, is_cut=done.is_cut, is_waiting=done.waiting > 0, remaining=remaining)


def _mark(fqn: str, deletion: tuple[int, DeletionOrder | None] | None, counts: Mapping[str, int]) -> DeletionMark:
    """The answer's facts of a pipeline. A run that began meanwhile may have made the next generation already."""
    deleted_ms, order = deletion or (0, None)
    return DeletionMark(fqn, "", deleted_ms, order.by if order else "", order.why if order else None, counts=counts)


def _answer(
    request: ApiRequest, mark: DeletionMark, *, is_cut: bool, is_waiting: bool, remaining: Sequence[OutstandingRemoval] = ()
) -> Response:
    late = [OutstandingRemoval(what="late writes", until=LATE_UNTIL)] if is_waiting and not is_cut else []
    outstanding = [*remaining, *late]
    if last_dataset_ms(request.services.store) <= mark.deleted_ms:
        outstanding.append(OutstandingRemoval(what="dataset", until=DATASET_UNTIL))
    note(deleted={**mark.counts})
    body = RunDeletion(
        state="deleting" if is_cut else "deleted",
        deletedAt=mark.deleted_ms,
        deletedBy=mark.by,
        reason=mark.why,
        counts=dict(mark.counts),
        outstanding=outstanding,
        outside=list(OUTSIDE),
    )
    return json_response(body.model_dump())


def _order(request: ApiRequest) -> DeletionOrder:
    reason = _reason(request.query)
    if reason:
        reason = request.services.masker.mask(request.names["fqn"], reason.encode(errors="replace")).body.decode()
    return DeletionOrder(gate.principal().name, reason)


def _reason(query: Mapping[str, str]) -> str | None:
    reason = query.get("reason") or None
    if reason and len(reason) > MAX_REASON_CHARS:
        raise InvalidInputError(f"reason must have at most {MAX_REASON_CHARS} characters length={len(reason)}")
    return reason
