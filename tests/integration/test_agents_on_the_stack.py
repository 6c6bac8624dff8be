"""Real log senders against the deployed stack, unmodified, with the batch settings of docs/agents.md: lines read equal lines sent.

syslog-ng is Debian's (the test installs it); all others are their vendors' packages.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import msgpack
import pytest
import requests
from elasticsearch import Elasticsearch
from elasticsearch import helpers as elastic_helpers
from opensearchpy import OpenSearch
from opensearchpy import helpers as opensearch_helpers
from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource

from local.emulator import free_port
from tests.docs.pages import DOCS, blocks
from tests.integration.stacks import PATIENCE_S, Stack, eventually
from tests.prerequisites import AGENTS, require

LOGS = "/v1/services/ingestionPipelines/logs"


@pytest.fixture(name="fqn")
def _fqn() -> str:
    return f"agents-{uuid4().hex[:8]}.etl"


def read(stack: Stack, fqn: str, run_id: str = "run-1") -> list[str]:
    with requests.get(f"{stack.api_url}{LOGS}/{quote(fqn, safe='')}/{run_id}?limit=10000", timeout=PATIENCE_S) as answer:
        assert answer.status_code == 200, answer.text
        logs: str = answer.json()["logs"]
    return logs.split("\n") if logs else []


def events(stack: Stack, fqn: str, run_id: str = "run-1") -> list[dict[str, Any]]:
    """All events of a run by the API."""
    with requests.get(f"{stack.api_url}/v1/events/{quote(fqn, safe='')}/{run_id}?limit=1000", timeout=PATIENCE_S) as answer:
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["events"]
    return found


# ------------------------------------------------------------------------------------------------------- OpenTelemetry


@contextmanager
def otel_logger(stack: Stack, fqn: str, compression: Compression) -> Iterator[logging.Logger]:
    """A logger of Python, exported by OpenTelemetry's SDK."""
    resource = Resource({"service.name": fqn, "cicd.pipeline.run.id": "run-1", "deployment": "test"})
    exporter = OTLPLogExporter(endpoint=f"{stack.api_url}/v1/agents/otlp/v1/logs", compression=compression, timeout=PATIENCE_S)
    provider = LoggerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter, schedule_delay_millis=200, max_export_batch_size=512))
    handler = LoggingHandler(logger_provider=provider)
    logger = logging.getLogger(f"otel.{fqn}")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield logger
        assert provider.force_flush(60_000)
    finally:
        logger.removeHandler(handler)
        provider.shutdown()
        exporter.shutdown()


@pytest.mark.behavior("OpenTelemetry's Python SDK can send logs to a deployed stack.")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_opentelemetrys_sdk(stack: Stack, fqn: str, compression: Compression) -> None:
    with otel_logger(stack, fqn, compression) as logger:
        for number in range(600):
            logger.info("record %d é 😀", number, extra={"number": number, "runlake.step": f"s{number % 2}"})
        try:
            raise ValueError("it broke")
        except ValueError:
            logger.exception("two\nlines")
    assert read(stack, fqn) == [*(f"record {number} é 😀" for number in range(600)), "two", "lines"]
    found = events(stack, fqn)
    assert [each["data"]["attributes"]["number"] for each in found[:-1]] == list(range(600))
    assert {each["step"] for each in found[:-1]} == {"s0", "s1"}
    assert (found[0]["level"], found[-1]["level"], found[-1]["message"]) == ("INFO", "ERROR", "two\nlines")
    assert found[-1]["data"]["attributes"]["exception.type"] == "ValueError"
    assert found[0]["data"]["resource"]["deployment"] == "test"
    assert SeverityNumber.INFO.value == 9


def test_an_exporter_is_told_what_is_rejected(stack: Stack, caplog: pytest.LogCaptureFixture) -> None:
    """Its records name no run: 400, which it does not retry."""
    exporter = OTLPLogExporter(endpoint=f"{stack.api_url}/v1/agents/otlp/v1/logs", timeout=PATIENCE_S)
    provider = LoggerProvider(resource=Resource({"service.name": "x"}), shutdown_on_exit=False)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    try:
        provider.get_logger("x").emit(body="x", severity_number=SeverityNumber.INFO)
        provider.force_flush(30_000)
    finally:
        provider.shutdown()
    failed = [record for record in caplog.records if record.name.startswith("opentelemetry.exporter")]
    assert len(failed) == 1 and "400" in failed[0].getMessage(), "one attempt, which the exporter reports"


