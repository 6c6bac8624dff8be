"""Background work over HTTP, for operators: lists with errors, retry, release; and bad input of any kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib import composition
from chalicelib.catalog.runs import partition_key, run_of
from chalicelib.composition import COMPACTION, SWEEP
from chalicelib.coordination import Partition, Status, WorkSource
from chalicelib.coordination.administration import write_cursor
from chalicelib.coordination.partition import (
    COMBINATION,
    KEY,
    PRIORITY,
    REOPEN,
    SOURCE,
    STATE,
    STATUS,
    TIMEOUT,
    VERSION,
    format_timestamp,
    index_key,
    to_row,
)
from chalicelib.coordination.store import IndexPosition, PartitionQuery
from chalicelib.errors import PartitionNotOwnedError
from chalicelib.ports import MAX_SORT_KEY_BYTES, Run
from chalicelib.routes import coordination
from chalicelib.runlog.batch import Batch
from chalicelib.triggers import schedules
from tests.contract.coordination import Gated, Trouble
from tests.functional.gateway import STAGE, Answer, call, event_of, handled, installed
from tests.sampling import examples
from tests.world import START_MS, World

BASE = "/v1/coordination"
LIST = f"{BASE}/compaction"
KEY_OF_ONE = "svc.pipe/run-1"
ONE = f"{LIST}/{KEY_OF_ONE}"
HOUR_MS = 3_600_000
FAILED = json.dumps({"error": "RuntimeError: it broke", "failed_ms": START_MS - HOUR_MS})


class Worked(World):
    """A world with a faulty partition store: ``trouble`` is an outage, a lost response, or a concurrent action."""

    def __init__(self) -> None:
        super().__init__()
        self.kept, self.trouble = self.work_sources(COMPACTION)[0], Trouble()
        self.work_sources = lambda source: (Gated(self.kept, self.trouble), WorkSource(source))

    def put(self, key: str = KEY_OF_ONE, source: str = COMPACTION, **attributes: Any) -> None:
        """Store a partition directly, without the code that writes partitions."""
        given = {"status": Status.UNASSIGNED, "priority": format_timestamp(START_MS)} | attributes
        self.kept.put_row(to_row(Partition(WorkSource(source).partitions, key, **given)))

    def put_row(self, **attributes: Any) -> None:
        """Store a partition with attributes that this project never writes."""
        row = to_row(Partition(WorkSource(COMPACTION).partitions, KEY_OF_ONE, Status.CLOSED, format_timestamp(START_MS)))
        self.kept.put_row(row | attributes)

    def put_each(self) -> None:
        """Store one partition of each status."""
        self.put("a/done", status=Status.COMPLETED, closed_count=20, state=FAILED, version=41)
        self.put(
            "a/off", status=Status.CLOSED, priority=format_timestamp(START_MS + 60_000), reopen_ms=START_MS + 60_000, state=FAILED
        )
        self.put("a/worked", status=Status.ASSIGNED, owner="host:1:x", timeout_ms=START_MS + 600_000)
        self.put("a/waits", priority=format_timestamp(START_MS - 2_000))


@pytest.fixture
def world() -> Iterator[Worked]:
    made = Worked()
    with installed(made):
        yield made


def get(query: str = "", path: str = LIST) -> Answer:
    return call("GET", f"{path}?{query}" if query else path)


def listed(query: str = "", path: str = LIST) -> list[dict[str, Any]]:
    """The partitions of all pages."""
    answer = get(query, path)
    found: list[dict[str, Any]] = []
    while True:
        assert answer.status == 200, answer.body
        found += answer.json["partitions"]
        if answer.json["cursor"] is None:
            return found
        answer = get(f"{query}&{urlencode({'cursor': answer.json['cursor']})}", path)


def keys(query: str = "") -> list[str]:
    return [partition["key"] for partition in listed(query)]


def retry(path: str = ONE) -> Answer:
    return call("POST", f"{path}/retry")


def release(path: str = ONE) -> Answer:
    return call("POST", f"{path}/release")


def post_to(path: str) -> Answer:
    """POST to a path of any depth. A gateway accepts it since the last part of the last route is greedy; Chalice's own would not."""
    event = event_of("POST", f"{LIST}/a/b/c/d/e/f/g/h")
    event["path"] = path
    event["requestContext"]["path"] = f"{STAGE}{path}"
    return handled(event)


