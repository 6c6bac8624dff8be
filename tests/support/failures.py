"""Injected errors: failures that AWS can return at any time and an in-memory adapter never would; a test schedules them for its
next calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from threading import Lock
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from chalicelib.errors import RunlakeError, StoreUnavailableError

P = ParamSpec("P")
R = TypeVar("R")


class RequestRejectedError(StoreUnavailableError, ValueError):
    """A request that exceeds a limit of the service, which answers 400: nothing is written, and a retry fails alike.

    Code under test gets the class that it gets on AWS, and a test may expect ``ValueError``.
    """


@dataclass(slots=True)
class _Failure:
    operations: frozenset[str]
    error: type[RunlakeError]
    left: int
    applied: bool
    matches: Callable[..., bool]


class Failures:
    """Errors that the next calls of one adapter raise."""

    def __init__(self) -> None:
        self._scheduled: list[_Failure] = []
        self._lock = Lock()

    def schedule(
        self,
        *operations: str,
        error: type[RunlakeError],
        times: int = 1,
        applied: bool = False,
        matches: Callable[..., bool] = lambda *arguments: True,
    ) -> None:
        """Let the next ``times`` calls of the operations whose arguments match raise ``error``. ``applied``: the call takes
        effect first, like a write whose response is lost."""
        with self._lock:
            self._scheduled.append(_Failure(frozenset(operations), error, times, applied, matches))

    def take(self, operation: str, arguments: tuple[Any, ...]) -> _Failure | None:
        """The failure of this call, consumed."""
        with self._lock:
            for failure in self._scheduled:
                if operation in failure.operations and failure.matches(*arguments):
                    failure.left -= 1
                    if not failure.left:
                        self._scheduled.remove(failure)
                    return failure
        return None


class Failing(Protocol):
    """An adapter with scheduled failures."""

    failures: Failures


A = TypeVar("A", bound=Failing)


def can_fail(method: Callable[Concatenate[A, P], R]) -> Callable[Concatenate[A, P], R]:
    """Make an adapter's method raise the failures that are scheduled under its name."""
    operation = method.__name__

    @wraps(method)
    def request(self: A, /, *arguments: P.args, **options: P.kwargs) -> R:
        failure = self.failures.take(operation, (*arguments, *options.values()))
        if failure is None:
            return method(self, *arguments, **options)
        if failure.applied:
            method(self, *arguments, **options)
        raise failure.error(f"injected operation={operation}")

    return request
