"""The demo's bill, of lines of metrics as functions print them."""

from __future__ import annotations

from typing import Any

from local.demo_bill import bill

GB = {"http": 0.5, "compact": 1.0}


def test_a_call_that_printed_several_lines_is_one_call() -> None:
    lines: list[dict[str, Any]] = [
        {"operation": "http", "duration_ms": 200.0, "om_streamable_logs_s3_write_latency": [3.0]},
        {"operation": "compact", "om_streamable_logs_s3_read_latency": [1.0] * 100},
        {"operation": "compact", "duration_ms": 400.0, "om_streamable_logs_s3_read_latency": [1.0] * 7},
    ]
    counts = {line.what: line.count for line in bill(lines, GB)}
    assert (counts["API requests"], counts["function calls"]) == (1, 2)
    assert counts["function time, GB-seconds"] == 0.2 * 0.5 + 0.4 * 1.0
    assert (counts["S3 writes (PUT, copy, delete)"], counts["S3 reads (GET, HEAD, LIST)"]) == (1, 107)
