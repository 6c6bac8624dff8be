"""The summary of a job: one line of JSON, and its numbers as metrics."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from chalicelib.errors import RunlakeError
from glue_jobs.job_runtime.uri_files import write_text

_METRICS_A_CALL = 1000


def error_text(error: Exception) -> str:
    """An error in a report. Of a foreign one its class and place, not its message, which may quote a log or a row."""
    if isinstance(error, RunlakeError):
        return f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else type(error).__name__


def finish(name: str, summary: Mapping[str, Any], to: str | None = None, *, dry_run: bool = False) -> None:
    """Print a job's summary as one line of JSON, write it to ``to`` if given, and publish its numbers as metrics unless it was a
    dry run.

    Metrics: the functions' namespace, dimension ``job``, the summary's keys as names (``requests.s3:PutObject``). If they cannot
    be published, a line is printed and the job still succeeds.
    """
    text = json.dumps({"job": name, **summary}, sort_keys=False)
    print(text, flush=True)
    if to:
        write_text(to, text + "\n")
    namespace = os.environ.get("POWERTOOLS_METRICS_NAMESPACE")
    if namespace and not dry_run:
        _publish(namespace, name, dict(_numbers(summary)))


def _numbers(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}{name}", float(value)


def _publish(namespace: str, job: str, numbers: Mapping[str, float]) -> None:
    data = [
        {"MetricName": name, "Dimensions": [{"Name": "job", "Value": job}], "Value": value, "Unit": "None"}
        for name, value in numbers.items()
    ]
    try:
        client = boto3.client("cloudwatch")
        for first in range(0, len(data), _METRICS_A_CALL):
            client.put_metric_data(Namespace=namespace, MetricData=data[first : first + _METRICS_A_CALL])
    except (BotoCoreError, ClientError) as error:
        print(f"{job}: could not publish metrics: {error}", file=sys.stderr)
