"""Stores the items of log agents: finds the run of each, appends the items of one run and writer together in their order, and returns
a result for each item.

Failures are isolated: a record without a run, a forbidden pipeline, a closed run or an outage affect only their own items. A
repeated request is stored once if it can be distinguished from a new one (decision 0024).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b

from chalicelib.errors import (
    BatchTooLargeError,
    ConflictError,
    DamagedLogError,
    DeadlineExceededError,
    InvalidInputError,
    RunDeletedError,
    StoreConditionError,
    UnavailableError,
)
from chalicelib.events.codecs.items import Decoded, Item
from chalicelib.events.ports import EventLog, Refused
from chalicelib.events.routing import Router
from chalicelib.ports import Run

MAX_BATCH = 5_000
"""Items of one append."""
MAX_BATCH_SHARED_BYTES = 8 * 1024 * 1024
"""Shared bytes of the items of one append, counted for each item: each event's data repeats them, so they make sidecars large."""


class ItemStatus(StrEnum):
    """The result of an item. ``RETRYABLE``: it may be accepted later."""

    STORED = "stored"
    MALFORMED = "malformed"
    FORBIDDEN = "forbidden"
    CLOSED = "closed"
    DELETED = "deleted"
    RETRYABLE = "away"


@dataclass(frozen=True, slots=True)
class ItemResult:
    """The status of an item; ``reason`` is "" for stored items."""

    status: ItemStatus
    reason: str = ""


STORED = ItemResult(ItemStatus.STORED)


@dataclass(frozen=True, slots=True)
class IntakeRequest:
    """The request that brought the items. ``name`` identifies it in each of its attempts; "" if the agent sends no such identifier.
    ``digest``: of the body as received. ``repeats_bytes``: the agent repeats the same body, so the digest identifies the request if
    all items are unique. ``headers``: names in lower case."""

    headers: Mapping[str, str]
    digest: str
    name: str = ""
    repeats_bytes: bool = False


@dataclass(frozen=True, slots=True)
class IntakeLimits:
    """Limits of one request: items, and distinct pairs of run and writer, each of which is an append. ``count_shared`` is called
    with the ``shared_bytes`` of each item; raises BatchTooLargeError."""

    items: int
    streams: int
    count_shared: Callable[[int], None] = lambda shared_bytes: None


@dataclass(slots=True)
class _Group:
    """Items of one run and writer, with their indexes in the body."""

    run: Run
    writer: str | None
    items: list[Decoded]


