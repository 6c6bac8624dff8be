"""Events that were sent as events: their bytes in the text of a run, with the level, time and logger that their sender states.

They are stored in sidecars of segments (decision 0022), or in bundles of sidecars (decision 0048). The listing of a read shows both, so
a run of plain lines costs no request. Each needed sidecar or bundle is one GET; a slice that begins inside an artifact needs some more to
find the first one: 13 for 10,000 sidecars. A sidecar that was bundled after the listing costs a LIST and a GET more.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import chain, islice
from typing import NamedTuple

from chalicelib.errors import DamagedLogError, ObjectNotFoundError
from chalicelib.events.sidecar import Sidecar, SidecarEntry, decode_head, decode_sidecar
from chalicelib.events.sidecar_bundle import BundleName, SidecarGroup, decode_bundle, group_sidecars
from chalicelib.ports import ObjectStore, Run
from chalicelib.runlog.log_end import list_all
from glue_jobs.datasource.log import Piece, SegmentChain
from glue_jobs.datasource.objects import BUNDLES, ListedSidecars, bundle_key, bundle_name, sidecar_key
from glue_jobs.datasource.problems import GONE, METADATA, Problems

_AT_ONCE = 16
_REMEMBERED = 32
_REMEMBERED_BUNDLES = 4


class PlacedEvent(NamedTuple):
    """An event and its bytes [``start``, ``end``) in a read, in which missing bytes of the log are not counted."""

    start: int
    end: int
    sidecar_entry: SidecarEntry


class Sidecars:
    """The listed sidecars of one run, by the first number of each object. A damaged or missing one is reported, and its lines are read
    as plain text."""

    def __init__(
        self, store: ObjectStore, run: Run, base: str, listed: ListedSidecars, pieces: Sequence[Piece], problems: Problems
    ) -> None:
        self._store, self._run, self._base, self._problems = store, run, base, problems
        groups = list(group_sidecars(chain.from_iterable(listed.singles), listed.bundles)) if listed.bundles else ()
        self._groups = {group.first: group for group in groups if group.bundles}
        self._numbers = array("q", (group.first for group in groups) if groups else chain.from_iterable(listed.singles))
        self._chains = [piece for piece in pieces if isinstance(piece, SegmentChain)]
        self._sidecar = lru_cache(_REMEMBERED)(self._fetched)
        self._bundle = lru_cache(_REMEMBERED_BUNDLES)(self._fetched_bundle)

    def __bool__(self) -> bool:
        return bool(self._numbers)

    def likely(self, start: int, end: int) -> Sequence[int]:
        """The first sidecars needed for bytes [start, end), as far as known without a request."""
        if start == 0:
            return self._numbers[:_AT_ONCE]
        known = (number for number in self._numbers if start <= (self._known_start(number) or 0) < end)
        return list(islice(known, _AT_ONCE))

    def prefetch(self, number: int) -> None:
        """Read an object that will be needed."""
        self._load(number)

    def near(self, byte: int) -> tuple[PlacedEvent | None, PlacedEvent | None]:
        """The last event that begins before a byte, and the first one that begins there or later."""
        before: PlacedEvent | None = None
        for placed in self._from(byte):
            if placed.start >= byte:
                return before, placed
            before = placed
        return before, None

    def between(self, start: int, end: int) -> Iterator[PlacedEvent]:
        """Events that overlap bytes [start, end), in order. Memory: 16 sidecars, one of them unpacked, and four bundles."""
        for placed in self._from(start, end):
            if placed.start >= end:
                return
            if placed.end > start:
                yield placed

    def end_of(self, number: int) -> int:
        """The byte at which a sidecar's events end; 0 if it cannot be read."""
        group = next((each for each in self._groups.values() if each.first <= number <= each.last), None)
        sidecar = dict(self._members(group)).get(number) if group else self._sidecar(number)
        return sidecar.byte + sidecar.bytes if sidecar else 0

    def _from(self, byte: int, end: int | None = None) -> Iterator[PlacedEvent]:
        """Events from the last sidecar that begins before a byte; skips sidecars known to begin at ``end`` or later."""
        index = max(bisect_left(range(len(self._numbers)), byte, key=self._start) - 1, 0) if byte else 0
        width = 1
        while batch := self._numbers[index : index + width]:
            numbers = [each for each in batch if end is None or (self._known_start(each) or 0) < end]
            if not numbers:
                return
            self._load_several(numbers)
            for number in numbers:
                for each, sidecar in self._in_object(number, byte):
                    yield from self._placed(each, sidecar)
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
            if (first := next(self._in_object(number), None)) is not None:
                return first[1].byte
        return 0

    def _known_start(self, number: int) -> int | None:
        return next((each.starts[number - each.first] for each in self._chains if 0 <= number - each.first < len(each.sizes)), None)

    def _load_several(self, numbers: Sequence[int]) -> None:
        if len(numbers) > 1:
            with ThreadPoolExecutor(_AT_ONCE) as threads:
                list(threads.map(self._load, numbers))

    def _load(self, number: int) -> None:
        if group := self._groups.get(number):
            for name in group.bundles:
                self._bundle(name)
        else:
            self._sidecar(number)

    def _in_object(self, number: int, byte: int = 0) -> Iterator[tuple[int, Sidecar]]:
        """The readable sidecars of an object with their numbers, from the last one that begins before a byte."""
        if group := self._groups.get(number):
            yield from self._members(group, byte)
        elif (sidecar := self._sidecar(number)) is not None:
            yield number, sidecar

    def _members(self, group: SidecarGroup, byte: int = 0) -> Iterator[tuple[int, Sidecar]]:
        bodies = {number: body for name in group.bundles for number, body in self._bundle(name).items()}
        numbers = sorted({*bodies, *group.singles})
        first = 0
        for place, number in enumerate(numbers):
            head = self._member(number, bodies, decode_head)
            if head is None:
                continue
            if head.byte >= byte:
                break
            first = place
        for number in numbers[first:]:
            if (sidecar := self._member(number, bodies, decode_sidecar)) is not None:
                yield number, sidecar

    def _member(self, number: int, bodies: Mapping[int, bytes], decode: Callable[[bytes], Sidecar]) -> Sidecar | None:
        return self._decoded(number, bodies[number], decode) if number in bodies else self._sidecar(number)

    def _fetched(self, number: int) -> Sidecar | None:
        try:
            body = self._store.get(sidecar_key(self._base, number)).body
        except ObjectNotFoundError:
            moved = self._moved(number)
            if moved is None:
                self._problems.report(self._run, GONE, sidecar_key(self._base, number), "the sidecar of a segment is gone")
                return None
            body = moved
        return self._decoded(number, body, decode_sidecar)

    def _moved(self, number: int) -> bytes | None:
        """A sidecar that was bundled after the listing of this read."""
        listed = (bundle_name(found.key[len(self._base) :]) for found in list_all(self._store, self._base + BUNDLES))
        around = (name for name in listed if name and name.first <= number <= name.last)
        return next((body for name in around if (body := self._bundle(name).get(number))), None)

    def _fetched_bundle(self, name: BundleName) -> Mapping[int, bytes]:
        key = bundle_key(self._base, name)
        try:
            return decode_bundle(self._store.get(key).body)
        except ObjectNotFoundError:
            self._problems.report(self._run, GONE, key, "a bundle of sidecars is gone")
        except DamagedLogError as error:
            self._problems.report(self._run, METADATA, key, str(error))
        return {}

    def _decoded(self, number: int, body: bytes, decode: Callable[[bytes], Sidecar]) -> Sidecar | None:
        key = sidecar_key(self._base, number)
        try:
            sidecar = decode(body)
        except DamagedLogError as error:
            self._problems.report(self._run, METADATA, key, str(error))
            return None
        if sidecar.sequence != number:
            self._problems.report(self._run, METADATA, key, f"the sidecar belongs to another segment actual={sidecar.sequence}")
            return None
        return sidecar
