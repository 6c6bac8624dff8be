"""Actors that stop before each of their store calls until the test lets them go on: every interleaving can be chosen, none is luck.

An actor is a greenlet: it runs in the test's thread while the test waits for it. Calls that an actor makes from a pool of threads
(parallel reads) pass without stopping: their order among themselves is not the test's to choose.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from chalicelib.errors import RunlakeError
from tests.faults.interception import LATE, LATER, Crash, Intercepted, failed


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
        self._greenlet = greenlet(self._run)
        self._greenlet.switch(operation)

    def step(self, fault: tuple[str, str] | None = None) -> None:
        """Let the waiting call go through, or meet a fault (moment, how). A late write waits for ``land``."""
        assert not self.done
        self._fault = fault
        self._greenlet.switch()

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
        if getcurrent() is not self._greenlet:
            return call()
        if isinstance(self.error, Crash):
            raise self.error
        self.waiting_for = operation
        try:
            self._greenlet.parent.switch()
        except GreenletExit:  # nobody steps it any more: none of its handlers may make another call
            self.error = Crash()
            raise self.error from None
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
