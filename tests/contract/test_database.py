"""Contract of ``Database``, for all implementations: rows come back equal, ranges are exact, a transaction is all or nothing.

Responses that no emulator gives are canned (see ``tests.contract.canned``).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, ReadTimeoutError

from chalicelib.aws.database import DynamoDbDatabase, Schema
from chalicelib.aws.dynamodb import BATCH_ROWS
from chalicelib.catalog.file_state import OBJECTS
from chalicelib.catalog.files import FILES, LATEST
from chalicelib.catalog.listing import LISTING
from chalicelib.errors import (
    OutcomeUnknownError,
    PreconditionFailedError,
    RunlakeError,
    StoreConditionError,
    StoreUnavailableError,
    UnavailableError,
    WriteConflictError,
)
from chalicelib.ports import ABSENT_ROW, Check, Clause, Database, Delete, Key, Put, Row, RowCondition, Write
from tests.contract.canned import NOWHERE, Network, answer, cut_off
from tests.contract.conftest import KEYS
from tests.contract.differences import refused

REFUSED = (ValueError, StoreUnavailableError)
"""Errors of calls that can never succeed: mistakes of the program, which the in-memory database detects before DynamoDB does."""


def listed(at: str, **values: Any) -> Put:
    """A row in one partition of the table that has a sort key."""
    return put(Key(LISTING, "p", at), **values)


def put(key: Key, when: RowCondition = (), **values: Any) -> Put:
    """A row with its key in it."""
    return Put(key, keyed(key, **values), when)


def keyed(key: Key, **values: Any) -> dict[str, Any]:
    partition, sort = KEYS[key.table]
    return {partition: key.partition} | ({sort: key.sort} if sort else {}) | values


def object_key(name: str) -> Key:
    return Key(OBJECTS, name)


def row_of(database: Database, key: Key) -> Row | None:
    return database.get_many([key]).get(key)


def sorts(rows: Sequence[Row]) -> list[str]:
    return [row["at"] for row in rows]


# ---------------------------------------------------------------- values and single reads


VALUES: dict[str, Any] = {
    "text": "naïve ünï \U0001f600 \n\0",
    "empty": "",
    "zero": 0,
    "negative": -62_135_596_800_000,
    "large": 10**37 + 1,
    "fraction": Decimal("1.5"),
    "tiny": Decimal("1E-130"),
    "digits": Decimal("0.12345678901234567890123456789012345678"),
    "yes": True,
    "no": False,
    "none": None,
    "list": ["a", 1, None, True, Decimal("0.25"), [], {}],
    "map": {"a": {"b": {"c": [{"d": None}]}}, "with space": 1, "a.b": 2, "#x": 3, ":y": 4},
    "empty_list": [],
    "empty_map": {},
}


@pytest.mark.parametrize("how", ["put_many", "transact"])
def test_values_of_all_kinds_come_back_equal(database: Database, how: str) -> None:
    key = object_key("values")
    getattr(database, how)([put(key, **VALUES)])
    found = row_of(database, key)
    assert found == keyed(key, **VALUES)
    assert {name: type(value) is bool for name, value in found.items()} == {
        name: type(value) is bool for name, value in keyed(key, **VALUES).items()
    }, "1 is not True"


@pytest.mark.parametrize("number", [0, 1, -1, 1000, 10**12, 10**37])
def test_whole_numbers_come_back_as_such(database: Database, number: int) -> None:
    database.put_many([put(object_key("k"), number=number)])
    found = row_of(database, object_key("k"))
    assert found and type(found["number"]) is int and found["number"] == number


def test_whole_numbers_inside_of_others_come_back_as_such(database: Database) -> None:
    """A step's times are in a map. Equal is not enough: ``Decimal(1) == 1``."""
    database.put_many([put(object_key("k"), told={"startedMs": 1, "more": [2, {"deep": 3}]}, fraction=[Decimal("1.5")])])
    found = row_of(database, object_key("k"))
    assert found
    assert [type(found["told"]["startedMs"]), *(type(each) for each in found["told"]["more"])] == [int, int, dict]
    assert type(found["told"]["more"][1]["deep"]) is int and found["fraction"] == [Decimal("1.5")]


def test_a_deep_document_comes_back_equal(database: Database) -> None:
    deep: dict[str, Any] = {"leaf": [1, "x"]}
    for level in range(14):
        deep = {f"level-{level}": deep}
    database.put_many([put(object_key("k"), metadata=deep)])
    assert row_of(database, object_key("k")) == {"key": "k", "metadata": deep}


