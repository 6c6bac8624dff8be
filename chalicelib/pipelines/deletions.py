"""Notifies handlers of deleted generations: ``deleted(generation)`` of each handler that has it (``HasDeletionHook``).

Deletions are numbered without gaps, in the transaction that ends the generation (``files.generations``). The worker keeps one number for each
handler, the last deletion that the handler was notified of, and stores the numbers with its checkpoint. So the state does not grow with runs,
generations or deletions, and a handler is notified of every deletion, also of generations of which it never received an event.

::

    pipeline#{name}   deletions#{shards}.{shard}   reached: the last number of each handler, by name

At each checkpoint: read the next deletions (one Query) ► drop what is left of their runs ► call the handlers ► commit the numbers with the
checkpoint. A crash before the commit repeats calls; a worker without its lease makes none and commits none. A shard handles the deletions
of its own FQNs, so no event of a generation follows in the worker that notified of it.

If all shards of a division have a row, each deletion up to the least of their numbers reached its shard. So after the number of shards has
changed, each shard continues there; a division without all its rows proves nothing. Rows are kept: a row of one division never replaces
one of another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from chalicelib.pipelines.active_runs import ActiveRuns
from chalicelib.pipelines.delivery import EventDelivery
from chalicelib.pipelines.files.generations import NumberedDeletion
from chalicelib.pipelines.ports import Fence, HasDeletionHook
from chalicelib.pipelines.rows import pipeline_key, row_at, stored_rows
from chalicelib.pipelines.shards import Shard
from chalicelib.ports import Database, Key, Put

DELETIONS = "deletions#"
_END = "deletions$"
"""Sorts after all rows of ``DELETIONS``."""
AT_ONCE = 100
"""Deletions that are read at each checkpoint."""
ListDeletions = Callable[[int, int], Sequence[NumberedDeletion]]
"""The deletions after a number, in order, and how many at most. One Query. Raises UnavailableError."""


def no_deletions(after: int, limit: int) -> Sequence[NumberedDeletion]:
    """Without a store of generations."""
    return ()


class DeletionNotifier:
    """The notifications by one worker, in its thread. ``handlers``: of the pipeline's file, also those that could not be built."""

    def __init__(
        self,
        database: Database,
        name: str,
        handlers: Iterable[str],
        shard: Shard,
        deletions: ListDeletions,
        delivery: EventDelivery,
        runs: ActiveRuns,
        fence: Fence,
    ) -> None:
        self._database, self._name, self._shard, self._list = database, name, shard, deletions
        self._delivery, self._runs, self._fence = delivery, runs, fence
        built = delivery.context.handlers
        self._hooks = {name: handler for name, handler in built.items() if isinstance(handler, HasDeletionHook)}
        self._handlers = frozenset(handlers)
        self._reached: dict[str, int] | None = None
        self._stored: Mapping[str, int] = {}
        self._storing: Mapping[str, int] = {}

    def notify(self) -> None:
        """Notify the handlers that receive events of their next deletions, up to ``AT_ONCE``. A handler that fails is notified of the same
        deletion at the next call, and the others are not kept back: a Query for each number that handlers have reached. No request without
        handlers that have the hook. Raises LeaseError, UnavailableError: call again."""
        reached = self._numbers() if self._hooks else {}
        ready = {name for name in self._hooks if self._delivery.receives(name) and name not in self._delivery.failed_flush}
        by_number = {number: {name for name in ready if reached[name] == number} for number in map(reached.__getitem__, ready)}
        for number, names in sorted(by_number.items()):
            self._notify(names, reached, number)

    def _notify(self, ready: set[str], reached: dict[str, int], after: int) -> None:
        """Notify handlers that have reached the same number."""
        for deletion in self._list(after, AT_ONCE):
            is_ours = self._shard.has(deletion.fqn)
            if is_ours:
                self._runs.end_generation(deletion.generation)
            for name in sorted(ready):
                self._fence()
                if is_ours and not self._delivery.call(name, self._hooks[name].deleted, deletion.generation):
                    ready.discard(name)
                else:
                    reached[name] = deletion.number

    def writes(self) -> list[Put]:
        """The changed numbers, for the checkpoint's transaction."""
        self._storing = dict(self._reached or {})
        return [Put(self._key, row_at(self._key, reached=self._storing))] if self._storing != self._stored else []

    def committed(self) -> None:
        """The transaction with the last ``writes`` was applied."""
        self._stored = self._storing

    @property
    def _key(self) -> Key:
        return pipeline_key(self._name, f"{DELETIONS}{self._shard.count}.{self._shard.number}")

    def _numbers(self) -> dict[str, int]:
        """The numbers of the last worker. A Query for each 1,000 rows, once in a worker's life."""
        if self._reached is None:
            rows = {row["at"]: row["reached"] for row in stored_rows(self._database, self._key.partition, DELETIONS, _END)}
            divisions: dict[str, list[Mapping[str, Any]]] = {}
            for at, numbers in rows.items():
                divisions.setdefault(at.removeprefix(DELETIONS).partition(".")[0], []).append(numbers)
            complete = [each for count, each in divisions.items() if len(each) == int(count)]
            own = rows.get(self._key.sort, {})
            self._stored = {name: int(number) for name, number in own.items()}
            known = {name for numbers in rows.values() for name in numbers if name in self._handlers}
            self._reached = {
                name: max(_number(own, name), *(min(_number(numbers, name) for numbers in each) for each in complete), 0)
                for name in known | self._hooks.keys()
            }
        return self._reached


def _number(numbers: Mapping[str, Any], name: str) -> int:
    return int(numbers.get(name, 0))
