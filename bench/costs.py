"""What a GB of logs costs by the size of batches: requests counted on a stack of its own, from the first append to the finished log.

``python -m bench.costs`` counts and prints; ``--write`` keeps the counts in docs/costs.json, of which ``python -m docs.generate`` makes the
table. About two minutes, most of them for batches of one line.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from local import control, deploy
from local.demo_bill import bill, read_invocations
from local.emulator import free_port

PAGE = Path(__file__).parents[1] / "docs" / "costs.json"
LINE_BYTES = 100
BATCHES = {"1 line": (1, 300), "100 lines": (100, 100), "64 KiB": (655, 60), "1 MiB": (10_485, 12)}
"""Lines of a batch of that size, and how many batches make the run that is counted."""
_LOGS = "/v1/services/ingestionPipelines/logs/cost.of.logs"
_PATIENCE_S = 120.0
Stack = Mapping[str, Any]


def measured(stack: Stack, name: str, lines: int, batches: int) -> dict[str, Any]:
    """Counts of one run of such batches: appended, catalogued, compacted by a tick, closed."""
    before = len(_invocations(stack))
    url = f"{stack['api_url']}{_LOGS}/{name.replace(' ', '-')}"
    body = ("x" * (LINE_BYTES - 1) + "\n") * lines
    cookie: dict[str, str] = {}
    for _ in range(batches):
        cookie = _append(url, body, cookie)
    _wait_until_quiet(stack)
    _tick(stack)
    _post(f"{url}/close", b"", cookie)
    _wait_until_quiet(stack)
    counted = _invocations(stack)[before:]
    memory_gb = _memory_gb(stack)
    return {"bytes": len(body) * batches, "counts": {line.what: round(line.count, 3) for line in bill(counted, memory_gb)}}


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
        while calm < 4:
            found = sqs.get_queue_attributes(QueueUrl=stack["ingest_queue_url"], AttributeNames=names)["Attributes"]
            calm = calm + 1 if all(int(found[name]) == 0 for name in names) else 0
            if time.monotonic() > give_up:
                raise TimeoutError(f"notifications are not worked: {found}")
            time.sleep(0.25)


def _tick(stack: Stack) -> None:
    event: dict[str, Any] = dict.fromkeys(("version", "id", "detail-type", "source", "account", "time", "region"), "") | {
        "resources": [],
        "detail": {},
    }
    with closing(deploy.client("lambda", stack["aws_endpoint_url"])) as client:
        client.invoke(FunctionName=stack["functions"]["compact"], Payload=json.dumps(event))["Payload"].read()


def _invocations(stack: Stack) -> list[dict[str, Any]]:
    with closing(deploy.client("logs", stack["aws_endpoint_url"])) as logs:
        found = read_invocations(logs, stack["functions"].values())
    return sorted(found, key=lambda each: int(each["_aws"]["Timestamp"]))


def _memory_gb(stack: Stack) -> dict[str, float]:
    with closing(deploy.client("lambda", stack["aws_endpoint_url"])) as client:
        sizes = {
            name: client.get_function_configuration(FunctionName=each)["MemorySize"] for name, each in stack["functions"].items()
        }
    return {name.replace("api", "http"): size / 1024 for name, size in sizes.items()}


def main() -> int:
    """Count on a stack of our own."""
    parser = argparse.ArgumentParser(prog="python -m bench.costs", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"keep the counts in {PAGE.name}")
    arguments, port = parser.parse_args(), free_port()
    try:
        stack = control.up(port, {"PartialFlushIntervalMinutes": "1440", "CleanupIntervalMinutes": "1440"}, private=True)
        found = {name: measured(stack, name, *size) for name, size in BATCHES.items()}
    finally:
        control.down(port)
    text = json.dumps(found, indent=2) + "\n"
    if arguments.write:
        PAGE.write_text(text)
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
