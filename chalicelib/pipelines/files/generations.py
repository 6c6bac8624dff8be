"""Generations of pipelines and namespaces: each creation has a fresh UUID, a deletion ends it, and what comes late of a dead one is dropped.

::

    partition #generations, "{namespace}:"              a namespace
                            "{namespace}:{fqn}:"        a pipeline of it: generation (empty: none is alive), when the last one was deleted
    partition #dead, "{uuid}"                           a generation that was deleted, and whether all of it is gone
    partition #deleted-runs:{fqn}, "{run id}"           a run whose log was deleted

A pipeline comes into being with the first run that begins after the last deletion: whoever asks for such a run creates it. A run that had
begun before belongs to what was deleted, however late its lines come. Decision 0030.
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
from chalicelib.ports import Clause, Clock, Database, Key, Put, Row, When, Write

GENERATIONS, DEAD = "#generations", "#dead"
ALIVE_CACHE_MS = 30_000
"""For so long a generation that was found alive counts as alive without another look."""
_TRIES = 10
Covers = Callable[[str], bool]
_IS_NEW: When = ((Clause(("at",), "absent"),),)


def _everything(fqn: str) -> bool:
    """Of a caller who may do everything."""
    return True


@dataclass(frozen=True, slots=True)
class DeadGeneration:
    """A generation that was deleted. ``is_swept``: nothing of it was found when it was last looked for. ``is_done``: the deletion was answered
    as done, so the same request later is another one. ``all_spellings``: whoever asked for it may delete the logs of every pipeline that
    OpenMetadata spells like this one (decision 0033); rows of earlier releases do not say so."""

    generation: str
    namespace: str
    fqn: str
    deleted_ms: int
    is_swept: bool
    is_done: bool = False
    all_spellings: bool = False

    @property
    def key(self) -> Key:
        """Of its row."""
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
        }


class Generations:
    """Which generation a run is of, and which are dead. Keeps what it learned for ``KEPT_MS``; a dead one for good."""

    def __init__(self, database: Database, clock: Clock, new_id: Callable[[], str] = lambda: uuid4().hex) -> None:
        self._database, self._clock, self._new_id = database, clock, new_id
        self._dead: set[str] = set()
        self._alive: dict[str, int] = {}

    def of_run(self, namespace: str, fqn: str, run_id: str, started_ms: int) -> str | None:
        """The generation of a run that began at a time, made now if the run is the first of it; None: it is of a dead one, drop what comes
        of it. One read, and a write for a new one."""
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
                continue  # another was faster: look again
        raise StoreUnavailableError(f"a generation changes all the time fqn={fqn!r}")

    def dead_of(self, generations: Sequence[str]) -> frozenset[str]:
        """Those that are dead. No request while all were looked at lately; else one for 100."""
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

    def look_again(self) -> None:
        """Let nothing count as alive that was not looked at from now on."""
        self._alive.clear()

    def end(self, namespace: str, fqn: str | None, covers: Covers = _everything) -> list[DeadGeneration]:
        """Put an end to a pipeline, or (None) to a namespace and all its pipelines: from now on everything of them is dead. Answers what is
        dead of them and not swept yet. While a deletion is under way, the same request continues it, and ends nothing that began since.
        ``covers``: whether the caller may delete all pipelines that OpenMetadata spells like one."""
        if (namespace, fqn or "") not in self._under_way():
            rows = [] if fqn else self._rows(namespace)
            now_ms = self._clock.now_ms()
            for each in [row["fqn"] for row in rows if row["fqn"] and row["generation"]]:
                self._end_one(namespace, each, now_ms, covers)
            self._end_one(namespace, fqn or "", now_ms, covers)  # last: a request that breaks off before is not under way
        return self._ended([each for each in self._unswept() if each.namespace == namespace and fqn in (None, each.fqn)], covers)

    def end_each(self, namespace: str, fqns: Collection[str], covers: Covers = _everything) -> list[DeadGeneration]:
        """The same for some pipelines of a namespace, which itself goes on."""
        under_way, now_ms = self._under_way(), self._clock.now_ms()
        for fqn in fqns:
            if (namespace, fqn) not in under_way:
                self._end_one(namespace, fqn, now_ms, covers)
        return self._ended([each for each in self._unswept() if each.namespace == namespace and each.fqn in fqns], covers)

    def _ended(self, dead: Sequence[DeadGeneration], covers: Covers) -> list[DeadGeneration]:
        """With what this caller may besides, where another began the deletion."""
        wider = [each for each in dead if not each.all_spellings and covers(each.fqn)]
        ended = [replace(each, all_spellings=True) if each in wider else each for each in dead]
        if puts := [Put(each.key, each.document()) for each, before in zip(ended, dead, strict=True) if each != before]:
            self._database.put_many(puts)
        return ended

    def alive(self, namespace: str) -> list[str]:
        """Pipelines of a namespace that are alive, and those whose deletion is under way."""
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

    def dead(self) -> Iterator[DeadGeneration]:
        """All that were ever deleted."""
        for row in rows_of_partition(self._database, DEAD):
            yield DeadGeneration(
                row["at"],
                row["namespace"],
                row["fqn"],
                int(row["deleted_ms"]),
                bool(row["is_swept"]),
                bool(row.get("is_done", False)),
                bool(row.get("all_spellings", False)),
            )

    def mark_runs(self, fqn: str, run_ids: Sequence[str]) -> None:
        """What comes of these runs from now on is of a dead generation. One write for 25."""
        keys = [_run_key(fqn, run_id) for run_id in dict.fromkeys(run_ids)]
        self._database.put_many([Put(key, {"partition": key.partition, "at": key.sort}) for key in keys])

    def marked(self, fqn: str, run_ids: Sequence[str]) -> frozenset[str]:
        """Those of these runs that were marked. One read for 100."""
        keys = {_run_key(fqn, run_id): run_id for run_id in run_ids}
        return frozenset(keys[key] for key in self._database.get_many(list(keys))) if keys else frozenset()

    def mark_swept(self, dead: DeadGeneration) -> None:
        """Nothing of it is left."""
        self._database.put_many([Put(dead.key, dict(dead.document()) | {"is_swept": True})])

    def mark_done(self, dead: Sequence[DeadGeneration]) -> None:
        """Their deletion is answered as done. One write for 25; none for those that are marked already."""
        if puts := [Put(each.key, dict(each.document()) | {"is_done": True}) for each in dead if not each.is_done]:
            self._database.put_many(puts)

    def _create(self, namespace: str, fqn: str, above: Row | None, own: Row | None) -> str:
        generation, writes = self._new_id(), list[Write]()
        if not (above and above["generation"]):
            writes.append(
                _written(_key(namespace), above, {"fqn": "", "generation": self._new_id(), "deleted_ms": _deleted_ms(above)})
            )
        if own and own["generation"]:
            generation = own["generation"]
        else:
            writes.append(
                _written(_key(namespace, fqn), own, {"fqn": fqn, "generation": generation, "deleted_ms": _deleted_ms(own)})
            )
        transact_with_retry(self._database, self._clock, writes)
        return generation

    def _end_one(self, namespace: str, fqn: str, now_ms: int, covers: Covers) -> None:
        key = _key(namespace, fqn or None)
        for _ in range(_TRIES):
            row = self._database.get_many([key]).get(key)
            dead = DeadGeneration(
                (row and row["generation"]) or self._new_id(), namespace, fqn, now_ms, False, all_spellings=covers(fqn)
            )
            ended = _written(key, row, {"fqn": fqn, "generation": "", "deleted_ms": now_ms})
            try:
                return transact_with_retry(self._database, self._clock, [ended, Put(dead.key, dead.document())])
            except PreconditionFailedError:
                continue
        raise StoreUnavailableError(f"a generation changes all the time fqn={fqn!r}")


def _key(namespace: str, fqn: str | None = None) -> Key:
    return Key(TABLE, GENERATIONS, prefix_of(namespace) if fqn is None else prefix_of(namespace, fqn))


def _run_key(fqn: str, run_id: str) -> Key:
    return Key(TABLE, f"#deleted-runs:{element(fqn)}", element(run_id))


def _deleted_ms(row: Row | None) -> int:
    return int(row["deleted_ms"]) if row else -1


def _written(key: Key, seen: Row | None, values: Mapping[str, Any]) -> Put:
    """A row's next version, if it is still what was seen."""
    version = int(seen["version"]) if seen else 0
    when: When = ((Clause(("version",), "=", version),),) if seen else _IS_NEW
    return Put(key, {"partition": key.partition, "at": key.sort, **values, "version": version + 1}, when)