# ------------------------------------------------------------------------------------------- Elasticsearch and OpenSearch


def documents(fqn: str, count: int) -> list[dict[str, Any]]:
    names = {"runlake.fqn": fqn, "runlake.run_id": "run-1"}
    return [
        {
            "_op_type": "create",
            "_index": "logs",
            "_id": f"id-{n}",
            "@timestamp": "2026-09-21T14:13:20Z",
            "message": f"m{n} é",
            **names,
        }
        for n in range(count)
    ]


@pytest.mark.behavior("Elasticsearch's Python client can send logs to a deployed stack.")
def test_elasticsearchs_client(stack: Stack, fqn: str) -> None:
    with Elasticsearch(f"{stack.api_url}/v1/agents/elasticsearch", http_compress=True, request_timeout=60) as client:
        assert client.ping() and client.info()["version"]["number"]
        assert elastic_helpers.bulk(client, documents(fqn, 1_250)) == (1_250, [])
        assert elastic_helpers.bulk(client, documents(fqn, 500)) == (500, []), "repeated: stored once"
        bad = [
            {"_op_type": "delete", "_index": "logs", "_id": "id-0"},
            {"_op_type": "create", "_index": "logs", "message": "whose?"},
        ]
        stored, errors = elastic_helpers.bulk(client, bad, raise_on_error=False)
        assert stored == 0 and [next(iter(each.values()))["status"] for each in errors] == [400, 400]
        assert "append" in str(errors[0]) and "no rule matches" in str(errors[1])
    assert read(stack, fqn) == [f"m{number} é" for number in range(1_250)]
    assert [each["data"]["_id"] for each in events(stack, fqn)] == [f"id-{number}" for number in range(1_000)], "a page"


@pytest.mark.behavior("OpenSearch's Python client can send logs to a deployed stack.")
def test_opensearchs_client(stack: Stack, fqn: str) -> None:
    port = int(stack.api_url.split(":")[2].split("/")[0])
    with OpenSearch(
        [{"host": "127.0.0.1", "port": port, "url_prefix": "/api/v1/agents/elasticsearch"}], http_compress=True, timeout=PATIENCE_S
    ) as client:
        assert client.ping() and client.info()["version"]["number"]
        assert opensearch_helpers.bulk(client, documents(fqn, 1_250)) == (1_250, [])
        stored, errors = opensearch_helpers.bulk(
            client, [{"_op_type": "update", "_index": "i", "_id": "1", "doc": {}}], raise_on_error=False
        )
        assert stored == 0 and errors[0]["update"]["status"] == 400
    assert read(stack, fqn) == [f"m{number} é" for number in range(1_250)]


# ------------------------------------------------------------------------------------------------------ bodies of agents


def post(stack: Stack, path: str, body: bytes, content_type: str, **headers: str) -> Any:
    given = {"Content-Type": content_type, **{name.replace("_", "-"): value for name, value in headers.items()}}
    with requests.post(f"{stack.api_url}/v1/agents/{path}", body, headers=given, timeout=PATIENCE_S) as answer:
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.mark.parametrize("packed", [False, True])
def test_fluents_msgpack(stack: Stack, fqn: str, packed: bool) -> None:
    time_ = msgpack.ExtType(0, (1790000000).to_bytes(4, "big") + (5).to_bytes(4, "big"))
    body = b"".join(
        msgpack.packb([[time_, {}], {"log": f"line {number} é\n", "level": "warn", "n": number}]) for number in range(300)
    )
    more = {"Content_Encoding": "gzip"} if packed else {}
    answer = post(
        stack, "fluent", gzip.compress(body) if packed else body, "application/msgpack", FLUENT_TAG=f"runlake.{fqn}.run-1", **more
    )
    assert answer == {"accepted": 300, "refused": 0, "errors": []}
    assert read(stack, fqn) == [f"line {number} é" for number in range(300)]
    assert [(each["data"]["n"], each["level"], each["timestamp"]) for each in events(stack, fqn)] == [
        (number, "WARNING", 1_790_000_000_000) for number in range(300)
    ]


