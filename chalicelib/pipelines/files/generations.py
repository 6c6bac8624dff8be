"""Generations of pipelines and namespaces: each creation has a fresh UUID, a deletion ends it, and late events of a dead one are
dropped.

::

    partition #generations, "{namespace}:"              a namespace
                            "{namespace}:{fqn}:"        its pipeline: generation (empty: deleted), time of the last deletion; while it
                                                        is deleted, by whom and why
    partition #dead, "{uuid}"                           a deleted generation, and whether all its data is gone
    partition #deletions, "{number:015d}"               the end of a pipeline's generation: its FQN, its UUID
    partition #deletions, "last"                        the greatest number
    partition #deleted-runs:{fqn}, "{run id}"           a run that was deleted

The first run that starts after the last deletion creates a pipeline's next generation, when it is looked up. A run that started
before belongs to the deleted generation, however late its lines arrive. Decision 0030.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from chalicelib.errors import PreconditionFailedError, StoreUnavailableError
from chalicelib.pipelines.files.key_layout import element, prefix_of
from chalicelib.pipelines.files.table import TABLE, rows_of_partition
from chalicelib.pipelines.transactions import transact_with_retry
from chalicelib.ports import Clause, Clock, Database, Key, Put, Row, RowCondition, Write
from chalicelib.runlog.deletion_marks import NOBODY, DeletionOrder

GENERATIONS, DEAD, DELETIONS = "#generations", "#dead", "#deletions"
ALIVE_CACHE_MS = 30_000
"""A generation that was alive counts as alive for this long without another read."""
_TRIES = 10
_LAST = Key(TABLE, DELETIONS, "last")
_MAX_NUMBER = 10**15 - 1
Covers = Callable[[str], bool]
_IS_NEW: RowCondition = ((Clause(("at",), "absent"),),)


def _everything(fqn: str) -> bool:
    """For a caller with all permissions."""
    return True


@dataclass(frozen=True, slots=True)
class DeadGeneration:
    """A deleted generation. ``is_swept``: the last search for its data found nothing. ``is_done``: the deletion was reported as
    done, so a later request is a new one. ``all_spellings``: the requester may delete the logs of every pipeline that
    OpenMetadata spells like this one (decision 0033). ``order``: who deletes it, and why."""

    generation: str
    namespace: str
    fqn: str
    deleted_ms: int
    is_swept: bool
    is_done: bool = False
    all_spellings: bool = False
    order: DeletionOrder = NOBODY

    @property
    def key(self) -> Key:
        """The key of its row."""
        return Key(TABLE, DEAD, self.generation)

    def document(self) -> Row:
        """Its row."""
        return {
            "partition": DEAD,
            "at": self.generation,
            "namespace": self.namespace,
            "fqn": self.fqn,
            "deleted_ms": self.deleted_ms,
            "is_swept": self.is_swept,
            "is_done": self.is_done,
            "all_spellings": self.all_spellings,
            "by": self.order.by,
            "why": self.order.why,
        }


@dataclass(frozen=True, slots=True)
class NumberedDeletion:
    """The end of a pipeline's generation. Numbers begin at 1."""

    number: int
    fqn: str
    generation: str


