"""Writes sidecars to the index: on S3 notifications, before compaction, and for a rebuild."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from chalicelib.errors import DamagedLogError, RangeNotSatisfiableError
from chalicelib.events.index import EventIndex
from chalicelib.events.sidecar import Sidecar, decode_outline, decode_sidecar
from chalicelib.events.step_updates import StepUpdates
from chalicelib.ports import ObjectStore, Run, StoredObject
from chalicelib.runlog.layout import Layout, ParsedKey
from chalicelib.runlog.log_end import list_all

_THREADS = 16
_TOGETHER = 64
READ_AHEAD_BYTES = 256 * 1024
"""Of each sidecar that is read ahead. The rest of a larger one is read when it is decoded."""
MAX_INDEXED_EVENTS = 50_000
"""Events whose rows are written together; at least those of one sidecar."""
DecodeSidecar = Callable[[bytes], Sidecar]


class EventIndexing:
    """Every operation can be repeated, in any order: the index converges to the content of S3."""

    def __init__(self, store: ObjectStore, layout: Layout, index: EventIndex, step_updates: StepUpdates) -> None:
        self._store, self._layout, self._index, self._step_updates = store, layout, index, step_updates

    def index_object(self, parsed: ParsedKey) -> None:
        """Index an object under ``events/`` after it was written: a sidecar (a GET and a few writes) or a step update. Raises
        ObjectNotFoundError, DamagedLogError, UnavailableError."""
        if parsed.sidecar is not None:
            self._index.put(parsed.run, [self.read_sidecar(parsed.run, parsed.sidecar, decode_outline)])
        elif parsed.kind == "step":
            self._step_updates.index_stored(parsed.run, parsed.name)

    def index_from(self, run: Run, first: int) -> None:
        """Index the sidecars from ``first`` on that are not indexed: compaction requires that none is missing below the end of
        partial.txt. A LIST for each 1,000, a query, a GET for each missing one, and batched rows. Raises UnavailableError."""
        listed = list(self.list_sequences(run, first))
        known = self._index.indexed(run, first) if listed else set()
        self._index_all(run, [number for number in listed if number not in known])

    def rebuild(self, run: Run) -> int:
        """Index all of a run from S3; returns the number of sidecars. Raises UnavailableError."""
        listed = list(self.list_sequences(run, 0))
        self._index_all(run, listed)
        for found in list_all(self._store, self._layout.steps(run)):
            parsed = self._layout.parse(found.key)
            if parsed and parsed.kind == "step":
                self._step_updates.index_stored(run, parsed.name)
        return len(listed)

    def list_sequences(self, run: Run, first: int) -> Iterator[int]:
        """The sequence numbers of a run's sidecars from ``first`` on, ascending. One LIST for each 1,000 keys under ``events/``."""
        for found in list_all(self._store, self._layout.events(run), self._layout.before_sidecar(run, first)):
            parsed = self._layout.parse(found.key)
            if found.key > self._layout.after_sidecars(run):
                return
            if parsed and parsed.sidecar is not None:
                yield parsed.sidecar

    def read_sidecar(self, run: Run, number: int, decode: DecodeSidecar = decode_sidecar) -> Sidecar:
        """One sidecar. One GET, two if it is larger than ``READ_AHEAD_BYTES``. Raises ObjectNotFoundError, DamagedLogError."""
        return self._read(run, number, self._begin(run, number), decode)

    def read_sidecars(self, run: Run, numbers: Sequence[int], decode: DecodeSidecar = decode_sidecar) -> Iterator[Sidecar]:
        """Several sidecars in order: see ``sidecar_readers``. Raises ObjectNotFoundError, DamagedLogError."""
        return (read() for read in self.sidecar_readers(run, numbers, decode))

    def sidecar_readers(
        self, run: Run, numbers: Sequence[int], decode: DecodeSidecar = decode_sidecar
    ) -> Iterator[Callable[[], Sidecar]]:
        """A function for each sidecar, in order, that returns it. The first ``READ_AHEAD_BYTES`` of 64 at a time are requested in
        parallel; a sidecar is decoded when its function is called."""
        if len(numbers) == 1:
            yield partial(self.read_sidecar, run, numbers[0], decode)
            return
        with ThreadPoolExecutor(_THREADS) as threads:
            for at in range(0, len(numbers), _TOGETHER):
                batch = numbers[at : at + _TOGETHER]
                begun = deque((number, threads.submit(self._begin, run, number)) for number in batch)
                try:
                    while begun:
                        yield partial(self._finish, run, *begun.popleft(), decode)
                finally:
                    for _, beginning in begun:
                        beginning.cancel()

    def _begin(self, run: Run, number: int) -> StoredObject:
        """The first bytes of a sidecar. Raises ObjectNotFoundError, DamagedLogError."""
        try:
            return self._store.get(self._layout.sidecar(run, number), 0, READ_AHEAD_BYTES)
        except RangeNotSatisfiableError as error:
            raise DamagedLogError(f"a sidecar is empty sequence={number}") from error

    def _finish(self, run: Run, number: int, beginning: Future[StoredObject], decode: DecodeSidecar) -> Sidecar:
        return self._read(run, number, beginning.result(), decode)

    def _read(self, run: Run, number: int, beginning: StoredObject, decode: DecodeSidecar) -> Sidecar:
        if len(beginning.body) < beginning.info.size:
            beginning = self._store.get(self._layout.sidecar(run, number))
        found = decode(beginning.body)
        if found.sequence != number:
            raise DamagedLogError(f"a sidecar belongs to another segment sequence={number} actual={found.sequence}")
        return found

    def _index_all(self, run: Run, numbers: list[int]) -> None:
        """Index many sidecars, read in parallel. Damaged ones are skipped: their lines are read as plain text."""
        found: list[Sidecar] = []
        for read in self.sidecar_readers(run, numbers, decode_outline):
            with suppress(DamagedLogError):
                found.append(read())
            if len(found) == _TOGETHER or sum(len(each.events) for each in found) > MAX_INDEXED_EVENTS:
                self._index.put(run, found)
                found = []
        if found:
            self._index.put(run, found)
