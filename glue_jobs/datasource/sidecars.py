"""Events that were sent as events: their bytes in the text of a run, with the level, time and logger that their sender states.

They are stored in sidecars of segments (decision 0022). The listing of a read shows which segments have one, so a run of plain
lines costs no request. Each needed sidecar is one GET; a slice that begins inside an artifact needs some more to find the first
one: 13 for 10,000 sidecars.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import chain, islice
from typing import NamedTuple

from chalicelib.errors import DamagedLogError, ObjectNotFoundError
from chalicelib.events.sidecar import Sidecar, SidecarEntry, decode_sidecar
from chalicelib.ports import ObjectStore, Run
from glue_jobs.datasource.log import Piece, SegmentChain
from glue_jobs.datasource.objects import sidecar_key
from glue_jobs.datasource.problems import GONE, METADATA, Problems

_AT_ONCE = 16
_REMEMBERED = 32


class PlacedEvent(NamedTuple):
    """An event and its bytes [``start``, ``end``) in a read, in which missing bytes of the log are not counted."""

    start: int
    end: int
    sidecar_entry: SidecarEntry


class Sidecars:
    """The listed sidecars of one run. A damaged or missing one is reported, and its lines are read as plain text."""

    def __init__(
        self, store: ObjectStore, run: Run, base: str, numbers: Sequence[range], pieces: Sequence[Piece], problems: Problems
    ) -> None:
        self._store, self._run, self._base, self._problems = store, run, base, problems
        self._numbers = array("q", chain.from_iterable(numbers))
        self._chains = [piece for piece in pieces if isinstance(piece, SegmentChain)]
        self._sidecar = lru_cache(_REMEMBERED)(self._fetched)

    def __bool__(self) -> bool:
        return bool(self._numbers)

    def likely(self, start: int, end: int) -> Sequence[int]:
        """The first sidecars needed for bytes [start, end), as far as known without a request."""
        if start == 0:
            return self._numbers[:_AT_ONCE]
        known = (number for number in self._numbers if start <= (self._known_start(number) or 0) < end)
        return list(islice(known, _AT_ONCE))

    def prefetch(self, number: int) -> None:
        """Read a sidecar that will be needed."""
        self._sidecar(number)

    def near(self, byte: int) -> tuple[PlacedEvent | None, PlacedEvent | None]:
        """The last event that begins before a byte, and the first one that begins there or later."""
        before: PlacedEvent | None = None
        for placed in self._from(byte):
            if placed.start >= byte:
                return before, placed
            before = placed
        return before, None

    def between(self, start: int, end: int) -> Iterator[PlacedEvent]:
        """Events that overlap bytes [start, end), in order. Memory: 16 sidecars, one of them unpacked."""
        for placed in self._from(start, end):
            if placed.start >= end:
                return
            if placed.end > start:
                yield placed

    def end_of(self, number: int) -> int:
        """The byte at which a sidecar's events end; 0 if it cannot be read."""
        sidecar = self._sidecar(number)
        return sidecar.byte + sidecar.bytes if sidecar else 0

    def _from(self, byte: int, end: int | None = None) -> Iterator[PlacedEvent]:
        """Events from the last sidecar that begins before a byte; skips sidecars known to begin at ``end`` or later."""
        index = max(bisect_left(range(len(self._numbers)), byte, key=self._start) - 1, 0) if byte else 0
        width = 1
        while batch := self._numbers[index : index + width]:
            numbers = [each for each in batch if end is None or (self._known_start(each) or 0) < end]
            if not numbers:
                return
            for number, sidecar in zip(numbers, self._several(numbers), strict=True):
                if sidecar is not None:
                    yield from self._placed(number, sidecar)
            index, width = index + width, min(2 * width, _AT_ONCE)

    def _placed(self, number: int, sidecar: Sidecar) -> Iterator[PlacedEvent]:
        start = self._known_start(number)
        missing = 0 if start is None else sidecar.byte - start
        return (
            PlacedEvent(sidecar_entry.byte - missing, sidecar_entry.end_byte - missing, sidecar_entry)
            for sidecar_entry in sidecar.events
        )

    def _start(self, index: int) -> int:
        """The start of a sidecar's segment; if it cannot be read, that of the one before."""
        for at in range(index, -1, -1):
            number = self._numbers[at]
            known = self._known_start(number)
            if known is not None:
                return known
            if (sidecar := self._sidecar(number)) is not None:
                return sidecar.byte
        return 0

    def _known_start(self, number: int) -> int | None:
        return next((each.starts[number - each.first] for each in self._chains if 0 <= number - each.first < len(each.sizes)), None)

    def _several(self, numbers: Sequence[int]) -> Iterator[Sidecar | None]:
        if len(numbers) == 1:
            yield self._sidecar(numbers[0])
            return
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            yield from threads.map(self._sidecar, numbers)

    def _fetched(self, number: int) -> Sidecar | None:
        key = sidecar_key(self._base, number)
        try:
            sidecar = decode_sidecar(self._store.get(key).body)
        except ObjectNotFoundError:
            self._problems.report(self._run, GONE, key, "the sidecar of a segment is gone")
            return None
        except DamagedLogError as error:
            self._problems.report(self._run, METADATA, key, str(error))
            return None
        if sidecar.sequence != number:
            self._problems.report(self._run, METADATA, key, f"the sidecar belongs to another segment actual={sidecar.sequence}")
            return None
        return sidecar
