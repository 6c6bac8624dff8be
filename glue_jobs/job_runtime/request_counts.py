"""How many requests a process sends: each attempt of each client of boto3, counted as ``s3:PutObject``."""

from __future__ import annotations

from collections import Counter
from functools import cache
from threading import Lock
from typing import Any

import boto3

_lock = Lock()
_counts: Counter[str] = Counter()


@cache
def request_counter() -> Counter[str]:
    """This process's counter. Clients that are made before the first call are not counted; take differences for a part of the work."""
    if boto3.DEFAULT_SESSION is None:
        boto3.setup_default_session()
    assert boto3.DEFAULT_SESSION
    boto3.DEFAULT_SESSION.events.register("before-send", count_request)
    return _counts


def count_request(**event: Any) -> None:
    """Count a request: what a client that is of another session calls "before-send"."""
    _, service, operation = event["event_name"].split(".", 2)
    with _lock:
        _counts[f"{service}:{operation}"] += 1


def snapshot() -> Counter[str]:
    """The counter as it is now."""
    with _lock:
        return Counter(request_counter())
