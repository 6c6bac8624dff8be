"""Derives the outcome of an OpenMetadata workflow from the end of its log: the unmodified client does not report it with the close.

Formats are those of ``openmetadata-ingestion`` 2.0.7 (``workflow/workflow_output_handler.py``, ``utils/streamable_logger.py``,
``workflow/workflow_init_error_handler.py``). Records are ``[2026-11-26 00:10:00] INFO     {metadata.Utils:logger:223} - …``, with the
terminal's colors. A log ends with one of the following, before optional diagnostics (``diag.…``, at level DEBUG) and counts of the client
(``streamable_logger shutdown:``)::

    Workflow Source Summary:            of each step: its name, counts, "Errors: 1", "Success %: 97.5"
    List of failures:                   and a table, if there are any
    Workflow Success %: 98.75
    Workflow finished in time: 12s 003.000ms
    Workflow finished with failures     if its source has any

    Workflow terminated with uncaught exception         and its traceback

    Error initializing metadata: …
    For more information, please visit: …

Any other end gives no outcome, and such lines earlier in the log are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from chalicelib.lines.text import without_escapes
from chalicelib.ports import FAILED, SUCCEEDED, RunEnd

_RECORD = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] ([A-Z]+) +\{[^{}]*\} - (.*)")
_CLIENT_COUNTS = re.compile(r"(?:\A|(?<=\n))streamable_logger shutdown:\n(?:  [a-z]+: +[a-z_]+=\d.*(?:\n|\Z))+\Z")
_SUCCESS = re.compile(r"Workflow Success %: (\d+(?:\.\d+)?)")
_STEP_NAME = re.compile(r"Workflow (.+) Summary:")
_STEP_COUNT = re.compile(r"(?:Processed records|Updated records|Warnings|Filtered|Errors|Success %): (\d+(?:\.\d+)?)")
_IN_TIME, _FAILURES = "Workflow finished in time: ", "Workflow finished with failures"
_UNCAUGHT, _FATAL = "Workflow terminated with uncaught exception", "Fatal error running step ["
_DIAGNOSTICS = "diag."
_INIT_ERROR, _MORE_INFORMATION = "Error initializing ", "For more information, please visit: "


@dataclass(frozen=True, slots=True)
class _Record:
    """``level``: empty for text before the first record, such as the rest of a truncated record."""

    level: str
    text: str


def may_state_end(text: str) -> bool:
    """Whether a log that ends with this text may contain an outcome, so that reading further back is useful."""
    records = _records(text)
    return not records or _is_end(records[-1].text) or records[-1].text.startswith((_UNCAUGHT, _MORE_INFORMATION))


def stated_end(text: str) -> RunEnd | None:
    """The outcome of a workflow whose log ends with this text; None if there is none. The text may start anywhere in the log: a
    truncated summary loses the name of the failed step, or gives no outcome."""
    records = _records(text)
    if not records:
        return None
    last = records[-1]
    if last.level == "ERROR" and last.text.startswith(_UNCAUGHT):
        return RunEnd(FAILED, exception=_exception(last.text))
    if last.text.startswith(_MORE_INFORMATION):
        before = records[-2] if len(records) > 1 else last
        is_error = before.level == "ERROR" and before.text.startswith(_INIT_ERROR)
        return RunEnd(FAILED, exception=before.text.partition("\n")[0]) if is_error else None
    return _end_of_summary(records)


def _records(text: str) -> list[_Record]:
    """The records of the text without the parts after a summary, stripped of blank lines."""
    found: list[tuple[str, list[str]]] = [("", [])]
    for line in _CLIENT_COUNTS.sub("", without_escapes(text)).split("\n"):
        if begins := _RECORD.match(line):
            found.append((begins[1], [begins[2]]))
        else:
            found[-1][1].append(line)
    records = [_Record(level, "\n".join(lines).strip()) for level, lines in found]
    while records and records[-1].text.startswith(_DIAGNOSTICS):
        records.pop()
    return records if not records or records[0].text else records[1:]


def _is_end(text: str) -> bool:
    return text == _FAILURES or text.startswith(_IN_TIME) or _SUCCESS.fullmatch(text) is not None


def _end_of_summary(records: Sequence[_Record]) -> RunEnd | None:
    texts = [record.text for record in records]
    states_failures = texts[-1] == _FAILURES
    if states_failures:
        texts.pop()
    if texts and texts[-1].startswith(_IN_TIME):
        texts.pop()
    success = _SUCCESS.fullmatch(texts.pop()) if texts else None
    if success is None:
        return None
    has_table = bool(texts) and texts[-1].endswith("-+")
    if has_table:
        del texts[-2:]  # with its title
    steps = _steps(texts)
    if not steps and not has_table:
        return None
    failed_step = next((name for name, errors in steps if errors), "")
    fatal = next((record.text for record in reversed(records) if record.level == "ERROR" and record.text.startswith(_FATAL)), "")
    if fatal or failed_step or has_table or states_failures or float(success[1]) < 100:
        return RunEnd(FAILED, exception=fatal.partition("\n")[0] or success[0], step=failed_step)
    return RunEnd(SUCCEEDED)


def _steps(texts: list[str]) -> list[tuple[str, int]]:
    """(name, errors) of the steps at the end of these texts, in order."""
    steps: list[tuple[str, int]] = []
    errors = 0
    for text in reversed(texts):
        if name := _STEP_NAME.fullmatch(text):
            steps.append((name[1], errors))
            errors = 0
        elif count := _STEP_COUNT.fullmatch(text):
            errors = int(count[1]) if text.startswith("Errors: ") else errors
        else:
            break
    return steps[::-1]


def _exception(text: str) -> str:
    """The line after the last frame of a traceback; the first line if there is no traceback."""
    lines = text.split("\n")
    last_frame = max((number for number, line in enumerate(lines[:-1]) if line.startswith("  ")), default=-1)
    return lines[last_frame + 1]
