"""Counts the requests of a process: each attempt of each boto3 client, as ``s3:PutObject``."""

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
    """This process's counter. Clients made before the first call are not counted. Take differences of snapshots to count a part
    of the work."""
    if boto3.DEFAULT_SESSION is None:
        boto3.setup_default_session()
    assert boto3.DEFAULT_SESSION
    boto3.DEFAULT_SESSION.events.register("before-send", count_request)
    return _counts


def count_request(**event: Any) -> None:
    """Count a request: the "before-send" handler for clients of other sessions."""
    _, service, operation = event["event_name"].split(".", 2)
    with _lock:
        _counts[f"{service}:{operation}"] += 1


def snapshot() -> Counter[str]:
    """A copy of the counter."""
    with _lock:
        return Counter(request_counter())
