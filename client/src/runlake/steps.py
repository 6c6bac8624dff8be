"""Steps of a run: its parts, with a name, a start, an end and an optional parent. Events belong to the step that the code is in.

The current step is a context variable: asyncio tasks inherit it, threads do not. A thread enters a step itself, or runs in
``contextvars.copy_context().run``.
"""

from __future__ import annotations

import os
import re
import time
import traceback
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Protocol

from runlake.events import now_ms
from runlake.masking import Mask
from runlake.names import MAX_NAME_CHARS, RunName, checked_name
from runlake.outcomes import is_failure
from runlake.terminal import label

_UNSAFE = re.compile(r"[^a-z0-9]+")
_innermost: ContextVar[Step | None] = ContextVar("runlake_step", default=None)
RUNNING, SUCCEEDED, FAILED = "running", "succeeded", "failed"


class StepRecorder(Protocol):
    """What a step needs of the handler that writes its run; ``RunlogHandler`` has it."""

    run: RunName
    mask: Mask

    @property
    def event(self) -> Callable[..., None]:
        """Add an event; see ``RunlogHandler.event``."""

    def update_step(self, step_id: str, facts: Mapping[str, Any]) -> None:
        """Store the state of a step."""

    def step_failed(self, step_id: str, error: BaseException) -> None:
        """Record that an exception left a step."""


class Step:
    """One step, as a context manager. It fails if an exception leaves it, which propagates. It is the parent of steps in its block."""

    def __init__(self, handler: StepRecorder, name: str, step_id: str | None = None, parent: Step | str | None = None) -> None:
        self.name = label(handler.mask.text(name), MAX_NAME_CHARS)
        self.id = checked_name("step", handler.mask.text(step_id or _made_up(self.name)))  # it is part of URLs
        self._handler = handler
        self._explicit_parent = parent
        self._outer: Step | None = None
        self._token: Token[Step | None] | None = None
        self._started_ms = 0
        self._started_s = 0.0
        self.parent: str | None = None

    @property
    def run(self) -> RunName:
        """The run of the step."""
        return self._handler.run

    def event(self, message: str, **more: Any) -> None:
        """Add an event to this step, from any code; see ``RunlogHandler.event``."""
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
        lasted_ms = int((time.monotonic() - self._started_s) * 1000)  # monotonic: the clock may be changed meanwhile
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
                return  # it was entered in another context, which ends separately

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
    """A unique id with the name in it."""
    return f"{_UNSAFE.sub('-', name.lower()).strip('-')[:40] or 'step'}-{os.urandom(3).hex()}"