def test_logstashs_batches_and_a_delivery(stack: Stack, fqn: str) -> None:
    batch = json.dumps(
        [{"@timestamp": "2026-09-21T14:13:20.000Z", "message": f"m{n}", "log": {"level": "info"}} for n in range(3)]
    ).encode()
    names = {"X_Runlake_Fqn": fqn, "X_Runlake_Run_Id": "run-1"}
    assert post(stack, "logstash", gzip.compress(batch), "application/json", Content_Encoding="gzip", **names)["accepted"] == 3
    delivery = json.dumps({"requestId": "r-1", "timestamp": 1, "records": [{"data": "bTMK"}, {"data": "bTQ="}]}).encode()
    attributes = json.dumps({"commonAttributes": {"runlake.fqn": fqn, "runlake.run_id": "run-1"}})
    for _ in range(2):
        headers = {"X_Amz_Firehose_Request_Id": "r-1", "X_Amz_Firehose_Common_Attributes": attributes}
        assert post(stack, "firehose", delivery, "application/json", **headers)["requestId"] == "r-1"
    assert read(stack, fqn) == ["m0", "m1", "m2", "m3", "m4"]


# -------------------------------------------------------------------------------------------------------------- syslog-ng

_CONFIGURATION = """@version: 3.38
options { keep-hostname(yes); stats-freq(0); };
source s_net { network(ip("127.0.0.1") port(%(port)d) transport("tcp") flags(syslog-protocol)); };
%(destination)s
log { source(s_net); destination(d_runlake); };
"""
(DESTINATION,) = (block.text for block in blocks(DOCS / "agents.md", "text") if block.text.startswith("destination d_runlake"))
FORMS: dict[str, list[tuple[str, str]]] = {
    "lines": [],
    "json": [
        ("text/plain", "application/json"),
        (r"body\(.*\)", 'body("$(format-json --scope rfc5424 --key ISODATE)") body-prefix("[") body-suffix("]")'),
        (r"delimiter\(.*\)", 'delimiter(",")'),
    ],
}
"""What differs from the destination on the page."""


@contextmanager
def syslog_ng(folder: Path, port: int, destination: str) -> Iterator[None]:
    """Debian's syslog-ng in the foreground, as the current user."""
    require(AGENTS)
    program = shutil.which("syslog-ng", path="/usr/sbin:/usr/bin:/usr/local/sbin")
    assert program
    (folder / "syslog-ng.conf").write_text(_CONFIGURATION % {"port": port, "destination": destination})
    files = {name: str(folder / f"syslog-ng.{name}") for name in ("persist", "pid", "ctl")}
    command = [
        program,
        "-F",
        "--no-caps",
        "-e",
        "-f",
        str(folder / "syslog-ng.conf"),
        "-R",
        files["persist"],
        "-p",
        files["pid"],
        "-c",
        files["ctl"],
    ]
    with (
        open(folder / "log", "wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"RUNLAKE_TOKEN": "of-nobody"}) as process,
    ):
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


def connected(port: int) -> socket.socket:
    give_up = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        except OSError:
            assert time.monotonic() < give_up
            time.sleep(0.1)


@pytest.mark.behavior("syslog-ng can send logs to a deployed stack.")
@pytest.mark.parametrize("form", FORMS)
def test_syslog_ngs_http_destination(stack: Stack, fqn: str, tmp_path: Path, form: str) -> None:
    port = free_port()
    changes = [("https://.*(?=/v1/)", stack.api_url), ("hosts.web-1", fqn), (r"retries\(", "timeout(60) retries(")]
    destination = reduce(lambda text, change: re.sub(*change, text), [*changes, *FORMS[form]], DESTINATION)
    with syslog_ng(tmp_path, port, destination):
        with connected(port) as sender:
            for number in range(1_200):
                sender.sendall(f"<11>1 2026-09-21T14:13:20Z host app {number} - - line {number}\n".encode())
        eventually(lambda: len(read(stack, fqn)) == 1_200)
    assert read(stack, fqn) == [f"line {number}" for number in range(1_200)]
    found = events(stack, fqn)
    assert {each["level"] for each in found} == {"ERROR"} and {each["timestamp"] for each in found} == {1_790_000_000_000}
    assert re.search("app", json.dumps(found[0]["data"]))
