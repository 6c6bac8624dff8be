"""An in-memory adapter can raise each error class that its twin on AWS can raise, call by call, and enforces the same limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError

from chalicelib.aws.database import DynamoDbDatabase, Schema
from chalicelib.aws.dynamodb import Table
from chalicelib.aws.errors import ERROR_BY_CODE
from chalicelib.aws.object_store import S3ObjectStore
from chalicelib.aws.publisher import SnsPublisher
from chalicelib.aws.run_catalog import DynamoDbRunCatalog
from chalicelib.aws.segment_index import DynamoDbSegmentIndex
from chalicelib.catalog.file_state import OBJECTS
from chalicelib.catalog.listing import LISTING
from chalicelib.catalog.runs import RunCatalog
from chalicelib.errors import (
    ObjectNotFoundError,
    OutcomeUnknownError,
    PreconditionFailedError,
    RangeNotSatisfiableError,
    RunlakeError,
    StoreUnavailableError,
    UnavailableError,
    WriteConflictError,
)
from chalicelib.ports import (
    ABSENT,
    ABSENT_ROW,
    Condition,
    Database,
    Delete,
    Key,
    KeyClaim,
    Message,
    ObjectStore,
    ObjectVersion,
    Publisher,
    Put,
    PutOptions,
    Run,
    RunStart,
    SegmentEntry,
    SegmentIndex,
)  # fmt: skip
from tests.contract.canned import NOWHERE, answer, cut_off, s3_error
from tests.support.clock import ManualClock
from tests.support.database import InMemoryDatabase
from tests.support.object_store import InMemoryObjectStore
from tests.support.publisher import InMemoryPublisher
from tests.support.run_catalog import InMemoryRunCatalog
from tests.support.segment_index import InMemorySegmentIndex

Call = Callable[[Any], Any]
ETAG = "0" * 32
PLAIN = PutOptions()
RUN = Run("svc.pipeline", "run-1")
ENTRY = SegmentEntry(0, "data", 0, 0, 0, 1, 2, "k-session", 0, "digest", 1_790_000_000_000)
ROW = Put(Key(OBJECTS, "k"), {"key": "k"}, ABSENT_ROW)
MESSAGE = Message("{}", {"name": "value"})


@dataclass(frozen=True)
class Twin:
    """A port, its adapter on AWS over a client, its adapter in memory, and a call of each of its requests."""

    port: type
    service: str
    on_aws: Callable[[Any], Any]
    in_memory: Callable[[], Any]
    calls: dict[str, Call]


TWINS = {
    "object store": Twin(
        ObjectStore,
        "s3",
        lambda client: S3ObjectStore(client, "bucket"),
        lambda: InMemoryObjectStore(ManualClock()),
        {
            "put": lambda store: store.put("k", b"x", PLAIN, ABSENT),
            "get": lambda store: store.get("k", 0, 1),
            "head": lambda store: store.head("k"),
            "list": lambda store: store.list("p"),
            "list_folders": lambda store: store.list_folders("p/"),
            "delete": lambda store: store.delete("k", if_match=ETAG),
            "delete_many": lambda store: store.delete_many(["k"]),
            "old_versions": lambda store: store.old_versions("p/"),
            "delete_versions": lambda store: store.delete_versions([ObjectVersion("k", "v")]),
            "open_uploads": lambda store: store.open_uploads("p/"),
            "create_multipart": lambda store: store.create_multipart("k", PLAIN),
            "upload_part": lambda store: store.upload_part("k", "id", 1, b"x"),
            "copy_part": lambda store: store.copy_part("k", "id", 1, "source", 0, 9, if_match=ETAG),
            "complete_multipart": lambda store: store.complete_multipart("k", "id", [(1, ETAG)], Condition(if_match=ETAG)),
            "abort_multipart": lambda store: store.abort_multipart("k", "id"),
        },
    ),
    "database": Twin(
        Database,
        "dynamodb",
        lambda client: DynamoDbDatabase(client, {OBJECTS: Schema("o", "key"), LISTING: Schema("l", "partition", "at")}, lambda _: None),
        InMemoryDatabase,
        {
            "get_many": lambda database: database.get_many([ROW.key]),
            "query": lambda database: database.query(LISTING, "p", None, None, limit=1),
            "put_many": lambda database: database.put_many([ROW]),
            "transact": lambda database: database.transact([ROW]),
        },
    ),
    "run catalog": Twin(
        RunCatalog,
        "dynamodb",
        lambda client: DynamoDbRunCatalog(Table(client, "t", lambda _: None), 1),
        InMemoryRunCatalog,
        {
            "record_start": lambda runs: runs.record_start(RUN, RunStart("s", RUN.run_id, 1, "", "", 1, 1)),
            "record_segment": lambda runs: runs.record_segment(RUN, ENTRY),
            "record_compaction": lambda runs: runs.record_compaction(RUN, 1, 1, 1),
            "record_finalization": lambda runs: runs.record_finalization(RUN, 1, 1, 1, 1),
            "record_legacy_artifact": lambda runs: runs.record_legacy_artifact(RUN, 1, 1, final=True),
            "record_explanation": lambda runs: runs.record_explanation(RUN, 1, "{}"),
            "remove_explanation": lambda runs: runs.remove_explanation(RUN),
            "record_heartbeat": lambda runs: runs.record_heartbeat(RUN, 1),
            "mark_retired": lambda runs: runs.mark_retired(RUN, 1),
            "get": lambda runs: runs.get(RUN),
            "newest": lambda runs: runs.newest("svc.pipeline", 1, None),
            "get_many": lambda runs: runs.get_many([RUN]),
            "ended": lambda runs: runs.ended("failed", 0, "", 1),
            "running": lambda runs: runs.running(0, "", 1),
            "forget": lambda runs: runs.forget(RUN),
            "mark_deleted": lambda runs: runs.mark_deleted(RUN, 1),
            "active": lambda runs: list(runs.active(0)),
        },
    ),
    "segment index": Twin(
        SegmentIndex,
        "dynamodb",
        lambda client: DynamoDbSegmentIndex(Table(client, "t", lambda _: None), 1),
        InMemorySegmentIndex,
        {
            "put": lambda index: index.put(RUN, [ENTRY]),
            "last": lambda index: index.last(RUN),
            "at_line": lambda index: index.at_line(RUN, 1),
            "rows_from": lambda index: index.rows_from(RUN, 0, 0, 1),
            "positions_from": lambda index: index.positions_from(RUN, 0, 0, 1),
            "claim": lambda index: index.claim(RUN, KeyClaim("k-session", 1, "d", 1)),
            "forget": lambda index: index.forget(RUN),
        },
    ),
    "publisher": Twin(
        Publisher,
        "sns",
        lambda client: SnsPublisher(client, "arn:aws:sns:us-east-1:000000000000:t"),
        InMemoryPublisher,
        {"publish": lambda topic: answered(topic.publish([MESSAGE]))},
    ),
}  # fmt: skip
STATUSES = {"404": 404, "412": 412, "409": 409, "416": 416}
CODES = {
    **{code: STATUSES.get(code, 400) for code in ERROR_BY_CODE},
    "SlowDown": 503, "ThrottlingException": 400, "ProvisionedThroughputExceededException": 400, "InternalError": 500,
    "KeyTooLongError": 400, "ValidationException": 400, "EntityTooLarge": 400, "AccessDenied": 403,
    "TransactionConflictException": 400, "TransactionInProgressException": 400,
}  # fmt: skip
"""Every code that has an error class of its own, and one of each other kind: throttled, broken, over a limit, denied, in conflict."""
CANCELLED = (
    "ConditionalCheckFailed",
    "TransactionConflict",
    "ThrottlingError",
    "ItemCollectionSizeLimitExceeded",
    "ValidationError",
)
"""Why a transaction is cancelled."""
calls = pytest.mark.parametrize(("twin", "name"), [(twin, name) for twin in TWINS for name in TWINS[twin].calls])


def answered(results: Any) -> None:
    """A publisher returns its errors."""
    for result in results:
        if result:
            raise result


def failures_on_aws(service: str) -> list[Callable[[], AWSResponse | Exception]]:
    """Responses of the service, and network failures."""
    made: list[Callable[[], AWSResponse | Exception]] = [
        lambda: ReadTimeoutError(endpoint_url=NOWHERE),
        lambda: EndpointConnectionError(endpoint_url=NOWHERE),
    ]
    for code, status in CODES.items():
        made.append(lambda code=code, status=status: failed(service, code, status))  # type: ignore[misc]
    if service == "dynamodb":
        made += [lambda reason=reason: cancelled(reason) for reason in CANCELLED]  # type: ignore[misc]
    return made


def failed(service: str, code: str, status: int) -> AWSResponse:
    if service == "dynamodb":
        body = f'{{"__type": "com.amazonaws.dynamodb.v20120810#{code}", "message": "m"}}'
        return answer(status, body.encode(), {"Content-Type": "application/x-amz-json-1.0"})
    if service == "sns":
        body = f"<ErrorResponse><Error><Code>{code}</Code><Message>m</Message></Error></ErrorResponse>"
        return answer(status, body.encode(), {"Content-Type": "text/xml"})
    return s3_error(status, "" if code in STATUSES else code)


def cancelled(reason: str) -> AWSResponse:
    body = f'{{"__type": "x#TransactionCanceledException", "message": "m", "CancellationReasons": [{{"Code": "{reason}"}}]}}'
    return answer(400, body.encode(), {"Content-Type": "application/x-amz-json-1.0"})


def raised_on_aws(twin: Twin, name: str) -> set[type[RunlakeError]]:
    """Every class that a call raises, for every possible response."""
    classes: set[type[RunlakeError]] = set()
    for failure in failures_on_aws(twin.service):
        with cut_off(twin.service, failure()) as (client, _):
            try:
                twin.calls[name](twin.on_aws(client))
            except RunlakeError as error:
                classes.add(type(error))
    return classes


def state(adapter: Any) -> str:
    """The adapter's content as text."""
    fields = {name: value for name, value in vars(adapter).items() if name not in {"failures", "_lock", "_ids", "_clock", "calls"}}
    return repr({name: value.rows if hasattr(value, "rows") else value for name, value in fields.items()})


