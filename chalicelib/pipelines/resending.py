"""Sends dead letters again, at an operator's request, to the handler that failed.

::

    request (a row) ► the worker of the run's shard reads the letter ► its handler ► flush ► checkpoint ► delete letter, then row
                                                                          └ fails ► store letter with one more attempt, delete row

A crash or a lost response anywhere leaves the row, and what is left is repeated: the handler receives the event at least once. A letter
that an operator drops meanwhile stays deleted. The event comes outside of the order of its run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from chalicelib.errors import DamagedLogError, PreconditionFailedError
from chalicelib.pipelines.dead_letters import DeadLetter, DeadLetterId
from chalicelib.pipelines.records import record_of_event
from chalicelib.pipelines.rows import PIPELINES, resends_partition, row_at, stored_rows
from chalicelib.pipelines.shards import Shard
from chalicelib.pipelines.transactions import apply_write
from chalicelib.ports import Clause, Clock, Database, Delete, Key, Put

if TYPE_CHECKING:  # requests are made over HTTP, without what delivers
    from chalicelib.pipelines.active_runs import GenerationLookup
    from chalicelib.pipelines.delivery import EventDelivery

AT_ONCE = 50
"""The most letters that a worker sends again between two checkpoints."""


@dataclass(frozen=True, slots=True)
class ResendRequest:
    """A request to send a letter again. ``key``: of the letter's object; ``asked_ms`` distinguishes it from a later request."""

    key: str
    fqn: str
    handler: str
    asked_ms: int


class ResendRequests:
    """The requests of one pipeline."""

    def __init__(self, database: Database, pipeline: str, clock: Clock) -> None:
        self._database, self._partition, self._clock = database, resends_partition(pipeline), clock

    def add(self, letter: DeadLetterId, keep_s: int) -> int:
        """Request that a letter is sent again; a repeated request counts once. Returns its time. One write; the row expires after
        ``keep_s``. Raises UnavailableError."""
        now_ms = self._clock.now_ms()
        key = self._key(letter.key)
        row = row_at(key, fqn=letter.run.fqn, handler=letter.handler, asked_ms=now_ms, expires_at=now_ms // 1000 + keep_s)
        self._database.put_many([Put(key, row)])
        return now_ms

    def asked_ms(self, letter: DeadLetterId) -> int | None:
        """When a letter was requested, if that was not tried yet. One read."""
        key = self._key(letter.key)
        row = self._database.get_many([key]).get(key)
        return int(row["asked_ms"]) if row else None

    def all(self) -> Iterator[ResendRequest]:
        """All requests, by key. A Query for each 1,000."""
        for row in stored_rows(self._database, self._partition):
            yield ResendRequest(row["at"], str(row["fqn"]), str(row["handler"]), int(row["asked_ms"]))

    def finish(self, request: ResendRequest) -> None:
        """Remove a request, unless it was made again since. One transaction. Raises UnavailableError."""
        same = ((Clause(("asked_ms",), "=", request.asked_ms),),)
        apply_write(self._database, self._clock, Delete(self._key(request.key), same))

    def _key(self, letter_key: str) -> Key:
        return Key(PIPELINES, self._partition, letter_key)


class Resender:
    """Sends the requested letters of a worker's shard again. Requests for handlers that receive no events wait."""

    def __init__(
        self,
        requests: ResendRequests,
        delivery: EventDelivery,
        generation: GenerationLookup,
        shard: Shard,
        warn: Callable[[str, str], None],
    ) -> None:
        self._requests, self._delivery, self._generation, self._shard, self._warn = requests, delivery, generation, shard, warn
        self._letters = delivery.dead
        self._accepted: list[tuple[ResendRequest, DeadLetter]] = []

    def deliver(self) -> int:
        """Send requested letters again, at most ``AT_ONCE`` until ``committed``. Returns how many handlers accepted. A Query, and a GET
        for each letter; a PUT and a transaction for each that fails. Raises LeaseError, UnavailableError: call it again."""
        before = len(self._accepted)
        pending = {request for request, _ in self._accepted}
        due = (each for each in self._requests.all() if each not in pending and self._is_due(each))
        for request in list(islice(due, AT_ONCE - before)):
            self._resend(request)
        return len(self._accepted) - before

    def committed(self) -> None:
        """Delete the accepted letters: call it after a checkpoint that includes what all handlers received. Those of a handler that was
        disabled meanwhile wait, since it may not have stored them. A DELETE and a transaction for each. Raises UnavailableError."""
        while self._accepted:
            request, letter = self._accepted[0]
            if self._delivery.receives(request.handler):
                with suppress(PreconditionFailedError):  # the event failed again since it was accepted
                    self._letters.delete(letter)
                self._requests.finish(request)
            self._accepted.pop(0)

    def _is_due(self, request: ResendRequest) -> bool:
        return self._shard.has(request.fqn) and self._delivery.receives(request.handler)

    def _resend(self, request: ResendRequest) -> None:
        try:
            letter = self._letters.find(request.key)
        except DamagedLogError as damage:
            self._warn(request.key, str(damage))
            letter = None
        if letter is None:  # dropped, or deleted by a worker that did not get to its row
            self._requests.finish(request)
            return
        if not self._delivery.receives(request.handler):
            return  # disabled by one of the letters before
        generation = self._generation(letter.id.run)
        record = None if generation is None else record_of_event(letter.event, generation)
        failure = None if record is None else self._delivery.redeliver(request.handler, record)
        if failure is None:  # events of a deleted generation are dropped, as everywhere
            self._accepted.append((request, letter))
            return
        with suppress(PreconditionFailedError):  # dropped meanwhile
            self._letters.update(letter, failure)
        self._requests.finish(request)