def is_refusal(answer: Answer, status: int) -> bool:
    body = answer.json
    told = answer.status == body["code"] == status and body.keys() == {"code", "message"} and bool(body["message"])
    return told and (answer.headers.get("Retry-After") == "1") == (status == 503) and "Traceback" not in answer.body


# ---------------------------------------------------------------- lists


def test_nothing_to_do_is_an_empty_page(world: Worked) -> None:
    assert get().json == {"partitions": [], "cursor": None}
    assert get(path=f"{BASE}/sweep/").json == {"partitions": [], "cursor": None}


def test_a_partition_that_was_set_aside_says_why(world: Worked) -> None:
    world.put(status=Status.COMPLETED, closed_count=20, state=FAILED, version=41)
    assert get().json["partitions"] == [
        {
            "key": "svc.pipe/run-1",
            "fqn": "svc.pipe",
            "run_id": "run-1",
            "status": "COMPLETED",
            "set_aside": True,
            "failures": 20,
            "error": "RuntimeError: it broke",
            "failed_at": "2026-09-21T13:13:20.000Z",
            "reopen_at": None,
            "owner": None,
            "owned_until": None,
            "since": "2026-09-21T13:13:20.000Z",
            "age_s": 3600,
            "version": 41,
        }
    ]


def test_most_urgent_partitions_come_first_with_their_facts(world: Worked) -> None:
    world.put_each()
    done, off, worked, waits = listed()
    assert [each["status"] for each in (done, off, worked, waits)] == list(coordination.ORDER)
    assert [each["set_aside"] for each in (done, off, worked, waits)] == [True, False, False, False]
    assert (off["reopen_at"], off["error"], off["age_s"]) == ("2026-09-21T14:14:20.000Z", "RuntimeError: it broke", 3600)
    assert (worked["owner"], worked["owned_until"]) == ("host:1:x", "2026-09-21T14:23:20.000Z")
    assert (worked["since"], worked["age_s"]) == (None, None)
    assert (waits["since"], waits["age_s"], waits["error"]) == ("2026-09-21T14:13:18.000Z", 2, None)


def test_one_that_is_done_is_not_set_aside(world: Worked) -> None:
    world.put(status=Status.COMPLETED, state='{"offset": 5}')
    (done,) = listed()
    assert (done["set_aside"], done["error"], done["since"]) == (False, None, None)


@pytest.mark.parametrize("status", ["CLOSED", "closed", "Closed"])
def test_only_one_status(world: Worked, status: str) -> None:
    world.put_each()
    assert keys(f"status={status}") == ["a/off"]
    assert keys("status=") == ["a/done", "a/off", "a/worked", "a/waits"], "an empty one counts as not given"


def test_each_source_has_its_own(world: Worked) -> None:
    world.put("a/one", COMPACTION)
    world.put("a/two", SWEEP)
    assert keys() == ["a/one"]
    assert [each["key"] for each in listed(path=f"{BASE}/sweep")] == ["a/two"]
    assert retry(f"{BASE}/sweep/a/one").status == 404


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(list(Status)), st.integers(0, 3)), max_size=30), st.integers(1, 12))
def test_pages_have_each_partition_once_and_in_order(made: list[tuple[Status, int]], limit: int) -> None:
    world = Worked()
    for number, (status, priority) in enumerate(made):
        world.put(f"a/{number:03d}", status=status, priority=format_timestamp(START_MS + priority))
    expected = [
        f"a/{number:03d}"
        for wanted in coordination.ORDER
        for _, number in sorted((priority, number) for number, (status, priority) in enumerate(made) if status is wanted)
    ]
    with installed(world):
        assert keys(f"limit={limit}") == keys() == expected
        assert [key for status in coordination.ORDER for key in keys(f"limit={limit}&status={status.lower()}")] == expected
        first = get(f"limit={limit}").json["partitions"]
        assert len(first) == min(limit, len(expected)), "a page is filled from several statuses"


def test_twenty_five_unless_asked_for(world: Worked) -> None:
    for number in range(120):
        world.put(f"a/{number}")
    assert [len(get(query).json["partitions"]) for query in ("", "limit=", "limit=1", "limit=100")] == [25, 25, 1, 100]


