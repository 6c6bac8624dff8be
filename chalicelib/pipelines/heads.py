"""The checkpoint row of one worker ("head"): its owner and the checkpoints of its active runs, split into several rows if one is
too small.

``{sort}`` contains the head and the first page of its packed checkpoints; ``checkpoint+…+{n}`` its further pages. All are written
in one transaction, on condition that the head has not changed since it was read. Each write has an ``attempt`` of its own, a
random text, so that a worker can distinguish its writes from all others, including its own earlier ones that are applied late.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from chalicelib.errors import DamagedPartitionError, StoreUnavailableError
from chalicelib.pipelines.rows import HEAD, PIPELINES, RunCheckpoint, pack_checkpoints, row_at, unpack_checkpoints
from chalicelib.ports import ABSENT_ROW, Clause, Database, Delete, Key, Put, Row, RowCondition, Run, Write

PAGE_CHARS = 350_000
"""The size of the packed checkpoints in one row: DynamoDB's limit is 400 KB."""
MAX_PAGES = 6
"""Lets a head, and the rows of handlers, fit into one transaction of 100 writes and 4 MB."""
MAX_HEAD_BYTES = PAGE_CHARS * MAX_PAGES
_CHECKPOINT_CHARS = 140
_LAGGING_CHARS = 64
"""The most that a checkpoint takes as JSON, and a lagging handler's position without the handler's name."""
_PACKED_SHARE = 1.26
"""The growth by base 85 if nothing could be compressed."""
_READS = 5


@dataclass(frozen=True, slots=True)
class Head:
    """``epoch`` is the fence, ``attempt`` a random id of the write; ``commit`` grows with each write. ``looked_ms``: every run that
    was known at this time is active, has a row, or needs no processing. ``has_backlog``: rows of runs may be marked as unfinished.

    Only in the leading head: ``layout`` names the current distribution of the runs over ``shards``; ``is_moving``: they are being
    redistributed; ``since_ms``: ``looked_ms`` of a shard that has no head yet. ``pages``: the packed checkpoints."""

    epoch: int = 0
    owner: str = ""
    commit: int = 0
    attempt: str = ""
    checkpoints: Mapping[Run, RunCheckpoint] = field(default_factory=dict)
    looked_ms: int = 0
    has_backlog: bool = False
    layout: str = ""
    shards: int = 1
    is_moving: bool = False
    since_ms: int = 0
    pages: Sequence[str] = field(default_factory=lambda: pages_of(pack_checkpoints({})))

    def next(self, **changes: Any) -> Head:
        """The next version of this head, as a new write."""
        if "checkpoints" in changes:
            changes["pages"] = pages_of(pack_checkpoints(changes["checkpoints"]))
        return replace(self, commit=self.commit + 1, attempt=uuid4().hex, **changes)

    def unchanged_condition(self) -> RowCondition:
        """The condition that the stored head is this one."""
        return (
            (
                Clause(("epoch",), "=", self.epoch),
                Clause(("owner",), "=", self.owner),
                Clause(("commit",), "=", self.commit),
                Clause(("attempt",), "=", self.attempt),
            ),
        )

    def writes(self, key: Key, before: Head | None) -> list[Write]:
        """The writes that store it, if the stored head is still ``before`` (None: there is none)."""
        row = row_at(
            key,
            epoch=self.epoch,
            owner=self.owner,
            commit=self.commit,
            attempt=self.attempt,
            runs=self.pages[0],
            pages=len(self.pages),
            looked_ms=self.looked_ms,
            backlog=self.has_backlog,
            layout=self.layout,
            shards=self.shards,
            moving=self.is_moving,
            since_ms=self.since_ms,
        )
        keys = [page_key(key, number) for number in range(1, len(self.pages))]
        pages = [Put(each, row_at(each, attempt=self.attempt, runs=text)) for each, text in zip(keys, self.pages[1:], strict=True)]
        gone = range(len(self.pages), len(before.pages) if before else 1)
        return [
            Put(key, row, before.unchanged_condition() if before else ABSENT_ROW),
            *pages,
            *(Delete(page_key(key, number)) for number in gone),
        ]

    def deletes(self, key: Key) -> list[Write]:
        """The writes that delete it."""
        return [Delete(key), *(Delete(page_key(key, number)) for number in range(1, len(self.pages)))]


def page_key(key: Key, number: int) -> Key:
    """The key of a further page of a head, outside the key ranges of heads and of operators' queries."""
    return Key(PIPELINES, key.partition, f"{HEAD}+{key.sort.removeprefix(HEAD)}+{number}")


def pages_of(text: str) -> Sequence[str]:
    """Split a text into pages, at least one."""
    return [text[at : at + PAGE_CHARS] for at in range(0, len(text), PAGE_CHARS)] or [""]


def read_head(database: Database, key: Key) -> Head | None:
    """The stored head. One request, two if it has several pages. Raises DamagedPartitionError, UnavailableError."""
    for _ in range(_READS):
        row = database.get_many([key]).get(key)
        if row is None:
            return None
        texts = _texts(database, key, row)
        if texts is not None:
            return _head(row, texts)
    raise StoreUnavailableError(f"the checkpoint head keeps changing key={key.partition} at={key.sort}")


def _texts(database: Database, key: Key, row: Row) -> Sequence[str] | None:
    """The pages of a head; None if some of them belong to another write."""
    keys = [page_key(key, number) for number in range(1, int(row["pages"]))]
    pages = database.get_many(keys) if keys else {}
    if any(each not in pages or pages[each]["attempt"] != row["attempt"] for each in keys):
        return None
    return [row["runs"], *(pages[each]["runs"] for each in keys)]


def _head(row: Row, pages: Sequence[str]) -> Head:
    checkpoints = unpack_checkpoints("".join(pages))
    try:
        return Head(
            int(row["epoch"]),
            str(row["owner"]),
            int(row["commit"]),
            str(row["attempt"]),
            checkpoints,
            int(row["looked_ms"]),
            bool(row["backlog"]),
            str(row["layout"]),
            int(row["shards"]),
            bool(row["moving"]),
            int(row["since_ms"]),
            pages,
        )
    except (KeyError, ValueError, TypeError) as error:
        raise DamagedPartitionError(f"the head of a pipeline cannot be read at={row.get('at')}") from error


def head_bytes(run: Run, handlers: Iterable[str]) -> int:
    """The most that a run ever takes in a head, if each of these handlers lags: its names as JSON, not compressed, in base 85."""
    chars = (
        _CHECKPOINT_CHARS
        + len(json.dumps([run.fqn, run.run_id]))
        + sum(len(json.dumps(name)) + _LAGGING_CHARS for name in handlers)
    )
    return int(chars * _PACKED_SHARE) + 1
