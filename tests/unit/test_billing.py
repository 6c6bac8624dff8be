"""Billing of a stack: what printed lines and recorded calls add up to."""

from __future__ import annotations

import json
from collections import Counter

from local.billing import _add_invocations
from local.prices import LOG_EVENT_BYTES, PLATFORM_LOG_BYTES, dollars


def metrics(**facts: object) -> str:
    return json.dumps({"_aws": {}, **facts})


def test_call_that_printed_several_lines_is_one_call() -> None:
    texts = ["START", metrics(values=[1.0] * 100), metrics(duration_ms=400.0), '{"level": "INFO"}', "END"]
    units: Counter[str] = Counter()
    _add_invocations(units, "compact", texts, 0.5)
    own = sum(len(text) + LOG_EVENT_BYTES for text in texts if text.startswith("{"))
    assert units == {"function calls": 1, "function time, GB-seconds": 0.2, "bytes of own log lines": own + PLATFORM_LOG_BYTES}


def test_request_of_the_gateway_is_a_call_of_the_api() -> None:
    units: Counter[str] = Counter()
    _add_invocations(units, "api", [metrics(duration_ms=1.0)] * 3, 1.0)
    assert (units["API requests"], units["SQS requests"]) == (3, 0)


def test_call_of_ingest_receives_and_deletes_messages() -> None:
    units: Counter[str] = Counter()
    _add_invocations(units, "ingest", [metrics(duration_ms=1.0)], 1.0)
    assert (units["API requests"], units["SQS requests"]) == (0, 2)


def test_dollars_of_a_million() -> None:
    assert dollars({"API requests": 1_000_000, "S3 PUT, copy, LIST": 2_000_000}) == 3.5 + 10
