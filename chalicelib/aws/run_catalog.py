"""``RunCatalog`` on DynamoDB: one conditional UpdateItem for each recorded fact."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from chalicelib.aws.dynamodb import Table
from chalicelib.catalog.runs import (
    LAST_ATTRIBUTES,
    MAX_MS,
    SHARDS,
    RunKeyPage,
    RunPage,
    RunRow,
    SegmentUpdate,
    activity_key_ms,
    last_attributes,
    merge_newest,
    shard_of,
)
from chalicelib.errors import InvalidInputError, RunDeletedError
from chalicelib.ports import DELETED, MAX_SEQUENCE, Run, RunEnd, RunStart, SegmentEntry, is_sort_key

THREADS = 8
_NUMBERS = (
    "segments", "lines", "bytes", "epoch", "started_ms", "last_append_ms", "compacted_segments", "compacted_bytes", "final_segments",
    "alive_ms", "explained_segments",
)  # fmt: skip
_START, _END = "start", "end"
"""Attributes of a run's start and of its end: maps of the fields of ``RunStart`` and ``RunEnd``."""
_NAMES = {"#segments": "segments", "#lines": "lines", "#bytes": "bytes"}  # reserved words of DynamoDB, or similar
_IS_NEWS = "attribute_not_exists(final_segments) OR final_segments < :next"
_REACHES_FURTHER = "attribute_not_exists(compacted_segments) OR compacted_segments < :next"
_COMPACTED_TOO = ", compacted_segments = :next, compacted_bytes = :size"
_IS_FINAL = "final_segments = :next AND (attribute_not_exists(#segments) OR #segments <= :next)"
_IS_NOT_EXPLAINED = "attribute_not_exists(explained_segments) OR explained_segments < :next"
_IS_OPEN = "attribute_exists(fqn) AND (attribute_not_exists(seal) OR seal = :none)"
_IS_NOT_DELETED = "attribute_not_exists(seal) OR seal <> :deleted"
_ACTIVE = "activity_shard = :shard AND last_append_ms < :before"
_RUNNING = "activity_shard = :shard AND last_append_ms BETWEEN :since AND :last"
_ENDED = "outcome = :outcome AND ended_at BETWEEN :since AND :before"
_NEWEST = f"{MAX_MS}~"
"""Sorts after every activity key."""


