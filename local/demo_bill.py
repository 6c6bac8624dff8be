"""What the demo's requests would cost on AWS: counted from what the functions themselves printed, at list prices."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from glue_jobs.shell.prices import DYNAMODB_WRITES, S3_READS, S3_WRITES

# us-east-1, list prices of November 2026, dollars for one million, or as named; those of S3 and DynamoDB are the jobs' too.
SNS_PUBLISH, API_REQUEST, LAMBDA_REQUEST, LAMBDA_GB_S = 0.50, 3.50, 0.20, 16.6667
WRITE_UNITS = 2.5
"""Of a request to the catalog, on the average: a segment's row is 1 unit, a run's row with its two indexes 4; docs/decisions/0004."""
PRICES = {
    "API requests": API_REQUEST,
    "function calls": LAMBDA_REQUEST,
    "function time, GB-seconds": LAMBDA_GB_S,
    "S3 writes (PUT, copy, delete)": S3_WRITES,
    "S3 reads (GET, HEAD, LIST)": S3_READS,
    "DynamoDB requests": WRITE_UNITS * DYNAMODB_WRITES,
    "SNS reports": SNS_PUBLISH,
}
"""Of a million of each."""
_METRIC = "om_streamable_logs_"


@dataclass(frozen=True)
class Line:
    """One line of the bill. ``price`` in dollars for one million of ``unit``."""

    what: str
    count: float
    price: float

    @property
    def dollars(self) -> float:
        """What it costs."""
        return self.count * self.price / 1e6


def read_invocations(logs: Any, functions: Iterable[str]) -> list[dict[str, Any]]:
    """Every line of metrics that the functions printed, from CloudWatch Logs."""
    return [json.loads(text) for name in functions for text in _messages(logs, f"/aws/lambda/{name}") if text.startswith('{"_aws"')]


def _messages(logs: Any, group: str) -> Iterator[str]:
    for page in logs.get_paginator("filter_log_events").paginate(logGroupName=group):
        yield from (event["message"] for event in page["events"])


def bill(invocations: list[dict[str, Any]], memory_gb: Mapping[str, float]) -> list[Line]:
    """Counted requests with their prices. LIST is priced like a write; all of S3's reads here are counted at a GET's price.

    A call with many values prints several lines of metrics; only its last one has a duration."""
    calls = [each for each in invocations if "duration_ms" in each]
    by_operation = Counter(each["operation"] for each in calls)
    seconds = sum(each["duration_ms"] / 1000 * memory_gb[each["operation"]] for each in calls)
    counts = (
        by_operation["http"],
        len(calls),
        seconds,
        _values(invocations, "s3_write_latency"),
        _values(invocations, "s3_read_latency"),
        _total(invocations, "catalog_requests"),
        _total(invocations, "reports_published"),
    )
    return [Line(what, count, price) for (what, price), count in zip(PRICES.items(), counts, strict=True)]


def _values(invocations: list[dict[str, Any]], metric: str) -> int:
    return sum(len(_listed(each.get(_METRIC + metric, []))) for each in invocations)


def _total(invocations: list[dict[str, Any]], metric: str) -> float:
    return sum(sum(_listed(each.get(_METRIC + metric, []))) for each in invocations)


def _listed(value: Any) -> list[float]:
    return value if isinstance(value, list) else [value]
