"""Events on the deployed stack: concurrent writers, some killed; browsed events equal those sent, and every response is
consistent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import psutil
import pytest
import requests
from requests.adapters import HTTPAdapter
from urllib3 import Retry

from chalicelib.aws.http import Urllib3Transport
from chalicelib.errors import UnavailableError
from chalicelib.events.targets.transport import Answer
from tests import sampling
from tests.integration.stacks import PATIENCE_S, Stack, eventually, running_stack
from tests.vendors import VendorServers

PROJECT = Path(__file__).parents[2]
WRITERS = 20 if sampling.IS_COMPLETE else 8
GRACE_S = 30
"""Timeout of a slow writer on a busy machine, also of a killed one."""


class RestartedStore:
    """A server that is compatible with OpenSearch, behind an address that stays. It stores in memory only: what it acknowledged is sent to it
    again after a restart, as a disk would bring it back."""

    def __init__(self, start: Callable[[], Any]) -> None:
        self.url, self._acknowledged = "", list[tuple[str, bytes]]()
        self._start, self._transport = start, Urllib3Transport()
        self._server: Any = None
        self.restart()

    def handle(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Pass a request on. 503 while the server is away."""
        path = url.removeprefix("http://vendor")
        try:
            answer = self._transport.post(self._server.url + path, {"Content-Type": headers["Content-Type"]}, body)
            if path.startswith("/_bulk") and answer.status == 200:
                self._acknowledged.append((path, body))
                self._transport.post(f"{self._server.url}/logs/_refresh", {}, b"")
        except UnavailableError:
            return Answer(503, b"{}")
        return answer

    def kill(self) -> None:
        """Kill the server without notice."""
        self._server.process.kill()
        self._server.process.wait()

    def restart(self) -> None:
        """Start a server with the acknowledged events."""
        self.close()
        self._server = self._start()
        for path, body in self._acknowledged:
            assert self._transport.post(self._server.url + path, {"Content-Type": "application/x-ndjson"}, body).status == 200
        self._transport.post(f"{self._server.url}/logs/_refresh", {}, b"")

    def close(self) -> None:
        """Stop the server, and close the connections to it."""
        self._transport.close()
        if self._server is not None:
            self._server.close()
            for pipe in (self._server.process.stdin, self._server.process.stdout, self._server.process.stderr):
                if pipe:
                    pipe.close()


@pytest.fixture(scope="module")
def store() -> Iterator[RestartedStore]:
    """Another store."""
    osmem = pytest.importorskip("osmem_server")
    made = RestartedStore(osmem.OsmemServer.start)
    with VendorServers({"es": made}) as there, closing(made):
        made.url = f"{there.url}/es"
        yield made


@pytest.fixture(scope="module")
def stack(store: RestartedStore) -> Iterator[Stack]:
    """Runs of two kinds of pipelines are read from the other store."""
    browsers = {"opensearch": {"url": store.url, "index": "logs"}}
    locators = [{"pattern": pattern, "browser": "opensearch"} for pattern in ("walk-*", "read-*")]
    document = json.dumps({"browsers": browsers, "locators": locators})
    with running_stack(EventsLostAfterSeconds=str(GRACE_S), Events=document, InstanceId="house-1") as running:
        yield running


