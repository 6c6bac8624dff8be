"""The ledger: entries under numbers that are taken by a conditional write. What it says is what the dataset has.

::

    _ledger/0000000007.json         entry 7: the commit itself
    _ledger/0000000008.plan         what is to be read for entry 8, fixed before it is read
    _ledger/0000000016.state.json   all entries up to 16 in one
    _ledger/checkpoint              "16": where to begin to read
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
    """The newest state, the one before it, and the entry between them; None where the newest is a checkpoint's own."""

    state: State
    before: State
    entry: Entry | None


class Ledger:
    """Reads and writes it. Entries are never changed and never removed: a number that was taken stays taken."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def head(self) -> Head:
        """As it is now. A GET of the hint, one of the checkpoint, and one for each entry behind it: 16 at most, as a rule, and a few
        more where a job was stopped; one GET that finds nothing tells the end."""
        before = state = self._checkpoint()
        entry: Entry | None = None
        for entry in self._entries(state.number + 1):
            before, state = state, state.after(entry)
        return Head(state, before, entry)

    def entry(self, number: int) -> Entry | None:
        """The entry that has this number, if it was taken."""
        try:
            return Entry.from_json(self._files.read(f"{FOLDER}{number:010d}.json"))
        except ObjectNotFoundError:
            return None

    def plan(self, number: int, offset: Mapping[str, Any]) -> Mapping[str, Any]:
        """Fix up to where is read for an entry; the answer is what was fixed first, by this job or another."""
        name = f"{FOLDER}{number:010d}.plan"
        body = json.dumps(offset).encode()
        return offset if self._files.create(name, body) else self._planned(name)

    def planned(self, number: int) -> Mapping[str, Any] | None:
        """What was fixed, if it was."""
        try:
            return self._planned(f"{FOLDER}{number:010d}.plan")
        except ObjectNotFoundError:
            return None

    def commit(self, entry: Entry) -> bool:
        """Take the entry's number. This is the moment at which its rows are in the dataset. False: another attempt has it."""
        name = f"{FOLDER}{entry.number:010d}.json"
        if self._files.create(name, entry.to_json()):
            return True
        taken = self.entry(entry.number)
        return taken is not None and taken.attempt == entry.attempt  # an answer was lost, and the write repeated

    def keep(self, state: State) -> None:
        """Write a checkpoint, now and then. Only of a state that is published."""
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
            raise DamagedLogError(f"the hint to the ledger's checkpoint is no number: remove it name={_HINT}") from error
        return State.from_json(self._files.read(f"{FOLDER}{number:010d}.state.json"))

    def _entries(self, first: int) -> Iterator[Entry]:
        number = first
        while (entry := self.entry(number)) is not None:
            yield entry
            number += 1
