"""Runs in memory, written, compacted and finalized by Runlake's own code, and read by the data source's: no server, no Spark, a
fake clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import patch

from pyspark.sql.datasource import Filter

from chalicelib.catalog.runs import RunCatalog
from chalicelib.events import bundling
from chalicelib.events.event import NewEvent
from chalicelib.ports import ObjectStore, PutOptions, Run, SegmentIndex
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.log_end import list_all
from glue_jobs.datasource.following import Follower
from glue_jobs.datasource.objects import Listed
from glue_jobs.datasource.offsets import Offset
from glue_jobs.datasource.options import Options, parse_options
from glue_jobs.datasource.planner import Planner, RunLocator
from glue_jobs.datasource.planning import packed
from glue_jobs.datasource.problems import Problem, Problems
from glue_jobs.datasource.reading import ReadSpec, Row
from glue_jobs.datasource.schema import EVENTS, schema_of
from glue_jobs.datasource.selection import narrowed, selection_of
from glue_jobs.datasource.tasks import Slices, Task
from tests.events_harness import event_parts
from tests.support.object_store import InMemoryObjectStore
from tests.world import World


class StoreKeys:
    """Listings of a store in memory."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def page(self, prefix: str, after: str, limit: int = 1000) -> tuple[Sequence[Listed], bool]:
        page = self._store.list(prefix, start_after=after, limit=limit)
        return [Listed(found.key, found.size, found.etag, found.last_modified_ms) for found in page.objects], page.truncated

    def folders(self, prefix: str, after: str = "") -> list[str]:
        found: set[str] = set()
        more = True
        while more:
            page = self._store.list(prefix, start_after=after)
            found |= {prefix + row.key[len(prefix) :].split("/")[0] + "/" for row in page.objects if "/" in row.key[len(prefix) :]}
            more, after = page.truncated, page.objects[-1].key if page.objects else ""
        return sorted(found)


class Reading:
    """A read of a store with the data source's code. ``problems``: all that it met."""

    def __init__(
        self, store: ObjectStore, index: SegmentIndex | None = None, runs: RunCatalog | None = None, **options: str
    ) -> None:
        self.options: Options = parse_options({"bucket": "logs", **options})
        self.problems = Problems(self.options.is_strict)
        self.look = RunLocator(StoreKeys(store), store, self.options, self.problems)
        self.selection = selection_of(self.options)
        self._store, self._index, self._runs = store, index, runs

    def where(self, *filters: Filter) -> Reading:
        """The same with filters."""
        self.selection = narrowed(self.selection, filters)
        return self

    def tasks(self) -> list[Slices]:
        """The plan of a read of all data."""
        return Planner(self.look, self._store, self.options, self._runs, self._index).plan(self.selection)

    def rows(self) -> list[dict[str, Any]]:
        """Events of all data."""
        return self.read(self.tasks())

    def read(self, tasks: Sequence[Slices], *, origins: bool = True) -> list[dict[str, Any]]:
        """Events of tasks."""
        return [_named(row) for part in tasks for row in self._task(origins).rows(part.slices)]

    def found(self) -> list[Problem]:
        """Problems of planning and reading all data."""
        return [*(found for part in self.tasks() for found in self._task(True).check(part.slices)), *self.problems.reported]

    def follower(self, now_s: Any) -> Follower:
        """A new follower, as after a restart."""
        return Follower(self.look, self._store, self.options, self.problems, now_s, self._index)

    def between(self, follower: Follower, start: Offset, end: Offset) -> list[dict[str, Any]]:
        """Events between two offsets."""
        slices = packed(follower.slices(start, end), self.options.bytes_per_partition)
        return self.read([Slices(tuple(part)) for part in slices], origins=False)

    def _task(self, origins: bool) -> Task:
        task = Task(self._store, ReadSpec(self.options, self.selection, self._index, origins))
        task.problems.reported = self.problems.reported
        return task


class Pipelines(World):
    """Running runs. ``logs``: the expected content of each, stored separately; ``sent``: its events that were sent as events."""

    def __init__(self) -> None:
        super().__init__()
        self.logs: dict[Run, bytes] = {}
        self.sent: dict[Run, list[bytes]] = {}
        self.closed: set[Run] = set()

    def now_s(self) -> float:
        return self.clock.now_ms() / 1000

    def append(self, run: Run, body: bytes) -> None:
        """Append a batch; reopens an abandoned run."""
        self.parts().writer.append(run, Batch.from_bytes(body))
        self.logs[run] = self.logs.get(run, b"") + body

    def send(self, run: Run, events: Sequence[NewEvent]) -> None:
        """Events, as an agent sends them."""
        event_parts(self).log.append(run, events)
        messages = [event.message.encode() + b"\n" for event in events]
        self.logs[run] = self.logs.get(run, b"") + b"".join(messages)
        self.sent[run] = [*self.sent.get(run, []), *messages]

    def compact(self, run: Run) -> None:
        self.parts().compactor.compact(run, self.deadline())

    def close(self, run: Run) -> None:
        self.parts().finalizer.close(run)
        self.closed.add(run)

    def abandon(self, run: Run) -> None:
        self.parts().finalizer.abandon(run, self.clock.now_ms() + 1, self.deadline())

    def settle(self, run: Run) -> None:
        """Compact, finalize and retire all due runs."""
        self.parts().finalizer.compact_and_finalize(run, self.deadline())

    def bundle(self, run: Run) -> None:
        """Bundle the sidecars of an ended run, seven in a bundle."""
        with patch.object(bundling, "MAX_SIDECARS", 7):
            event_parts(self).bundler.bundle(run, self.deadline())
        assert list(list_all(self.store, self.layout.bundles(run)))

    def reading(self, **options: str) -> Reading:
        return Reading(self.store, **options)


class MemoryServer:
    """Accepts objects like ``BucketServer``, with a given time for each."""

    def __init__(self) -> None:
        self._ms = 0
        self.store = InMemoryObjectStore(self)

    def put(self, key: str, body: bytes, metadata: Mapping[str, str] | None = None, modified_ms: int | None = None) -> None:
        self._ms = modified_ms or self._ms
        self.store.put(key, body, PutOptions(metadata or {}))

    def delete(self, key: str) -> None:
        self.store.delete(key)

    def now_ms(self) -> int:
        return self._ms

    def monotonic_s(self) -> float:
        return self._ms / 1000

    def sleep(self, seconds: float) -> None:
        raise NotImplementedError


def _named(row: Row) -> dict[str, Any]:
    return dict(zip(schema_of(EVENTS).fieldNames(), row, strict=True))
