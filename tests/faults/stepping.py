"""Actors that stop before each of their store calls until the test lets them go on: every interleaving can be chosen, none is luck.

An actor runs in a thread of its own, but only one thread ever runs: the test's, or the one actor that was told to step. Calls that an
actor makes from a pool of its own (parallel reads) pass without stopping: their order among themselves is not the test's to choose.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from chalicelib.errors import RunlakeError
from tests.faults.interception import LATE, LATER, Crash, Intercepted, failed

_PATIENCE_S = 60


class Actor:
    """One operation in progress. ``step()`` lets its next store call happen, or meet a fault (see ``interception``)."""

    def __init__(self, name: str, operation: Callable[[Callable[[Any], Any]], Any]) -> None:
        self.name = name
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False
        self.waiting_for = ""
        self._fault: tuple[str, str] | None = None
        self._late: list[Callable[[], Any]] = []
        self._go, self._stopped = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(operation,), daemon=True, name=name)
        self._thread.start()
        self._wait()

    def step(self, fault: tuple[str, str] | None = None) -> None:
        """Let the waiting call go through, or meet a fault (moment, how). A late write waits for ``land``."""
        assert not self.done
        self._fault = fault
        self._stopped.clear()
        self._go.set()
        self._wait()

    def finish(self) -> None:
        """Step until the operation is over."""
        while not self.done:
            self.step()

    def land(self) -> None:
        """Let the writes that are late take effect. Nobody hears their answers."""
        late, self._late = self._late, []
        for call in late:
            with suppress(RunlakeError):
                call()

    def _wrap(self, port: Any) -> Any:
        return Intercepted(port, self._gate)

    def _gate(self, operation: str, call: Callable[[], Any]) -> Any:
        if threading.current_thread() is not self._thread:
            return call()
        if isinstance(self.error, Crash):
            raise self.error
        self.waiting_for = operation
        self._stopped.set()
        assert self._go.wait(_PATIENCE_S)
        self._go.clear()
        fault, self._fault = self._fault, None
        if fault is None:
            return call()
        moment, how = fault
        if moment in (LATE, LATER):
            self._late.append(call)
        error = failed(operation, call, moment, how)
        if isinstance(error, Crash):
            self.error = error
        raise error

    def _run(self, operation: Callable[[Callable[[Any], Any]], Any]) -> None:
        try:
            self.result = operation(self._wrap)
        except BaseException as error:
            self.error = error
        self.done = True
        self._stopped.set()

    def _wait(self) -> None:
        assert self._stopped.wait(_PATIENCE_S), f"actor hangs name={self.name} call={self.waiting_for}"
