"""``RunItems``: rows read complete, and written only while unchanged; in memory and on the tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from typing import Any

import pytest

from chalicelib.aws.dynamodb import Table
from chalicelib.aws.segment_index import segment_rows
from chalicelib.ports import Run, SegmentEntry, run_key
from glue_jobs.catalog.run_items import DynamoDbRunItems, RunItems
from tests.contract.conftest import KEEP_S, client_of, create_table
from tests.rebuild_harness import Items

RUN = Run("svc.pipeline/ä", "run-1")
ITEM: dict[str, Any] = {"fqn": RUN.fqn, "run_id": RUN.run_id, "segments": 3, "seal": "", "bytes": 2**40, "started_ms": 1}


@pytest.fixture
def items(endpoint_url: str | None) -> Iterator[RunItems]:
    if endpoint_url is None:
        yield Items()
        return
    with closing(client_of("dynamodb", endpoint_url)) as client:
        yield DynamoDbRunItems(*(Table(client, create_table(client, name)) for name in ("RunsTable", "SegmentsTable")))


def test_row_is_written_only_while_unchanged(items: RunItems) -> None:
    assert items.run(RUN) is None
    assert items.replace_run(RUN, None, ITEM)
    assert items.run(RUN) == ITEM
    assert not items.replace_run(RUN, None, ITEM), "it is there by now"
    changed = ITEM | {"segments": 4, "activity_shard": "open#1"}
    for seen in (ITEM | {"segments": 2}, ITEM | {"more": 1}, {name: value for name, value in changed.items() if name != "seal"}):
        assert not items.replace_run(RUN, seen, changed)
    assert items.replace_run(RUN, ITEM, changed)
    assert items.replace_run(RUN, changed, ITEM), "an attribute goes with the row that had it"
    assert items.run(RUN) == ITEM
    assert not items.replace_run(RUN, changed, None)
    assert items.replace_run(RUN, ITEM, None)
    assert items.run(RUN) is None


def test_an_attribute_that_came_meanwhile_is_not_written_over(items: RunItems) -> None:
    items.replace_run(RUN, None, ITEM | {"activity_shard": "open#1"})
    assert not items.replace_run(RUN, ITEM, ITEM | {"activity_shard": "open#2"})


def test_attributes_are_changed_only_while_unchanged(items: RunItems) -> None:
    items.replace_run(RUN, None, ITEM)
    changed = ITEM | {"segments": 4, "activity_shard": "open#1"}
    assert items.change_run(RUN, ITEM, changed, ["activity_shard", "segments"])
    assert items.run(RUN) == changed
    assert not items.change_run(RUN, ITEM, changed, ["activity_shard"]), "it came meanwhile"
    assert not items.change_run(RUN, changed | {"segments": 3}, ITEM, ["segments"]), "it moved meanwhile"
    other = changed | {"bytes": 7}
    assert items.change_run(RUN, changed | {"segments": 3}, other, ["bytes"]), "what else has moved is not touched"
    assert items.run(RUN) == other
    without = {name: value for name, value in other.items() if name not in ("seal", "activity_shard")}
    assert items.change_run(RUN, other, without, ["activity_shard", "seal"])
    assert items.run(RUN) == without


def test_changing_a_row_that_is_gone_makes_none(items: RunItems) -> None:
    assert not items.change_run(RUN, {}, ITEM, ["segments"])
    assert items.run(RUN) is None


@pytest.mark.parametrize("value", [None, "x", 7, Decimal("0.5"), [1, "a"], {"a": {"b": 1}}, True, b"x"])
def test_whatever_a_damaged_row_holds_it_can_be_replaced(items: RunItems, value: Any) -> None:
    damaged = ITEM | {"segments": value, "#odd name": value}
    assert items.replace_run(RUN, None, damaged)
    seen = items.run(RUN)
    assert seen is not None
    assert items.replace_run(RUN, seen, ITEM)
    assert items.run(RUN) == ITEM


def test_rows_of_segments_are_read_in_order_and_removed_as_they_were_read(items: RunItems) -> None:
    entries = [
        SegmentEntry(number, "data", 1, number * 10, number * 99, 10, 99, "k-s", 0, "d", 5000, "host", "", ((1, 2), (3, 4)))
        for number in range(60)
    ]
    rows = [row for entry in entries for row in segment_rows(RUN, entry, KEEP_S)]
    items.put_segments(list({row["at"]: row for row in rows}.values()))
    found = items.segments(RUN)
    assert [row["at"] for row in found] == sorted({row["at"] for row in rows})
    assert found[7] == rows[14]
    assert not items.remove_segment(found[7] | {"line": 1})
    assert items.remove_segment(found[7])
    assert items.segments(RUN) == found[:7] + found[8:]
    assert items.segments(Run(RUN.fqn, "run-2")) == []


def test_claims_of_keys_are_no_rows_of_segments(items: RunItems) -> None:
    """The repair removes rows whose segment does not exist; that of a claim may be on its way."""
    claim = {"run": run_key(RUN), "at": "key#k-s", "session": "k-s", "sequence": 3, "digest": "d", "claimed_ms": 1, "expires_at": 2}
    stored = segment_rows(RUN, SegmentEntry(0, "data", 1, 0, 0, 1, 9, "k-t", 0, "d", 5000), KEEP_S)
    items.put_segments([claim, *stored])
    assert items.segments(RUN) == stored
