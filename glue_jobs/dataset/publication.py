"""Publishes a commit: moves files from staging to data/ and removes replaced ones. Every step can be repeated.

A job finishes the previous entry before it commits one. So at most the newest entry is unfinished, and only attempts at it or at
the next number can be in progress.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from chalicelib.errors import DamagedLogError, ObjectNotFoundError
from glue_jobs.dataset.entries import STAGING, Added, Entry, State
from glue_jobs.dataset.files import Files
from glue_jobs.dataset.ledger import Ledger

OUTPUT = "files/"
"""Spark's output folder below an attempt's folder."""
_TOKEN = "attempt"
"""Written before all other files of an attempt, removed after them."""
_THREADS = 16
_DIGITS = 10


class Publisher:
    """Publishes entries, and removes the remains of attempts."""

    def __init__(self, files: Files, ledger: Ledger) -> None:
        self._files, self._ledger = files, ledger

    def begin(self, attempt: str) -> None:
        """Call this before an attempt stages files."""
        self._files.put(f"{STAGING}{attempt}/{_TOKEN}", b"")

    def publish(self, entry: Entry) -> None:
        """Publish an entry; steps that were done before are repeated or skipped. Raises DamagedLogError if a file is neither
        staged nor published."""
        with ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(lambda each: self._publish(entry, each), entry.added))
        self._files.delete(entry.removed)
        self.discard(entry.attempt)

    def discard(self, attempt: str) -> None:
        """Remove an attempt's folder, the token last."""
        self._files.clear(f"{STAGING}{attempt}/{OUTPUT}")
        self._files.clear(f"{STAGING}{attempt}/")

    def settle(self) -> State:
        """Finish the newest entry if necessary, and remove attempts at taken numbers, which can never be committed. An attempt at
        the next number may be in progress and stays. Returns the state that all readers then see."""
        head = self._ledger.head()
        for attempt in sorted(self._attempts()):
            if head.entry and attempt == head.entry.attempt:
                self.publish(head.entry)
            elif number_of(attempt) <= head.state.number:
                self.discard(attempt)
        if head.entry:
            self._ledger.keep(head.state)
        return head.state

    def visible(self) -> State:
        """The newest state whose files are all in data/."""
        head = self._ledger.head()
        if head.entry is None or head.entry.attempt not in self._attempts():
            return head.state
        return head.state if self._are_there(head.entry.added) else head.before

    def _attempts(self) -> set[str]:
        return {listed.name.removeprefix(STAGING).partition("/")[0] for listed in self._files.list(STAGING)}

    def _publish(self, entry: Entry, added: Added) -> None:
        path = added.file.path
        try:
            self._files.move(f"{entry.staging}{OUTPUT}{added.staged}", path)
        except ObjectNotFoundError:
            if not self._are_there([added]) and path in self._ledger.head().state.files:
                raise DamagedLogError(f"missing file of the dataset entry={entry.number} file={path}") from None

    def _are_there(self, added: Iterable[Added]) -> bool:
        return all(any(listed.name == each.file.path for listed in self._files.list(each.file.path)) for each in added)


def number_of(attempt: str) -> int:
    """The entry number of an attempt."""
    digits = attempt[:_DIGITS]
    return int(digits) if digits.isdigit() else 0
