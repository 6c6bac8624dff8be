"""Lists and reads the sidecars of a run: single objects while it is running, bundles after its end (decision 0048).

A single object may be moved to a bundle at any time. A bundle is written before its sidecars are deleted, so a reader whose listing is
older looks into the bundles.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from threading import Lock

from chalicelib.errors import DamagedLogError, ObjectNotFoundError, RangeNotSatisfiableError, SnapshotChangedError
from chalicelib.events.sidecar import Sidecar, decode_sidecar
from chalicelib.events.sidecar_bundle import BundleName, SidecarGroup, decode_bundle, group_sidecars
from chalicelib.ports import ListedObject, ObjectStore, Run, StoredObject
from chalicelib.read_ahead import ReadAhead
from chalicelib.runlog.layout import Layout, ParsedKey
from chalicelib.runlog.log_end import list_all

TOGETHER = 64
"""Groups whose single sidecars are requested in parallel."""
READ_AHEAD_BYTES = 256 * 1024
"""Of each sidecar that is read ahead. The rest of a larger one is read when it is decoded."""
_THREADS = 16
_MAX_REMEMBERED = 2
DecodeSidecar = Callable[[bytes], Sidecar]
SidecarRead = Callable[[], Sidecar]


class SidecarStore:
    """Keeps the last two bundles in memory, 1 MiB each. Thread-safe."""

    def __init__(self, store: ObjectStore, layout: Layout) -> None:
        self._store, self._layout = store, layout
        self._bundles: OrderedDict[tuple[str, str], Mapping[int, bytes] | DamagedLogError] = OrderedDict()
        self._lock = Lock()

    def groups(self, run: Run, first: int = 0) -> Iterator[SidecarGroup]:
        """All sidecars from number ``first`` on, in order. A LIST; two for each 1,000 if more than 1,000 keys follow. Raises
        SnapshotChangedError while it is iterated, if sidecars are bundled meanwhile."""
        pages = self._pages(run, first)
        singles, bundles = next(pages)

        def later() -> Iterator[int]:
            for more, bundled in pages:
                if bundled != bundles:
                    raise SnapshotChangedError(f"sidecars were bundled meanwhile run={run.fqn}/{run.run_id}")
                yield from more

        return group_sidecars(chain(singles, later()), bundles, first)

    def list_single(self, run: Run, first: int = 0) -> Iterator[ListedObject]:
        """Sidecars from number ``first`` on that are single objects, ascending. One LIST for each 1,000 keys under ``events/``."""
        end = self._layout.after_sidecars(run)
        for found in list_all(self._store, self._layout.events(run), self._layout.before_sidecar(run, first)):
            if found.key > end:
                return
            parsed = self._layout.parse(found.key)
            if parsed and parsed.sidecar is not None:
                yield found

    def number_of(self, run: Run, key: str) -> int:
        """The number of a listed single sidecar."""
        return int(key[len(self._layout.events(run)) :])

    def bundles(self, run: Run) -> list[BundleName]:
        """All bundles of a run. One LIST for each 1,000."""
        return _bundles(map(self._parsed, list_all(self._store, self._layout.bundles(run))))

    def read_one(self, run: Run, number: int, decode: DecodeSidecar = decode_sidecar) -> Sidecar:
        """One sidecar. One GET, two if it is larger than ``READ_AHEAD_BYTES``; three and a LIST if it is in a bundle. Raises
        ObjectNotFoundError, DamagedLogError."""
        return self._finish(run, number, partial(self._begin, run, number), decode)

    def read(self, run: Run, groups: Sequence[SidecarGroup], decode: DecodeSidecar = decode_sidecar) -> Iterator[Sidecar]:
        """The sidecars of groups in order: see ``readers``. Raises ObjectNotFoundError, DamagedLogError."""
        return (read() for _, read in self.readers(run, groups, decode))

    def read_numbers(
        self, run: Run, numbers: Sequence[int], bundles: Sequence[BundleName] = (), decode: DecodeSidecar = decode_sidecar
    ) -> Iterator[Sidecar]:
        """Sidecars by number, ascending; ``bundles`` of the run if they are known. Raises as ``read`` does."""
        groups = [group for group in group_sidecars(numbers, bundles) if group.singles]
        only = frozenset(numbers)
        return (read() for _, read in self.readers(run, groups, decode, only))

    def readers(
        self,
        run: Run,
        groups: Sequence[SidecarGroup],
        decode: DecodeSidecar = decode_sidecar,
        only: Collection[int] | None = None,
    ) -> Iterator[tuple[int, SidecarRead]]:
        """The number of each sidecar, in order, and a function that reads and decodes it. ``only``: these numbers.

        The first ``READ_AHEAD_BYTES`` of single sidecars are requested in parallel, those of 64 groups at a time. A bundle is one GET,
        none if it is one of the last two; if it is damaged, its first number has a function that raises, besides that of a sidecar elsewhere
        with this number."""
        if len(groups) == 1 and not groups[0].bundles:
            yield groups[0].first, partial(self.read_one, run, groups[0].first, decode)
            return
        with ReadAhead(_THREADS) as threads:
            for at in range(0, len(groups), TOGETHER):
                begun = deque(
                    (group, None if group.bundles else threads.submit(self._begin, run, group.first))
                    for group in groups[at : at + TOGETHER]
                )
                while begun:
                    group, beginning = begun.popleft()
                    if beginning is None:
                        yield from self._bundled(run, group, decode, only)
                    else:
                        yield group.first, partial(self._finish, run, group.first, beginning.result, decode)

    def bundle(self, run: Run, name: BundleName) -> Mapping[int, bytes]:
        """The stored sidecars in a bundle, by number. One GET, none if it is one of the last two. Raises ObjectNotFoundError,
        DamagedLogError."""
        key = self._layout.bundle(run, name.first, name.last), name.etag
        with self._lock:
            known = self._bundles.get(key)
            if known is not None:
                self._bundles.move_to_end(key)
        if known is None:
            stored = self._store.get(key[0])
            known = _decoded_bundle(stored.body)
            with self._lock:
                self._bundles[key[0], stored.info.etag] = known
                if len(self._bundles) > _MAX_REMEMBERED:
                    self._bundles.popitem(last=False)
        if isinstance(known, DamagedLogError):
            raise DamagedLogError(str(known))  # a new one: each raise adds to the traceback of an instance
        return known

    def _pages(self, run: Run, first: int) -> Iterator[tuple[list[int], list[BundleName]]]:
        """The numbers of single sidecars from ``first`` on, in pages; with each page all bundles, listed after it."""
        start_after = self._layout.before_sidecar(run, first)
        while True:
            page = self._store.list(self._layout.events(run), start_after=start_after)
            parsed = [self._parsed(found) for found in page.objects]
            start_after = page.objects[-1].key if page.objects else start_after
            has_all_bundles = not page.truncated or start_after >= self._layout.chosen(run)
            singles = [each.sidecar for each, _ in parsed if each and each.sidecar is not None]
            yield singles, _bundles(parsed) if has_all_bundles else self.bundles(run)
            if not page.truncated or start_after > self._layout.after_sidecars(run):
                return

    def _parsed(self, listed: ListedObject) -> tuple[ParsedKey | None, str]:
        return self._layout.parse(listed.key), listed.etag

    def _bundled(
        self, run: Run, group: SidecarGroup, decode: DecodeSidecar, only: Collection[int] | None
    ) -> Iterator[tuple[int, SidecarRead]]:
        """The sidecars of bundles, and single ones among them: retries of appends whose sidecars were missing. A damaged bundle hides no other:
        it fails once, in its place; with ``only``, each number that is nowhere else fails."""
        bodies: dict[int, bytes] = {}
        damaged: dict[int, DamagedLogError] = {}
        for name in group.bundles:
            try:
                bodies.update(self.bundle(run, name))
            except DamagedLogError as error:
                damaged[max(name.first, group.first)] = error
        for number in sorted({*bodies, *group.singles, *damaged}):
            if number < group.first or (only is not None and number not in only):
                continue
            if only is None and number in damaged:
                yield number, partial(_raise, damaged[number])
            if number in bodies:
                yield number, partial(_decoded, number, bodies[number], decode)
            elif number in group.singles:
                yield number, partial(self.read_one, run, number, decode)

    def _begin(self, run: Run, number: int) -> StoredObject:
        """The first bytes of a sidecar. Raises ObjectNotFoundError, DamagedLogError."""
        try:
            return self._store.get(self._layout.sidecar(run, number), 0, READ_AHEAD_BYTES)
        except RangeNotSatisfiableError as error:
            raise DamagedLogError(f"a sidecar is empty sequence={number}") from error

    def _finish(self, run: Run, number: int, begin: Callable[[], StoredObject], decode: DecodeSidecar) -> Sidecar:
        try:
            stored = begin()
            if len(stored.body) < stored.info.size:
                stored = self._store.get(self._layout.sidecar(run, number))
        except ObjectNotFoundError:
            if body := self._moved(run, number):
                return _decoded(number, body, decode)
            raise
        return _decoded(number, stored.body, decode)

    def _moved(self, run: Run, number: int) -> bytes | None:
        """A sidecar in any bundle. Raises DamagedLogError if it is only among the numbers of a damaged one."""
        damage: DamagedLogError | None = None
        for name in self.bundles(run):
            if name.first <= number <= name.last:
                try:
                    if body := self.bundle(run, name).get(number):
                        return body
                except DamagedLogError as error:
                    damage = error
        if damage:
            raise damage
        return None


def _bundles(parsed: Iterable[tuple[ParsedKey | None, str]]) -> list[BundleName]:
    return [BundleName(*each.bundle, etag) for each, etag in parsed if each and each.bundle]


def _decoded(number: int, body: bytes, decode: DecodeSidecar) -> Sidecar:
    found = decode(body)
    if found.sequence != number:
        raise DamagedLogError(f"a sidecar belongs to another segment sequence={number} actual={found.sequence}")
    return found


def _decoded_bundle(body: bytes) -> Mapping[int, bytes] | DamagedLogError:
    """Damage is remembered too: a reader of an overlapping bundle would read it again for each range of lines."""
    try:
        return decode_bundle(body)
    except DamagedLogError as error:
        return error


def _raise(error: DamagedLogError) -> Sidecar:
    raise error
