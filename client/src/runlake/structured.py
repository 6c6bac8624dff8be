"""For structlog: a processor that archives each event as a line of JSON, and a factory of loggers that write to the run.

structlog need not be installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, MutableMapping
from typing import Any

from runlake.handler import RunlogHandler

EventDict = MutableMapping[str, Any]
_LEVELS = {"exception": "ERROR", "failure": "ERROR"}
"""Levels of logger methods that are not named after one."""


def processor(handler: RunlogHandler) -> Callable[[Any, str, EventDict], EventDict]:
    """A processor for the place before the renderer: it archives the event and passes it on unchanged.

    Values that are not JSON are written as their ``repr``. The level is added unless another processor has done so.
    """

    def archive(_logger: Any, method: str, event: EventDict) -> EventDict:
        line = json.dumps({"level": method, **event}, default=repr, ensure_ascii=False)
        handler.write(line + "\n", _LEVELS.get(method, method.upper()))
        return event

    return archive


class ArchivedLogger:
    """The final logger of a chain: it archives the renderer's result, text or bytes."""

    def __init__(self, handler: RunlogHandler) -> None:
        self._handler = handler

    def msg(self, message: str | bytes) -> None:
        """Archive a line."""
        text = message.decode("utf-8", "replace") if isinstance(message, bytes) else message
        self._handler.write(text + "\n")

    log = debug = info = warn = warning = error = err = critical = fatal = failure = exception = msg


class ArchivedLoggerFactory:
    """``structlog.configure(logger_factory=ArchivedLoggerFactory(run.handler))``."""

    def __init__(self, handler: RunlogHandler) -> None:
        self._handler = handler

    def __call__(self, *_: Any) -> ArchivedLogger:
        """A logger that writes to the run."""
        return ArchivedLogger(self._handler)
