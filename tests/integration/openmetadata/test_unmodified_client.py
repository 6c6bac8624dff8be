"""OpenMetadata's own client ships logs to the deployed stack and reads them back; the result must equal its handler's input."""

from __future__ import annotations

import json
import os
import threading
import uuid
from contextlib import closing
from functools import cache
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import urlopen

import pytest

from tests.docs.pages import DOCS, blocks
from tests.integration.preloaded import Preloaded
from tests.integration.stacks import PATIENCE_S, Stack
from tests.prerequisites import OPENMETADATA, require

PROJECT = Path(__file__).parents[3]
PYTHON = PROJECT / ".venv-openmetadata" / "bin" / "python"
CONNECTOR = Path(__file__).with_name("connector.py")
LOGS = "/v1/services/ingestionPipelines/logs"


def connector(
    operation: str, api_url: str, fqn: str, run_id: str, *options: str, text: str = "", fails: bool = False, token: str = ""
) -> Any:
    """Run the client in a process; returns the operation's result."""
    require(OPENMETADATA)
    command = [str(CONNECTOR), operation, api_url, fqn, run_id, *options]
    environment = os.environ | ({"CONNECTOR_TOKEN": token} if token else {})
    done = _preloaded().run(command, stdin=text.encode(), folder=PROJECT, environment=environment)
    if fails:
        assert done.code != 0
        return None
    assert done.code == 0, done.error[-2000:]
    return json.loads(done.text.splitlines()[-1])


@cache
def _preloaded() -> Preloaded:
    return Preloaded(PYTHON, ["metadata.ingestion.ometa.ometa_api", "metadata.utils.streamable_logger"])


def download(stack: Stack, fqn: str, run_id: str) -> str:
    url = f"{stack.api_url}{LOGS}/{quote(fqn, safe='')}/{run_id}/download"
    with urlopen(url, timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())


def facts_of(stack: Stack, fqn: str, run_id: str) -> Any:
    with urlopen(f"{stack.api_url}/v1/catalog/pipelines/{fqn}/runs/{run_id}", timeout=PATIENCE_S) as answer:
        return json.load(answer)


@pytest.fixture
def run_id() -> str:
    return str(uuid.uuid4())


