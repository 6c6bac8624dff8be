"""A live system in memory with a random history, and the tables' items as catalog repair reads and writes them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from pydantic import SecretStr

from chalicelib import composition
from chalicelib.aws.segment_index import is_claim, segment_rows
from chalicelib.catalog.runs import RunRow
from chalicelib.deadline import Deadline
from chalicelib.errors import InvalidBatchError, RunClosedError
from chalicelib.ingestion.report import Report
from chalicelib.ports import PutOptions, Run, RunEnd, run_key
from chalicelib.runlog.attempts import Attempts, StartRequest
from chalicelib.runlog.batch import Batch
from chalicelib.settings import Settings
from chalicelib.triggers import schedules
from glue_jobs.catalog.catalog_repair import RunRepairer
from glue_jobs.catalog.run_inspection import RunInspector
from tests.faults.interception import Intercepted
from tests.ingestion_harness import BUCKET, message, s3_record
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import World

KEEP_S = 30 * 86_400
ENOUGH_MS = 840_000
Item = dict[str, Any]


class Items:
    """``RunItems`` in memory."""

    def __init__(self) -> None:
        self.runs: dict[Run, Item] = {}
        self.rows: dict[tuple[str, str], Item] = {}

    def run(self, run: Run) -> Item | None:
        return deepcopy(self.runs.get(run))

    def segments(self, run: Run) -> list[Item]:
        return [deepcopy(row) for (of, _), row in sorted(self.rows.items()) if of == run_key(run) and not is_claim(row)]

    def replace_run(self, run: Run, seen: Item | None, item: Item | None) -> bool:
        if self.runs.get(run) != seen:
            return False
        self.runs.pop(run, None)
        if item is not None:
            self.runs[run] = deepcopy(item)
        return True

    def change_run(self, run: Run, seen: Item, item: Item, names: Sequence[str]) -> bool:
        row = self.runs.get(run)
        if row is None or any((name in row, row.get(name)) != (name in seen, seen.get(name)) for name in names):
            return False
        for name in names:
            row.pop(name, None)
            if name in item:
                row[name] = deepcopy(item[name])
        return True

    def put_segments(self, items: Iterable[Item]) -> None:
        self.rows |= {(item["run"], item["at"]): deepcopy(item) for item in items}

    def remove_segment(self, seen: Item) -> bool:
        if self.rows.get((seen["run"], seen["at"])) != seen:
            return False
        del self.rows[seen["run"], seen["at"]]
        return True

    def snapshot(self) -> tuple[dict[Run, Item], dict[tuple[str, str], Item]]:
        return deepcopy(self.runs), deepcopy(self.rows)


class LiveSystem:
    """Runlake over in-memory ports, with its notifications and schedules; ``runs`` are the runs of its requests."""

    def __init__(self) -> None:
        self.world, self.catalog = World(), InMemoryRunCatalog()
        self.positions: dict[Run, str | None] = {}
        self._created: list[str] = []
        ports = composition.Ports(
            store=Intercepted(self.world.store, self._note),
            archive_store=self.world.archive_store,
            index=self.world.index,
            runs=self.catalog,
            database=self.world.database,
            publisher=None,
            clock=self.world.clock,
            work_sources=self.world.work_sources,
        )
        settings = Settings(bucket_name=BUCKET, archive_bucket_name="archive", position_keys=SecretStr("0123456789abcdef"))
        self.services = composition.assemble(settings, ports)

    @property
    def runs(self) -> list[Run]:
        return list(self.positions)

    def append(self, run: Run, text: str, key: str | None = None) -> None:
        batch = replace(Batch.from_text(text, f"host-{len(text) % 3}"), zone=_zone_of(run))
        try:
            answer = self.services.writer.append(run, batch, position=self.positions.get(run), idempotency_key=key)
        except (RunClosedError, InvalidBatchError):
            return
        self.positions[run] = answer.position

    def start(self, run: Run, start_id: str) -> None:
        """Start an attempt of a run; adds later attempts to ``runs``."""
        attempts = Attempts(self.services.store, self.world.layout, self.services.writer, self.world.clock)
        attempt = attempts.start(run, StartRequest(start_id, "host", "./load.sh", age_ms=5000, zone=_zone_of(run)))
        self.positions[attempt.run] = attempt.position

    def close(self, run: Run) -> None:
        end = RunEnd("failed", exit_code=3, exception="é") if run.run_id != "run-1" else None
        self.services.finalizer.close(run, self.positions.get(run), end)

    def openmetadata(self, run: Run, name: str, text: str) -> None:
        """Write as OpenMetadata does, without our metadata."""
        self.positions.setdefault(run, None)
        self.services.store.put(self.world.layout.run_prefix(run) + name, text.encode(), PutOptions())

    def notify(self, chance: random.Random | None = None) -> None:
        """Notifications of all objects since the last call, some twice, in any order, and of the objects that they cause."""
        ingester = composition.ingester(self.services)
        while self._created:
            keys, self._created[:] = list(self._created), []
            if chance:
                keys += chance.choices(keys, k=len(keys) // 4)
                chance.shuffle(keys)
            results = ingester.ingest([message(s3_record(key)) for key in keys], Deadline(self.world.clock))
            assert all(isinstance(result, Report) for result in results), results

    def tick(self) -> None:
        """Two ticks of the schedule: the second one retires the runs that the first one has explained."""
        for _ in range(2):
            assert schedules.compact(self.services, ENOUGH_MS)["failed"] == 0
            self.notify()

    def sweep(self) -> None:
        assert schedules.sweep(self.services, ENOUGH_MS)["failed"] == 0
        self.notify()

    def rows(self) -> dict[tuple[str, str], Item]:
        """All segment items of the live system."""
        kept = [(run, entry) for run in self.runs for entry in self.world.index.rows_from(run, 0, 0, 100_000)]
        return {(row["run"], row["at"]): row for run, entry in kept for row in segment_rows(run, entry, KEEP_S)}

    def active(self) -> set[Run]:
        return {row.run for row in self.catalog.active(self.world.clock.now_ms() + 1)}

    def row(self, run: Run) -> RunRow | None:
        """Without its explanation: the bucket has none."""
        row = self.catalog.get(run)
        return row and replace(row, explained_segments=0, explanation="")

    def repairer(self, items: Items, port: Callable[[Any], Any] = lambda inner: inner, **options: Any) -> RunRepairer:
        return RunRepairer(port(items), port(self.world.store), self.world.layout, self.world.clock, KEEP_S, **options)

    def examiner(self, run: Run) -> RunInspector:
        return RunInspector(self.world.store, self.world.layout, run)

    def _note(self, operation: str, call: Callable[[], Any]) -> Any:
        before = {found.key: found.etag for found in self._objects()} if operation in ("put", "complete_multipart") else {}
        answer = call()
        if before or operation in ("put", "complete_multipart"):
            self._created += [found.key for found in self._objects() if before.get(found.key) != found.etag]
        return answer

    def _objects(self) -> list[Any]:
        return [each.info for each in list(self.world.store._objects.values()) if each.info]


def _zone_of(run: Run) -> str:
    return "Europe/Berlin" if run.run_id.startswith("run-2") else ""


def live_through(seed: int, steps: int = 60) -> LiveSystem:
    """A history by a seed that ends quiet: all notifications are delivered, and the schedule has no work."""
    chance, live = random.Random(seed), LiveSystem()
    runs = [Run(f"svc.pipe-{number % 2}", f"run-{number}") for number in range(4)]
    old, newer = Run("svc_legacy", "run-a"), Run("svc_legacy", "run-b")
    for step in range(steps):
        run = chance.choice(runs)
        match chance.choice(
            ["append"] * 6 + ["keyed", "start", "close", "tick", "tick", "sweep", "wait", "wait", "cold", "old", "newer"]
        ):
            case "append":
                live.append(run, "".join(f"line {step} {number}\n" for number in range(chance.randint(1, 5))))
            case "keyed":
                live.append(run, f"keyed {step}\n", key=f"key-{chance.randint(0, 40)}")
            case "start" if run.run_id != "run-3":
                live.start(run, f"start-{step}")
            case "cold":
                live.positions[run] = None
                live.append(run, f"cold {step}\n")
            case "close" if chance.random() < 0.4 and live.row(run):
                live.close(run)
            case "tick":
                live.notify(chance)
                live.tick()
            case "sweep" if chance.random() < 0.3:
                live.notify(chance)
                live.world.clock.advance(25 * 3600)
                live.sweep()
            case "wait":
                live.notify(chance)
                live.world.clock.advance(chance.choice([1, 70, 1300]))
            case "old":
                live.openmetadata(old, "logs.txt", "of openmetadata\n" * (step + 1))
            case "newer":
                live.openmetadata(newer, "partial.txt", "of openmetadata\n" * (step + 1))
                live.world.clock.advance(1)
        live.world.clock.advance(0.37)
    live.notify(chance)
    for _ in range(3):
        live.world.clock.advance(1300)
        live.tick()
    return live