class DynamoDbRunCatalog:
    """``keep_s``: seconds from a run's last sign of life to the expiry of its row."""

    def __init__(self, table: Table, keep_s: int) -> None:
        self._table, self._keep_s = table, keep_s

    def record_start(self, run: Run, start: RunStart) -> None:
        """See ``RunCatalog``."""
        names, values = {"#start": _START}, {":start": asdict(start), ":started": start.started_ms}
        is_new = self._table.update_if(
            _key(run),
            "SET #start = :start, started_ms = :started, last_append_ms = :ms, activity_shard = :shard, expires_at = :expires",
            values | {":ms": start.registered_ms, ":shard": shard_of(run), ":expires": self._expires(start.registered_ms)},
            "attribute_not_exists(last_append_ms)",
            ExpressionAttributeNames=names,
            ReturnValues="ALL_OLD",
        )
        if is_new is None:
            marked = {":start": values[":start"], ":deleted": DELETED}
            self._table.update_if(_key(run), "SET #start = :start", marked, _IS_NOT_DELETED, ExpressionAttributeNames=names)
            self._table.update_if(_key(run), "SET started_ms = :started", {":started": start.started_ms}, "started_ms > :started")

    def record_segment(self, run: Run, entry: SegmentEntry) -> SegmentUpdate:
        """See ``RunCatalog``."""
        values = {
            ":segments": entry.sequence + 1,
            ":lines": entry.end_line,
            ":bytes": entry.end_byte,
            ":epoch": entry.epoch,
            ":seal": entry.reason,
            ":ms": entry.appended_ms,
            ":shard": shard_of(run),
            ":expires": self._expires(entry.appended_ms),
        }
        known = last_attributes(run, entry)
        removed = [f"#{name}" for name in LAST_ATTRIBUTES if name not in known]
        old = self._table.update_if(
            _key(run),
            "SET #segments = :segments, #lines = :lines, #bytes = :bytes, epoch = :epoch, seal = :seal, last_append_ms = :ms, "
            "activity_shard = :shard, expires_at = :expires, started_ms = if_not_exists(started_ms, :ms)"
            + "".join(f", #{name} = :{name}" for name in known)
            + (f" REMOVE {', '.join(removed)}" if removed else ""),
            values | {f":{name}": value for name, value in known.items()},
            "attribute_not_exists(#segments) OR #segments < :segments",
            ExpressionAttributeNames=_NAMES | {f"#{name}": name for name in LAST_ATTRIBUTES},
            ReturnValues="ALL_OLD",
        )
        if old is None or old.get("started_ms", 0) > entry.appended_ms:
            self._table.update_if(_key(run), "SET started_ms = :ms", {":ms": entry.appended_ms}, "started_ms > :ms")
        if old is None:
            return SegmentUpdate(False, entry.appended_ms)
        is_first = _START in old and "segments" not in old
        return SegmentUpdate(True, None if is_first else old.get("last_append_ms"))

    def record_compaction(self, run: Run, size: int, next_segment: int, at_ms: int) -> None:
        """See ``RunCatalog``."""
        self._table.update_if(
            _key(run),
            "SET compacted_segments = :next, compacted_bytes = :size, expires_at = if_not_exists(expires_at, :expires), "
            "started_ms = if_not_exists(started_ms, :ms), last_append_ms = if_not_exists(last_append_ms, :ms)",
            {":next": next_segment, ":size": size, ":expires": self._expires(at_ms), ":ms": at_ms},
            _REACHES_FURTHER,
        )

    def record_finalization(self, run: Run, lines: int, size: int, next_segment: int, at_ms: int) -> None:
        """See ``RunCatalog``. A second write if partial.txt reaches further than logs.txt, or logs.txt is recorded already."""
        expression = (
            "SET final_segments = :next, final_lines = :lines, final_bytes = :size, "
            "expires_at = if_not_exists(expires_at, :expires), started_ms = if_not_exists(started_ms, :ms), "
            "last_append_ms = if_not_exists(last_append_ms, :ms)"
        )
        values = {":next": next_segment, ":lines": lines, ":size": size, ":expires": self._expires(at_ms), ":ms": at_ms}
        if self._table.update_if(_key(run), expression + _COMPACTED_TOO, values, f"({_IS_NEWS}) AND ({_REACHES_FURTHER})") is None:
            self._table.update_if(_key(run), expression, values, _IS_NEWS)

    def record_legacy_artifact(self, run: Run, size: int, at_ms: int, *, final: bool) -> None:
        """See ``RunCatalog``."""
        self._table.update_if(
            _key(run),
            "SET compacted_segments = :none, compacted_bytes = :size, expires_at = :expires, started_ms = :ms, last_append_ms = :ms"
            + (", final_segments = :none, final_lines = :none, final_bytes = :size" if final else ""),
            {":none": 0, ":size": size, ":expires": self._expires(at_ms), ":ms": at_ms},
            "attribute_not_exists(#segments) AND (attribute_not_exists(last_append_ms) OR last_append_ms <= :ms)",
            ExpressionAttributeNames={"#segments": "segments"},
        )

    def record_heartbeat(self, run: Run, at_ms: int) -> bool:
        """See ``RunCatalog``. No key of an index changes, so a heartbeat costs one write unit of the table and one of each
        index."""
        return (
            self._table.update_if(
                _key(run),
                "SET alive_ms = :ms",
                {":ms": at_ms, ":none": ""},
                f"{_IS_OPEN} AND (attribute_not_exists(alive_ms) OR alive_ms <= :ms)",
            )
            is not None
        )

    def record_explanation(self, run: Run, next_segment: int, explanation: str) -> None:
        """See ``RunCatalog``. Two or three write units of the table, and of each index that contains the row."""
        self._table.update_if(
            _key(run),
            "SET explained_segments = :next, explanation = :explanation",
            {":next": next_segment, ":explanation": explanation},
            f"{_IS_FINAL} AND ({_IS_NOT_EXPLAINED})",
            ExpressionAttributeNames={"#segments": "segments"},
        )

    def remove_explanation(self, run: Run) -> None:
        """See ``RunCatalog``."""
        self._table.update_if(
            _key(run),
            "SET explained_segments = final_segments, explanation = :none",
            {":none": "", ":deleted": DELETED},
            f"attribute_exists(final_segments) AND ({_IS_NOT_DELETED})",
        )

    def mark_retired(self, run: Run, next_segment: int) -> None:
        """See ``RunCatalog``."""
        self._table.update_if(
            _key(run),
            "REMOVE activity_shard",
            {":next": next_segment},
            "attribute_exists(activity_shard) AND #segments <= :next",
            ExpressionAttributeNames={"#segments": "segments"},
        )

    def get(self, run: Run) -> RunRow | None:
        """See ``RunCatalog``."""
        row = self._table.get(_key(run))
        if row and row.get("seal") == DELETED:
            raise RunDeletedError(run.fqn, run.run_id)
        return row_of(row) if row else None

    def newest(self, fqn: str, limit: int, cursor: str | None) -> RunPage:
        """See ``RunCatalog``. One Query."""
        start = {"ExclusiveStartKey": {"fqn": fqn, **read_cursor(cursor)}} if cursor else {}
        rows, after = self._table.query(
            "fqn = :fqn", {":fqn": fqn}, IndexName="by-start", ScanIndexForward=False, Limit=limit, **start
        )
        return RunPage([row_of(row) for row in rows], write_cursor(after["started_ms"], after["run_id"]) if after else None)

    def get_many(self, runs: Sequence[Run]) -> Mapping[Run, RunRow]:
        """See ``RunCatalog``. One BatchGetItem."""
        rows = map(row_of, self._table.get_all([_key(run) for run in runs]))
        return {row.run: row for row in rows if row.seal != DELETED}

    def ended(self, outcome: str, since_ms: int, before: str, limit: int) -> RunKeyPage:
        """See ``RunCatalog``. One Query."""
        since = f"{since_ms:015d}"
        if before and before < since:
            return RunKeyPage([], True)
        values = {":outcome": outcome, ":since": since, ":before": before or _NEWEST}
        rows, after = self._table.query(_ENDED, values, IndexName="by-outcome", ScanIndexForward=False, Limit=limit + 1)
        keys = [(row["ended_at"], Run(row["fqn"], row["run_id"])) for row in rows if row["ended_at"] != before]
        return RunKeyPage(keys[:limit], after is None and len(keys) <= limit)

    def running(self, since_ms: int, before: str, limit: int) -> RunKeyPage:
        """See ``RunCatalog``. One Query for each shard, eight in parallel; more if runs of the same ms fill a page."""
        last_ms = activity_key_ms(before) if before else MAX_MS
        if last_ms < since_ms:
            return RunKeyPage([], True)

        def runs_of(shard: int) -> RunKeyPage:
            values = {":shard": f"open#{shard}", ":since": since_ms, ":last": last_ms}
            rows: list[RunRow] = []
            more: dict[str, Any] = {"Limit": limit}
            while True:
                page, after = self._table.query(_RUNNING, values, IndexName="activity", ScanIndexForward=False, **more)
                rows += map(row_of, page)
                # The index does not order runs of the same ms, so those of the last ms go to the next page, unless all of them were read.
                complete = [row for row in rows if after is None or row.last_append_ms > rows[-1].last_append_ms]
                found = [(row.activity_key, row.run) for row in complete if not before or row.activity_key < before]
                if found or after is None:
                    return RunKeyPage.sorted(found, is_complete=after is None)
                more = {"Limit": 2 * more["Limit"], "ExclusiveStartKey": after}

        with ThreadPoolExecutor(THREADS) as threads:
            return merge_newest(list(threads.map(runs_of, range(SHARDS))), before)

    def forget(self, run: Run) -> None:
        """See ``RunCatalog``."""
        self._table.delete(_key(run))

    def mark_deleted(self, run: Run, at_ms: int) -> None:
        """See ``RunCatalog``."""
        self._table.put(deleted_item(run, at_ms))

    def active(self, before_ms: int) -> Iterator[RunRow]:
        """See ``RunCatalog``. One Query for each shard and each further MB, eight in parallel. Holds all rows in memory: 0.5 KB
        for each run."""

        def rows_of(shard: int) -> list[RunRow]:
            values = {":shard": f"open#{shard}", ":before": before_ms}
            return [row_of(row) for row in self._table.query_all(_ACTIVE, values, IndexName="activity")]

        with ThreadPoolExecutor(THREADS) as threads:
            for rows in threads.map(rows_of, range(SHARDS)):
                yield from rows

    def _expires(self, at_ms: int) -> int:
        return at_ms // 1000 + self._keep_s