def test_a_row_is_written_whole(database: Database) -> None:
    """No attribute of the previous row is left."""
    key = object_key("k")
    for how in (database.put_many, database.transact):
        database.put_many([put(key, old=1)])
        how([put(key, new=2)])
        assert row_of(database, key) == {"key": "k", "new": 2}


def test_a_row_that_was_written_is_not_the_callers_any_more(database: Database) -> None:
    found = {}
    for number in range(2):
        row = keyed(object_key("k"), number=number)
        database.put_many([Put(object_key("k"), dict(row))])
        found[number] = row_of(database, object_key("k"))
    assert found == {number: {"key": "k", "number": number} for number in range(2)}


# ---------------------------------------------------------------- get_many


def test_rows_of_several_tables_come_back_by_their_keys(database: Database) -> None:
    keys = [Key(FILES, "17:what", "where:1"), Key(LATEST, "what:where"), Key(LISTING, "n#what", "what"), Key(OBJECTS, "file#1")]
    database.put_many([put(key, table=key.table) for key in keys])
    absent = [Key(FILES, "17:what", "where:2"), Key(LATEST, "what"), Key(LISTING, "n#what", "wha"), Key(OBJECTS, "file#")]
    found = database.get_many(keys + absent)
    assert found == {key: keyed(key, table=key.table) for key in keys}


def test_the_same_partition_in_two_tables_is_two_rows(database: Database) -> None:
    keys = [Key(LATEST, "x"), Key(OBJECTS, "x"), Key(FILES, "x", "y"), Key(LISTING, "x", "y")]
    database.put_many([put(key, table=key.table) for key in keys[:2]])
    assert database.get_many(keys) == {key: keyed(key, table=key.table) for key in keys[:2]}


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 250])
def test_any_number_of_keys_can_be_asked_for(database: Database, count: int) -> None:
    keys = [object_key(f"k{number}") for number in range(count)]
    database.put_many([put(key, number=number) for number, key in enumerate(keys) if number % 2])
    assert database.get_many(keys) == {key: keyed(key, number=number) for number, key in enumerate(keys) if number % 2}


def test_a_key_that_is_asked_for_twice_is_answered_once(database: Database) -> None:
    keys = [object_key(f"k{number}") for number in range(60)]
    database.put_many([put(key) for key in keys])
    assert database.get_many([*keys, *keys, *reversed(keys)]) == {key: keyed(key) for key in keys}


# ---------------------------------------------------------------- query


@pytest.fixture
def ten(database: Database) -> Database:
    """Rows 0 to 9 of a partition, between two other partitions."""
    rows = [put(Key(LISTING, partition, str(number)), number=number) for partition in ("o", "p", "q") for number in range(10)]
    database.put_many(rows)
    return database


RANGES = [
    ("3", "6", "3456"), ("3", "3", "3"), ("0", "9", "0123456789"), (" ", "~", "0123456789"), ("30", "6~", "456"), ("3", "59", "345"),
    ("a", "b", ""), ("35", "36", ""), (" ", "!", ""), ("6", "3", ""), ("~", " ", ""),
    ("", "3", "0123"), ("", None, "0123456789"), ("", "", ""), (None, "", ""), ("3", "", ""),
    (None, "3", "0123"), ("7", None, "789"), (None, None, "0123456789"), (None, " ", ""), ("~", None, ""),
]  # fmt: skip


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_range_holds_both_of_its_ends(ten: Database, newest_first: bool) -> None:
    for first, last, expected in RANGES:
        rows, more = ten.query(LISTING, "p", first, last, limit=100, newest_first=newest_first)
        assert sorts(rows) == (list(reversed(expected)) if newest_first else list(expected)), (first, last)
        assert rows == [keyed(Key(LISTING, "p", at), number=int(at)) for at in sorts(rows)] and not more


@pytest.mark.parametrize("newest_first", [False, True])
def test_only_one_attribute_of_each_row_is_answered(ten: Database, newest_first: bool) -> None:
    rows, more = ten.query(LISTING, "p", "3", "6", limit=3, newest_first=newest_first, only="number")
    assert rows == [{"number": number} for number in ((6, 5, 4) if newest_first else (3, 4, 5))] and more


def test_an_empty_partition_has_no_rows(ten: Database) -> None:
    assert ten.query(LISTING, "r", " ", "~", limit=5) == ([], False)


