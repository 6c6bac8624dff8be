"""Reports on the topic, in the datalake's format: one for each notification.

``version`` 0, ``status`` success | warning | error, ``start`` (ms), ``duration`` (s), ``records`` of ``url``, ``size``, ``create_time`` (ms)
and ``metadata``, and ``message`` when it is not a success. Metadata is the datalake's document, version 0; of a run's object ``what`` is the
pipeline's slug, ``where`` the connector's host, ``work_id`` the run. A seal has in addition ``fqn``, ``run_id``, ``outcome``, and where they
apply ``exit_code``, ``signal``, ``exception``, ``failed_step``, ``lost_lines``. A record whose names are discouraged has ``warnings``.

Attributes to filter by: ``status``, and ``failed`` = "true" when a record is the seal of a run that failed or was lost.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chalicelib.ports import Message

VERSION = 0
SUCCESS, WARNING, ERROR = "success", "warning", "error"
MAX_BYTES = 250_000
"""Below SNS's 256 KiB, with room for attributes."""


@dataclass(frozen=True, slots=True)
class Record:
    """An object in a report. ``failed``: the seal of a run that failed or was lost. ``warnings``: its names that are discouraged."""

    url: str
    size: int
    create_time: int
    metadata: dict[str, Any]
    failed: bool = False
    warnings: Sequence[str] = ()

    def document(self) -> dict[str, Any]:
        """The record in the report's JSON."""
        warnings = {"warnings": list(self.warnings)} if self.warnings else {}
        return {"url": self.url, "size": self.size, "create_time": self.create_time, "metadata": self.metadata} | warnings


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one notification."""

    start_ms: int
    duration_s: float
    records: Sequence[Record]
    problems: Sequence[str] = ()

    @property
    def status(self) -> str:
        """error if nothing was ingested, warning if there were problems."""
        if not self.problems:
            return SUCCESS
        return WARNING if self.records else ERROR

    def messages(self) -> list[Message]:
        """The report as JSON: one message, or several if it exceeds the size of a message."""
        text = json.dumps(self._document(self.records))
        if len(text) <= MAX_BYTES or len(self.records) <= 1:
            fitting = text if len(text) <= MAX_BYTES else json.dumps(self._document((), "report was too large"))
            return [Message(fitting, self._attributes())]
        middle = len(self.records) // 2
        halves = (self.records[:middle], self.records[middle:])
        return [message for half in halves for message in Report(self.start_ms, self.duration_s, half, self.problems).messages()]

    def _attributes(self) -> dict[str, str]:
        # SNS rejects an attribute without a value; a filter of "true" does not match a message without the attribute.
        return {"status": self.status} | ({"failed": "true"} if any(record.failed for record in self.records) else {})

    def _document(self, records: Sequence[Record], problem: str = "") -> dict[str, Any]:
        problems = [problem] if problem else [problem[:500] for problem in self.problems[:20]]
        message = {"message": "; ".join(problems)} if problems else {}
        return {
            "version": VERSION,
            "status": self.status,
            "start": self.start_ms,
            "duration": self.duration_s,
            "records": [record.document() for record in records],
        } | message