@pytest.mark.parametrize("twin", TWINS)
def test_every_request_of_a_port_has_a_call_here(twin: str) -> None:
    requests = {name for name in vars(TWINS[twin].port) if not name.startswith(("_", "presign"))}
    assert requests == set(TWINS[twin].calls)


@pytest.mark.sampled(default=14)
@pytest.mark.slow
@calls
def test_a_call_raises_in_memory_what_it_can_raise_on_aws(twin: str, name: str) -> None:
    classes = raised_on_aws(TWINS[twin], name)
    assert StoreUnavailableError in classes
    operation = "publish_batch" if name == "publish" else name
    for error in classes:
        adapter = TWINS[twin].in_memory()
        before = state(adapter)
        adapter.failures.schedule(operation, error=error, times=2)
        for _ in range(2):
            with pytest.raises(error):
                TWINS[twin].calls[name](adapter)
        assert state(adapter) == before, "a call that failed changed something"
        assert adapter.failures.take(operation, ()) is None, "used up"


@pytest.mark.slow
def test_all_error_classes_of_the_table_are_among_them() -> None:
    """Some call raises the class of each code; a class that no call can raise is a row too many."""
    classes = {
        error
        for name in ("put", "get", "upload_part", "complete_multipart")
        for error in raised_on_aws(TWINS["object store"], name)
    }
    assert classes == set(ERROR_BY_CODE.values()) | {StoreUnavailableError, OutcomeUnknownError}