class Generations:
    """Finds the generation of a run, and which generations are dead. Caches reads for ``ALIVE_CACHE_MS``; dead ones for good."""

    def __init__(self, database: Database, clock: Clock, new_id: Callable[[], str] = lambda: uuid4().hex) -> None:
        self._database, self._clock, self._new_id = database, clock, new_id
        self._dead: set[str] = set()
        self._alive: dict[str, int] = {}

    def of_run(self, namespace: str, fqn: str, run_id: str, started_ms: int) -> str | None:
        """The generation of a run with this start time, created now if the run is its first; None if it is dead: drop the run's
        events. One read, and a write for a new one."""
        for _ in range(_TRIES):
            keys = [_key(namespace), _key(namespace, fqn), _run_key(fqn, run_id)]
            found = self._database.get_many(keys)
            above, own = (found.get(key) for key in keys[:2])
            if keys[2] in found or started_ms <= max(_deleted_ms(above), _deleted_ms(own)):
                return None
            if above and above["generation"] and own and own["generation"]:
                return str(own["generation"])
            try:
                return self._create(namespace, fqn, above, own)
            except PreconditionFailedError:
                continue  # another process was faster: read again
        raise StoreUnavailableError(f"the generation keeps changing fqn={fqn!r}")

    def dead_among(self, generations: Sequence[str]) -> frozenset[str]:
        """The dead ones of these generations. No request while all are cached; else one for 100."""
        now_ms = self._clock.now_ms()
        asked = [
            each
            for each in set(generations)
            if each not in self._dead and self._alive.get(each, -ALIVE_CACHE_MS) <= now_ms - ALIVE_CACHE_MS
        ]
        if asked:
            found = self._database.get_many([Key(TABLE, DEAD, each) for each in asked])
            self._dead |= {key.sort for key in found}
            if len(self._alive) > 100_000:
                self._alive.clear()
            self._alive |= dict.fromkeys(asked, now_ms)
        return frozenset(self._dead.intersection(generations))

    def clear_cache(self) -> None:
        """Clear the cache of generations that are alive."""
        self._alive.clear()

    def end(
        self, namespace: str, fqn: str | None, covers: Covers = _everything, order: DeletionOrder = NOBODY
    ) -> list[DeadGeneration]:
        """End a pipeline, or (None) a namespace and all its pipelines: from now on they are dead. Returns their generations that
        are dead and not swept. While a deletion is in progress, the same request resumes it, and does not end a newer
        generation. ``covers``: whether the caller may delete all pipelines that OpenMetadata spells like one."""
        if (namespace, fqn or "") not in self._under_way():
            rows = [] if fqn else self._rows(namespace)
            now_ms = self._clock.now_ms()
            for each in [row["fqn"] for row in rows if row["fqn"] and row["generation"]]:
                self._end_one(namespace, each, now_ms, covers, order)
            # last: a request that fails before does not count as in progress
            self._end_one(namespace, fqn or "", now_ms, covers, order)
        return self._ended([each for each in self._unswept() if each.namespace == namespace and fqn in (None, each.fqn)], covers)

    def end_each(
        self, namespace: str, fqns: Collection[str], covers: Covers = _everything, order: DeletionOrder = NOBODY
    ) -> list[DeadGeneration]:
        """The same for some pipelines of a namespace, which itself continues."""
        under_way, now_ms = self._under_way(), self._clock.now_ms()
        for fqn in fqns:
            if (namespace, fqn) not in under_way:
                self._end_one(namespace, fqn, now_ms, covers, order)
        return self._ended([each for each in self._unswept() if each.namespace == namespace and each.fqn in fqns], covers)

    def _ended(self, dead: Sequence[DeadGeneration], covers: Covers) -> list[DeadGeneration]:
        """Add this caller's permissions, if another caller began the deletion."""
        wider = [each for each in dead if not each.all_spellings and covers(each.fqn)]
        ended = [replace(each, all_spellings=True) if each in wider else each for each in dead]
        if puts := [Put(each.key, each.document()) for each, before in zip(ended, dead, strict=True) if each != before]:
            self._database.put_many(puts)
        return ended

    def alive(self, namespace: str) -> list[str]:
        """The pipelines of a namespace that are alive, and those whose deletion is in progress."""
        under_way = self._under_way()
        return [
            row["fqn"]
            for row in self._rows(namespace)
            if row["fqn"] and (row["generation"] or (namespace, row["fqn"]) in under_way)
        ]

    def _rows(self, namespace: str) -> list[Row]:
        return list(rows_of_partition(self._database, GENERATIONS, prefix_of(namespace)))

    def _unswept(self) -> list[DeadGeneration]:
        return [each for each in self.dead() if not each.is_swept]

    def _under_way(self) -> set[tuple[str, str]]:
        return {(each.namespace, each.fqn) for each in self._unswept() if not each.is_done}

    def of_pipeline(self, namespace: str, fqn: str) -> tuple[int, DeletionOrder | None] | None:
        """The time of a pipeline's last deletion (-1: none), and its order while no generation is alive; None for an unknown pipeline. One
        read."""
        key = _key(namespace, fqn)
        row = self._database.get_many([key]).get(key)
        if row is None:
            return None
        return _deleted_ms(row), None if row["generation"] else DeletionOrder(row["by"], row["why"])

    def dead(self) -> Iterator[DeadGeneration]:
        """All deleted generations."""
        for row in rows_of_partition(self._database, DEAD):
            yield DeadGeneration(
                row["at"],
                row["namespace"],
                row["fqn"],
                int(row["deleted_ms"]),
                bool(row["is_swept"]),
                bool(row["is_done"]),
                bool(row["all_spellings"]),
                DeletionOrder(row["by"], row["why"]),
            )

    def deletions(self, after: int, limit: int) -> list[NumberedDeletion]:
        """The ends of pipelines' generations after a number, in order: numbers have no gaps. One Query. Raises UnavailableError."""
        rows, _ = self._database.query(TABLE, DELETIONS, _number(after + 1), _number(_MAX_NUMBER), limit=limit)
        return [NumberedDeletion(int(row["at"]), row["fqn"], row["generation"]) for row in rows]

    def mark_runs(self, fqn: str, run_ids: Sequence[str]) -> None:
        """Mark runs as deleted: from now on their events are dropped. One write for 25."""
        keys = [_run_key(fqn, run_id) for run_id in dict.fromkeys(run_ids)]
        self._database.put_many([Put(key, {"partition": key.partition, "at": key.sort}) for key in keys])

    def mark_swept(self, dead: DeadGeneration) -> None:
        """Mark a generation whose data is all gone."""
        self._database.put_many([Put(dead.key, dict(dead.document()) | {"is_swept": True})])

    def mark_done(self, dead: Sequence[DeadGeneration]) -> None:
        """Mark generations whose deletion is reported as done. One write for 25; none for those that are marked already."""
        if puts := [Put(each.key, dict(each.document()) | {"is_done": True}) for each in dead if not each.is_done]:
            self._database.put_many(puts)

    def _create(self, namespace: str, fqn: str, above: Row | None, own: Row | None) -> str:
        generation, writes = self._new_id(), list[Write]()
        if not (above and above["generation"]):
            writes.append(
                _next_version(_key(namespace), above, {"fqn": "", "generation": self._new_id(), "deleted_ms": _deleted_ms(above)})
            )
        if own and own["generation"]:
            generation = own["generation"]
        else:
            writes.append(
                _next_version(_key(namespace, fqn), own, {"fqn": fqn, "generation": generation, "deleted_ms": _deleted_ms(own)})
            )
        transact_with_retry(self._database, self._clock, writes)
        return generation

    def _end_one(self, namespace: str, fqn: str, now_ms: int, covers: Covers, order: DeletionOrder) -> None:
        key = _key(namespace, fqn or None)
        for _ in range(_TRIES):
            found = self._database.get_many([key, _LAST])
            row, last = found.get(key), found.get(_LAST)
            dead = DeadGeneration(
                (row and row["generation"]) or self._new_id(), namespace, fqn, now_ms, False, all_spellings=covers(fqn), order=order
            )
            ended = _next_version(key, row, {"fqn": fqn, "generation": "", "deleted_ms": now_ms, "by": order.by, "why": order.why})
            try:
                numbered = _numbered(fqn, row["generation"], last) if fqn and row and row["generation"] else []
                return transact_with_retry(self._database, self._clock, [ended, Put(dead.key, dead.document()), *numbered])
            except PreconditionFailedError:
                continue
        raise StoreUnavailableError(f"the generation keeps changing fqn={fqn!r}")


