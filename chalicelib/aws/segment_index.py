"""The index of segments on DynamoDB: finds the segment of a line, and the batch of an idempotency key.

Table ``segments``: hash ``run`` (``fqn/run_id``, percent-encoded), range ``at``. A row ``{line:016d}#{sequence:010d}`` for each
segment, in log order; a second row ``key#{session}`` for a batch that was sent with an Idempotency-Key, which is a claim (decision 0061)
until the segment is catalogued. ``expires_at`` is the table's TTL. The mark of a deleted run is its last row, and does not expire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from chalicelib.aws.dynamodb import Table
from chalicelib.errors import RunDeletedError, StoreUnavailableError
from chalicelib.ports import DELETED, KeyClaim, Run, SegmentEntry, run_key

_KEYED = "key#"
_IN_ORDER = "#run = :run AND #at BETWEEN :first AND :last"
_NAMES = {"#run": "run", "#at": "at"}
_IS_ABSENT = "attribute_not_exists(#at)"
_IS_REPLACEABLE = f"{_IS_ABSENT} OR (#sequence = :instead_of AND attribute_not_exists(#kind))"
_FIRST, _LAST = "0", "9" * 16 + "#" + "9" * 10


class DynamoDbSegmentIndex:
    """``ports.SegmentIndex`` on a table. ``keep_s``: seconds from a segment's append to the expiry of its row."""

    def __init__(self, table: Table, keep_s: int) -> None:
        self._table, self._keep_s = table, keep_s

    def put(self, run: Run, entries: Sequence[SegmentEntry]) -> None:
        """See the port. One request for 25 rows."""
        rows = [row for entry in entries for row in segment_rows(run, entry, self._keep_s)]
        self._table.put_all(rows)

    def last(self, run: Run) -> SegmentEntry | None:
        """See the port."""
        return self._first_of(run, _LAST)

    def at_line(self, run: Run, line: int) -> SegmentEntry | None:
        """See the port."""
        return self._first_of(run, _at(line, 10**10 - 1))

    def rows_from(self, run: Run, line: int, sequence: int, limit: int) -> Sequence[SegmentEntry]:
        """See the port."""
        return [_checked(run, row) for row in self._from(run, line, sequence, limit)]

    def positions_from(self, run: Run, line: int, sequence: int, limit: int) -> Sequence[tuple[int, int]]:
        """See the port."""
        return [
            _place(row["at"]) for row in self._from(run, line, sequence, limit, ProjectionExpression="#at") if row["at"] != _LAST
        ]

    def claim(self, run: Run, claim: KeyClaim, instead_of: int | None = None) -> KeyClaim | SegmentEntry:
        """See the port."""
        condition, names, values = _IS_ABSENT, {"#at": "at"}, {}
        if instead_of is not None:
            names |= {"#sequence": "sequence", "#kind": "kind"}
            condition, values = _IS_REPLACEABLE, {":instead_of": instead_of}
        row = {"run": run_key(run), "at": _KEYED + claim.session, "expires_at": claim.claimed_ms // 1000 + self._keep_s} | asdict(
            claim
        )
        rejected = self._table.put_if(row, condition, values, ExpressionAttributeNames=names)
        if rejected is None:
            return claim
        if rejected.item is None:  # a row that does not exist fulfils both conditions
            raise StoreUnavailableError(f"a claim was refused without its row at={row['at']}")
        return _claim_of_row(rejected.item)

    def forget(self, run: Run) -> int:
        """See the port."""
        rows = self._table.query_all(
            "#run = :run", {":run": run_key(run)}, ExpressionAttributeNames=_NAMES, ProjectionExpression="#run, #at"
        )
        keys = [row for row in rows if row["at"] != _LAST]
        self._table.delete_all(keys)
        return len(keys)

    def _from(self, run: Run, line: int, sequence: int, limit: int, **options: str) -> Sequence[Mapping[str, Any]]:
        values = {":run": run_key(run), ":first": _at(line, sequence), ":last": _LAST}
        rows, _ = self._table.query(_IN_ORDER, values, ExpressionAttributeNames=_NAMES, Limit=limit, **options)
        return rows

    def _first_of(self, run: Run, upto: str) -> SegmentEntry | None:
        values = {":run": run_key(run), ":first": _FIRST, ":last": upto}
        rows, _ = self._table.query(_IN_ORDER, values, ExpressionAttributeNames=_NAMES, Limit=1, ScanIndexForward=False)
        return _checked(run, rows[0]) if rows else None


def _checked(run: Run, row: Mapping[str, Any]) -> SegmentEntry:
    if row["at"] == _LAST:
        raise RunDeletedError(run.fqn, run.run_id)
    return entry_of_row(row)


def is_claim(row: Mapping[str, Any]) -> bool:
    """Whether an item is the claim of an Idempotency-Key whose batch is not catalogued, or not stored."""
    return str(row["at"]).startswith(_KEYED) and "kind" not in row


def _claim_of_row(row: Mapping[str, Any]) -> KeyClaim | SegmentEntry:
    if is_claim(row):
        return KeyClaim(row["session"], row["sequence"], row["digest"], row["claimed_ms"])
    return entry_of_row(row)


def segment_rows(run: Run, entry: SegmentEntry, keep_s: int) -> list[dict[str, Any]]:
    """A segment's items: one, or two if its batch was sent with an Idempotency-Key."""
    ats = [_at(entry.line, entry.sequence)] + ([_KEYED + entry.session] if entry.is_keyed else [])
    return [_row(run, entry, at, keep_s) for at in ats]


def _at(line: int, sequence: int) -> str:
    return f"{line:016d}#{sequence:010d}"


def _place(at: str) -> tuple[int, int]:
    line, sequence = at.split("#")
    return int(line), int(sequence)


def _row(run: Run, entry: SegmentEntry, at: str, keep_s: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "run": run_key(run),
        "at": at,
        "sequence": entry.sequence,
        "kind": entry.kind,
        "epoch": entry.epoch,
        "line": entry.line,
        "byte": entry.byte,
        "lines": entry.lines,
        "bytes": entry.bytes,
        "session": entry.session,
        "base": entry.base,
        "digest": entry.digest,
        "appended_ms": entry.appended_ms,
    }
    if entry.reason != DELETED:
        row["expires_at"] = entry.appended_ms // 1000 + keep_s
    optional: dict[str, Any] = {
        "connector": entry.connector,
        "reason": entry.reason,
        "zone": entry.zone,
        "landmarks": [list(mark) for mark in entry.landmarks],
    }
    optional["events"] = entry.events
    known = {"errors": entry.errors, "first_ms": entry.first_ms, "last_ms": entry.last_ms}
    counted = {name: value for name, value in known.items() if value is not None}
    return row | {name: value for name, value in optional.items() if value} | counted


def entry_of_row(row: Mapping[str, Any]) -> SegmentEntry:
    """The entry of an item. Raises KeyError, TypeError or ValueError if it is damaged."""
    return SegmentEntry(
        sequence=row["sequence"],
        kind=row["kind"],
        epoch=row["epoch"],
        line=row["line"],
        byte=row["byte"],
        lines=row["lines"],
        bytes=row["bytes"],
        session=row["session"],
        base=row["base"],
        digest=row["digest"],
        appended_ms=row["appended_ms"],
        connector=row.get("connector", ""),
        reason=row.get("reason", ""),
        landmarks=tuple((int(line), int(byte)) for line, byte in row.get("landmarks", ())),
        errors=row.get("errors"),
        events=row.get("events", 0),
        first_ms=row.get("first_ms"),
        last_ms=row.get("last_ms"),
        zone=row.get("zone", ""),
    )
