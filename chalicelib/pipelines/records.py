"""Converts an event to the ``logging.LogRecord`` that handlers receive.

Built without the record's constructor, which would set the current time, process and thread: the event was logged earlier,
elsewhere.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any

from chalicelib.lines.levels import INFO, LOGGING_NUMBERS
from chalicelib.lines.parsed import ParsedLine
from chalicelib.pipelines.ordering import EventContext, PendingEvent
from chalicelib.pipelines.ports import (
    ANNOTATIONS,
    APP,
    DATA,
    EVENT_ID,
    FQN,
    GENERATION,
    INSTANCE,
    LEVEL,
    LINE,
    NAMESPACE,
    PROGRAM,
    RUN_ID,
    STEP,
    TIME_MS,
    WRITER,
)
from chalicelib.ports import Run

NO_LOGGER = "root"
DEFAULT_PROGRAM = "run"
_PARTS = re.compile(r'"(?:[^"]|"")*"|[^."]+')

MakeRecord = Callable[[PendingEvent], logging.LogRecord]


def split_fqn(fqn: str) -> tuple[str, str, str]:
    """Namespace, application and program of a run by its pipeline's FQN: its service, the next part, and the rest."""
    parts = [part.strip('"') or part for part in _PARTS.findall(fqn)] or [fqn]
    app = parts[1] if len(parts) > 1 else parts[0]
    return parts[0], app, ".".join(parts[2:]) or DEFAULT_PROGRAM


def record_maker(run: Run, generation: str) -> MakeRecord:
    """Returns the function that makes the records of one run."""
    namespace, app, program = split_fqn(run.fqn)
    template: dict[str, Any] = {
        "args": None, "pathname": f"{run.fqn}/{run.run_id}", "filename": run.run_id, "module": app, "exc_info": None, "exc_text": None,
        "stack_info": None, "funcName": "", "relativeCreated": 0.0, "thread": 0, "threadName": "", "processName": program,
        "process": 0, FQN: run.fqn, RUN_ID: run.run_id, GENERATION: generation, NAMESPACE: namespace, APP: app, PROGRAM: program, STEP: "",
        WRITER: "", ANNOTATIONS: (), INSTANCE: "",
    }  # fmt: skip
    new, kind = logging.LogRecord.__new__, logging.LogRecord
    numbers = LOGGING_NUMBERS

    def make(pending: PendingEvent) -> logging.LogRecord:
        parsed, time_ms, context = pending.parsed, pending.time_ms, pending.context
        level = parsed.level or INFO  # of a line without a level
        record = new(kind)
        record.__dict__ = {
            **template,
            "name": parsed.logger or NO_LOGGER,
            "msg": parsed.message,
            "levelname": level,
            "levelno": numbers.get(level, 20),
            "lineno": pending.line,
            "created": time_ms / 1000,
            "msecs": time_ms % 1000 + 0.0,
            LINE: pending.line,
            TIME_MS: time_ms,
            DATA: {},
            EVENT_ID: pending.line,
            LEVEL: parsed.level,
        }
        if context is not None:
            record.__dict__ |= {
                STEP: context.step,
                DATA: dict(context.data),
                EVENT_ID: context.id,
                WRITER: context.writer,
                LEVEL: context.level or parsed.level,
                ANNOTATIONS: context.annotations,
                INSTANCE: context.instance,
            }
        return record

    return make


def record_of_event(event: Mapping[str, Any], generation: str) -> logging.LogRecord:
    """The record of the event of a dead letter."""
    parsed = ParsedLine(None, event["level"], event["logger"], event["message"])
    step, data = str(event.get("step", "")), event.get("data", {})
    origin = event.get("origin", {"id": event["line"]})  # letters of plain lines have none
    context = EventContext(step, data, **origin) if step or data or "origin" in event else None
    run, time_ms = Run(event["fqn"], event["run_id"]), event["time_ms"]
    return record_maker(run, generation)(PendingEvent(time_ms, "", event["line"], 0, time_ms, 0, parsed, context))