def _key(namespace: str, fqn: str | None = None) -> Key:
    return Key(TABLE, GENERATIONS, prefix_of(namespace) if fqn is None else prefix_of(namespace, fqn))


def _run_key(fqn: str, run_id: str) -> Key:
    return Key(TABLE, f"#deleted-runs:{element(fqn)}", element(run_id))


def _number(number: int) -> str:
    return f"{number:015d}"


def _numbered(fqn: str, generation: str, last: Row | None) -> list[Write]:
    """The next number of a deletion, on condition that it is free: another deletion may have taken it since ``last`` was read."""
    number = int(last["number"]) + 1 if last else 1
    key = Key(TABLE, DELETIONS, _number(number))
    return [
        Put(key, {"partition": key.partition, "at": key.sort, "fqn": fqn, "generation": generation}, _IS_NEW),
        Put(_LAST, {"partition": _LAST.partition, "at": _LAST.sort, "number": number}),
    ]


def _deleted_ms(row: Row | None) -> int:
    return int(row["deleted_ms"]) if row else -1


def _next_version(key: Key, seen: Row | None, values: Mapping[str, Any]) -> Put:
    """A row's next version, on condition that it has not changed since ``seen``."""
    version = int(seen["version"]) if seen else 0
    when: RowCondition = ((Clause(("version",), "=", version),),) if seen else _IS_NEW
    return Put(key, {"partition": key.partition, "at": key.sort, **values, "version": version + 1}, when)
