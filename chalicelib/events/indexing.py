"""Bringing companions into the index: as they are notified, before they are compacted, and all of a run once more."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from chalicelib.errors import DamagedLogError
from chalicelib.events.companion import Companion, unpacked
from chalicelib.events.index import EventIndex
from chalicelib.events.told import ToldSteps
from chalicelib.ports import ObjectStore, Run
from chalicelib.runlog.layout import Layout, ParsedKey
from chalicelib.runlog.tail import list_all

_THREADS = 16
_TOGETHER = 64


class EventIndexing:
    """Every step can be repeated, in any order: the index becomes what S3 says."""

    def __init__(self, store: ObjectStore, layout: Layout, index: EventIndex, told: ToldSteps) -> None:
        self._store, self._layout, self._index, self._told = store, layout, index, told

    def landed(self, parsed: ParsedKey) -> None:
        """An object beside a run's text was written: its companion is indexed, by a GET and a few writes. Raises ObjectNotFoundError,
        DamagedLogError, UnavailableError."""
        if parsed.companion is not None:
            self._index.put(parsed.run, [self.companion(parsed.run, parsed.companion)])
        elif parsed.kind == "step":
            self._told.landed(parsed.run, parsed.name)

    def bring_up_to_date(self, run: Run, first: int) -> None:
        """Index what is not indexed of a run's companions from a number on: below partial.txt none may be missing. A LIST for each 1,000, a
        query, a GET for each that is missing, and their rows together. Raises UnavailableError."""
        listed = list(self.numbers(run, first))
        known = self._index.indexed(run, first) if listed else set()
        self._index_all(run, [number for number in listed if number not in known])

    def rebuild(self, run: Run) -> int:
        """All of a run from S3 alone; how many companions it has. Raises UnavailableError."""
        listed = list(self.numbers(run, 0))
        self._index_all(run, listed)
        for found in list_all(self._store, self._layout.steps(run)):
            parsed = self._layout.parse(found.key)
            if parsed and parsed.kind == "step":
                self._told.landed(run, parsed.name)
        return len(listed)

    def numbers(self, run: Run, first: int) -> Iterator[int]:
        """The numbers of companions from one on, ascending. One LIST for each 1,000, and what else lies beside the text."""
        for found in list_all(self._store, self._layout.events(run), self._layout.before_companion(run, first)):
            parsed = self._layout.parse(found.key)
            if found.key > self._layout.behind_companions(run):
                return
            if parsed and parsed.companion is not None:
                yield parsed.companion

    def companion(self, run: Run, number: int) -> Companion:
        """One companion. One GET. Raises ObjectNotFoundError, DamagedLogError."""
        found = unpacked(self._store.get(self._layout.companion(run, number)).body)
        if found.sequence != number:
            raise DamagedLogError(f"a companion is of another segment sequence={number} says={found.sequence}")
        return found

    def companions(self, run: Run, numbers: list[int]) -> Iterator[Companion]:
        """Several, in their order, read beside each other."""
        with ThreadPoolExecutor(_THREADS) as threads:
            for at in range(0, len(numbers), _TOGETHER):
                yield from threads.map(partial(self.companion, run), numbers[at : at + _TOGETHER])

    def _index_all(self, run: Run, numbers: list[int]) -> None:
        """Many together, read beside each other. A damaged companion stops nothing: its lines read as plain text."""
        with ThreadPoolExecutor(_THREADS) as threads:
            for at in range(0, len(numbers), _TOGETHER):
                found = threads.map(partial(self._whole, run), numbers[at : at + _TOGETHER])
                self._index.put(run, [each for each in found if each is not None])

    def _whole(self, run: Run, number: int) -> Companion | None:
        try:
            return self.companion(run, number)
        except DamagedLogError:
            return None