# ---------------------------------------------------------------- another try, and away from a worker


@pytest.mark.parametrize("status", [Status.CLOSED, Status.COMPLETED])
def test_a_retry_lets_it_be_worked_at_once(world: Worked, status: Status) -> None:
    world.put(status=status, closed_count=20, reopen_ms=START_MS + HOUR_MS, state=FAILED, version=41)
    world.clock.advance(10)
    answer = retry()
    assert answer.status == 200
    told = answer.json
    assert (told["status"], told["failures"], told["set_aside"], told["version"]) == ("UNASSIGNED", 0, False, 42)
    assert (told["since"], told["age_s"], told["reopen_at"]) == ("2026-09-21T14:13:30.000Z", 0, None)
    assert told["error"] == "RuntimeError: it broke", "what went wrong last is still to be seen"
    assert listed() == [told]
    assert retry().json == told, "twice is harmless"
    lease = composition.coordinator(composition.services(), COMPACTION)
    lease.initialize()
    assert [taken.key for taken in lease.acquire_many(5)] == [KEY_OF_ONE]
    lease.shutdown()


@pytest.mark.parametrize("status", [Status.ASSIGNED, Status.UNASSIGNED])
def test_waiting_or_assigned_partition_cannot_be_retried(world: Worked, status: Status) -> None:
    world.put(status=status, closed_count=3, owner="host:1:x" if status is Status.ASSIGNED else None)
    before = listed()
    answer = retry()
    assert (answer.status, [answer.json]) == (200, before)
    assert listed() == before and world.trouble.calls["replace"] == 0


def test_release_takes_a_partition_from_its_owner(world: Worked) -> None:
    first, second = (composition.coordinator(composition.services(), COMPACTION) for _ in range(2))
    for each in (first, second):
        each.initialize()
    world.put()
    (lease,) = first.acquire_many(1)
    assert second.acquire_many(1) == []
    answer = release()
    assert answer.status == 200
    assert (answer.json["status"], answer.json["owner"], answer.json["owned_until"]) == ("UNASSIGNED", None, None)
    world.clock.advance(3)  # until the other worker scans again
    (overtaking,) = second.acquire_many(1)
    assert overtaking.fence > lease.fence
    with pytest.raises(PartitionNotOwnedError):
        first.save_state(lease, {"mine": True})
    second.shutdown()


@pytest.mark.parametrize("status", [Status.CLOSED, Status.COMPLETED, Status.UNASSIGNED])
def test_partition_without_owner_cannot_be_released(world: Worked, status: Status) -> None:
    world.put(status=status, closed_count=3, state=FAILED)
    before = listed()
    answer = release()
    assert (answer.status, [answer.json]) == (200, before)
    assert listed() == before and world.trouble.calls["replace"] == 0


@pytest.mark.parametrize("act", [retry, release])
def test_write_with_a_lost_response_succeeds(world: Worked, act: Any) -> None:
    world.put(status=Status.CLOSED if act is retry else Status.ASSIGNED, owner="x", version=7)
    world.trouble.lost = 1
    answer = act()
    assert (answer.status, answer.json["status"], answer.json["version"]) == (200, "UNASSIGNED", 8)


def test_a_body_of_any_type_is_ignored(world: Worked) -> None:
    world.put(status=Status.CLOSED)
    for content_type, body in [
        ("application/json", "{"),
        ("text/plain", "x"),
        ("application/x-www-form-urlencoded", "a=b"),
        ("image/png", b"\x89"),
    ]:
        assert call("POST", f"{ONE}/retry", body, {"Content-Type": content_type}).status == 200