class Client:
    """One writer over HTTP, with a session's cookies."""

    def __init__(self, base: str, writer: str) -> None:
        self.base, self.writer, self.sent = base, writer, 0
        self.session = requests.Session()
        # A function that starts with many others may time out: the gateway answers 503, and a client retries.
        self.session.mount(
            "http://", HTTPAdapter(max_retries=Retry(10, status_forcelist=[503], allowed_methods=None, backoff_factor=0.5))
        )

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        key = {"Idempotency-Key": uuid4().hex} if method == "POST" else {}  # a retry of the first batch has no cookie yet
        with self.session.request(method, self.base + path, json=body, headers=key, timeout=PATIENCE_S) as answer:
            assert answer.status_code == 200, answer.text
            return answer.json()

    def write(self, random: Random, *, killed: bool) -> list[tuple[str, str]]:
        """Write batches of random sizes; a killed writer does not close. Returns the acknowledged events."""
        self.ask("PUT", f"/writers/{self.writer}")
        said: list[tuple[str, str]] = []
        for _ in range(random.randint(1, 3)):
            batch = [(f"s{random.randint(0, 2)}", f"{self.writer} {self.sent + at}") for at in range(random.randint(1, 4))]
            events = [{"message": text, "step": step, "id": self.sent + at} for at, (step, text) in enumerate(batch)]
            assert self.ask("POST", f"?writer={self.writer}", events)["accepted"] == len(batch)
            said += batch
            self.sent += len(batch)
        if not killed:
            self.ask("POST", f"/writers/{self.writer}/close", {"count": self.sent})
        self.session.close()
        return said


@pytest.mark.sampled(default=1)
@pytest.mark.parametrize("killed", [0, 3])
def test_concurrent_writers(stack: Stack, killed: int) -> None:
    seed = Random().randrange(10**9)
    print(f"seed: {seed}")
    fqn = f"events-{uuid4().hex[:8]}"
    base = f"{stack.api_url}/v1/events/{fqn}/run-1"
    clients = [Client(base, f"w{number:02d}") for number in range(WRITERS)]
    reader = Client(base, "")

    def work(number: int) -> list[tuple[str, str]]:
        return clients[number].write(Random(seed + number), killed=number < killed)

    with ThreadPoolExecutor(WRITERS) as threads:
        working = [threads.submit(work, number) for number in range(WRITERS)]
        assert reader.ask("GET", "/completeness")["state"] != "complete"
        said = [each for one in working for each in one.result()]
    ended_s, expected = time.monotonic(), "lost" if killed else "complete"
    with requests.post(f"{stack.api_url}/v1/services/ingestionPipelines/logs/{fqn}/run-1/close", timeout=PATIENCE_S) as answer:
        assert answer.status_code == 200, answer.text
    found = eventually(lambda: reader.ask("GET", "/completeness?wait=20"), lambda found: found["state"] == expected)
    print(f"{found['state']} {time.monotonic() - ended_s:.2f} s after the last line")
    assert (found["state"], found["lost"]) == (
        ("lost", [f"w{number:02d}" for number in range(killed)]) if killed else ("complete", [])
    )
    assert sum(each["visible"] for each in found["writers"]) == len(said)
    whole = reader.ask("GET", "/log")
    assert whole["complete"] and sorted(whole["text"].splitlines()) == sorted(text for _, text in said)
    steps = {text: step for step, text in said}
    for step in ("s0", "s1", "s2"):
        log = reader.ask("GET", f"/log?step={step}")["text"].splitlines()
        assert log == [line for line in whole["text"].splitlines() if steps[line] == step]
        assert log == [event["message"] for event in reader.ask("GET", f"?step={step}&limit=1000")["events"]]


_SENDER = """
import sys, runlake
fqn, closes = sys.argv[1:]
handler = runlake.RunlogHandler(fqn, "run-1", command="walk" if closes else None, close_run=bool(closes))
for line in sys.stdin:
    handler.event(line.rstrip(), step=line.split()[0])
    handler.flush()
    print(handler.counts.stored_lines, flush=True)
handler.close()
"""


@contextmanager
def sender(stack: Stack, store: RestartedStore, folder: Path, fqn: str, closes: str = "") -> Iterator[Callable[[str], int]]:
    """A process of the client that writes each line as an event, to the other store. Yields a function that returns the number of stored events."""
    target = {"kind": "opensearch", "url": store.url, "index": "logs"}
    fields = ", ".join(f"{name} = {json.dumps(value)}" for name, value in target.items())
    locators = f'locators = [{{pattern = "walk-*", method = "target"}}]\nmethods.target = {{{fields}}}\n'
    (folder / "config.toml").write_text(f'url = "{stack.api_url}"\nexit_s = {PATIENCE_S}\nspool_dir = "{folder}"\n{locators}')
    paths = os.pathsep.join(str(PROJECT / place) for place in ("client/src", "forwarding/src", ""))
    environment = os.environ | {"RUNLAKE_CONFIG": str(folder / "config.toml"), "PYTHONPATH": paths}
    command = [sys.executable, "-c", _SENDER, fqn, closes]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout

        def write(line: str, during: Callable[[], object] = lambda: None) -> int:
            print(line, file=process.stdin, flush=True)
            during()
            return int(process.stdout.readline())  # type: ignore[union-attr]

        yield write
        if closes:
            process.kill()
        else:
            process.stdin.close()
            assert process.wait(PATIENCE_S) == 0


