"""Events that a handler would not take: stored whole, with the reason, for somebody to look at and to send again.

``_dead/{fqn}/{run id}/{pipeline}/{handler}/{line:010d}.json``, percent-encoded as run logs are. The same event again is the same object,
and what quotes a run is found, and removed, with it.
"""

from __future__ import annotations

import json
import logging
import traceback

from chalicelib.pipelines.ports import FQN, LINE, RUN_ID, TIME_MS
from chalicelib.ports import Clock, ObjectStore, PutOptions, Run
from chalicelib.runlog.layout import encode_name

DEAD = "_dead"
_OPTIONS = PutOptions(content_type="application/json")
_TRACE_CHARS = 4000
_MESSAGE_CHARS = 1_000_000


def dead_prefix(run: Run) -> str:
    """Below which all events of a run are that handlers would not take."""
    return f"{DEAD}/{encode_name(run.fqn)}/{encode_name(run.run_id)}/"


def dead_key(pipeline: str, handler: str, run: Run, line: int) -> str:
    """Where an event is that a handler would not take."""
    return f"{dead_prefix(run)}{encode_name(pipeline)}/{encode_name(handler)}/{line:010d}.json"


class DeadLetters:
    """Of one pipeline. ``count``: how many were put away."""

    def __init__(self, store: ObjectStore, pipeline: str, clock: Clock) -> None:
        self._store, self._pipeline, self._clock = store, pipeline, clock
        self.count = 0

    def put(self, handler: str, record: logging.LogRecord, error: BaseException, attempts: int) -> None:
        """Put an event away. One PUT. Raises UnavailableError."""
        told = record.__dict__
        key = dead_key(self._pipeline, handler, Run(told[FQN], told[RUN_ID]), told[LINE])
        document = {
            "pipeline": self._pipeline,
            "handler": handler,
            "reason": f"{type(error).__name__}: {error}"[:1000],
            "trace": "".join(traceback.format_exception(error))[-_TRACE_CHARS:],
            "attempts": attempts,
            "dead_ms": self._clock.now_ms(),
            "event": {
                "fqn": told[FQN],
                "run_id": told[RUN_ID],
                "line": told[LINE],
                "time_ms": told[TIME_MS],
                "logger": record.name,
                "level": record.levelname,
                "message": str(record.msg)[:_MESSAGE_CHARS],
            },
        }
        self._store.put(key, json.dumps(document).encode(), _OPTIONS)
        self.count += 1
