"""Ports with something in between: every call passes a gate, before it takes effect and after it did."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

from chalicelib.errors import OutcomeUnknownError, StoreUnavailableError, UnavailableError

WRITES = frozenset({
    "put", "delete", "delete_many", "create_multipart", "upload_part", "copy_part", "complete_multipart", "abort_multipart",
    "put_many", "transact",  # of a Database
    "publish",  # of a Publisher
})  # fmt: skip
BEFORE, AFTER = "before", "after"


class Crash(BaseException):
    """The process dies here: no handler of the code under test may catch it."""


class Intercepted:
    """A port whose calls go through ``gate(operation, call)``: it makes the call when it likes, or raises instead.

    A publisher does not raise: an error of the gate is the answer for each of the messages.
    """

    def __init__(self, inner: Any, gate: Callable[[str, Callable[[], Any]], Any]) -> None:
        self._inner, self._gate = inner, gate

    def __getattr__(self, operation: str) -> Any:
        method = getattr(self._inner, operation)
        if operation.startswith("presign"):  # makes no request
            return method

        def gated(*args: Any, **kwargs: Any) -> Any:
            return self._gate(operation, lambda: method(*args, **kwargs))

        def gated_publish(messages: Any) -> Any:
            try:
                return gated(messages)
            except UnavailableError as error:
                return [error] * len(messages)

        return gated_publish if operation == "publish" else gated


class StopAt:
    """Lets calls through, counts them, and stops at one of them: ``moment`` before it takes effect, or after, with the answer lost.

    ``how``: "error" raises what an adapter would raise, "crash" ends the process.
    """

    def __init__(self, number: int, moment: str, how: str) -> None:
        self.calls: list[str] = []
        self.fired = False
        self._number, self._moment, self._how = number, moment, how
        self._lock = Lock()

    def __call__(self, operation: str, call: Callable[[], Any]) -> Any:
        with self._lock:  # several threads of a process may call at once
            number = len(self.calls)
            self.calls.append(operation)
        if self.fired and self._how == "crash":
            raise Crash(operation)  # a dead process makes no further calls
        if number != self._number:
            return call()
        self.fired = True
        if self._moment == AFTER:
            call()
        if self._how == "crash":
            raise Crash(operation)
        lost = self._moment == AFTER and operation in WRITES
        raise (OutcomeUnknownError if lost else StoreUnavailableError)(f"injected operation={operation} moment={self._moment}")
