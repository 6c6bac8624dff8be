"""Errors that AWS can answer at any time and memory never would by itself: scheduled by a test for the next calls of an adapter."""

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
    """A request over a limit of the service, which answers 400 to it: nothing is done, and a retry meets the same.

    Code under test sees the class that it sees on AWS, and a test may demand ``ValueError``.
    """


@dataclass(slots=True)
class _Failure:
    operations: frozenset[str]
    error: type[RunlakeError]
    left: int
    applied: bool
    matches: Callable[..., bool]


class Failures:
    """What the next calls of one adapter raise instead of an answer."""

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
        """Let the next ``times`` calls of the operations raise ``error``, those whose arguments match. ``applied``: the call takes
        effect first, as a write does whose answer is lost."""
        with self._lock:
            self._scheduled.append(_Failure(frozenset(operations), error, times, applied, matches))

    def take(self, operation: str, arguments: tuple[Any, ...]) -> _Failure | None:
        """The failure that this call meets; it is used up."""
        with self._lock:
            for failure in self._scheduled:
                if operation in failure.operations and failure.matches(*arguments):
                    failure.left -= 1
                    if not failure.left:
                        self._scheduled.remove(failure)
                    return failure
        return None


class Failing(Protocol):
    """An adapter whose calls fail as scheduled."""

    failures: Failures


A = TypeVar("A", bound=Failing)


def can_fail(method: Callable[Concatenate[A, P], R]) -> Callable[Concatenate[A, P], R]:
    """A request of an adapter, which fails if a failure is scheduled for it."""
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