@pytest.mark.parametrize(
    ("twin", "name", "check"),
    [
        ("object store", "put", lambda store: store.head("k").size == 1),
        ("database", "put_many", lambda database: database.get_many([ROW.key]) == {ROW.key: ROW.row}),
        ("database", "transact", lambda database: database.get_many([ROW.key]) == {ROW.key: ROW.row}),
        ("run catalog", "record_segment", lambda runs: runs.get(RUN).segments == 1),
        ("segment index", "put", lambda index: index.last(RUN) == ENTRY),
        ("segment index", "claim", lambda index: index.claim(RUN, KeyClaim("k-session", 2, "d", 2)).sequence == 1),
        ("publisher", "publish", lambda topic: topic.messages == [(MESSAGE.body, dict(MESSAGE.attributes))]),
    ],
)
def test_a_write_whose_answer_is_lost_may_have_been_applied(twin: str, name: str, check: Callable[[Any], bool]) -> None:
    adapter = TWINS[twin].in_memory()
    adapter.failures.schedule("publish_batch" if name == "publish" else name, error=OutcomeUnknownError, applied=True)
    with pytest.raises(OutcomeUnknownError):
        TWINS[twin].calls[name](adapter)
    assert check(adapter)


def test_a_failure_meets_only_calls_that_match() -> None:
    store = InMemoryObjectStore(ManualClock())
    store.failures.schedule("get", "head", error=StoreUnavailableError, matches=lambda key, *_: key == "other")
    store.put("k", b"x", PLAIN)
    assert store.get("k").body == b"x" and store.head("k").size == 1
    with pytest.raises(StoreUnavailableError):
        store.head("other")
    with pytest.raises(ObjectNotFoundError):
        store.head("other")


