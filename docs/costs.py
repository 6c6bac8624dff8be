"""Cost tables: counted units (docs/costs.json, from ``python -m bench.costs --write``) at list prices (``local.prices``)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glue_jobs.job_runtime.prices import S3_WRITES
from local.prices import (
    CLOUDWATCH_COMPRESSED,
    CLOUDWATCH_INGESTION_GB,
    CLOUDWATCH_STORAGE_GB_MONTH,
    S3_IA_GB_MONTH,
    S3_IA_RETRIEVAL_GB,
    S3_STANDARD_GB_MONTH,
    dollars,
)

COUNTS = Path(__file__).parent / "costs.json"
Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
OPEN_RUNS, BATCH_EVERY_S, MONTH_S = 10_000, 10, 30 * 86_400
"""A month of runs that log all day."""
TICK_S, MARKER_EVERY_S = 120, 60
SILENT_RUNS, HEARTBEATS_S = 1_000, (60, 300, 3600)
_PUTS = "S3 PUT, copy, LIST"
_READS_OF_A_RUN = 3
"""Reads: its row, its lease, its segments."""
GROUPS = {
    "API and functions": ("API requests", "function calls", "function time, GB-seconds"),
    "S3": ("S3 PUT, copy, LIST", "S3 writes to STANDARD_IA", "S3 GET, HEAD"),
    "catalog, queue, reports": ("DynamoDB write units", "DynamoDB read units", "SQS requests", "SNS reports"),
    "own log lines": ("bytes of own log lines",),
}


def shapes() -> dict[str, Any]:
    """The counted runs by size of their batches."""
    counted: dict[str, Any] = json.loads(COUNTS.read_text())["shapes"]
    return counted


def counted_at() -> str:
    """Date and commit of the count."""
    measured = json.loads(COUNTS.read_text())["measured"]
    return f"Counted on {measured['date']} at {measured['commit']}."


def by_gigabyte() -> dict[str, dict[str, float]]:
    """Dollars for a GB of text, from the first append to the finalized log, by batch size and group."""
    return {
        size: {group: dollars(_chosen(_all_units(shape), names)) / shape["bytes"] * 1e9 for group, names in GROUPS.items()}
        for size, shape in shapes().items()
    }


def of_a_gigabyte() -> Table:
    """A row for each batch size, and the ingestion price of CloudWatch Logs for comparison."""
    rows = []
    for size, groups in by_gigabyte().items():
        total = sum(groups.values())
        rows.append(
            (size, *(f"{each:.3f}" for each in groups.values()), f"**{total:.3f}**", f"{total / CLOUDWATCH_INGESTION_GB:.2f}")
        )
    return ("batch", *GROUPS, "in all, dollars for a GB", "times CloudWatch Logs"), rows


def of_a_million_appends(size: str = "4 KiB") -> Table:
    """Cost of a million single appends, by function."""
    shape = shapes()[size]
    rows, total = [], 0.0
    for function, units in shape["appended"].items():
        for name, count in sorted(units.items(), key=lambda item: -dollars({item[0]: item[1]})):
            cost = dollars({name: count}) / shape["appends"] * 1e6
            total += cost
            rows.append((function, name, f"{count / shape['appends']:,.2f}", f"{cost:.2f}"))
    return ("function", "what", "for an append", "dollars for a million"), [*rows, ("**in all**", "", "", f"**{total:.2f}**")]


def of_a_month() -> Table:
    """A month of 10,000 runs that append a batch every ten seconds."""
    shape = shapes()["4 KiB"]
    appends = OPEN_RUNS * MONTH_S / BATCH_EVERY_S
    append = dollars(_without_markers(shape["appended"])) / shape["appends"]
    tick = dollars(_tick_units(shape)) * OPEN_RUNS * MONTH_S / TICK_S
    pipeline = dollars(_part_of_a_run(shape["finished"]["pipelines"])) / shape["appends"] * appends
    markers = OPEN_RUNS * MONTH_S / MARKER_EVERY_S * S3_WRITES / 1e6
    rows = [
        (f"appends and what follows each, {appends / 1e9:.2f} billion", append * appends),
        (f"compaction, a tick every {TICK_S} s", tick),
        ("the built-in pipeline, if enabled: it reads every event and writes a second copy", pipeline),
        (f"markers of active runs, one every {MARKER_EVERY_S} s", markers),
    ]
    total = sum(cost for _, cost in rows)
    return ("what", "dollars"), [*((what, f"{cost:,.0f}") for what, cost in rows), ("**in all**", f"**{total:,.0f}**")]


def of_heartbeats() -> Table:
    """A month of 1,000 runs without lines, by heartbeat interval."""
    counted = json.loads(COUNTS.read_text())["silent"]
    each = dollars(_sum(counted["sent"])) / counted["heartbeats"]
    rows = []
    for interval_s in HEARTBEATS_S:
        beats = SILENT_RUNS * MONTH_S / interval_s
        rows.append((f"{interval_s:,}", f"{beats / 1e6:,.2f}", f"{each * beats:,.2f}"))
    return ("`heartbeat_s`", "heartbeats, millions", "dollars"), rows


def of_storage() -> Table:
    """Storing a GB of text, and reading it once."""
    cloudwatch = CLOUDWATCH_STORAGE_GB_MONTH * CLOUDWATCH_COMPRESSED
    return ("where", "dollars for a GB of text and month", "dollars to read it once"), [
        ("segments and `partial.txt` of running runs (STANDARD)", f"{S3_STANDARD_GB_MONTH:.4f}", "0"),
        ("`logs.txt` (STANDARD_IA, at least 30 days and 128 KB)", f"{S3_IA_GB_MONTH:.4f}", f"{S3_IA_RETRIEVAL_GB:.4f}"),
        (f"CloudWatch Logs, billed compressed to {CLOUDWATCH_COMPRESSED:.0%}", f"{cloudwatch:.4f}", "0.0050 by Logs Insights"),
    ]


def _tick_units(shape: Mapping[str, Any]) -> Counter[str]:
    """A run's share of a compaction tick."""
    units = _part_of_a_run(shape["finished"]["compact"])
    share = TICK_S / BATCH_EVERY_S / shape["appends"]
    units["S3 GET, HEAD"] = round(units["S3 GET, HEAD"] * share)
    units["function time, GB-seconds"] *= share
    return units


def _without_markers(appended: Mapping[str, Mapping[str, float]]) -> Counter[str]:
    """Units after appends without the markers of active runs: where no batch reaches the watermark, all PUTs of ingestion are
    markers."""
    units = _sum(appended)
    units[_PUTS] -= appended["ingest"][_PUTS]
    return units


def _part_of_a_run(counted: Mapping[str, float]) -> Counter[str]:
    """Units without the invocation itself and the queries for due runs, which a tick makes once for all runs."""
    units = Counter(counted)
    units["DynamoDB read units"] = min(units["DynamoDB read units"], _READS_OF_A_RUN)
    del units["function calls"]
    return units


def _all_units(shape: Mapping[str, Any]) -> Counter[str]:
    return _sum(shape["appended"]) + _sum(shape["finished"])


def _sum(functions: Mapping[str, Mapping[str, float]]) -> Counter[str]:
    units: Counter[str] = Counter()
    for each in functions.values():
        units.update(each)
    return units


def _chosen(units: Mapping[str, float], names: tuple[str, ...]) -> dict[str, float]:
    return {name: units.get(name, 0) for name in names}