@pytest.mark.behavior("OpenMetadata's unmodified client logs a workflow from its first line to its close.")
def test_behaviour_12_a_burst_slow_records_an_exception_metrics_and_close_arrive_in_order(
    stack: Stack, run_id: str, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.log"
    counters = connector("work", stack.api_url, "mysql_prod.ingest", run_id, "--copy", str(copy))
    given = copy.read_text(encoding="utf-8")
    log = download(stack, "mysql_prod.ingest", run_id)
    assert log.startswith(given)
    assert given.count("\n") > 1200 and "Traceback (most recent call last):" in given
    metrics = log.removeprefix(given).splitlines()
    assert metrics[0] == "streamable_logger shutdown:"
    assert metrics[1] == f"  shipped:  records={counters['shipped_records']} batches={counters['shipped_batches']}"
    assert counters["shipped_records"] == 1200 + 3 + 1
    assert counters["failed_posts"] == counters["dropped_overflow"] == counters["worker_errors"] == 0
    with closing(stack.client("s3")) as s3:
        prefix = f"pipeline-logs/mysql_prod.ingest/{run_id}/"
        keys = [
            found["Key"].removeprefix(prefix) for found in s3.list_objects_v2(Bucket=stack["bucket"], Prefix=prefix)["Contents"]
        ]
    assert "logs.txt" in keys and "partial.txt" not in keys


@pytest.mark.behavior("The outcome of an OpenMetadata workflow is read from the end of its log.")
@pytest.mark.sampled(default=1)
@pytest.mark.parametrize(
    ("errors", "outcome", "step"), [(0, "succeeded", None), (1, "failed", "Source"), (12, "failed", None)], ids=str
)
def test_outcome_is_what_the_workflow_prints_at_its_end(
    stack: Stack, run_id: str, tmp_path: Path, errors: int, outcome: str, step: str | None
) -> None:
    """The table of many failures leaves no room for the names of steps."""
    options = ("--burst", "3", "--slow", "1", "--copy", str(tmp_path / "copy.log"), "--errors", str(errors))
    connector("work", stack.api_url, "mysql_prod.summary", run_id, *options)
    facts = facts_of(stack, "mysql_prod.summary", run_id)
    assert (facts["outcome"], facts["failedStep"]) == (outcome, step)


def test_outcome_of_a_workflow_that_nobody_catches_the_exception_of(stack: Stack, run_id: str) -> None:
    connector("fail", stack.api_url, "mysql_prod.uncaught", run_id, fails=True)
    facts = facts_of(stack, "mysql_prod.uncaught", run_id)
    assert (facts["outcome"], facts["exception"]) == ("failed", "ConnectionError: no route to db:3306")


@pytest.mark.behavior("A connector that is killed loses no acknowledged line.")
def test_workflow_of_the_page_has_the_clients_fields() -> None:
    (block,) = (each.text for each in blocks(DOCS / "how-to.md", "yaml") if "ingestionPipelineFQN" in each.text)
    assert connector("workflow", "", "", "", text=block) == {
        "ingestionPipelineFQN": "mysql.ingest",
        "pipelineRunId": "0f1e2d3c-0000-4000-8000-000000000001",
        "enableStreamableLogs": "True",
    }


def test_a_killed_connector_leaves_every_acknowledged_line(stack: Stack, run_id: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy.log"
    connector("work", stack.api_url, "mysql_prod.killed", run_id, "--copy", str(copy), "--burst", "700", "--die", fails=True)
    assert download(stack, "mysql_prod.killed", run_id) == copy.read_text(encoding="utf-8")


def test_batches_compressed_by_the_client_and_read_by_the_client(stack: Stack, run_id: str) -> None:
    batches = ["".join(f"batch {number} line {line} {'é' * 20}\n" for line in range(400)) for number in range(3)]
    answer = connector("call", stack.api_url, "svc.batches", run_id, "--method", "batches", text="\x1e".join(batches))
    assert all(sent["logs_sent"] for sent in answer["sent"]) and answer["closed"] is True
    lines = "".join(batches).splitlines()
    assert connector("call", stack.api_url, "svc.batches", run_id, "--offset", "395", "--limit", "10") == "\n".join(lines[395:405])


@pytest.mark.sampled(default=2)
@pytest.mark.parametrize("fqn", ['svc."a.b".pipe line', "svc/with/slashes.pipe", "сервис.größe.表", "svc.100%.done", "svc.a%2Fb"])
def test_names_that_the_client_does_not_quote(stack: Stack, run_id: str, fqn: str) -> None:
    assert connector("call", stack.api_url, fqn, run_id, "--method", "append", text="one\ntwo\n") is True
    assert connector("call", stack.api_url, fqn, run_id) == "one\ntwo"


def test_behaviour_03_a_batch_whose_answer_is_lost_is_repeated_by_the_client_and_stored_once(stack: Stack, run_id: str) -> None:
    batches = [f"batch {number}\n" for number in range(4)]
    with cutting_proxy(stack.api_url, cut_appends={2, 3}) as proxy_url:
        answer = connector("call", proxy_url, "svc.lossy", run_id, "--method", "batches", text="\x1e".join(batches))
    assert all(sent["logs_sent"] for sent in answer["sent"])
    assert download(stack, "svc.lossy", run_id) == "".join(batches)


class cutting_proxy:
    """Forwards requests and responses, but cuts the connection instead of answering some appends, which the server has applied.

    Appends are counted from 0, the init included.
    """

    def __init__(self, api_url: str, cut_appends: set[int]) -> None:
        target = urlsplit(api_url)
        counter = iter(range(1_000_000))
        lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with lock:
                    number = -1 if self.path.endswith("/close") else next(counter)
                upstream = HTTPConnection(target.hostname or "", target.port, timeout=PATIENCE_S)
                try:
                    headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
                    upstream.request("POST", self.path, body, headers)
                    answer = upstream.getresponse()
                    content = answer.read()
                finally:
                    upstream.close()
                if number in cut_appends:
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() in ("content-type", "set-cookie"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_port}/api"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