# ---------------------------------------------------------------- what a state, or a limit, is the reason of


def test_errors_of_the_stores_state_need_no_schedule() -> None:
    store, database = InMemoryObjectStore(ManualClock()), InMemoryDatabase()
    store.put("k", b"x", PLAIN)
    database.put_many([ROW])
    for error, call in (
        (PreconditionFailedError, lambda: store.put("k", b"y", PLAIN, ABSENT)),
        (PreconditionFailedError, lambda: store.put("none", b"y", PLAIN, Condition(if_match=ETAG))),
        (ObjectNotFoundError, lambda: store.get("none")),
        (ObjectNotFoundError, lambda: store.upload_part("k", "no upload", 1, b"x")),
        (RangeNotSatisfiableError, lambda: store.get("k", 1)),
        (PreconditionFailedError, lambda: database.transact([ROW])),
    ):
        with pytest.raises(error):
            call()
    store.conflict_next(1)
    with pytest.raises(WriteConflictError):
        store.put("k", b"y", PLAIN, ABSENT)


def row(size: int, sort: str = "a") -> Put:
    """A row of this many bytes, as DynamoDB counts them."""
    key = Key(LISTING, "p", sort)
    fixed = len("partition" + "p" + "at" + sort + "text")
    return Put(key, {"partition": "p", "at": sort, "text": "x" * (size - fixed)})


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


