"""What AWS would bill for a stack's functions, from their recorded calls and printed lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from local import deploy
from local.prices import LOG_EVENT_BYTES, PLATFORM_LOG_BYTES, Units, billed

_INDEX_UNITS = {"RunsTable": 3}
"""A run's row has two indexes. The activity index is keyed by time, so an update deletes one entry and puts another."""


@dataclass(frozen=True)
class RecordingPosition:
    """Offsets into the recorded calls and into the printed lines of each function."""

    offset: int = 0
    printed: Mapping[str, int] | None = None


class Billing:
    """Counts billed units of a stack whose functions record their calls to ``calls`` (``local.recording``)."""

    def __init__(self, stack: Mapping[str, Any], calls: Path) -> None:
        self._stack, self._calls = stack, calls
        calls.touch()

    def now(self) -> RecordingPosition:
        """The current end of the recording."""
        return RecordingPosition(self._calls.stat().st_size, {name: len(texts) for name, texts in self._messages().items()})

    def units_since(self, start: RecordingPosition) -> dict[str, Units]:
        """Billed units by function since a position."""
        units = {name: billed(calls, self._index_units) for name, calls in self._calls_since(start.offset).items()}
        for name, texts in self._messages().items():
            _add_invocations(units[name], name, texts[(start.printed or {}).get(name, 0) :], self._memory_gb[name])
        return units

    def _calls_since(self, offset: int) -> dict[str, list[dict[str, Any]]]:
        calls: dict[str, list[dict[str, Any]]] = {name: [] for name in self._stack["functions"]}
        names = {deployed: name for name, deployed in self._stack["functions"].items()}
        with open(self._calls) as lines:
            lines.seek(offset)
            for line in lines:
                call = json.loads(line)
                if call["by"] in names:
                    calls[names[call["by"]]].append(call)
        return calls

    @cached_property
    def _index_units(self) -> dict[str, int]:
        return {self._deployed(name): units for name, units in _INDEX_UNITS.items()}

    def _deployed(self, logical: str) -> str:
        with closing(deploy.client("cloudformation", self._stack["aws_endpoint_url"])) as cloudformation:
            resource = cloudformation.describe_stack_resource(StackName=self._stack["stack_name"], LogicalResourceId=logical)
        return str(resource["StackResourceDetail"]["PhysicalResourceId"])

    @cached_property
    def _memory_gb(self) -> dict[str, float]:
        with closing(deploy.client("lambda", self._stack["aws_endpoint_url"])) as client:
            return {
                name: client.get_function_configuration(FunctionName=deployed)["MemorySize"] / 1024
                for name, deployed in self._stack["functions"].items()
            }

    def _messages(self) -> dict[str, list[str]]:
        with closing(deploy.client("logs", self._stack["aws_endpoint_url"])) as logs:
            pages = logs.get_paginator("filter_log_events")
            return {
                name: [
                    event["message"] for page in pages.paginate(logGroupName=f"/aws/lambda/{deployed}") for event in page["events"]
                ]
                for name, deployed in self._stack["functions"].items()
            }


def _add_invocations(units: Units, name: str, texts: list[str], memory_gb: float) -> None:
    """An invocation with many metric values prints several lines of metrics; only the last one has a duration."""
    printed = [json.loads(text) for text in texts if text.startswith('{"_aws"')]
    done = [each for each in printed if "duration_ms" in each]
    own = [text for text in texts if text.startswith("{")]
    units["function calls"] += len(done)
    units["function time, GB-seconds"] += sum(each["duration_ms"] for each in done) / 1000 * memory_gb
    units["bytes of own log lines"] += sum(len(text.encode()) + LOG_EVENT_BYTES for text in own) + PLATFORM_LOG_BYTES * len(done)
    if name == "api":
        units["API requests"] += len(done)
    if name == "ingest":
        units["SQS requests"] += 2 * len(done)  # one receive and one delete