def test_a_limit_cuts_and_says_so(ten: Database) -> None:
    expected = [str(number) for number in range(10)]
    for limit, newest_first in product((1, 3, 9, 10, 11), (False, True)):
        rows, more = ten.query(LISTING, "p", "0", "9", limit=limit, newest_first=newest_first)
        assert sorts(rows) == (expected[::-1] if newest_first else expected)[:limit]
        assert more or limit >= 10, "there is more"
        assert not more or limit <= 10, "there is none"


def test_pages_joined_are_the_range(ten: Database) -> None:
    for newest_first in (False, True):
        read: list[str] = []
        first, last, more = "1", "8", True
        while more:
            rows, more = ten.query(LISTING, "p", first, last, limit=3, newest_first=newest_first)
            read += sorts(rows)
            if rows:
                first, last = (first, chr(ord(read[-1]) - 1)) if newest_first else (read[-1] + " ", last)
        assert read == (list("87654321") if newest_first else list("12345678"))


def test_order_is_that_of_the_bytes(database: Database) -> None:
    names = ["", "!", "-", "0", "0#", "00", "9", "A", "_", "a", "a ", "a-", "ab", "~", "é", "\uffff", "\U0001f600"]
    names = [f"x{name}" for name in names]
    database.put_many([listed(name) for name in reversed(names)])
    rows, _ = database.query(LISTING, "p", "x", "x\U0001f600", limit=100)
    assert sorts(rows) == sorted(names, key=str.encode) == names


def test_a_range_of_more_than_a_request_holds_goes_on(database: Database) -> None:
    """A query reads at most 1 MB: a page may be shorter than its limit, and says that there is more."""
    database.put_many([listed(f"{number:02d}", text="x" * 100_000) for number in range(15)])
    read: list[str] = []
    first, more, requests = "00", True, 0
    while more:
        rows, more = database.query(LISTING, "p", first, "99", limit=1000)
        read += sorts(rows)
        first, requests = read[-1] + " ", requests + 1
    assert read == [f"{number:02d}" for number in range(15)] and requests == 2


def test_what_was_written_is_read_at_once(database: Database) -> None:
    for number in range(10):
        database.transact([listed(f"{number}"), Delete(Key(LISTING, "p", f"{number - 1}"))])
        assert sorts(database.query(LISTING, "p", "0", "9", limit=10)[0]) == [f"{number}"]


# ---------------------------------------------------------------- put_many


@pytest.mark.parametrize("count", [0, 1, 25, 26, 60])
def test_any_number_of_rows_is_written(database: Database, count: int) -> None:
    rows = [put(Key((FILES, LISTING)[number % 2], "p", f"{number:03d}"), number=number) for number in range(count)]
    database.put_many(rows)
    assert database.get_many([each.key for each in rows]) == {each.key: each.row for each in rows}


def test_a_batch_may_be_written_again(database: Database) -> None:
    rows = [put(object_key(f"k{number}"), number=number) for number in range(30)]
    for _ in range(2):
        database.put_many(rows)
    assert database.get_many([each.key for each in rows]) == {each.key: each.row for each in rows}


def test_a_batch_with_two_rows_of_one_key_is_refused_by_every_database(database: Database) -> None:
    """DynamoDB rejects it ("Provided list of item keys contains duplicates"), so the in-memory database must reject it too."""
    with pytest.raises(REFUSED):
        database.put_many([put(object_key("k"), number=1), put(object_key("k"), number=2)])
    assert row_of(database, object_key("k")) is None


# ---------------------------------------------------------------- transact


def test_all_writes_of_a_transaction_are_done(database: Database) -> None:
    gone, kept = Key(FILES, "17:what", "where:1"), Key(LATEST, "what:where")
    database.put_many([put(gone), put(kept, number=1)])
    new = [Key(FILES, "18:what", "where:1"), Key(LISTING, "p", "1"), object_key("file#1")]
    database.transact([*(put(key, number=2) for key in new), Delete(gone), Check(kept, ((Clause(("number",), "=", 1),),))])
    assert database.get_many([*new, gone, kept]) == {key: keyed(key, number=2) for key in new} | {kept: keyed(kept, number=1)}


KINDS: dict[str, Callable[[Key, RowCondition], Write]] = {
    "put": lambda key, when: put(key, when, written=True),
    "delete": Delete,
    "check": Check,
}


