"""One worker of the measurement, in its own process: acquires and completes partitions until none is left.

``python -m bench.coordination_worker ours|theirs TABLE NUMBER``: prints "ready", waits for a line, works, prints its counts as
JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from typing import Any

from bench.coordination_upstream import DataPrepper
from chalicelib.aws.clients import make_client
from chalicelib.aws.clock import SystemClock
from chalicelib.aws.dynamodb import Table
from chalicelib.aws.partition_store import DynamoDbPartitionStore
from chalicelib.coordination import SourceCoordinator, WorkSource

SOURCE = "bench"


class Requests:
    """Counts requests to DynamoDB, and refused conditional writes."""

    def __init__(self, client: Any) -> None:
        self.sent: Counter[str] = Counter()
        self.refused = 0
        client.meta.events.register("after-call.dynamodb", self._seen)

    def _seen(self, model: Any, parsed: dict[str, Any], **_: Any) -> None:
        self.sent[model.name] += 1
        self.refused += parsed.get("Error", {}).get("Code") == "ConditionalCheckFailedException"


def theirs(client: Any, table: str, number: int) -> Counter[str]:
    """Run Data Prepper's worker."""
    node, done = DataPrepper(client, table, SOURCE, f"host-{number}"), Counter[str]()
    while item := node.next_partition():
        node.complete(item["sourcePartitionKey"])
        done["acquired"] += 1
    return done


def ours(client: Any, table: str, number: int) -> Counter[str]:
    """Run our worker."""
    done = Counter[str]()
    node = coordinator(client, table)
    while lease := node.next_partition():
        node.complete(lease)
        done["acquired"] += 1
    return done


def coordinator(client: Any, table: str) -> SourceCoordinator:
    """A node of our coordination."""
    node = SourceCoordinator(
        DynamoDbPartitionStore(Table(client, table)), WorkSource(SOURCE), SystemClock(), lambda name, value: None
    )
    node.initialize()
    return node


def main() -> None:
    which, table, number = sys.argv[1:]
    client = make_client("dynamodb", region=None)
    requests = Requests(client)
    client.describe_table(TableName=table)
    print("ready", flush=True)
    sys.stdin.readline()
    requests.sent.clear()
    started_s = time.time()
    done = {"ours": ours, "theirs": theirs}[which](client, table, int(number))
    print(json.dumps({**done, "refused": requests.refused, "sent": requests.sent, "from_s": started_s, "to_s": time.time()}))


if __name__ == "__main__":
    main()