class Intake:
    """``may_write``: whether the caller may write a pipeline, by its FQN. ``has_time``: whether there is time for another append.
    ``check_run`` raises InvalidInputError for a run whose names may not be stored, before any message repeats them."""

    def __init__(
        self,
        log: EventLog,
        router: Router,
        may_write: Callable[[str], bool],
        has_time: Callable[[], bool],
        limits: IntakeLimits,
        check_run: Callable[[Run], None] = lambda run: None,
    ) -> None:
        self._log, self._router, self._may_write, self._has_time = log, router, may_write, has_time
        self._limits, self._check_run = limits, check_run

    def take(self, items: Iterable[Item], request: IntakeRequest) -> list[ItemResult]:
        """The result of each record, in their order: an item and its parts have the same one. ``STORED`` items are durable. Raises
        BatchTooLargeError before anything is stored."""
        known = self._decoded(items)
        results: dict[int, ItemResult] = {
            item.index: ItemResult(ItemStatus.MALFORMED, item.reason) for item in known if isinstance(item, Refused)
        }
        for group in self._groups([item for item in known if isinstance(item, Decoded)], request, results):
            for batch in _batches(group.items):
                self._append(_Group(group.run, group.writer, batch), request, results)
        for item in known:
            if isinstance(item, Decoded) and item.parts:
                results |= dict.fromkeys(item.parts, results[item.index])
        return [results[index] for index in sorted(results)]

    def _decoded(self, items: Iterable[Item]) -> list[Item]:
        """All items, counted against the limits while they are decoded. Raises BatchTooLargeError."""
        known: list[Item] = []
        count = 0
        for item in items:
            known.append(item)
            count += 1 + len(item.parts) if isinstance(item, Decoded) else 1
            if count > self._limits.items:
                raise BatchTooLargeError(f"too many items for one request limit={self._limits.items}")
            if isinstance(item, Decoded):
                self._limits.count_shared(item.shared_bytes)
        return known

    def _groups(self, items: Sequence[Decoded], request: IntakeRequest, results: dict[int, ItemResult]) -> list[_Group]:
        """Items by run and writer. Raises BatchTooLargeError."""
        groups: dict[tuple[Run, str | None], _Group] = {}
        permitted: dict[str, bool] = {}
        reasons: dict[str, str] = {}  # items share one string for the same reason
        checked: set[Run] = set()
        streams: set[tuple[Run, str | None]] = set()
        for item in items:
            try:
                run = self._router.run_of(item, request.headers)
                streams.add((run, item.writer))
                if len(streams) > self._limits.streams:
                    break
                if run not in checked:
                    self._check_run(run)
                    checked.add(run)
            except (InvalidInputError, UnavailableError) as error:
                results[item.index] = ItemResult(_status_of(error), reasons.setdefault(str(error), str(error)))
                continue
            if run.fqn not in permitted:
                permitted[run.fqn] = self._may_write(run.fqn)
            if permitted[run.fqn]:
                groups.setdefault((run, item.writer), _Group(run, item.writer, [])).items.append(item)
            else:
                reason = f"not permitted: scope logs:write is required for this name name={run.fqn[:200]!r}"
                results[item.index] = ItemResult(ItemStatus.FORBIDDEN, reasons.setdefault(reason, reason))
        if len(streams) > self._limits.streams:
            raise BatchTooLargeError(f"too many runs and writers for one request limit={self._limits.streams}")
        return list(groups.values())

    def _append(self, group: _Group, request: IntakeRequest, results: dict[int, ItemResult]) -> None:
        """Append one batch. An error is the result of all of its items, a refused event of its own item."""
        try:
            if not self._has_time():
                raise DeadlineExceededError("no time left for this run: send it again")
            accepted = self._log.append(
                group.run,
                [item.event for item in group.items],
                writer=group.writer,
                idempotency_key=idempotency_key_of(request, group.items),
            )
        except (InvalidInputError, ConflictError, UnavailableError, StoreConditionError, DamagedLogError) as error:
            results.update((item.index, ItemResult(_status_of(error), str(error))) for item in group.items)
            return
        results.update((item.index, STORED) for item in group.items)
        for refused in accepted.refused:
            status = ItemStatus.RETRYABLE if refused.retryable else ItemStatus.MALFORMED
            results[group.items[refused.index].index] = ItemResult(status, refused.reason)


def _batches(items: Sequence[Decoded]) -> Iterator[list[Decoded]]:
    """Items of one append each, in order."""
    batch: list[Decoded] = []
    shared_bytes = 0
    for item in items:
        if batch and (len(batch) == MAX_BATCH or shared_bytes + item.shared_bytes > MAX_BATCH_SHARED_BYTES):
            yield batch
            batch, shared_bytes = [], 0
        batch.append(item)
        shared_bytes += item.shared_bytes
    if batch:
        yield batch


def idempotency_key_of(request: IntakeRequest, items: Sequence[Decoded]) -> str | None:
    """A key that identifies a batch in every attempt of its request; None if the request has no identity, so that a repeat is stored again.

    The key includes the indexes of the batch's items: if a rule or a permission changes between two attempts, the batch is another
    one.
    """
    if request.name:
        name = f"name {request.name}"
    elif request.repeats_bytes and all(item.is_unique for item in items):
        name = f"digest {request.digest}"
    else:
        return None
    numbers = ",".join(str(item.index) for item in items)
    return "agent-" + blake2b(f"{name}\n{numbers}".encode(errors="replace"), digest_size=16).hexdigest()


def _status_of(error: Exception) -> ItemStatus:
    if isinstance(error, InvalidInputError):
        return ItemStatus.MALFORMED
    if isinstance(error, RunDeletedError):
        return ItemStatus.DELETED
    return ItemStatus.CLOSED if isinstance(error, ConflictError) else ItemStatus.RETRYABLE
