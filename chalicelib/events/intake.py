"""What becomes of an agent's items: the run of each is told, items of one run and writer are appended together, in their order, and
every item's fate is told by its number.

Nobody's trouble is another's: a record without a run, a pipeline that may not be written, a closed run, a store that is away cost
their own items. A request that is repeated is stored once where it can be told from a new one (decision 0024).
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
"""Of what they share, counted in each: it stands in each event's data, so it makes companions large."""


class ItemStatus(StrEnum):
    """What became of an item. ``RETRYABLE``: it may be taken later."""

    STORED = "stored"
    MALFORMED = "malformed"
    FORBIDDEN = "forbidden"
    CLOSED = "closed"
    RETRYABLE = "away"


@dataclass(frozen=True, slots=True)
class ItemResult:
    """An item's fate; ``reason`` is "" of what was stored."""

    status: ItemStatus
    reason: str = ""


STORED = ItemResult(ItemStatus.STORED)


@dataclass(frozen=True, slots=True)
class IntakeRequest:
    """What is known of the request that brought the items. ``name``: what is the same in each attempt of it, and in no other request;
    "" where the agent gives no such thing. ``digest``: of the body as it came. ``repeats_bytes``: the agent repeats the very same
    body, so the digest may stand for a name if no item could be mistaken for another. ``headers``: names in lower case."""

    headers: Mapping[str, str]
    digest: str
    name: str = ""
    repeats_bytes: bool = False


@dataclass(frozen=True, slots=True)
class IntakeLimits:
    """Of one request: its items, and the runs and writers that they name, each of which is an append. ``count_shared`` is called with the
    ``shared_bytes`` of each item; raises BatchTooLargeError."""

    items: int
    streams: int
    count_shared: Callable[[int], None] = lambda shared_bytes: None


@dataclass(slots=True)
class _Group:
    """Items of one run and writer. They are numbered as in the body."""

    run: Run
    writer: str | None
    items: list[Decoded]


class Intake:
    """``may_write``: whether whoever asks may write a pipeline, by its FQN. ``has_time``: whether there is time for another append.
    ``check_run`` raises InvalidInputError for a run whose names may not be stored, before anything says them."""

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
        """Each item's fate, in their order. What is ``STORED`` is durable. Raises BatchTooLargeError before anything is stored."""
        known = self._decoded(items)
        results: dict[int, ItemResult] = {
            item.index: ItemResult(ItemStatus.MALFORMED, item.reason) for item in known if isinstance(item, Refused)
        }
        for group in self._groups([item for item in known if isinstance(item, Decoded)], request, results):
            for batch in _batches(group.items):
                self._append(_Group(group.run, group.writer, batch), request, results)
        return [results[item.index] for item in known]

    def _decoded(self, items: Iterable[Item]) -> list[Item]:
        """All of them. What they hold is counted while they are decoded. Raises BatchTooLargeError."""
        known: list[Item] = []
        for item in items:
            known.append(item)
            if len(known) > self._limits.items:
                raise BatchTooLargeError(f"too many items for one request limit={self._limits.items}")
            if isinstance(item, Decoded):
                self._limits.count_shared(item.shared_bytes)
        return known

    def _groups(self, items: Sequence[Decoded], request: IntakeRequest, results: dict[int, ItemResult]) -> list[_Group]:
        """Items by run and writer. Raises BatchTooLargeError."""
        groups: dict[tuple[Run, str | None], _Group] = {}
        permitted: dict[str, bool] = {}
        reasons: dict[str, str] = {}  # one text for all items that it is told of
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
                reason = f"not permitted: ask for the scope logs:write of this name name={run.fqn[:200]!r}"
                results[item.index] = ItemResult(ItemStatus.FORBIDDEN, reasons.setdefault(reason, reason))
        if len(streams) > self._limits.streams:
            raise BatchTooLargeError(f"too many runs and writers for one request limit={self._limits.streams}")
        return list(groups.values())

    def _append(self, group: _Group, request: IntakeRequest, results: dict[int, ItemResult]) -> None:
        """One batch. A refusal of all of it, or of some, is told of each."""
        try:
            if not self._has_time():
                raise DeadlineExceededError("there was no time left for this run: send it again")
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
    """What names this batch in every attempt of its request, and no other batch; None where there is no such thing, and a repeat is
    stored again.

    Which items of the request it has is a part of it: where a rule or a permission changed between two attempts, the batch is another.
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
    return ItemStatus.CLOSED if isinstance(error, ConflictError) else ItemStatus.RETRYABLE
