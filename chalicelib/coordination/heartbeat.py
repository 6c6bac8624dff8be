"""Leases renewed while work runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Protocol, Self

from chalicelib.coordination.lease import Lease
from chalicelib.coordination.parallel import in_parallel
from chalicelib.errors import RunlakeError

RENEWALS_PER_LEASE = 3
"""Renewals in the time of a lease."""
RETRY_SPEEDUP = 5
"""How much sooner the next one comes after one that failed."""


class StopSignal(Protocol):
    """How a heartbeat waits: as ``threading.Event`` does."""

    def wait(self, timeout: float) -> bool:
        """True at once when it was set, False after ``timeout`` seconds."""

    def set(self) -> None:
        """No more waiting."""


class Heartbeat:
    """A context: inside it, a thread renews ``leases()`` three times in the time of a lease.

    A renewal that fails is tried again soon, until the lease can't be trusted any more; a lease that is lost stays lost. Either way the
    work learns it from ``Lease.check``. Nothing is raised from here.
    """

    def __init__(
        self, renew: Callable[[Lease], None], leases: Callable[[], Iterable[Lease]], timeout_s: float, stop: StopSignal
    ) -> None:
        self._renew, self._leases, self._interval_s, self._stop = renew, leases, timeout_s / RENEWALS_PER_LEASE, stop
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def renew_due(self) -> bool:
        """Renew what was not written lately. Whether all went well."""
        due = [lease for lease in self._leases() if not lease.is_over and lease.age_s() >= self._interval_s / 2]
        return all(in_parallel(self._try, sorted(due, key=Lease.remaining_s)))

    def _run(self) -> None:
        well = True
        while not self._stop.wait(self._interval_s if well else self._interval_s / RETRY_SPEEDUP):
            well = self.renew_due()

    def _try(self, lease: Lease) -> bool:
        try:
            self._renew(lease)
        except RunlakeError as error:
            lease.renewal_error = error
            return lease.is_over  # a lost lease needs no haste
        return True
