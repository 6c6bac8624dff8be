"""Items of runs and segments for catalog repair: read complete, and written on condition that they are unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from chalicelib.aws.dynamodb import Item, Table
from chalicelib.aws.segment_index import is_claim
from chalicelib.ports import EVENT_ROWS, Run, run_key

_NAMES = {"#run": "run"}


class RunItems(Protocol):
    """Items of tables ``runs`` and ``segments``. All reads are strongly consistent."""

    def run(self, run: Run) -> Item | None:
        """The row of a run. One request."""

    def segments(self, run: Run) -> list[Item]:
        """All rows of a run's segments, including rows of idempotency keys, but not their claims. A request for each MB, about 2,500 rows."""

    def replace_run(self, run: Run, seen: Item | None, item: Item | None) -> bool:
        """Replace or delete (``item`` None) a run's row on condition that it equals ``seen``. One request."""

    def change_run(self, run: Run, seen: Item, item: Item, names: Sequence[str]) -> bool:
        """Set these attributes of a row to the values of ``item``, or remove those that it lacks, on condition that each equals
        its value in ``seen``. Other attributes stay, even if they have changed. One request."""

    def put_segments(self, items: Sequence[Item]) -> None:
        """Write rows of segments, which are immutable. A request for 25 rows."""

    def remove_segment(self, seen: Item) -> bool:
        """Delete a segment's row on condition that it equals ``seen``. One request."""


class DynamoDbRunItems:
    """``RunItems`` on the tables."""

    def __init__(self, runs: Table, segments: Table) -> None:
        self._runs, self._segments = runs, segments

    def run(self, run: Run) -> Item | None:
        """See ``RunItems``."""
        return self._runs.get(_key(run))

    def segments(self, run: Run) -> list[Item]:
        """See ``RunItems``. Rows of events in the same partition are left out."""
        rows = self._segments.query_all("#run = :run", {":run": run_key(run)}, ExpressionAttributeNames=_NAMES)
        return [row for row in rows if not str(row["at"]).startswith(EVENT_ROWS) and not is_claim(row)]

    def replace_run(self, run: Run, seen: Item | None, item: Item | None) -> bool:
        """See ``RunItems``."""
        condition, values, names = unchanged_condition(seen, item or {}, "fqn")
        if item is None:
            return self._runs.delete_if(_key(run), condition, values, ExpressionAttributeNames=names) is None
        return self._runs.put_if(item, condition, values, ExpressionAttributeNames=names) is None

    def change_run(self, run: Run, seen: Item, item: Item, names: Sequence[str]) -> bool:
        """See ``RunItems``. One UpdateItem."""
        condition, values, aliases = unchanged_condition(
            {name: seen[name] for name in names if name in seen}, dict.fromkeys(names), "fqn"
        )
        alias_of = {name: alias for alias, name in aliases.items()}
        set_ = [f"{alias_of[name]} = :w{number}" for number, name in enumerate(names) if name in item]
        gone = [alias_of[name] for name in names if name not in item]
        expression = " ".join(f"{verb} {', '.join(parts)}" for verb, parts in (("SET", set_), ("REMOVE", gone)) if parts)
        values |= {f":w{number}": item[name] for number, name in enumerate(names) if name in item}
        is_there = f"attribute_exists(#p) AND {condition}"
        return (
            self._runs.update_if(_key(run), expression, values, is_there, ExpressionAttributeNames=aliases | {"#p": "fqn"})
            is not None
        )

    def put_segments(self, items: Sequence[Item]) -> None:
        """See ``RunItems``."""
        self._segments.put_all(items)

    def remove_segment(self, seen: Item) -> bool:
        """See ``RunItems``."""
        condition, values, names = unchanged_condition(seen, {}, "run")
        key = {name: seen[name] for name in ("run", "at")}
        return self._segments.delete_if(key, condition, values, ExpressionAttributeNames=names) is None


def unchanged_condition(
    seen: Mapping[str, Any] | None, item: Mapping[str, Any], partition: str
) -> tuple[str, dict[str, Any], dict[str, str]]:
    """The condition that a row equals ``seen`` (None: does not exist) and has no further attribute of ``item``, with its values
    and names."""
    if seen is None:
        return "attribute_not_exists(#p)", {}, {"#p": partition}
    names = {f"#n{number}": name for number, name in enumerate([*seen, *(name for name in item if name not in seen)])}
    values = {f":n{number}": value for number, value in enumerate(seen.values())}
    clauses = [f"#n{number} = :n{number}" for number in range(len(seen))]
    clauses += [f"attribute_not_exists({alias})" for alias, name in names.items() if name not in seen]
    return " AND ".join(clauses), values, names


def _key(run: Run) -> dict[str, str]:
    return {"fqn": run.fqn, "run_id": run.run_id}
