"""For structlog: a processor that archives each event as a line of JSON, and a factory of loggers that write to the run.

Neither needs structlog to be installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, MutableMapping
from typing import Any

from runlake.handler import RunlogHandler

EventDict = MutableMapping[str, Any]
_LEVELS = {"exception": "ERROR", "failure": "ERROR"}
"""Methods of loggers that are not named after a level."""


def processor(handler: RunlogHandler) -> Callable[[Any, str, EventDict], EventDict]:
    """A processor to stand before the one that renders: it archives the event and passes it on as it is.

    Values that are no JSON are written as their ``repr``. The level is added where no other processor has.
    """

    def archive(_logger: Any, method: str, event: EventDict) -> EventDict:
        line = json.dumps({"level": method, **event}, default=repr, ensure_ascii=False)
        handler.write(line + "\n", _LEVELS.get(method, method.upper()))
        return event

    return archive


class ArchivedLogger:
    """The last logger of a chain: it archives what the renderer made of an event, text or bytes."""

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
        """A logger to the run."""
        return ArchivedLogger(self._handler)
