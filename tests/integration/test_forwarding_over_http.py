"""Forwarding on real sockets and with the command: to fake vendors, and to CloudWatch Logs on the emulator."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from elasticsearch import Elasticsearch
from opensearchpy import OpenSearch

from chalicelib.aws import http
from chalicelib.aws.clock import SystemClock
from chalicelib.aws.http import Urllib3Transport
from chalicelib.aws.targets import make_target
from chalicelib.errors import OutcomeUnknownError, RequestRefusedError, TargetUnavailableError
from chalicelib.events.browsers.elasticsearch import ElasticsearchBrowser
from chalicelib.events.event import Loggable
from chalicelib.events.forwarding import Forwarder, RetryPolicy
from chalicelib.events.ports import Limits
from chalicelib.events.targets.document import document
from chalicelib.events.targets.elasticsearch import ElasticsearchTarget
from chalicelib.events.targets.shippers import ShipperTarget, logstash_record
from chalicelib.events.targets.transport import Answer
from chalicelib.pipelines.output_pipelines import Output, output_pipeline
from chalicelib.ports import Run
from local.emulator import CREDENTIALS, REGION, Emulator, free_port
from runlake_forwarding import TargetWriter, check_target
from tests.contract.conftest import client_of
from tests.integration.stacks import COMMAND_S
from tests.pipelines_harness import START_MS, PipelinesHarness, line
from tests.stored_logs import in_elasticsearch
from tests.support.clock import ManualClock
from tests.unit.test_event_targets import LOGGABLE, event, events_of
from tests.vendors import Bulk, Otlp, Searchable, Shipper, VendorServers

PROJECT = Path(__file__).parents[2]


class Api:
    """The archive's API for events."""

    def __init__(self, count: int) -> None:
        now = SystemClock().now_ms()
        self.events = [event(number, f"line {number}", now + number // 3) for number in range(count)]

    def handle(self, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        if headers.get("Authorization") != "Bearer hush":
            return Answer(401, b"{}")
        if path == "/api/v1/catalog/pipelines/svc.orders/runs/run%2F1":
            return Answer(200, b"{}")
        if "/completeness" in path:
            return Answer(200, b'{"state": "complete", "after": null}')
        assert path.startswith("/api/v1/events/svc.orders/run%2F1")
        at = int(path.partition("after=")[2] or 0)
        page = [json.loads(each.model_dump_json()) for each in self.events[at : at + 100]]
        behind = str(at + 100) if at + 100 < len(self.events) else None
        return Answer(200, json.dumps({"events": page, "after": behind}).encode())


def run(folder: Path, url: str, target: Mapping[str, Any], *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """``runlake forward``."""
    (folder / "target.json").write_text(json.dumps(target))
    command = [
        sys.executable,
        "-m",
        "runlake",
        "--url",
        f"{url}/api",
        "forward",
        "svc.orders",
        "run/1",
        "--target",
        str(folder / "target.json"),
    ]
    sources = os.pathsep.join(["client/src", "forwarding/src", "."])
    given = os.environ | {"RUNLAKE_TOKEN": "hush", "HOME": str(folder), "PYTHONPATH": sources} | environment
    return subprocess.run(
        [*command, "--position", str(folder / "position"), *more],
        cwd=PROJECT,
        env=given,
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
    )


@pytest.mark.parametrize(
    ("target", "path", "vendor", "count"),
    [
        ({"kind": "elasticsearch", "index": "logs"}, "es", Bulk(), lambda vendor: len(vendor.documents)),
        ({"kind": "logstash"}, "es", Shipper(), lambda vendor: len(vendor.records)),
        ({"kind": "otlp"}, "es", Otlp(), lambda vendor: len(vendor.records)),
    ],
)
def test_command_forwards_a_run_and_continues(tmp_path: Path, target: Any, path: str, vendor: Any, count: Any) -> None:
    api = Api(250)
    with VendorServers({path: vendor, "api": api}, ["close", 503, None]) as site:
        done = run(tmp_path, site.url, {**target, "url": f"{site.url}/{path}"}, "--follow")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("taken=250 refused=0 requests=3 repeated=500")
        assert count(vendor) == 250
        api.events += Api(300).events[250:]
        again = run(tmp_path, site.url, {**target, "url": f"{site.url}/{path}"})
        assert "taken=50 " in again.stdout, again.stderr
        assert count(vendor) == 300


def test_command_reports_errors(tmp_path: Path) -> None:
    with VendorServers({"api": Api(1)}) as site:
        wrong = run(tmp_path, site.url, {"kind": "otlp", "url": "ftp://h"})
        assert wrong.returncode == 2 and "field=otlp.url" in wrong.stderr and "Traceback" not in wrong.stderr
        denied = run(tmp_path, site.url, {"kind": "otlp", "url": f"{site.url}/x"}, RUNLAKE_TOKEN="other")
        assert denied.returncode == 2 and "401" in denied.stderr and "Traceback" not in denied.stderr


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("logs")
    started = Emulator(free_port(), folder / "scratch", folder / "emulator.log")
    try:
        started.wait_until_healthy()
        yield started.endpoint_url
    finally:
        started.stop()


def test_cloudwatch_logs_have_what_the_command_sent(tmp_path: Path, emulator: str) -> None:
    api = Api(250)
    names = {"aws_access_key_id": "AWS_ACCESS_KEY_ID", "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY"}
    given = {names[name]: value for name, value in CREDENTIALS.items() if name in names}
    with VendorServers({"api": api}) as site:
        target = {"kind": "cloudwatch", "group": "runs", "region": REGION}
        done = run(tmp_path, site.url, target, AWS_ENDPOINT_URL=emulator, AWS_DEFAULT_REGION=REGION, **given)
        assert done.returncode == 0, done.stderr
    with closing(client_of("logs", emulator)) as client:
        page = client.get_log_events(logGroupName="runs", logStreamName="svc.orders/run/1", startFromHead=True)
    assert [json.loads(row["message"]) for row in page["events"]] == [json.loads(json.dumps(document(each))) for each in api.events]


# A pipeline's handler

SORT = ["@timestamp", "writer", "id", "uid"]
READERS: dict[str, Callable[[str], Any]] = {
    "elasticsearch": lambda url: Elasticsearch(url, request_timeout=COMMAND_S),
    "opensearch": lambda url: OpenSearch(url, timeout=COMMAND_S),
}


@pytest.mark.behavior("The official clients of Elasticsearch and OpenSearch read back what a pipeline forwards.")
@pytest.mark.parametrize("kind", READERS)
def test_official_clients_read_back_what_a_pipeline_sent(kind: str) -> None:
    world, count = PipelinesHarness(), 2_500
    runs = [Run("svc.a", "r1"), Run("svc.b", "r1")]
    for run_ in runs:
        world.write(run_, [line(START_MS + number // 3, f"{run_.fqn} {number}") for number in range(count)])
        world.end(run_)
    vendor = Bulk(reject=lambda found: 400 if found["message"] == "svc.b 7" else 201)
    with VendorServers({"es": vendor}, ["close", "lost", None, 503, None]) as site:
        output = Output("es", {"kind": kind, "url": f"{site.url}/es", "index": "logs"})
        worker = world.worker(output_pipeline(output), make_target=make_target, instance_id="here")
        worker.start()
        for _ in range(200):
            if not worker.step() and worker.is_idle:
                break
            world.clock.advance(1)
        worker.stop()
        with closing(READERS[kind](f"{site.url}/es")) as client:
            found: list[Any] = []
            while hits := client.search(index="logs", body=_page(found))["hits"]["hits"]:
                found += hits
    sent = {run_: [each["_source"]["message"] for each in found if each["_source"]["data"]["jobId"] == run_.fqn] for run_ in runs}
    refused = {"svc.b 7"}
    assert sent == {run_: [text for number in range(count) if (text := f"{run_.fqn} {number}") not in refused] for run_ in runs}
    assert [(each["event"]["message"], each["pipeline"]) for each in world.dead_letters()] == [("svc.b 7", "output.es")]


def _page(found: list[Any]) -> dict[str, Any]:
    return {"size": 1000, "sort": SORT} | ({"search_after": found[-1]["sort"]} if found else {})


# The transport


def test_response_that_comes_too_slowly_is_an_unknown_outcome() -> None:
    class Long(Shipper):
        def handle(self, *_: Any) -> Answer:
            return Answer(200, b"x" * 1_000_000)

    moments = iter(range(0, 1000, 3))
    transport = Urllib3Transport(1, 4, lambda: next(moments))
    with VendorServers({"ls": Long()}) as site, closing(transport), pytest.raises(OutcomeUnknownError, match="too slow"):
        transport.post(f"{site.url}/ls/", {}, b"")


def test_redirects_are_not_followed() -> None:
    bulk = Bulk()
    with VendorServers({"es": bulk}, [302, "close", "lost"]) as site, closing(Urllib3Transport(1, 5)) as transport:
        target = ElasticsearchTarget(transport, f"{site.url}/es", "logs")
        with pytest.raises(TargetUnavailableError, match="status=302"):
            target.send(LOGGABLE, events_of(1))
        for _ in range(2):
            with pytest.raises(OutcomeUnknownError):
                target.send(LOGGABLE, events_of(1))
        assert len(bulk.documents) == 1 and target.send(LOGGABLE, events_of(2)) == ()
        assert len(bulk.documents) == 2
    with pytest.raises(TargetUnavailableError, match="not sent"):
        Urllib3Transport(1, 5).post(f"http://127.0.0.1:{free_port()}/", {}, b"")


@pytest.mark.parametrize("host", ["127.0.0.1", "public.test"])
def test_peer_of_a_remote_transport_is_checked_after_the_connection(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """By name too: only the address that the connection has counts, whatever was looked up before."""
    looked_up = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda name, *rest: looked_up("127.0.0.1" if name == "public.test" else name, *rest))
    shipper = Shipper()
    with VendorServers({"ls": shipper}) as site, closing(Urllib3Transport(1, 5, remote_only=True)) as transport:
        for scheme in ("http", "https"):
            with pytest.raises(TargetUnavailableError, match="not sent"):
                transport.post(
                    site.url.replace("http://127.0.0.1", f"{scheme}://{host}") + "/ls/", {"Authorization": "hush"}, b"[]"
                )
        json_type = {"Content-Type": "application/json"}
        assert Urllib3Transport(1, 5).post(site.url + "/ls/", json_type, b"[{}]").status == 200 and shipper.requests == 1


class Quoting(Shipper):
    """Answers with what it was sent, as some proxies do."""

    def handle(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        return Answer(400, json.dumps([url, dict(headers)]).encode())


@pytest.mark.parametrize("value", ["Bearer s3cret-token", "Bearer s3cret-token\n", "Bearer s3cret-token\u2013"])
def test_credentials_are_in_no_message(value: str) -> None:
    with VendorServers({"ls": Quoting()}) as site, closing(Urllib3Transport(1, 5)) as transport:
        target = ShipperTarget(transport, f"{site.url}/ls/?key=s3cret-token", logstash_record, {"Authorization": value})
        with pytest.raises((RequestRefusedError, TargetUnavailableError)) as caught:
            target.send(LOGGABLE, events_of(1))
    shown = "".join(traceback.format_exception(caught.value))
    assert "s3cret" not in shown and ("***" in shown or "invalid character" in shown)


def test_response_over_the_limit_is_reported_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The browser of another store asks for fewer events then."""
    monkeypatch.setattr(http, "MAX_RESPONSE_BYTES", 20_000)
    vendor = Searchable()
    with VendorServers({"es": vendor}) as site, closing(Urllib3Transport(1, 5)) as transport:
        log = in_elasticsearch(transport, SystemClock(), url=f"{site.url}/es")
        log.send(*(log.event(number, "x" * 500, number) for number in range(300)))
        assert [event.id for event in log.browser.events()] == list(range(300))
        assert len(vendor.paths) > 300 // 40, "an answer has at most 40 events of 500 bytes"


def test_a_large_run_over_sockets_that_break() -> None:
    bulk = Bulk()
    faults = ["close", "lost", None, 500, None, "lost", 429, None] * 5
    with VendorServers({"es": bulk}, faults) as site, closing(Urllib3Transport(1, 5)) as transport:
        target = ElasticsearchTarget(transport, f"{site.url}/es", "logs")
        forwarder = Forwarder(target, LOGGABLE, ManualClock(0), policy=RetryPolicy(attempts=6))
        for each in events_of(20_000):
            forwarder.add(each)
        forwarder.flush()
    assert [found["id"] for found in bulk.documents.values()] == list(range(20_000))


# The client's logging method


def test_method_of_the_client_stores_each_event_once_with_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = [404, 403, 401]

    def reject(found: Mapping[str, Any]) -> int:
        if found["message"] == "7" and missing:
            return missing.pop()
        return 400 if found["message"] == "4" else 201

    vendor = Searchable(reject=reject)
    events = [{"id": number, "timestamp": START_MS + number, "message": str(number), "level": "warn"} for number in range(9)]
    run_, reasons = Run("svc.orders", "run-1"), []
    mandatory = Loggable.of_run(run_, "here").mandatory_data("load")
    batches = [[each | {"data": mandatory} for each in events[start : start + 3]] for start in (0, 3, 6)]
    batches[1].append(batches[1][-1] | {"id": 9, "timestamp": -1})
    batches[0][0]["annotations"] = [{"position": 1, "note": {"kind": "fold"}}]
    monkeypatch.setattr(ElasticsearchTarget, "limits", Limits(events=2, bytes=1_000_000))
    with VendorServers({"es": vendor}, ["close", 503, "lost", None, 429, None, "lost", None]) as site:
        target = json.dumps({"kind": "elasticsearch", "url": f"{site.url}/es", "index": "logs"})
        writer = TargetWriter(target, run_.fqn, run_.run_id, instance_id="here", writer="w")
        for batch in batches:
            reasons += repeated(lambda batch=batch: writer.write(batch))  # type: ignore[misc]
        repeated(lambda: writer.end(9, START_MS + 8))
        repeated(lambda: writer.end(9, START_MS + 8))
        with closing(Urllib3Transport()) as transport:
            browser = ElasticsearchBrowser(
                transport, f"{site.url}/es", "logs", Loggable.of_run(run_, "here"), SystemClock(), 60_000
            )
            found, completeness = list(browser.events()), browser.completeness()
        writer.close()
    assert [each.message for each in found] == list("01235678") and {(each.level, each.step) for each in found} == {
        ("warn", "load")
    }
    assert [each.partition(" document")[0] for each in reasons] == ["status=400", "the event is invalid field=timestamp"]
    (state,) = completeness.writers
    assert (state.count, state.missing, completeness.state) == (9, [(4, 4)], "pending")
    assert state.last_timestamp_ms == START_MS + 8 and found[0].annotations[0].note == {"kind": "fold"}


def test_method_of_the_client_refuses_an_invalid_target() -> None:
    for wrong in ("[]", '{"kind": "otlp", "url": "ftp://h"}'):
        with pytest.raises(ValueError, match="invalid target"):
            check_target(wrong)
        with pytest.raises(ValueError, match="invalid target"):
            TargetWriter(wrong, "p", "r", instance_id="i", writer="w")


def repeated(act: Callable[[], Any]) -> Any:
    """Call until the target answers, as the client does."""
    while True:
        try:
            return act()
        except ConnectionError:
            continue
