"""Steps of a run: parts of it that have a name, a beginning, an end and perhaps a parent. What is said inside of one is its own.

The current step is a context variable: it follows a task of asyncio, and not a thread, whose own ``with`` or
``contextvars.copy_context().run`` says where it belongs.
"""

from __future__ import annotations

import re
import secrets
import time
import traceback
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Any

from runlake.events import MAX_NAME_CHARS, checked_name, now_ms
from runlake.names import RunName
from runlake.outcomes import is_failure
from runlake.terminal import label

if TYPE_CHECKING:
    from runlake.handler import RunlogHandler

_UNSAFE = re.compile(r"[^a-z0-9]+")
_innermost: ContextVar[Step | None] = ContextVar("runlake_step", default=None)
RUNNING, SUCCEEDED, FAILED = "running", "succeeded", "failed"


class Step:
    """One step, for ``with``. It has failed when an exception passes, which goes on. A step inside of it has it for a parent."""

    def __init__(self, handler: RunlogHandler, name: str, step_id: str | None = None, parent: Step | str | None = None) -> None:
        self.name = label(handler.mask.text(name), MAX_NAME_CHARS)
        self.id = checked_name("step", handler.mask.text(step_id or _made_up(self.name)))  # it stands in addresses
        self._handler = handler
        self._explicit_parent = parent
        self._outer: Step | None = None
        self._token: Token[Step | None] | None = None
        self._started_ms = 0
        self._started_s = 0.0
        self.parent: str | None = None

    @property
    def run(self) -> RunName:
        """The run that it is a part of."""
        return self._handler.run

    def event(self, message: str, **more: Any) -> None:
        """Say something in this step, from wherever; see ``RunlogHandler.event``."""
        self._handler.event(message, step=self.id, **more)

    def __enter__(self) -> Step:
        self.parent = self._parent()
        self._started_ms, self._started_s = now_ms(), time.monotonic()
        self._outer = _innermost.get()
        self._token = _innermost.set(self)
        self._report(RUNNING, None)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        has_failed = is_failure(error)
        if has_failed and error is not None:
            self._handler.step_failed(self.id, error)
            summary = "".join(traceback.format_exception_only(error)).strip()
            self.event(f"the step {self.name} failed: {summary}", level="ERROR", data={"exception": summary})
        self._leave()
        lasted_ms = int((time.monotonic() - self._started_s) * 1000)  # a clock that is set meanwhile makes no step older
        self._report(FAILED if has_failed else SUCCEEDED, self._started_ms + lasted_ms)

    def _parent(self) -> str | None:
        given = self._explicit_parent
        if given is None:
            current = current_step(self.run)
            return current.id if current else None
        return given if isinstance(given, str) else given.id

    def _leave(self) -> None:
        token, self._token = self._token, None
        if token is not None:
            try:
                _innermost.reset(token)
            except ValueError:
                return  # it was entered in another context, which ends by itself

    def _report(self, status: str, ended_ms: int | None) -> None:
        facts = {
            "name": self.name or self.id,
            "parent": self.parent,
            "startedMs": self._started_ms,
            "endedMs": ended_ms,
            "status": status,
        }
        self._handler.update_step(self.id, facts)


def current_step(run: RunName) -> Step | None:
    """The innermost step of a run that this code is in."""
    step = _innermost.get()
    while step is not None and step.run != run:
        step = step._outer
    return step


def _made_up(name: str) -> str:
    """An id nobody else makes up, that tells the name."""
    return f"{_UNSAFE.sub('-', name.lower()).strip('-')[:40] or 'step'}-{secrets.token_hex(3)}"
