"""Ports that work under a lease goes through: once the lease is lost, the next call raises instead of being made."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from chalicelib.coordination.lease import Lease

Port = TypeVar("Port")


class _LeaseChecked:
    def __init__(self, port: Any, lease: Lease) -> None:
        self._port, self._lease = port, lease

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        return self._checked(found) if callable(found) else found

    def _checked(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def checked(*args: Any, **options: Any) -> Any:
            self._lease.check()
            return call(*args, **options)

        return checked


def lease_checked(port: Port, lease: Lease) -> Port:
    """``port``, whose every call first asks ``lease.check()``: PartitionNotOwnedError, and the call is not made."""
    return cast(Port, _LeaseChecked(port, lease))
