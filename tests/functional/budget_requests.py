"""Bodies of any size for each operation that reads one: for tests of its limits, and for the table of the largest requests' cost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from chalicelib.routes.budgets import BodyForm
from tests.functional.gateway import LOGS
from tests.support.samples import JSON, LINES, MSGPACK, NAMED, PROTOBUF, SAMPLES, TEXT, Sample

READING = [each for each in SAMPLES.values() if each.budget.form is not BodyForm.IGNORED]
DOCUMENTS = [each for each in READING if each.budget.form is BodyForm.DOCUMENT]


def _formats(sample: Sample) -> Iterator[Sample]:
    """A list of JSON is left out where lines are taken, and protobuf, whose limit counts resources and scopes as records."""
    formats = {each.content_type: each for each in sample.in_each_format()}
    left_out = {PROTOBUF, JSON} if LINES in formats else {PROTOBUF}
    yield from (
        replace(formats[each], query={}, headers={**NAMED, **formats[each].headers}) for each in formats if each not in left_out
    )


RECORDS = [each for sample in READING if sample.budget.form is BodyForm.RECORDS for each in _formats(sample)]
"""Requests of records, with headers that name the run of those without one."""
STRUCTURED = [each for each in RECORDS if each.content_type != TEXT]
STREAMS = [each for each in STRUCTURED if each.budget.streams > 1]
VALUES = [SAMPLES["POST", f"{LOGS}/{{fqn}}/{{runId}}"], *STRUCTURED]


def name_of(sample: Sample) -> str:
    """Operation and content type."""
    return f"{sample.method} {sample.path} {sample.content_type}"


def items(sample: Sample, count: int) -> bytes:
    """A body of that many records, each a message of syslog too."""
    return sample.with_records({"message": f"<13>m{number}"} for number in range(count))


def streams(sample: Sample, count: int) -> bytes:
    """A body with a record for each of that many runs."""
    return sample.with_records({"message": "m", "runlake": {"fqn": f"p{number}", "run_id": "r"}} for number in range(count))


def values(sample: Sample, count: int) -> bytes:
    """A body of that many values."""
    if sample.content_type == MSGPACK:
        return sample.with_records([{"message": "m", "data": [[]] * (count // 2)}])
    if not isinstance(sample.document, dict):
        return sample.with_records([{"message": "m", "data": [0] * count}])
    empty = {name: [] if isinstance(each, list) else each for name, each in sample.document.items()}
    return sample.encoded({**empty, "other": [0] * count})


def deep(sample: Sample, levels: int) -> bytes:
    """A body of one record with a field of that many nested lists."""
    nested: Any = "x"
    for _ in range(levels):
        nested = [nested]
    return sample.with_records([{"message": "m", "data": nested}])


def padded(document: object, size: int) -> bytes:
    """A JSON document of the given size in bytes."""
    return json.dumps(document).encode().ljust(size)