@pytest.mark.parametrize("kind_of_write", KINDS)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_no_write_of_a_transaction_is_done_when_one_condition_is_false(database: Database, kind_of_write: str, at: int) -> None:
    guarded, gone, new = object_key("guarded"), Key(LISTING, "p", "gone"), Key(FILES, "17:what", "new")
    database.put_many([put(guarded, revision=1), put(gone)])
    writes: list[Write] = [put(new), Delete(gone)]
    writes.insert(at, KINDS[kind_of_write](guarded, ((Clause(("revision",), "=", 2),),)))
    with pytest.raises(PreconditionFailedError):
        database.transact(writes)
    assert database.get_many([guarded, gone, new]) == {guarded: keyed(guarded, revision=1), gone: keyed(gone)}
    writes[at] = KINDS[kind_of_write](guarded, ((Clause(("revision",), "=", 1),),))
    database.transact(writes)
    after = {"put": keyed(guarded, written=True), "check": keyed(guarded, revision=1)}.get(kind_of_write)
    assert database.get_many([guarded, gone, new]) == {new: keyed(new)} | ({guarded: after} if after else {})


@pytest.mark.parametrize("how", ["alone", "beside a put"])
def test_deleting_what_is_not_there_is_a_success(database: Database, how: str) -> None:
    beside = [put(object_key("other"))] if how == "beside a put" else []
    database.transact([Delete(object_key("nothing")), Delete(Key(LISTING, "p", "nothing")), *beside])
    assert row_of(database, object_key("nothing")) is None
    with pytest.raises(PreconditionFailedError):
        database.transact([Delete(object_key("nothing"), ((Clause(("revision",), "=", 1),),))])


FOUND: dict[str, Any] = {
    "number": 5,
    "text": "m",
    "flag": True,
    "nothing": None,
    "document": {"start": -3, "deep": {"id": "a"}, "none": None},
}
CONDITIONS: list[tuple[RowCondition, bool]] = [
    ((), True),
    (ABSENT_ROW, False),
    (((Clause(("number",), "absent"),),), False),
    (((Clause(("missing",), "absent"),),), True),
    (((Clause(("document", "start"), "absent"),),), False),
    (((Clause(("document", "missing"), "absent"),),), True),
    (((Clause(("missing", "start"), "absent"),),), True),
    (((Clause(("number", "start"), "absent"),),), True),
    (((Clause(("number",), "=", 5),),), True),
    (((Clause(("number",), "=", 6),),), False),
    (((Clause(("number",), "=", "5"),),), False),
    (((Clause(("text",), "=", "m"),),), True),
    (((Clause(("flag",), "=", True),),), True),
    (((Clause(("flag",), "=", False),),), False),
    (((Clause(("document", "deep", "id"), "=", "a"),),), True),
    (((Clause(("document", "deep", "id"), "=", "b"),),), False),
    (((Clause(("missing",), "=", 5),),), False),
    (((Clause(("document", "missing"), "=", 5),),), False),
    (((Clause(("number",), "!=", 6),),), True),
    (((Clause(("number",), "!=", 5),),), False),
    (((Clause(("document", "deep", "id"), "!=", "b"),),), True),
    (((Clause(("document", "deep", "id"), "!=", "a"),),), False),
    (((Clause(("number",), "<", 6),),), True),
    (((Clause(("number",), "<", 5),),), False),
    (((Clause(("number",), ">", 4),),), True),
    (((Clause(("number",), ">", 5),),), False),
    (((Clause(("document", "start"), "<", -2),),), True),
    (((Clause(("document", "start"), ">", -3),),), False),
    (((Clause(("text",), "<", "n"),),), True),
    (((Clause(("text",), ">", "m"),),), False),
    (((Clause(("missing",), "<", 5),),), False),
    (((Clause(("missing",), ">", 5),),), False),
    (((Clause(("number",), ">", 4), Clause(("number",), "<", 6)),), True),
    (((Clause(("number",), ">", 4), Clause(("text",), "=", "n")),), False),
    (((Clause(("number",), "=", 6),), (Clause(("text",), "=", "m"),)), True),
    (((Clause(("number",), "=", 6),), (Clause(("text",), "=", "n"),)), False),
    (
        ((Clause(("number",), "=", 5), Clause(("text",), "=", "n")), (Clause(("number",), "=", 6), Clause(("text",), "=", "m"))),
        False,
    ),
    (
        ((Clause(("number",), "=", 5), Clause(("text",), "=", "n")), (Clause(("number",), "=", 5), Clause(("text",), "=", "m"))),
        True,
    ),
    (((Clause(("number",), "=", 4),), (Clause(("number",), "=", 6),), (Clause(("document", "start"), "=", -3),)), True),
]


