"""What AWS would bill for a stack's functions, from their recorded invocations and calls and the bytes that they print."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from local import deploy
from local.prices import LOG_EVENT_BYTES, PLATFORM_LOG_BYTES, Row, Units, billed


@dataclass(frozen=True)
class RecordingPosition:
    """Offsets into the recording and into the printed lines of each function."""

    offset: int = 0
    printed: Mapping[str, int] = field(default_factory=dict)


class Billing:
    """Counts billed units of a stack whose functions record to ``usage`` (``local.recording.metering``)."""

    def __init__(self, stack: Mapping[str, Any], usage: Path) -> None:
        self._stack, self._usage = stack, usage
        usage.touch()

    def now(self) -> RecordingPosition:
        """The current end of the recording."""
        return RecordingPosition(self._usage.stat().st_size, {name: len(texts) for name, texts in self._messages().items()})

    def units_since(self, start: RecordingPosition) -> dict[str, Units]:
        """Billed units by function since a position."""
        units = {name: billed(rows, self._memory_gb[name]) for name, rows in self._rows_since(start.offset).items()}
        for name, texts in self._messages().items():
            units[name]["bytes of own log lines"] += _log_bytes(texts[start.printed.get(name, 0) :], units[name]["function calls"])
        return units

    def has_lines_since(self, start: RecordingPosition) -> bool:
        """Whether CloudWatch Logs has the lines of all invocations since a position: Lambda's report is an invocation's last line."""
        invoked = {name: sum("invocation" in row for row in rows) for name, rows in self._rows_since(start.offset).items()}
        messages = self._messages()
        return all(
            sum(text.startswith("REPORT ") for text in messages[name][start.printed.get(name, 0) :]) >= count
            for name, count in invoked.items()
        )

    def _rows_since(self, offset: int) -> dict[str, list[Row]]:
        rows: dict[str, list[Row]] = {name: [] for name in self._stack["functions"]}
        names = {deployed: name for name, deployed in self._stack["functions"].items()}
        with open(self._usage) as lines:
            lines.seek(offset)
            for line in lines:
                row = json.loads(line)
                if row["by"] in names:
                    rows[names[row["by"]]].append(row)
        return rows

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


def _log_bytes(texts: list[str], invocations: int) -> int:
    """Bytes of a function's own lines, and of Lambda's for each invocation, which the emulator writes otherwise."""
    own = [text for text in texts if text.startswith("{")]
    return sum(len(text.encode()) + LOG_EVENT_BYTES for text in own) + PLATFORM_LOG_BYTES * invocations