@pytest.mark.behavior("An operator sees why a run was set aside and can retry it.")
def test_a_run_that_fails_is_seen_retried_and_done(world: Worked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the schedule."""
    run, services = Run("svc.pipe", "run-1"), composition.services()
    world.parts().writer.append(run, Batch.from_text("line"))
    services.runs.record_segment(run, world.parts().writer.tails.segment(run, 0))
    with installed(world, runs=services.runs, set_aside_after_failures=2, pending_flush_alert_after_failures=1):
        with monkeypatch.context() as patched:
            patched.setattr(world.store, "put", lambda *_: 1 / 0)
            assert schedules.compact(composition.services(), 840_000)["failed"] == 1
            (off,) = listed("status=closed")
            assert (off["failures"], off["set_aside"], off["reopen_at"]) == (1, False, "2026-09-21T14:14:20.000Z")
            world.clock.advance(61)
            assert schedules.compact(composition.services(), 840_000)["set_aside"] == 1
        (aside,) = listed()
        assert (aside["set_aside"], aside["failures"], aside["since"]) == (True, 2, "2026-09-21T14:14:21.000Z")
        assert (aside["fqn"], aside["run_id"]) == (run.fqn, run.run_id) and "ZeroDivisionError" in aside["error"]
        assert retry().status == 200
        assert schedules.compact(composition.services(), 840_000)["done"] == 1
        assert listed() == []
        assert is_refusal(retry(), 404), "it is done, and gone"


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("svc.pipe/run-1", "svc.pipe/run-1"),
        ("svc/a/b.pipe/run-1", "svc/a/b.pipe/run-1"),
        ("svc%2Fa%2fb.pipe/run-1", "svc/a/b.pipe/run-1"),
        ("a/b/c/d/e/f/run-1", "a/b/c/d/e/f/run-1"),
        ("a//b/run-1", "a//b/run-1"),
        ("%22my%20svc%22.p%C3%AFpe/run-1", '"my svc".pïpe/run-1'),
        ("100%25/run-1", "100%/run-1"),
        ("100%2520/run-1", "100%20/run-1"),
        ("a+b/run-1", "a+b/run-1"),
        ("retry/release", "retry/release"),
        ("v1/coordination/sweep/a/run-1", "v1/coordination/sweep/a/run-1"),
    ],
)  # fmt: skip
def test_a_path_is_read_from_its_right_end(world: Worked, path: str, key: str) -> None:
    world.put(key, status=Status.CLOSED, version=1)
    for act in (retry, release):
        for slash in ("", "/"):
            answer = call("POST", f"{LIST}/{path}/{act.__name__}{slash}")
            assert (answer.status, answer.json["key"], answer.json["version"]) == (200, key, 2)
    run = run_of(key)
    assert (answer.json["fqn"], answer.json["run_id"]) == (run.fqn, run.run_id)
    assert partition_key(run) == key


def test_path_deeper_than_the_routes_is_parsed(world: Worked) -> None:
    key = "/".join("abcdefghijkl") + "/run-1"
    world.put(key, status=Status.CLOSED)
    answer = post_to(f"{LIST}/{key}/retry")
    assert (answer.status, answer.json["key"], answer.json["status"]) == (200, key, "UNASSIGNED")


@settings(max_examples=examples(60), deadline=None)
@given(*[st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40)] * 2)
def test_any_name_of_a_run_finds_its_partition(fqn: str, run_id: str) -> None:
    run_id = run_id.replace("/", "_") + "-"
    world = Worked()
    world.put(f"{fqn}/{run_id}", status=Status.COMPLETED, state=FAILED)
    with installed(world):
        (shown,) = listed()
        path = f"{LIST}/{quote(shown['fqn'], safe='')}/{quote(shown['run_id'], safe='')}"
        assert retry(path).json == shown | retry(path).json == listed()[0]
        assert (shown["fqn"], shown["run_id"]) == (fqn, run_id)


# ---------------------------------------------------------------- bad input


def cursor(status: str = "CLOSED", of: str = "ALL", place: str | None = None) -> str:
    return f"{of}.{status}.{place if place is not None else write_cursor(IndexPosition('p', 'a/1'))}"


@pytest.mark.parametrize(
    "given",
    [
        *({"status": text} for text in ("done", "CLOSED,ASSIGNED", " closed", "0", "null", "closed\n", "ß", "\0", "*", "É" * 500)),
        *({"limit": text} for text in ("0", "101", "-1", "1.5", "x", "1e1", "+1", " 1", "٣", "9" * 5000, "null", "1\n", "0x10")),
        *(
            {"cursor": text}
            for text in ("x", "null", "..", "ALL", "ALL.", ".CLOSED.", "é", "\0", "ALL.closed.", "x.CLOSED.", "a.b.c.d")
        ),
        *({"cursor": cursor(place=text)} for text in ("x", "W10", "bnVsbA", "WyIiLCIiXQ", "[" * 1000, "é", "=", "WzEsMl0")),
        {"cursor": cursor("DONE")},
        {"cursor": cursor(place=write_cursor(IndexPosition("p", "k" * (MAX_SORT_KEY_BYTES + 1))))},
        {"cursor": cursor(place=write_cursor(IndexPosition("p" * 5000, "a/1")))},
        {"cursor": cursor(place=write_cursor(IndexPosition("p", "a/\ud800")))},
        {"cursor": cursor("CLOSED"), "status": "closed"},
        {"cursor": cursor("CLOSED", "CLOSED")},
        {"cursor": cursor("CLOSED", "CLOSED"), "status": "assigned"},
        {"cursor": cursor("ASSIGNED", "CLOSED"), "status": "closed"},
    ],
    ids=str,
)
def test_a_parameter_that_cannot_be(world: Worked, given: dict[str, str]) -> None:
    world.put_each()
    assert is_refusal(get(urlencode(given, errors="replace")), 400)
    assert world.trouble.calls.total() == 0, "it is told before anything is asked"


@pytest.mark.parametrize(
    "source", ["nope", "COMPACTION", "compaction%00", "compaction%2F", "GLOBAL_STATE", "compaction%7CPARTITION", "%20", "."]
)
def test_unknown_source_is_refused(world: Worked, source: str) -> None:
    for answer in (get(path=f"{BASE}/{source}"), retry(f"{BASE}/{source}/a/b"), release(f"{BASE}/{source}/a/b")):
        assert is_refusal(answer, 404)


@pytest.mark.parametrize("path", [f"{BASE}/a%FFb", f"{LIST}/a%FFb/run-1/retry", f"{LIST}/a/run%FF/retry"])
def test_a_path_that_is_no_utf8(world: Worked, path: str) -> None:
    assert is_refusal(call("POST" if "retry" in path else "GET", path), 400)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("nobody/knows", 404),
        ("%2e%2e/%2e%2e", 404),
        ("/run", 404),
        ("a%00b/run", 400),  # names that no run can have, as in logs
        ("a%0Ab/run", 400),
        ("a/run%7F", 400),
        ("a/x%2Fy", 400),
        ("a/last", 400),
    ],
)
def test_a_partition_that_is_not_there(world: Worked, path: str, status: int) -> None:
    world.put_each()
    for act in (retry, release):
        assert is_refusal(act(f"{LIST}/{path}"), status)
    assert world.trouble.calls["replace"] == 0


@pytest.mark.parametrize("fqn", ["a" * MAX_SORT_KEY_BYTES, "%C3%A9" * 600])
def test_a_key_that_no_item_can_have_is_not_asked_for(world: Worked, fqn: str) -> None:
    """DynamoDB would reject the request."""
    assert is_refusal(retry(f"{LIST}/{fqn}/run-1"), 400)
    assert world.trouble.calls.total() == 0


@pytest.mark.parametrize(
    "path", ["svc.pipe/run-1/again", "svc.pipe/run-1/RETRY", "svc.pipe/run-1/retry/now", "svc.pipe/run-1/%72etry"]
)
def test_another_word_at_the_end(world: Worked, path: str) -> None:
    world.put(status=Status.CLOSED)
    assert is_refusal(call("POST", f"{LIST}/{path}"), 404)
    assert world.trouble.calls.total() <= 1


@pytest.mark.parametrize(("path", "allowed"), [(LIST, "GET"), (f"{ONE}/retry", "POST"), (f"{ONE}/release", "POST")])
@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "GET", "POST"])
def test_other_methods(world: Worked, method: str, path: str, allowed: str) -> None:
    world.put(status=Status.CLOSED)
    if method != allowed:
        answer = call(method, path)
        assert is_refusal(answer, 405) and answer.headers["Allow"] == allowed


@settings(max_examples=examples(150), deadline=None)
@given(
    source=st.sampled_from(["compaction", "sweep", "x"]),
    query=st.one_of(
        st.text("=&abcdelimtsuor%2F0189-.;", max_size=40),
        st.fixed_dictionaries({}, optional={name: st.text(max_size=12) for name in ("status", "limit", "cursor")}).map(
            lambda given: urlencode(given, errors="replace")
        ),
    ),
    tail=st.text("abc%2F0./'\" +~é-", min_size=1, max_size=40),
    word=st.sampled_from(["retry", "release", "x"]),
)
def test_nothing_is_ever_a_500(source: str, query: str, tail: str, word: str) -> None:
    world = Worked()
    world.put_each()
    with installed(world):
        for answer in (get(query, f"{BASE}/{source}"), post_to(f"{BASE}/{source}/f/{tail}/{word}")):
            assert answer.status in (200, 400, 404)
            assert answer.status < 400 or is_refusal(answer, answer.status)


# ---------------------------------------------------------------- stores that are away, items that nobody here wrote


def test_a_store_that_is_away_is_a_503_to_repeat(world: Worked) -> None:
    world.put(status=Status.CLOSED)
    world.trouble.outage = True
    for answer in (get(), retry(), release()):
        assert is_refusal(answer, 503)
    world.trouble.outage = False
    world.trouble.lost = 99
    assert is_refusal(retry(), 503), "nobody knows whether it was applied"
    world.trouble.lost = 0
    assert retry().json["status"] == "UNASSIGNED"


def test_one_that_others_keep_changing_is_a_503_to_repeat(world: Worked) -> None:
    version = 0

    def change(*_: object) -> None:
        nonlocal version
        version += 1
        world.put(status=Status.CLOSED, version=version)
        world.trouble.before_next["replace"] = change

    change()
    assert is_refusal(retry(), 503)
    assert world.trouble.calls["replace"] == 5


def test_one_that_goes_in_between_is_a_404(world: Worked) -> None:
    def remove() -> None:
        found, _ = world.kept.query(PartitionQuery(WorkSource(COMPACTION).partitions, Status.CLOSED))
        assert world.kept.delete(found[0]) is None

    world.put(status=Status.CLOSED)
    world.trouble.before_next["replace"] = remove
    assert is_refusal(retry(), 404)


def test_an_item_that_cannot_be_read_is_named(world: Worked) -> None:
    world.put_row(**{VERSION: "many"})
    for answer in (get(), retry()):
        assert is_refusal(answer, 503) and KEY_OF_ONE in answer.json["message"]


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=9),
    lambda inner: st.dictionaries(st.sampled_from(["error", "failed_ms", "x"]), inner),
)
LARGE = json.dumps({"error": "e" * 9000, "failed_ms": 10**30})
ODD = ["[" * 5000, "9" * 5000, '{"error": "\\ud800"}', '{"error": "x", "failed_ms": true}', LARGE]
FIRST = "0001-01-01T00:00:00+14:00"  # in UTC it is before the first year


@settings(max_examples=examples(100), deadline=None)
@given(
    st.one_of(st.text(max_size=30), JSON.map(json.dumps), st.sampled_from(ODD)),
    st.sampled_from([format_timestamp(START_MS), FIRST, "2026-09-21T14:13:20Z", "9999-12-31T23:59:59.999999999Z"]),
    st.sampled_from([format_timestamp(START_MS), FIRST, "soon", "x" * 1000, "2026-09-21T14:13:20"]),
    st.sampled_from(["no slash", "/x", "a//b", "a/"]),
    st.sampled_from(list(Status)),
)
def test_items_that_others_laid_out_are_listed(state: str, moment: str, priority: str, key: str, status: Status) -> None:
    world = Worked()
    index = index_key(WorkSource(COMPACTION).partitions, status)
    world.put_row(
        **{STATE: state, TIMEOUT: moment, REOPEN: moment, PRIORITY: priority, KEY: key, STATUS: status, COMBINATION: index}
    )
    with installed(world):
        (shown,) = listed()
        assert shown["error"] is None or len(shown["error"]) <= 1000
        assert shown["key"] == key
        assert listed(f"status={status}&limit=1") == [shown]


def test_other_sources_of_the_table_are_not_listed(world: Worked) -> None:
    world.put_row(**{SOURCE: "other|PARTITION"})
    composition.coordinator(composition.services(), COMPACTION).initialize()
    (row,) = [row for row in world.kept.rows() if row[SOURCE].endswith("GLOBAL_STATE")]
    assert listed("status=unassigned") == []
    assert is_refusal(retry(f"{LIST}/{row[KEY]}/x"), 404)