@pytest.mark.parametrize("kind_of_write", KINDS)
def test_a_condition_means_the_same_everywhere(database: Database, kind_of_write: str) -> None:
    cases = [case for case in CONDITIONS if case[0] or kind_of_write != "check"]  # a check of nothing is none
    keys = [object_key(f"k{number}") for number in range(len(cases))]
    database.put_many([put(key, **FOUND) for key in keys])
    for key, (when, holds) in zip(keys, cases, strict=True):
        assert succeeds(database, [KINDS[kind_of_write](key, when)]) == holds, when


ROWLESS: list[tuple[RowCondition, bool]] = [
    (ABSENT_ROW, True),
    (((Clause(("document", "start"), "absent"),),), True),
    (((Clause(("revision",), "=", 1),),), False),
    (((Clause(("revision",), "<", 1),),), False),
    (((Clause(("revision",), ">", 1),),), False),
    (((Clause(("revision",), "=", 1),), *ABSENT_ROW), True),
    (((Clause(("key",), "absent"), Clause(("revision",), "=", 1)),), False),
]


@pytest.mark.parametrize("kind_of_write", KINDS)
def test_a_condition_on_no_row(database: Database, kind_of_write: str) -> None:
    for number, (when, holds) in enumerate(ROWLESS):
        assert succeeds(database, [KINDS[kind_of_write](object_key(f"k{number}"), when)]) == holds, when


@pytest.mark.parametrize("row", ["no row", "a row without it"])
def test_missing_attribute_is_not_unequal(database: Database, row: str) -> None:
    """The port: every clause but ``absent`` is false for a missing attribute. DynamoDB's own ``<>`` is true for it."""
    if row == "a row without it":
        database.put_many([put(object_key("k"), number=5)])
    for path in (("missing",), ("metadata", "id")):
        assert not succeeds(database, [Check(object_key("k"), ((Clause(path, "!=", "a"),),))])


def test_an_attribute_that_is_none_is_there(database: Database) -> None:
    """DynamoDB's NULL is a value: an attribute with it exists."""
    database.put_many([put(object_key("k"), **FOUND)])
    for path in (("nothing",), ("document", "none")):
        assert not succeeds(database, [Check(object_key("k"), ((Clause(path, "absent"),),))])


def succeeds(database: Database, writes: Sequence[Write]) -> bool:
    try:
        database.transact(writes)
    except PreconditionFailedError:
        return False
    return True


def test_a_transaction_has_a_hundred_writes(database: Database) -> None:
    rows = [put(Key(LISTING, "p", f"{number:03d}"), ((Clause(("at",), "absent"),),)) for number in range(101)]
    with pytest.raises(REFUSED):
        database.transact(rows)
    assert database.query(LISTING, "p", "0", "9", limit=200) == ([], False)
    database.transact(rows[:100])
    assert len(database.query(LISTING, "p", "0", "9", limit=200)[0]) == 100


def test_two_writes_of_one_row_are_refused(database: Database) -> None:
    database.put_many([put(object_key("k"), number=1)])
    when: RowCondition = ((Clause(("number",), "=", 1),),)
    for one, other in product(KINDS.values(), repeat=2):
        with pytest.raises(REFUSED):
            database.transact([one(object_key("k"), when), put(object_key("l")), other(object_key("k"), when)])
    assert database.get_many([object_key("k"), object_key("l")]) == {object_key("k"): {"key": "k", "number": 1}}


def test_an_empty_transaction_is_refused(database: Database, kind: str) -> None:
    refused(kind, "a write at least", REFUSED, lambda: database.transact([]))


