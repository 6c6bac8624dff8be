"""From a commit to what readers see: files go from staging to data/, replaced ones go away. All of it can be done again.

Before a job commits an entry it has finished the one before. So at most the newest entry is unfinished, and only attempts at it, or at
the next number, can still be somebody's work.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from chalicelib.errors import DamagedLogError, ObjectNotFoundError
from glue_jobs.dataset.entries import STAGING, Added, Entry, State
from glue_jobs.dataset.files import Files
from glue_jobs.dataset.ledger import Ledger

OUTPUT = "files/"
"""Below an attempt's folder: what Spark writes."""
_TOKEN = "attempt"
"""Written before anything else of an attempt, removed after everything else."""
_THREADS = 16
_DIGITS = 10


class Publisher:
    """Publishes entries, and clears what attempts leave behind."""

    def __init__(self, files: Files, ledger: Ledger) -> None:
        self._files, self._ledger = files, ledger

    def begin(self, attempt: str) -> None:
        """Before an attempt stages anything."""
        self._files.put(f"{STAGING}{attempt}/{_TOKEN}", b"")

    def publish(self, entry: Entry) -> None:
        """Whatever was done of it before. Raises DamagedLogError when a file is neither staged nor there."""
        with ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(lambda each: self._publish(entry, each), entry.added))
        self._files.delete(entry.removed)
        self.discard(entry.attempt)

    def discard(self, attempt: str) -> None:
        """Remove an attempt's folder, the token last."""
        self._files.clear(f"{STAGING}{attempt}/{OUTPUT}")
        self._files.clear(f"{STAGING}{attempt}/")

    def settle(self) -> State:
        """Finish the newest entry if it is not, and remove attempts at numbers that are taken: they can never be committed. An attempt
        at the next number stays, somebody may be at it. The answer is the state that everybody sees then."""
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
                raise DamagedLogError(f"a file of the dataset is lost entry={entry.number} file={path}") from None

    def _are_there(self, added: Iterable[Added]) -> bool:
        return all(any(listed.name == each.file.path for listed in self._files.list(each.file.path)) for each in added)


def number_of(attempt: str) -> int:
    """The number of the entry that an attempt is at."""
    digits = attempt[:_DIGITS]
    return int(digits) if digits.isdigit() else 0