def write_cursor(started_ms: int, run_id: str) -> str:
    """An opaque text for the start of the next page of a pipeline's runs."""
    return urlsafe_b64encode(json.dumps([started_ms, run_id]).encode()).decode().rstrip("=")


def read_cursor(cursor: str) -> dict[str, Any]:
    """The inverse of ``write_cursor``. Raises InvalidInputError."""
    try:
        started_ms, run_id = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if type(started_ms) is int and 0 <= started_ms < 2**53 and is_sort_key(run_id):
            return {"started_ms": started_ms, "run_id": run_id}
    except (ValueError, TypeError, RecursionError):
        pass
    raise InvalidInputError(f"invalid cursor: omit it to start from the first page cursor={cursor[:40]!r}")


def _key(run: Run) -> dict[str, str]:
    return {"fqn": run.fqn, "run_id": run.run_id}


def deleted_item(run: Run, at_ms: int) -> dict[str, Any]:
    """The item of a deleted run: its numbers exceed those of every notification, and it has no key of an index."""
    last = MAX_SEQUENCE + 1
    numbers = dict.fromkeys(("segments", "compacted_segments", "final_segments"), last)
    return _key(run) | numbers | {"seal": DELETED, "last_append_ms": at_ms}


def row_of(row: Mapping[str, Any]) -> RunRow:
    """The ``RunRow`` of an item of the table."""
    numbers = {name: row.get(name, 0) for name in _NUMBERS}
    start = RunStart(**row[_START]) if _START in row else None
    end = RunEnd(**row[_END]) if _END in row else None
    texts = {name: row.get(name, "") for name in ("seal", "explanation")}
    zone = row.get("zone", "")
    return RunRow(run=Run(row["fqn"], row["run_id"]), start=start, end=end, segment_zone=zone, **texts, **numbers)