def test_of_transactions_that_race_for_a_revision_one_wins(database: Database) -> None:
    key = object_key("k")
    database.put_many([put(key, revision=0)])
    won: list[int] = []

    def race(number: int) -> None:
        try:
            database.transact([
                Put(key, keyed(key, revision=1, winner=number), ((Clause(("revision",), "=", 0),),)), put(Key(LISTING, "p", f"{number}")),
            ])  # fmt: skip
            won.append(number)
        except StoreConditionError:
            pass

    threads = [threading.Thread(target=race, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = won
    assert row_of(database, key) == keyed(key, revision=1, winner=winner)
    assert sorts(database.query(LISTING, "p", "0", "9", limit=10)[0]) == [f"{winner}"]


# ---------------------------------------------------------------- answers that no emulator gives


SCHEMAS = {table: Schema(f"table-{table}", *KEYS[table]) for table in KEYS}
WRITE = [put(object_key("k"))]
CALLS: dict[str, Callable[[Database], object]] = {
    "get_one": lambda database: database.get_many([object_key("k")]),
    "get_many": lambda database: database.get_many([object_key("k"), object_key("l")]),
    "query": lambda database: database.query(LISTING, "p", "0", "9", limit=1),
    "put_many": lambda database: database.put_many(WRITE),
    "transact": lambda database: database.transact(WRITE),
}
WRITING = {"put_many", "transact"}


def said(body: Mapping[str, Any], status: int = 200) -> AWSResponse:
    return answer(status, json.dumps(body).encode(), {"Content-Type": "application/x-amz-json-1.0"})


def failed(code: str, status: int = 400, **more: Any) -> AWSResponse:
    return said({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "m", **more}, status)


def cancelled(*codes: str) -> AWSResponse:
    return failed("TransactionCanceledException", CancellationReasons=[{"Code": code} for code in codes])


def raised(call: str, *answers: AWSResponse | Exception) -> tuple[type[BaseException], Network]:
    with cut_off("dynamodb", *answers) as (client, network), pytest.raises(RunlakeError) as caught:
        CALLS[call](DynamoDbDatabase(client, SCHEMAS, pause=lambda _: None))
    assert str(caught.value)[0].islower()
    return caught.type, network


def sent(network: Network) -> list[dict[str, Any]]:
    return [json.loads(request.body) for request in network.requests]


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        (["ConditionalCheckFailed"], PreconditionFailedError),
        (["None", "ConditionalCheckFailed", "None"], PreconditionFailedError),
        (["TransactionConflict"], WriteConflictError),
        (["None", "TransactionConflict"], WriteConflictError),
        (["ConditionalCheckFailed", "TransactionConflict"], PreconditionFailedError),
        (["ThrottlingError"], StoreUnavailableError),
        (["ProvisionedThroughputExceeded", "None"], StoreUnavailableError),
        (["ItemCollectionSizeLimitExceeded"], StoreUnavailableError),
        (["ValidationError"], StoreUnavailableError),
        (["None"], StoreUnavailableError),
        ([], StoreUnavailableError),
    ],
)
def test_why_a_transaction_was_cancelled(codes: list[str], expected: type[RunlakeError]) -> None:
    assert raised("transact", cancelled(*codes))[0] is expected


@pytest.mark.parametrize("code", ["TransactionConflictException", "TransactionInProgressException"])
def test_another_transaction_in_the_way_is_a_conflict(code: str) -> None:
    assert raised("transact", failed(code))[0] is WriteConflictError


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("ThrottlingException", 400),
        ("ProvisionedThroughputExceededException", 400),
        ("RequestLimitExceeded", 400),
        ("ResourceNotFoundException", 400),
        ("AccessDeniedException", 400),
        ("ValidationException", 400),
        ("ItemCollectionSizeLimitExceededException", 400),
    ],
)
def test_a_refusal_means_that_nothing_was_done(call: str, code: str, status: int) -> None:
    assert raised(call, failed(code, status))[0] is StoreUnavailableError


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "met",
    [
        failed("InternalServerError", 500),
        answer(502, b"bad gateway"),
        ReadTimeoutError(endpoint_url=NOWHERE),
    ],
    ids=["internal error", "bad gateway", "no answer"],
)
def test_lost_response_leaves_the_outcome_of_a_write_unknown(call: str, met: AWSResponse | Exception) -> None:
    assert raised(call, met)[0] is (OutcomeUnknownError if call in WRITING else StoreUnavailableError)


@pytest.mark.parametrize("call", CALLS)
def test_response_of_a_proxy_is_an_error(call: str) -> None:
    """For example a proxy's page with status 200: proves neither a write nor a missing row."""
    found = raised(call, answer(200, b"<html>not DynamoDB", {"Content-Type": "text/html"}))[0]
    assert found is (OutcomeUnknownError if call in WRITING else StoreUnavailableError)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("met", [EndpointConnectionError(endpoint_url=NOWHERE), ConnectTimeoutError(endpoint_url=NOWHERE)])
