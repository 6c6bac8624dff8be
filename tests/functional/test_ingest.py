"""The ingest function with events of Lambda: duplicates, reordering, bad input, partial failures."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from chalicelib.errors import StoreUnavailableError
from chalicelib.ingestion.report import MAX_BYTES, Record, Report
from chalicelib.ingestion.run_files import slug
from chalicelib.ports import PutOptions, Run, RunEnd
from chalicelib.runlog.batch import Batch
from chalicelib.triggers.ingest import ingest
from tests.docs.pages import DOCS, blocks
from tests.ingestion_harness import BUCKET, ingester_of, message, queued, s3_record
from tests.support.publisher import InMemoryPublisher
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import RUN, World


class Function:
    """The function over a world in memory."""

    def __init__(self) -> None:
        self.world, self.runs, self.topic = World(), InMemoryRunCatalog(), InMemoryPublisher()
        self.flushed: list[Run] = []
        self.down = False

    def write(self, text: str, run: Run = RUN) -> str:
        """Append a batch. Returns the key of its segment."""
        entry = self.world.parts().writer.append(run, Batch.from_text(text, "Host One-77")).entry
        assert entry
        return self.world.layout.segment(run, entry.sequence)

    def handle(self, *bodies: str, remaining_ms: int = 60_000) -> Any:
        """Process one batch of messages. Returns the failed ones."""
        runs: Any = self._runs()
        ingester = ingester_of(self.world, runs, self.topic, watermark_bytes=100, early_flush=self.flushed.append)
        return ingest(ingester, queued(*bodies), remaining_ms)

    def _runs(self) -> Any:
        if not self.down:
            return self.runs

        class Down:
            def __getattr__(self, name: str) -> Any:
                raise StoreUnavailableError("the catalog is down")

        return Down()

    @property
    def reports(self) -> list[dict[str, Any]]:
        return [json.loads(message) for message, _ in self.topic.messages]


@pytest.fixture
def function() -> Function:
    return Function()


def test_a_segment_is_catalogued_and_reported(function: Function) -> None:
    key = function.write("a\nb\n")
    assert function.handle(message(s3_record(key))) == {"batchItemFailures": []}
    row = function.runs.get(RUN)
    assert row and (row.lines, row.bytes, row.segments, row.status) == (2, 4, 1, "open")
    assert function.world.index.at_line(RUN, 1) == function.world.parts().writer.tails.segment(RUN, 0)
    (report,) = function.reports
    assert (report["version"], report["status"], report["duration"]) == (0, "success", 0.0)
    (record,) = report["records"]
    assert (record["url"], record["size"]) == (f"s3://{BUCKET}/{key}", 4)
    assert record["metadata"] | {"id": "", "hash": ""} == {
        "version": 0, "start": function.world.clock.now_ms(), "end": function.world.clock.now_ms(), "path": f"/{key}",
        "work_id": RUN.run_id, "where": "host_one-77", "what": "svc_pipeline", "id": "", "hash": "",
    }  # fmt: skip


@pytest.mark.behavior("Notifications may arrive twice and in any order.")
def test_twice_and_in_any_order_is_the_same(function: Function) -> None:
    keys = [function.write(f"{number}\n") for number in range(4)]
    bodies = [message(s3_record(key)) for key in keys]
    function.handle(*bodies)
    expected = function.runs.get(RUN)
    function.handle(*bodies[::-1], *bodies)
    assert function.runs.get(RUN) == expected
    other = Function()
    other.world = function.world
    other.handle(*bodies[::-1])
    assert other.runs.get(RUN) == expected


def test_a_message_from_sns_and_the_test_event(function: Function) -> None:
    key = function.write("a\n")
    wrapped = json.dumps({"Type": "Notification", "Message": message(s3_record(key))})
    test_event = json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": BUCKET})
    assert function.handle(wrapped, test_event) == {"batchItemFailures": []}
    assert [report["status"] for report in function.reports] == ["success"]


@pytest.mark.parametrize("fqn", ["svc with space", "svc+plus", "größe/語.#1", "a%2Fb", "quo'te\""])
def test_keys_are_decoded_once(function: Function, fqn: str) -> None:
    run = Run(fqn, "run-1")
    function.handle(message(s3_record(function.write("a\n", run))))
    row = function.runs.get(run)
    assert row and row.lines == 1


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("no json", "must be json"),
        ("[]", "must be a json object"),
        ("{}", "must have Records"),
        ('{"Records": [5]}', "lacks a field"),
        ('{"Records": [{}]}', "lacks a field"),
        (message(s3_record("k", name="ObjectTagging:Put")), "unsupported event"),
        (message(s3_record("k", version="3.0")), "unsupported version"),
        (message(s3_record("elsewhere/k")), "not an object of a run"),
        (message(s3_record("pipeline-logs/a/b/logs.txt", bucket="another")), "unknown bucket"),
        (message(s3_record("pipeline-logs/a/b/segments/0000000000")), "is gone"),
    ],
)
def test_bad_input_is_reported_and_done_with(function: Function, body: str, says: str) -> None:
    assert function.handle(body) == {"batchItemFailures": []}
    (report,) = function.reports
    assert report["status"] == "error" and says in report["message"] and report["records"] == []


@pytest.mark.behavior("An invalid object does not hold up the others of its message.")
def test_one_bad_object_does_not_take_its_neighbours_down(function: Function) -> None:
    good = function.write("a\n")
    function.world.store.put("pipeline-logs/a/b/segments/0000000000", b"no metadata", PutOptions())
    body = message(s3_record("pipeline-logs/a/b/segments/0000000000"), {"eventName": "nonsense"}, s3_record(good))
    assert function.handle(body) == {"batchItemFailures": []}
    (report,) = function.reports
    assert report["status"] == "warning" and [record["url"] for record in report["records"]] == [f"s3://{BUCKET}/{good}"]
    assert "metadata is missing" in report["message"] and "lacks a field" in report["message"]


def test_trouble_of_ours_brings_only_its_message_again(function: Function) -> None:
    key = function.write("a\n")
    function.down = True
    failed = function.handle(message(s3_record(key)), "no json")
    assert failed == {"batchItemFailures": [{"itemIdentifier": "message-0"}]}
    function.down = False
    assert function.handle(message(s3_record(key))) == {"batchItemFailures": []}
    assert function.runs.get(RUN)


def test_a_report_that_cannot_be_sent_brings_the_message_again(function: Function) -> None:
    key = function.write("a\n")

    def broken(*_: object) -> None:
        raise StoreUnavailableError("the topic is down")

    publish, function.topic.publish = function.topic.publish, broken  # type: ignore[method-assign, assignment]
    assert function.handle(message(s3_record(key)))["batchItemFailures"] == [{"itemIdentifier": "message-0"}]
    function.topic.publish = publish  # type: ignore[method-assign]
    assert function.handle(message(s3_record(key))) == {"batchItemFailures": []}


def test_artifacts_move_the_row_on(function: Function) -> None:
    function.handle(message(s3_record(function.write("a\nb\n"))))
    function.world.parts().compactor.compact(RUN, function.world.deadline())
    function.handle(message(s3_record(function.world.layout.partial(RUN), "ObjectCreated:CompleteMultipartUpload")))
    row = function.runs.get(RUN)
    assert row and (row.compacted_bytes, row.pending_bytes) == (4, 0)
    function.world.parts().finalizer.close(RUN)
    function.handle(message(s3_record(function.world.layout.segment(RUN, 1)), s3_record(function.world.layout.logs(RUN))))
    row = function.runs.get(RUN)
    assert row and (row.status, row.seal) == ("finalized", "closed")


@pytest.mark.behavior("A subscription can be filtered to runs that failed.")
@pytest.mark.parametrize(
    ("end", "metadata", "is_failure"),
    [
        (None, {"outcome": "unknown"}, False),
        (RunEnd("succeeded", exit_code=0), {"outcome": "succeeded", "exit_code": 0}, False),
        (RunEnd("cancelled", signal="SIGTERM"), {"outcome": "cancelled", "signal": "SIGTERM"}, False),
        (
            RunEnd("failed", 1, exception="KeyError: 'ü'", step="load", lost_lines=3),
            {"outcome": "failed", "exit_code": 1, "exception": "KeyError: 'ü'", "failed_step": "load", "lost_lines": 3},
            True,
        ),
        ("abandoned", {"outcome": "lost"}, True),
    ],
)
def test_report_of_a_seal_has_the_outcome_and_failures_pass_the_filter_of_the_docs(
    function: Function, end: Any, metadata: dict[str, Any], is_failure: bool
) -> None:
    key, finalizer = function.write("a\n"), function.world.parts().finalizer
    if end == "abandoned":
        function.world.clock.advance(60)
        assert finalizer.abandon(RUN, function.world.clock.now_ms(), function.world.deadline()).finalized
    else:
        finalizer.close(RUN, end=end)
    seal, logs = function.world.layout.segment(RUN, 1), function.world.layout.logs(RUN)
    function.handle(*(message(s3_record(each)) for each in (key, seal, logs)))
    common = {"version", "start", "end", "path", "work_id", "where", "what", "id", "hash"}
    found = [report["records"][0]["metadata"] for report in function.reports]
    assert [set(each) - common for each in found] == [set(), {"fqn", "run_id", *metadata}, {"fqn", "run_id", "lines", "outcome"}]
    assert found[2]["outcome"] == metadata["outcome"]
    assert found[1].items() >= {"fqn": RUN.fqn, "run_id": RUN.run_id, **metadata}.items()
    passed = [passes(attributes) for _, attributes in function.topic.messages]
    assert passed == [False, is_failure, False]


def passes(attributes: dict[str, str]) -> bool:
    """Whether SNS delivers a message to the subscription for mails of docs/how-to.md."""
    (block,) = [block.text for block in blocks(DOCS / "how-to.md", "sh") if "--protocol email" in block.text]
    policy = json.loads(json.loads(shlex.split(block.replace("\\\n", ""))[-1])["FilterPolicy"])
    return all(attributes.get(name) in values for name, values in policy.items())


def test_outcome_of_a_file_is_no_failure_of_a_run() -> None:
    record = Record("s3://archive/id/data", 1, 1, {"outcome": "failed"})
    assert [each.attributes for each in Report(0, 0.1, [record]).messages()] == [{"status": "success"}]


def test_notification_of_a_tombstone_is_ignored(function: Function) -> None:
    key = function.world.layout.tombstone(RUN)
    function.world.store.put(key, b"{}", PutOptions())
    assert function.handle(message(s3_record(key)))["batchItemFailures"] == []
    assert function.topic.messages == [] and function.runs.get(RUN) is None


def test_a_marker_about_once_a_minute(function: Function) -> None:
    prefix = function.world.layout.markers(RUN)

    def markers() -> list[str]:
        return [found.key.removeprefix(prefix) for found in function.world.store.list(prefix).objects]

    function.handle(message(s3_record(function.write("a\n"))))
    assert markers() == ["Host%20One-77"]
    function.world.store.delete(prefix + "Host%20One-77")
    function.handle(message(s3_record(function.write("b\n"))))
    assert markers() == []
    function.world.clock.advance(61)
    key = function.write("c\n")
    function.handle(message(s3_record(key)), message(s3_record(prefix + "Host%20One-77")))
    assert markers() == ["Host%20One-77"]
    assert len(function.reports) == 3, "a marker is not reported"


def test_a_flush_out_of_turn_when_the_watermark_is_crossed(function: Function) -> None:
    for number in range(5):
        function.handle(message(s3_record(function.write("x" * 39 + "\n"))))
        assert len(function.flushed) == (number + 1) * 40 // 100


def test_no_flush_where_it_could_outlast_the_function(function: Function) -> None:
    """The flush would be cut off, and its whole batch reported twice."""
    function.handle(message(s3_record(function.write("x" * 399 + "\n"))), remaining_ms=25_000)
    assert not function.flushed and len(function.reports) == 1


def test_notifications_of_removals_change_nothing(function: Function) -> None:
    key = function.write("a\n")
    function.handle(message(s3_record(key)))
    before = function.runs.get(RUN)
    assert function.handle(message(s3_record(key, "ObjectRemoved:Delete"), s3_record(key, "LifecycleExpiration:Delete"))) == {
        "batchItemFailures": []
    }
    assert function.runs.get(RUN) == before and len(function.reports) == 1


@pytest.mark.parametrize("event", ["ObjectRemoved:Delete", "LifecycleExpiration:Delete"])
def test_explanation_goes_with_its_log(function: Function, event: str) -> None:
    segment, key = function.write("ERROR password is x\n"), function.world.layout.logs(RUN)
    function.world.parts().finalizer.close(RUN)
    function.handle(message(s3_record(segment), s3_record(function.world.layout.segment(RUN, 1)), s3_record(key)))
    function.runs.record_explanation(RUN, 2, "ERROR password is x")
    function.handle(message(s3_record(key, event)))
    row = function.runs.get(RUN)
    assert row and row.explanation == "ERROR password is x", "late: it was written again"
    function.world.store.delete(key)
    function.handle(message(s3_record(key, event)))
    function.runs.record_explanation(RUN, 2, "ERROR password is x")
    row = function.runs.get(RUN)
    assert row and (row.explanation, row.is_explained) == ("", True)


def test_a_report_stays_below_what_a_message_may_be() -> None:
    records = [Record(f"s3://b/{number}", 1, 1, {"path": "x" * 900}) for number in range(1000)]
    messages = [message.body for message in Report(0, 0.1, records).messages()]
    assert len(messages) > 3 and all(len(text.encode()) <= MAX_BYTES for text in messages)
    assert [record["url"] for text in messages for record in json.loads(text)["records"]] == [record.url for record in records]


@pytest.mark.parametrize(("name", "expected"), [("Svc.Pipe line", "svc_pipe_line"), ("語", "_"), ("a-b_c9", "a-b_c9")])
def test_slugs(name: str, expected: str) -> None:
    assert slug(name) == expected
