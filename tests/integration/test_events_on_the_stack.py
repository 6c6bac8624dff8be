"""Events on the deployed stack: concurrent writers, some killed; browsed events equal those sent, and every response is
consistent."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from random import Random
from typing import Any
from uuid import uuid4

import pytest
import requests
from requests.adapters import HTTPAdapter
from urllib3 import Retry

from chalicelib.aws.clock import SystemClock
from chalicelib.aws.http import Urllib3Transport
from chalicelib.events.event import Loggable
from chalicelib.events.targets.elasticsearch import ElasticsearchTarget
from chalicelib.ports import Run
from tests import sampling
from tests.integration.stacks import PATIENCE_S, Stack, eventually, running_stack
from tests.stored_logs import StoredWriter
from tests.vendors import Searchable, VendorServers

WRITERS = 20 if sampling.IS_COMPLETE else 8
GRACE_S = 30
"""Timeout of a slow writer on a busy machine, also of a killed one."""


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    """The address of another store."""
    with VendorServers({"es": Searchable()}) as there:
        yield f"{there.url}/es"


@pytest.fixture(scope="module")
def stack(elsewhere: str) -> Iterator[Stack]:
    """Runs of two kinds of pipelines are read from the other store."""
    browsers = {"elasticsearch": {"url": elsewhere, "index": "logs"}}
    locators = [{"pattern": pattern, "browser": "elasticsearch"} for pattern in ("walk-*", "read-*")]
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


def test_walk_through_of_external_logging(stack: Stack, elsewhere: str) -> None:
    """The seed's: configure, run, browse a step of the running run, restart the writer, browse again."""
    fqn = f"walk-{uuid4().hex[:8]}"
    client = Client(f"{stack.api_url}/v1/events/{fqn}/run-1", "")
    configured = requests.get(f"{stack.api_url}/v1/configuration?fqn={fqn}", timeout=PATIENCE_S).json()
    assert configured["chosen"] == {"fqn": fqn, "browser": "elasticsearch", "outputs": [], "locator": "walk-*"}

    loggable = Loggable.of_run(Run(fqn, "run-1"), client.ask("PUT", "/starts/a", {"method": "target"})["instanceId"])

    def write(writer: str, *messages: str, is_killed: bool = False) -> None:
        client.ask("PUT", f"/writers/{writer}")
        with closing(Urllib3Transport()) as transport:
            opened = StoredWriter(ElasticsearchTarget(transport, elsewhere, "logs"), loggable, SystemClock(), writer)
            for message in messages:
                opened.write(message, message.split()[0])
            opened.flush() if is_killed else opened.close()
        if not is_killed:
            client.ask("POST", f"/writers/{writer}/close", {"count": len(messages)})

    write("first", "load 1", "check 1", "load 2", is_killed=True)
    live = client.ask("GET", "/log?step=load")
    assert (live["text"], live["complete"]) == ("load 1\nload 2\n", False)
    with client.session.post(client.base, json={"message": "over HTTP"}, timeout=PATIENCE_S) as refused:
        assert refused.status_code == 400 and "method=target" in refused.text
    write("second", "check 2", "load 3")
    resumed = client.ask("GET", f"/log?step=load&start={live['next']}")
    assert resumed["text"] == "load 3\n"
    assert [event["message"] for event in client.ask("GET", "?step=check")["events"]] == ["check 1", "check 2"]
    logs = f"{stack.api_url}/v1/services/ingestionPipelines/logs"
    requests.post(f"{logs}/{fqn}/run-1/close", timeout=PATIENCE_S).close()
    assert client.ask("GET", "/completeness")["state"] == "pending", "the first writer is killed"
    client.ask("POST", "/writers/first/close", {"count": 3})
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
