"""How many requests a process sends: each attempt of each client of boto3, counted as ``s3:PutObject``."""

from __future__ import annotations

from collections import Counter
from functools import cache
from threading import Lock
from typing import Any

import boto3

_lock = Lock()


@cache
def counted() -> Counter[str]:
    """This process's counter. Clients that are made before the first call are not counted; take differences for a part of the work."""
    counts: Counter[str] = Counter()

    def count(**event: Any) -> None:
        _, service, operation = event["event_name"].split(".", 2)
        with _lock:
            counts[f"{service}:{operation}"] += 1

    if boto3.DEFAULT_SESSION is None:
        boto3.setup_default_session()
    assert boto3.DEFAULT_SESSION
    boto3.DEFAULT_SESSION.events.register("before-send", count)
    return counts


def snapshot() -> Counter[str]:
    """The counter as it is now."""
    with _lock:
        return Counter(counted())