def test_what_was_never_sent_was_not_done(call: str, met: Exception) -> None:
    assert raised(call, met)[0] is StoreUnavailableError


def test_a_repeated_transaction_has_the_token_of_the_first() -> None:
    """DynamoDB recognizes the repeat by its token: an applied transaction succeeds again, and its own conditions do not reject it."""
    with cut_off("dynamodb", ReadTimeoutError(endpoint_url=NOWHERE), said({})) as (client, network):
        DynamoDbDatabase(client, SCHEMAS).transact(WRITE)
    tokens = [body["ClientRequestToken"] for body in sent(network)]
    assert len(tokens) == 2 and tokens[0] == tokens[1]


def test_two_transactions_have_two_tokens() -> None:
    with cut_off("dynamodb", said({})) as (client, network):
        database = DynamoDbDatabase(client, SCHEMAS)
        database.transact(WRITE)
        database.transact(WRITE)
    assert len({body["ClientRequestToken"] for body in sent(network)}) == 2


def test_keys_that_were_not_read_are_asked_for_again() -> None:
    name, other = SCHEMAS[OBJECTS].name, SCHEMAS[LATEST].name
    left = {name: {"Keys": [{"key": {"S": "b"}}], "ConsistentRead": True}}
    first = said({"Responses": {name: [{"key": {"S": "a"}}], other: [{"what_where_key": {"S": "w"}}]}, "UnprocessedKeys": left})
    second = said({"Responses": {}, "UnprocessedKeys": left})
    third = said({"Responses": {name: [{"key": {"S": "b"}}]}, "UnprocessedKeys": {}})
    pauses: list[float] = []
    with cut_off("dynamodb", first, second, third) as (client, network):
        found = DynamoDbDatabase(client, SCHEMAS, pause=pauses.append).get_many([*map(object_key, "abc"), Key(LATEST, "w")])
    assert found == {object_key("a"): {"key": "a"}, object_key("b"): {"key": "b"}, Key(LATEST, "w"): {"what_where_key": "w"}}
    assert [body["RequestItems"] for body in sent(network)][1:] == [left, left]
    assert len(pauses) == 2 and 0 < pauses[0] < pauses[1]


def test_rows_that_were_not_written_are_sent_again() -> None:
    rows = [put(object_key(f"k{number}"), number=number) for number in range(BATCH_ROWS + 2)]
    name = SCHEMAS[OBJECTS].name
    left = {name: [{"PutRequest": {"Item": {"key": {"S": "k3"}, "number": {"N": "3"}}}}]}
    answers = [said({"UnprocessedItems": left}), said({"UnprocessedItems": {}}), said({"UnprocessedItems": {}})]
    with cut_off("dynamodb", *answers) as (client, network):
        DynamoDbDatabase(client, SCHEMAS, pause=lambda _: None).put_many(rows)
    requests = [body["RequestItems"][name] for body in sent(network)]
    assert [len(each) for each in requests] == [BATCH_ROWS, 1, 2]
    assert requests[1] == left[name]


@pytest.mark.parametrize("call", ["get_many", "put_many"])
def test_what_is_never_processed_is_trouble_in_the_end(call: str) -> None:
    name = SCHEMAS[OBJECTS].name
    keys = {name: {"Keys": [{"key": {"S": "k"}}]}}
    rows = {name: [{"PutRequest": {"Item": {"key": {"S": "k"}}}}]}
    error, network = raised(call, said({"Responses": {}, "UnprocessedKeys": keys, "UnprocessedItems": rows}))
    assert issubclass(error, UnavailableError) and len(network.requests) == 7


@pytest.mark.parametrize("call", ["get_one", "get_many", "query"])
def test_all_reads_are_strongly_consistent(call: str) -> None:
    with cut_off("dynamodb", said({"Responses": {}, "Items": []})) as (client, network):
        CALLS[call](DynamoDbDatabase(client, SCHEMAS))
    (body,) = sent(network)
    tables = body["RequestItems"].values() if call == "get_many" else [body]
    assert all(each["ConsistentRead"] is True for each in tables)


def test_a_range_that_cannot_hold_anything_is_no_request() -> None:
    with cut_off("dynamodb", failed("ValidationException")) as (client, network):
        assert DynamoDbDatabase(client, SCHEMAS).query(LISTING, "p", "9", "0", limit=1) == ([], False)
    assert network.requests == []
