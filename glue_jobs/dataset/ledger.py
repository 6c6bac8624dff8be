"""The ledger: numbered entries, created by conditional writes. It defines the dataset's content.

::

    _ledger/0000000007.json         entry 7: the commit itself
    _ledger/0000000008.plan         the offset for entry 8, fixed before the read
    _ledger/0000000016.state.json   all entries up to 16 combined
    _ledger/checkpoint              "16": the checkpoint to start from
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from chalicelib.errors import DamagedLogError, ObjectNotFoundError
from glue_jobs.dataset.entries import Entry, State
from glue_jobs.dataset.files import Files

FOLDER = "_ledger/"
CHECKPOINT_EVERY = 16
_HINT = FOLDER + "checkpoint"


class Head(NamedTuple):
    """The newest state, the one before it, and the entry between them; None if the newest state is a checkpoint."""

    state: State
    before: State
    entry: Entry | None


class Ledger:
    """Reads and writes the ledger. Entries are never changed or removed, so a number is taken for good."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def head(self) -> Head:
        """The current head. A GET of the hint, one of the checkpoint, and one for each later entry: usually 16 at most, a few
        more if a job was stopped. The GET of the first missing entry ends the search."""
        before = state = self._checkpoint()
        entry: Entry | None = None
        for entry in self._entries(state.number + 1):
            before, state = state, state.after(entry)
        return Head(state, before, entry)

    def entry(self, number: int) -> Entry | None:
        """The entry with this number, or None."""
        try:
            return Entry.from_json(self._files.read(f"{FOLDER}{number:010d}.json"))
        except ObjectNotFoundError:
            return None

    def plan(self, number: int, offset: Mapping[str, Any]) -> Mapping[str, Any]:
        """Fix the offset for an entry. Returns the offset that was fixed first, by this job or another."""
        name = f"{FOLDER}{number:010d}.plan"
        body = json.dumps(offset).encode()
        return offset if self._files.create(name, body) else self._planned(name)

    def planned(self, number: int) -> Mapping[str, Any] | None:
        """The fixed offset of an entry, or None."""
        try:
            return self._planned(f"{FOLDER}{number:010d}.plan")
        except ObjectNotFoundError:
            return None

    def commit(self, entry: Entry) -> bool:
        """Create the entry, which adds its rows to the dataset. False if another attempt has the number."""
        name = f"{FOLDER}{entry.number:010d}.json"
        if self._files.create(name, entry.to_json()):
            return True
        taken = self.entry(entry.number)
        return taken is not None and taken.attempt == entry.attempt  # our own write, repeated after a lost response

    def keep(self, state: State) -> None:
        """Write a checkpoint after every 16 entries. Only for a published state."""
        if state.number and state.number % CHECKPOINT_EVERY == 0:
            self._files.put(f"{FOLDER}{state.number:010d}.state.json", state.to_json())
            self._files.put(_HINT, str(state.number).encode())

    def _planned(self, name: str) -> Mapping[str, Any]:
        planned: Mapping[str, Any] = json.loads(self._files.read(name))
        return planned

    def _checkpoint(self) -> State:
        try:
            number = int(self._files.read(_HINT))
        except ObjectNotFoundError:
            return State()
        except ValueError as error:
            raise DamagedLogError(f"the ledger's checkpoint hint is not a number: remove it name={_HINT}") from error
        return State.from_json(self._files.read(f"{FOLDER}{number:010d}.state.json"))

    def _entries(self, first: int) -> Iterator[Entry]:
        number = first
        while (entry := self.entry(number)) is not None:
            yield entry
            number += 1
