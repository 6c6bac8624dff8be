"""Events on the deployed stack: concurrent writers, some killed; browsed events equal those sent, and every response is
consistent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any
from uuid import uuid4

import pytest
import requests
from requests.adapters import HTTPAdapter
from urllib3 import Retry

from tests import sampling
from tests.integration.stacks import PATIENCE_S, Stack, eventually, running_stack

WRITERS = 20 if sampling.IS_COMPLETE else 8
GRACE_S = 30
"""Timeout of a slow writer on a busy machine, also of a killed one."""


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running_stack(EventsLostAfterSeconds=str(GRACE_S)) as running:
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
