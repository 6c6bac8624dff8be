"""Rewrites the auxiliary objects of a long-lived run before the bucket's lifecycle expires them.

The lifecycle expires an object ``ExpirationDays`` after it was written. Each compaction rewrites the log, and its end writes ``logs.txt``; but
entries of deleted segments and objects of events are written once, and would expire before the log. Therefore old ones are rewritten,
unchanged (decision 0036)::

    run is running  in the schedule's pass, once an object is half the expiration old
    run ends        before logs.txt is written, once an object is a day old

Both renew all objects older than a day (or a quarter of the expiration, if that is less). The object that triggered the renewal is last: if a
pass is interrupted or fails at any object, the trigger remains for the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from chalicelib.deadline import Deadline
from chalicelib.errors import ObjectNotFoundError, PreconditionFailedError
from chalicelib.ports import Clock, Condition, ListedObject, ObjectStore, PutOptions, Run
from chalicelib.runlog.concatenation import READERS
from chalicelib.runlog.conflicts import put_retrying_conflicts
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.log_end import list_all

DAY_MS = 86_400_000
_BATCH = 100


@dataclass(frozen=True, slots=True)
class Renewal:
    """``expiration_ms``: the lifecycle's expiration; 0: none."""

    store: ObjectStore
    layout: Layout
    clock: Clock
    expiration_ms: int

    def is_due(self, oldest: ListedObject | None) -> bool:
        """Whether a running run's objects must be renewed. ``oldest``: the oldest listed one (None: there is none)."""
        return self._is_older(oldest, self.expiration_ms // 2)

    def is_due_at_end(self, oldest: ListedObject | None) -> bool:
        """Whether they must be renewed before the log is finalized."""
        return self._is_older(oldest, self._young_ms)

    def renew(self, run: Run, trigger: ListedObject, deadline: Deadline) -> int:
        """Rewrite old objects; returns their number. ``trigger``: the object that triggered the renewal. A LIST per 1,000 objects, a GET and a PUT
        per old one. Raises UnavailableError, DeadlineExceededError: the renewal is still due, and the next pass continues."""
        before_ms = self.clock.now_ms() - self._young_ms
        old = [found for found in self._renewable(run) if found.last_modified_ms <= before_ms and found.key != trigger.key]
        with ThreadPoolExecutor(READERS) as workers:
            for start in range(0, len(old), _BATCH):
                deadline.check()
                list(workers.map(self._renew, old[start : start + _BATCH]))
        deadline.check()
        self._renew(trigger)
        return len(old) + 1

    @property
    def _young_ms(self) -> int:
        return min(DAY_MS, self.expiration_ms // 4)

    def _is_older(self, oldest: ListedObject | None, age_ms: int) -> bool:
        return bool(self.expiration_ms) and oldest is not None and self.clock.now_ms() - oldest.last_modified_ms >= age_ms

    def _renewable(self, run: Run) -> Iterator[ListedObject]:
        for prefix in (self.layout.events(run), self.layout.all_retired(run)):
            yield from list_all(self.store, prefix)

    def _renew(self, listed: ListedObject) -> None:
        with suppress(ObjectNotFoundError, PreconditionFailedError):  # changed or deleted meanwhile: nothing to renew
            stored = self.store.get(listed.key, if_match=listed.etag)
            options = PutOptions(stored.info.metadata, content_type=stored.info.content_type)
            put_retrying_conflicts(self.store, listed.key, stored.body, options, Condition(if_match=listed.etag))