ROW_BYTES, KIB = 400 * 1024, 1024
OVER: dict[str, tuple[Call, Call]] = {
    "row": (lambda each: each.put_many([row(ROW_BYTES)]), lambda each: each.put_many([row(10, "b"), row(ROW_BYTES + 1)])),
    "row of a transaction": (lambda each: each.transact([row(ROW_BYTES)]), lambda each: each.transact([row(10, "b"), row(ROW_BYTES + 1)])),
    "bytes of a transaction": (
        lambda each: each.transact([row(ROW_BYTES, f"{number:02d}") for number in range(10)]),
        lambda each: each.transact([row(ROW_BYTES, f"{number:02d}") for number in range(11)]),
    ),
    "writes of a transaction": (
        lambda each: each.transact([Delete(Key(LISTING, "p", f"{number}")) for number in range(100)]),
        lambda each: each.transact([Delete(Key(LISTING, "p", f"{number}")) for number in range(101)]),
    ),
    "partition key": (
        lambda each: each.put_many([Put(Key(OBJECTS, "k" * 2048), {"key": "k" * 2048})]),
        lambda each: each.put_many([Put(Key(OBJECTS, "k" * 2049), {"key": "k" * 2049})]),
    ),
    "partition key of a read": (
        lambda each: each.get_many([Key(OBJECTS, "k" * 2048)]),
        lambda each: each.get_many([Key(OBJECTS, "k" * 2049)]),
    ),
    "partition key of a query": (
        lambda each: each.query(LISTING, "p" * 2048, None, None, limit=1),
        lambda each: each.query(LISTING, "p" * 2049, None, None, limit=1),
    ),
    "empty key": (lambda each: each.get_many([Key(OBJECTS, "k")]), lambda each: each.get_many([Key(OBJECTS, "")])),
    "sort key": (lambda each: each.put_many([row(2000, "a" * 1024)]), lambda each: each.put_many([row(2000, "a" * 1025)])),
    "bound of a query": (
        lambda each: each.query(LISTING, "p", "a" * 1024, None, limit=1),
        lambda each: each.query(LISTING, "p", "a" * 1025, None, limit=1),
    ),
    "digits of a number": (
        lambda each: each.put_many([Put(ROW.key, {"key": "k", "n": Decimal("9" * 38)})]),
        lambda each: each.put_many([Put(ROW.key, {"key": "k", "n": Decimal("9" * 39)})]),
    ),
    "depth": (
        lambda each: each.put_many([Put(ROW.key, {"key": "k", "deep": nested(31)})]),
        lambda each: each.put_many([Put(ROW.key, {"key": "k", "deep": nested(34)})]),
    ),
    "surrogate": (
        lambda each: each.put_many([Put(ROW.key, {"key": "k", "text": "ü\U0001f600"})]),
        lambda each: each.put_many([Put(ROW.key, {"key": "k", "text": "\udce9"})]),
    ),
    "surrogate of a key": (
        lambda each: each.query(LISTING, "ü", "ü", None, limit=1),
        lambda each: each.query(LISTING, "p", "\udce9", None, limit=1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("limit", OVER)
def test_a_limit_of_dynamodb_is_one_in_memory(limit: str) -> None:
    """The class is that of the twin on AWS (``ValidationException``), and nothing of the request is done."""
    most, over = OVER[limit]
    most(InMemoryDatabase())
    database = InMemoryDatabase()
    with pytest.raises(StoreUnavailableError):
        over(database)
    assert database.rows(LISTING) == database.rows(OBJECTS) == []


def test_a_float_is_no_number_of_dynamodb() -> None:
    with pytest.raises(TypeError):
        InMemoryDatabase().put_many([Put(ROW.key, {"key": "k", "n": 0.5})])


KEY = "k" * 1024


@pytest.mark.parametrize("name", ["put", "get", "head", "delete", "delete_many", "create_multipart", "list", "start_after"])
@pytest.mark.parametrize("key", [KEY + "k", "ü" * 513, "caf\udce9"])
def test_a_key_of_s3_has_1024_bytes_of_utf8(name: str, key: str) -> None:
    requests: dict[str, Callable[[InMemoryObjectStore, str], object]] = {
        "put": lambda store, key: store.put(key, b"x", PLAIN),
        "get": lambda store, key: store.get(key),
        "head": lambda store, key: store.head(key),
        "delete": lambda store, key: store.delete(key),
        "delete_many": lambda store, key: store.delete_many([KEY, key]),
        "create_multipart": lambda store, key: store.create_multipart(key, PLAIN),
        "list": lambda store, key: store.list(key),
        "start_after": lambda store, key: store.list_folders("", start_after=key),
    }
    store = InMemoryObjectStore(ManualClock())
    store.put(KEY, b"x", PLAIN)
    with pytest.raises(StoreUnavailableError):
        requests[name](store, key)
    assert store.head(KEY).size == 1 and store.uploads == 0
    requests[name](store, KEY)


def test_an_upload_has_10000_parts() -> None:
    store = InMemoryObjectStore(ManualClock())
    upload = store.create_multipart("k", PLAIN)
    store.upload_part("k", upload, 10_000, b"x")
    with pytest.raises(StoreUnavailableError):
        store.upload_part("k", upload, 10_001, b"x")


@pytest.mark.parametrize(
    "message", [Message("x" * (256 * KIB + 1)), Message("x" * 256 * KIB, {"a": "b"}), Message(""), Message("x", {"a": ""})]
)
def test_a_message_that_sns_rejects_is_rejected_by_itself(message: Message) -> None:
    topic = InMemoryPublisher()
    results = topic.publish([MESSAGE, message, MESSAGE])
    assert [type(result) if result is None else isinstance(result, UnavailableError) for result in results] == [
        type(None),
        True,
        type(None),
    ]
    assert len(topic.messages) == 2
    assert topic.publish([Message("x" * 256 * KIB)]) == [None]