def kill_workers(stack: Stack, function: str) -> int:
    """Kill the processes of a function without notice. Returns their number."""
    name, count = stack["functions"][function], 0
    for process in psutil.process_iter(["cmdline"]):
        if any(f"-{name}-" in word for word in process.info["cmdline"] or ()):
            process.kill()
            count += 1
    return count


@pytest.mark.behavior("A run that its client writes to another store is read there, after client, server and store were killed.")
def test_walk_through_of_external_logging(stack: Stack, store: RestartedStore, tmp_path: Path) -> None:
    """The seed's: configure, run, browse a step of the running run, restart the writer, browse again."""
    fqn = f"walk-{uuid4().hex[:8]}"
    client = Client(f"{stack.api_url}/v1/events/{fqn}/run-1", "")
    configured = requests.get(f"{stack.api_url}/v1/configuration?fqn={fqn}", timeout=PATIENCE_S).json()
    assert configured["chosen"] == {"fqn": fqn, "browser": "opensearch", "outputs": [], "locator": "walk-*"}

    with sender(stack, store, tmp_path, fqn, closes="yes") as write:
        assert (write("load 1"), write("check 1")) == (1, 2)
        store.kill()
        assert write("load 2", during=store.restart) == 3
    live = client.ask("GET", "/log?step=load")
    assert (live["text"], live["complete"]) == ("load 1\nload 2\n", False)
    with client.session.post(client.base, json={"message": "over HTTP"}, timeout=PATIENCE_S) as refused:
        assert refused.status_code == 409 and "method=target" in refused.text
    assert kill_workers(stack, "api") > 0
    with sender(stack, store, tmp_path, fqn) as write:
        assert (write("check 2"), write("load 3")) == (1, 2)
    resumed = client.ask("GET", f"/log?step=load&start={live['next']}")
    assert resumed["text"] == "load 3\n"
    assert [event["message"] for event in client.ask("GET", "?step=check")["events"]] == ["check 1", "check 2"]
    logs = f"{stack.api_url}/v1/services/ingestionPipelines/logs"
    requests.post(f"{logs}/{fqn}/run-1/close", timeout=PATIENCE_S).close()
    found = client.ask("GET", "/completeness")
    assert found["state"] == "pending" and [(each["count"], each["visible"]) for each in found["writers"] if each["closed"]] == [
        (2, 2)
    ]
    (killed,) = (each["writer"] for each in found["writers"] if not each["closed"])
    client.ask("POST", f"/writers/{killed}/close", {"count": 3})
    eventually(lambda: client.ask("GET", "/completeness")["state"] == "complete")
    with requests.get(f"{logs}/{fqn}/run-1/download", timeout=PATIENCE_S) as download:
        assert download.text == "load 1\ncheck 1\nload 2\ncheck 2\nload 3\n"
    client.session.close()


def test_choice_of_a_run_is_known_once_it_is_ingested(stack: Stack) -> None:
    """The first segment carries it: nothing was written to the configured store, which is read from then on."""
    client = Client(f"{stack.api_url}/v1/events/read-{uuid4().hex[:8]}/run-1", "w")
    assert client.ask("POST", "", {"message": "in the run log"})["accepted"] == 1
    eventually(lambda: client.ask("GET", "/log")["text"] == "")
    assert client.ask("GET", "/steps")["steps"] == [] and client.ask("GET", "/completeness")["state"] == "pending"
    client.session.close()
