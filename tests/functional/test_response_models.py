"""Real responses of typed dictionaries are those of their models and of the document: mypy checks only how they are built."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from chalicelib.archive.uploads import PART_BYTES
from chalicelib.catalog.files import FileRecord
from chalicelib.catalog.listing import directory_keys, listing_rows
from chalicelib.catalog.metadata import Metadata
from chalicelib.ports import Put, Run, RunEnd, RunStart
from chalicelib.routes import agents_models, archive_models, catalog_models, events_models, logs_models
from tests.functional import archive
from tests.functional.archive import FILES, deployed, described
from tests.functional.gateway import Answer, call, get, installed, post
from tests.functional.test_http_catalog import Site, site
from tests.support.samples import JSON, LINES, NAMED
from tests.unit.test_openapi import COMPONENTS, OPERATIONS, mistakes
from tests.world import World

__all__ = ["site"]
RUN = Run("svc.a", "run-1")


def check(name: str, model: Any, answer: Answer) -> None:
    """Check that a response is valid, and has no field that its model does not have."""
    assert answer.status in (200, 201), answer.body
    check_body(name, model, answer)


def check_body(name: str, model: Any, answer: Answer) -> None:
    assert mistakes(COMPONENTS["schemas"][name], answer.json) == []
    adapter = TypeAdapter(model)
    assert adapter.dump_python(adapter.validate_json(answer.body), mode="json", exclude_unset=True) == answer.json


def ended_run(site: Site) -> None:
    """A run with a start, two segments and a reported failure."""
    site.runs.record_start(RUN, RunStart("s", "run-1", 1, "host-1", "load", 1000, 1000))
    site.write("svc.a", "run-1", "one\nERROR an error\n")
    site.write("svc.b", "run-2", "one\n")
    tails = site.world.parts().writer.tails
    site.world.index.put(RUN, [tails.segment(RUN, 0)])
    site.runs._rows[RUN] = replace(
        site.runs._rows[RUN], seal="closed", end=RunEnd("failed", 3, "SIGKILL", "ValueError: x", "load", 2)
    )


@pytest.mark.parametrize(
    ("path", "name", "model"),
    [
        ("", "RecentRuns", catalog_models.RecentRunPage),
        ("/history?fqn=svc.a", "Histories", catalog_models.PipelineHistories),
        ("/pipelines", "PipelineList", catalog_models.PipelineEntryPage),
        ("/pipelines/svc.a/runs", "RunFactsList", catalog_models.RunFactsPage),
        ("/pipelines/svc.a/runs/run-1", "Run", catalog_models.RunDetails),
        ("/pipelines/svc.a/runs/run-1/explanation", "Explanation", catalog_models.RunExplanation),
        ("/pipelines/svc.a/runs/run-1/grep?q=error", "Matches", catalog_models.MatchingLines),
        ("/pipelines/svc.a/runs/run-1/histogram", "Histogram", catalog_models.RunHistogram),
    ],
)
def test_responses_of_the_catalog(site: Site, path: str, name: str, model: Any) -> None:
    ended_run(site)
    answer = call("GET", f"/v1/catalog{path}")
    check(name, model, answer)
    assert "runId" in answer.json or any(isinstance(each, list) and each for each in answer.json.values())


DAMAGED = {
    "lines": -1,
    "bytes": -2,
    "seal": "odd",
    "start": RunStart("s", "\ud800", 0, "h", "c", -5, -5),
    "end": RunEnd("odd", "3", "s", "e", "x", -1),  # type: ignore[arg-type]
}


def test_row_with_values_that_nothing_here_writes_is_served(site: Site) -> None:
    ended_run(site)
    site.runs._rows[RUN] = replace(site.runs._rows[RUN], **DAMAGED)
    for path in ("", "/pipelines", "/pipelines/svc.a/runs", "/pipelines/svc.a/runs/run-1"):
        answer = call("GET", f"/v1/catalog{path}")
        assert answer.status == 200
    facts = call("GET", "/v1/catalog/pipelines/svc.a/runs/run-1").json
    assert (facts["lines"], facts["end"], facts["outcome"], facts["exitCode"], facts["attempt"]) == (-1, "odd", "odd", "3", 0)
    assert mistakes(COMPONENTS["schemas"]["Run"], facts), "which the document does not promise"


def test_damaged_entry_of_a_segment_is_served_in_a_histogram(site: Site) -> None:
    ended_run(site)
    tails = site.world.parts().writer.tails
    site.world.index.put(RUN, [replace(tails.segment(RUN, 0), errors=-3)])
    answer = call("GET", "/v1/catalog/pipelines/svc.a/runs/run-1/histogram")
    assert (answer.status, [each["errors"] for each in answer.json["buckets"]]) == (200, [-3])


# Logs


def test_responses_of_logs(site: Site) -> None:
    site.write("svc.a", "run-1", "one\n")
    check("Appended", logs_models.StoredBatch, post("svc.a/run-1", json.dumps("two\nthree\n")))
    check("Appended", logs_models.StoredBatch, post("svc.a/run-1"))
    check("LogPage", logs_models.LogPage, get("svc.a/run-1?limit=1"))
    check("LogPage", logs_models.LogPage, get("svc.a/run-1?since=0"))
    check("LogPage", logs_models.LogPage, get("svc.a/last"))
    check("RunList", logs_models.RunIdPage, get("svc.a"))
    check("Link", logs_models.LogLink, get("svc.a/run-1/download?link=true"))
    check("Closed", logs_models.ClosedRun, post("svc.a/run-1/close"))
    closed = post("svc.a/run-1", json.dumps("four\n"))
    assert closed.status == 409
    check_body("LogError", logs_models.LogError, closed)


@pytest.mark.usefixtures("site")
def test_link_to_a_log_that_is_not_inline() -> None:
    post("svc.a/run-1", b"\xff\n", {"Content-Type": "application/octet-stream"})
    check("Link", logs_models.LogLink, get("svc.a/run-1/download?link=true"))
    redirect = get("svc.a/run-1/download")
    assert redirect.status == 307
    check_body("Link", logs_models.LogLink, redirect)


def stream_events(body: str) -> list[Any]:
    """The events of a stream. Raises ValidationError."""
    data = [line.removeprefix("data: ") for line in body.split("\n") if line.startswith("data: ")]
    adapter: TypeAdapter[Any] = TypeAdapter(logs_models.StreamEvent, config={"extra": "forbid"})
    return [adapter.validate_json(each)["eventType"] for each in data]


@pytest.mark.usefixtures("site")
def test_events_of_the_stream() -> None:
    post("svc.a/run-1", json.dumps("one\n"))
    post("svc.a/run-1/close")
    assert stream_events(get("svc.a/stream/run-1").body) == ["logs", "complete"]


def test_examples_of_the_stream_are_its_events() -> None:
    media = OPERATIONS["GET /v1/services/ingestionPipelines/logs/{fqn}/stream/{runId}"]["responses"]["200"]["content"]
    examples = media["text/event-stream"]["examples"]
    assert [stream_events(each["value"]) for each in examples.values()] == [["logs", "complete"], ["complete"], ["interrupted"]]


# The archive


@pytest.fixture
def files() -> Iterator[archive.Site]:
    with deployed() as site:
        yield site


def check_record(document: dict[str, Any], is_own: bool) -> None:
    assert ("s3_url" in document) != is_own and "start_iso" in document["metadata"]


def test_responses_of_the_archive(files: archive.Site) -> None:
    document = files.file(ticket="OPS-7")
    run = Run("svc.a", "run-1")
    files.write_run(run, "one\n")
    files.finish_run(run)
    check("Storage", archive_models.StorageLocation, files.get("/v0/archive/"))
    metadata = files.get(f"{FILES}/{document['id']}/metadata")
    check("Metadata", archive_models.FileMetadata, metadata)
    assert metadata.json == described(document)
    check("Record", archive_models.FileEntry, files.latest())
    check_record(files.latest().json, is_own=True)
    listed = files.list(what="*")
    check("RecordList", archive_models.FileEntryPage, listed)
    records = {each["metadata"]["what"]: each for each in listed.json["records"]}
    assert set(records) == {"syslog", "svc_a"}
    check_record(records["syslog"], is_own=True)
    check_record(records["svc_a"], is_own=False)


def test_error_of_the_archive(files: archive.Site) -> None:
    answer = files.get(f"{FILES}/")
    assert answer.status == 400
    check_body("ArchiveError", archive_models.ArchiveError, answer)


@pytest.mark.parametrize("size", [6, PART_BYTES + 1])
def test_response_to_a_new_file(files: archive.Site, size: int) -> None:
    fields = {name: value for name, value in files.document().items() if name != "id"} | {"size": size, "ticket": "OPS-7"}
    check("CreatedFile", archive_models.CreatedFile, files.ask("POST", FILES, fields))


def test_record_with_values_that_nothing_here_writes_is_served(files: archive.Site) -> None:
    document = files.document()
    record = FileRecord("s3://elsewhere/x y", -1, "yesterday", Metadata.model_validate(document))  # type: ignore[arg-type]
    rows = [Put(key, {"partition": key.partition, "at": key.sort}) for key in directory_keys(record)]
    for key, row in listing_rows(record).items():
        stored = json.loads(row["document"])
        stored["metadata"] |= {"hash": 5, "work_id": "Not a slug", "path": None}
        rows.append(Put(key, row | {"document": json.dumps(stored)}))
    files.world.database.put_many(rows)
    answer = files.list(what="syslog")
    (found,) = answer.json["records"]
    assert (found["size"], found["create_time"], found["metadata"]["hash"], found["metadata"]["path"]) == (-1, "yesterday", 5, None)
    assert mistakes(COMPONENTS["schemas"]["RecordList"], answer.json), "which the document does not promise"


def test_deeply_nested_metadata_is_served(files: archive.Site) -> None:
    deep = json.loads("[" * 800 + "]" * 800)
    document = files.file(deep=deep)
    for answer in (files.get(f"{FILES}/{document['id']}/metadata"), files.latest(), files.list(what="syslog")):
        assert answer.status == 200 and '"deep":[[[[' in answer.body
    fields = {name: value for name, value in files.document(deep=deep).items() if name != "id"} | {"size": 6}
    assert files.ask("POST", FILES, fields).status == 201


# Events and agents


def send(method: str, path: str, document: Any) -> Answer:
    return call(method, path, json.dumps(document), {"Content-Type": JSON, **NAMED})


def test_responses_of_events() -> None:
    run = "/v1/events/svc.a/run-1"
    event = {
        "message": "42\nrows",
        "step": "load",
        "level": "warn",
        "data": {"a": [1]},
        "annotations": [{"position": 1, "note": {"b": None}}],
    }
    with installed(World()):
        check("StartedRun", events_models.StartedAttempt, send("PUT", f"{run}/starts/s", {"host": "h"}))
        check("Heartbeat", events_models.HeartbeatResult, call("PUT", f"{run}/heartbeat"))
        check("EventWriter", events_models.RegisteredWriter, call("PUT", f"{run}/writers/w"))
        check("EventsAccepted", events_models.AcceptedEvents, send("POST", f"{run}?writer=w", [event | {"id": 1}, {"message": 1}]))
        check(
            "KnownStep", events_models.MergedStep, send("POST", f"{run}/steps/load", {"name": "Load orders", "status": "running"})
        )
        check("ClosedWriter", events_models.ClosedWriter, send("POST", f"{run}/writers/w/close", {"count": 2}))
        for query in ("", "?outline=true"):
            page = call("GET", run + query)
            check("EventPage", events_models.BrowsedEventPage, page)
            assert [each["hasData"] for each in page.json["events"]] == [True]
        check("LogText", events_models.LogPart, call("GET", f"{run}/log"))
        steps, completeness = call("GET", f"{run}/steps"), call("GET", f"{run}/completeness")
        check("StepList", events_models.StepEntryPage, steps)
        check("Completeness", events_models.RunCompleteness, completeness)
        assert steps.json["steps"] and completeness.json["writers"][0]["missing"] == [[0, 1]]
        check("Configuration", events_models.RedactedConfiguration, call("GET", "/v1/configuration"))


def test_responses_to_agents() -> None:
    lines = '{"create": {}}\n{"message": "one"}\n{"delete": {}}\n'
    record = {"message": "one"}
    delivery = {"requestId": "r", "records": [{"data": "b25lCg=="}, {}]}
    attributes = {
        "X-Amz-Firehose-Common-Attributes": json.dumps({"commonAttributes": {"runlake.fqn": "svc.a", "runlake.run_id": "r1"}})
    }
    otlp = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "one"}}, 7]}]}]}
    with installed(World()):
        stored = send("POST", "/v1/agents/fluent", [record, 1])
        check("AgentItems", agents_models.StoredItems, stored)
        delivered = call("POST", "/v1/agents/firehose", json.dumps(delivery), {"Content-Type": JSON, **attributes})
        check("FirehoseAnswer", agents_models.FirehoseResponse, delivered)
        exported = send("POST", "/v1/agents/otlp/v1/logs", otlp)
        check("OtlpAnswer", agents_models.OtlpResponse, exported)
        bulk = call("POST", "/v1/agents/elasticsearch/_bulk", lines, {"Content-Type": LINES, **NAMED})
        check("BulkAnswer", agents_models.BulkResponse, bulk)
        assert (stored.json["refused"], bulk.json["errors"]) == (1, True)
        assert delivered.json["errorMessage"] and exported.json["partialSuccess"]
        for path in ("/", "/_license", "/_cluster/health"):
            check("ElasticsearchInfo", agents_models.ElasticsearchInfo, call("GET", f"/v1/agents/elasticsearch{path}"))
