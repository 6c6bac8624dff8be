"""Writes sidecars to the index: on S3 notifications, before compaction, and for a rebuild."""

from __future__ import annotations

from contextlib import suppress

from chalicelib.errors import DamagedLogError
from chalicelib.events.index import EventIndex
from chalicelib.events.sidecar import Sidecar, decode_outline
from chalicelib.events.sidecar_bundle import SidecarGroup, group_sidecars
from chalicelib.events.sidecar_store import SidecarStore
from chalicelib.events.step_updates import StepUpdates
from chalicelib.ports import ObjectStore, Run
from chalicelib.runlog.conflicts import retry_on_change
from chalicelib.runlog.layout import Layout, ParsedKey
from chalicelib.runlog.log_end import list_all

_TOGETHER = 64
MAX_INDEXED_EVENTS = 50_000
"""Events whose rows are written together; at least those of one sidecar."""


class EventIndexing:
    """Every operation can be repeated, in any order: the index converges to the content of S3. ``sidecars`` reads them."""

    def __init__(self, store: ObjectStore, layout: Layout, index: EventIndex, step_updates: StepUpdates) -> None:
        self._store, self._layout, self._index, self._step_updates = store, layout, index, step_updates
        self.sidecars = SidecarStore(store, layout)

    def index_object(self, parsed: ParsedKey) -> None:
        """Index an object under ``events/`` after it was written: a sidecar (a GET and a few writes) or a step update. Raises
        ObjectNotFoundError, DamagedLogError, UnavailableError."""
        if parsed.sidecar is not None:
            self._index.put(parsed.run, [self.sidecars.read_one(parsed.run, parsed.sidecar, decode_outline)])
        elif parsed.kind == "step":
            self._step_updates.index_stored(parsed.run, parsed.name)

    def index_from(self, run: Run, first: int) -> None:
        """Index the sidecars from ``first`` on that are not indexed: compaction requires that none is missing below the end of
        partial.txt. A LIST for each 1,000, a query, a GET for each missing one, and batched rows. Those in bundles are indexed.
        Raises UnavailableError."""
        listed = self.single_numbers(run, first)
        known = self._index.indexed(run, first) if listed else set()
        self._index_all(run, list(group_sidecars((number for number in listed if number not in known), ())))

    def single_numbers(self, run: Run, first: int) -> list[int]:
        """The numbers of sidecars from ``first`` on that are not bundled, ascending. The LISTs of ``SidecarStore.list_single``."""
        return [self.sidecars.number_of(run, found.key) for found in self.sidecars.list_single(run, first)]

    def rebuild(self, run: Run) -> int:
        """Index all of a run from S3; returns the number of sidecars. Raises UnavailableError."""
        count = self._index_all(run, retry_on_change(lambda: list(self.sidecars.groups(run))))
        for found in list_all(self._store, self._layout.steps(run)):
            parsed = self._layout.parse(found.key)
            if parsed and parsed.kind == "step":
                self._step_updates.index_stored(run, parsed.name)
        return count

    def _index_all(self, run: Run, groups: list[SidecarGroup]) -> int:
        """Index many sidecars, read in parallel; returns their number. Damaged ones are skipped: their lines are read as plain text."""
        found: list[Sidecar] = []
        count = 0
        for _, read in self.sidecars.readers(run, groups, decode_outline):
            count += 1
            with suppress(DamagedLogError):
                found.append(read())
            if len(found) == _TOGETHER or sum(len(each.events) for each in found) > MAX_INDEXED_EVENTS:
                self._index.put(run, found)
                found = []
        if found:
            self._index.put(run, found)
        return count
