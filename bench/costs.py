"""Cost of logs by batch size: counted on a private stack, from the first append to the finalized log.

``python -m bench.costs`` counts and prints; ``--write`` stores the counts in docs/costs.json, from which ``python -m
docs.generate`` writes the tables of docs/operations.md and docs/performance.md. Each invocation and each AWS call of each function is
recorded; DynamoDB itself counts the write units of rows and indexes. Function time is the duration measured here. Takes about four
minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.request import Request, urlopen

from bench.figures import measured_at
from local import control, deploy
from local.billing import Billing, RecordingPosition
from local.emulator import free_port
from local.prices import Units
from local.recording import metering

PAGE = Path(__file__).parents[1] / "docs" / "costs.json"
LINE_BYTES = 100


@dataclass(frozen=True)
class Shape:
    """A run of this many batches of this many lines. ``alone``: each batch is catalogued before the next one arrives, as with slow
    writers."""

    lines: int
    batches: int
    alone: bool = False


SHAPES = {
    "1 line": Shape(1, 100, alone=True),
    "4 KiB": Shape(41, 60, alone=True),
    "64 KiB": Shape(655, 60, alone=True),
    "1 MiB": Shape(10_485, 12, alone=True),
}
_FQN = "cost.of.logs"
_LOGS = f"/v1/services/ingestionPipelines/logs/{_FQN}"
HEARTBEATS = 20
_PATIENCE_S = 120.0
_CALM_POLLS, _POLL_S = 3, 0.2
Stack = Mapping[str, Any]


def counted(stack: Stack, recorded: Billing, name: str, shape: Shape) -> dict[str, Any]:
    """Billed units of one run by function: appended, catalogued, compacted by a tick, closed, read by the built-in pipeline."""
    _wait_until_quiet(stack)
    start = recorded.now()
    url = f"{stack['api_url']}{_LOGS}/{name.replace(' ', '-')}"
    body = ("x" * (LINE_BYTES - 1) + "\n") * shape.lines
    cookie: dict[str, str] = {}
    for _ in range(shape.batches):
        cookie = _append(url, body, cookie)
        if shape.alone:
            _wait_until_quiet(stack)
    _wait_until_printed(stack, recorded, start)
    appended = {name: +units for name, units in recorded.units_since(start).items() if +units}
    _tick(stack, "compact")
    _post(f"{url}/close", b"", cookie)
    _wait_until_quiet(stack)
    _tick(stack, "pipelines")
    _wait_until_printed(stack, recorded, start)
    everything = {name: +units for name, units in recorded.units_since(start).items() if +units}
    finished = {by: _minus(units, appended.get(by, Counter())) for by, units in everything.items()}
    finished = {name: units for name, units in finished.items() if units}
    return {"bytes": len(body) * shape.batches, "appends": shape.batches, "appended": appended, "finished": finished}


def counted_heartbeats(stack: Stack, recorded: Billing) -> dict[str, Any]:
    """Billed units of the API for heartbeats of a running run."""
    _append(f"{stack['api_url']}{_LOGS}/silent", "one line\n", {})
    _wait_until_quiet(stack)
    start = recorded.now()
    url = f"{stack['api_url']}/v1/events/{_FQN}/silent/heartbeat"
    for _ in range(HEARTBEATS):
        with urlopen(Request(url, b"", method="PUT"), timeout=60) as answer:
            if not json.load(answer)["recorded"]:
                raise RuntimeError("a heartbeat was not recorded")
    _wait_until_printed(stack, recorded, start)
    return {"heartbeats": HEARTBEATS, "sent": {name: +units for name, units in recorded.units_since(start).items() if +units}}


def _minus(all_units: Units, some: Units) -> dict[str, float]:
    return {name: round(all_units[name] - some[name], 3) for name in all_units if round(all_units[name] - some[name], 3)}


def _append(url: str, body: str, cookie: dict[str, str]) -> dict[str, str]:
    set_cookie = _post(url, body.encode(), {"Content-Type": "text/plain"} | cookie)
    return {"Cookie": set_cookie.partition(";")[0]}


def _post(url: str, body: bytes, headers: Mapping[str, str]) -> str:
    with urlopen(Request(url, body, dict(headers), method="POST"), timeout=60) as answer:
        return str(answer.headers.get("Set-Cookie", ""))


def _wait_until_quiet(stack: Stack) -> None:
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    give_up, calm = time.monotonic() + _PATIENCE_S, 0
    with closing(deploy.client("sqs", stack["aws_endpoint_url"])) as sqs:
        while calm < _CALM_POLLS:
            waiting = sqs.get_queue_attributes(QueueUrl=stack["ingest_queue_url"], AttributeNames=names)["Attributes"]
            calm = calm + 1 if all(int(waiting[name]) == 0 for name in names) else 0
            if time.monotonic() > give_up:
                raise TimeoutError(f"notifications are not processed: {waiting}")
            time.sleep(_POLL_S)


def _wait_until_printed(stack: Stack, recorded: Billing, start: RecordingPosition) -> None:
    """Wait until no work is left and CloudWatch Logs has the lines of all invocations."""
    _wait_until_quiet(stack)
    give_up = time.monotonic() + _PATIENCE_S
    while not recorded.has_lines_since(start):
        if time.monotonic() > give_up:
            raise TimeoutError("lines of invocations are missing")
        time.sleep(_POLL_S)


def _tick(stack: Stack, function: str) -> None:
    event: dict[str, Any] = dict.fromkeys(("version", "id", "detail-type", "source", "account", "time", "region"), "") | {
        "resources": [],
        "detail": {},
    }
    with closing(deploy.client("lambda", stack["aws_endpoint_url"])) as client:
        client.invoke(FunctionName=stack["functions"][function], Payload=json.dumps(event))["Payload"].read()


def main() -> int:
    """Count on a private stack."""
    parser = argparse.ArgumentParser(prog="python -m bench.costs", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"store the counts in {PAGE.name}")
    arguments, port = parser.parse_args(), free_port()
    quiet = dict.fromkeys(("PartialFlushIntervalMinutes", "CleanupIntervalMinutes", "PipelinesIntervalMinutes"), "1440")
    quiet |= {"BuiltInPipeline": "true", "PipelineEventDelayMs": "0"}  # the measurement does not wait for the run
    with tempfile.TemporaryDirectory(prefix="runlake-costs-") as folder:
        calls = Path(folder) / "calls.jsonl"
        try:
            with patch.dict(os.environ, metering(calls)):
                stack = control.up(port, quiet, private=True)
            recorded = Billing(stack, calls)
            counts: dict[str, Any] = {"shapes": {name: counted(stack, recorded, name, shape) for name, shape in SHAPES.items()}}
            counts |= {"silent": counted_heartbeats(stack, recorded)}
        finally:
            control.down(port)
    text = json.dumps({"measured": measured_at(), **counts}, indent=1) + "\n"
    if arguments.write:
        PAGE.write_text(text)
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
