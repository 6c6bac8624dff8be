"""What a tick of the schedule costs, counted in calls of the stores, the catalog and the work's own store: each budget of decision 0013."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Any

import pytest
from pydantic import SecretStr

from chalicelib import composition
from chalicelib.aws.run_catalog import DynamoDbRunCatalog
from chalicelib.catalog.runs import SHARDS, shard_of
from chalicelib.coordination import InMemoryPartitionStore, WorkSource
from chalicelib.coordination.lease import new_owner
from chalicelib.coordination.partition import new_partition, to_row
from chalicelib.ports import FAILED, Run, RunEnd
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.compaction import RETIRE_AFTER_MS, RETIRE_TOGETHER
from chalicelib.settings import Settings
from chalicelib.triggers import schedules
from tests.support.database import row_bytes
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import START_MS, World

ENOUGH_MS = 840_000
SEGMENTS = 3
UNIT_BYTES, READ_UNIT_BYTES = 1024, 4096
NAMED = Run("warehouse_production.nightly_metadata_ingestion", "0f1e2d3c-0000-4000-8000-000000000001")
ROW = {
    "fqn": NAMED.fqn, "run_id": NAMED.run_id, "activity_shard": shard_of(NAMED), "segments": 4000, "lines": 160_000, "bytes": 16_000_000,
    "epoch": 1, "seal": "", "started_ms": START_MS, "last_append_ms": START_MS, "compacted_segments": 3990,
    "compacted_bytes": 15_960_000, "expires_at": START_MS // 1000,
}  # fmt: skip


class Counting:
    """A port whose calls are counted under a name and their own."""

    def __init__(self, port: Any, name: str, calls: Counter[str], lock: Any) -> None:
        self._port, self._name, self._calls, self._lock = port, name, calls, lock

    def __getattr__(self, operation: str) -> Any:
        found = getattr(self._port, operation)
        if not callable(found):
            return found

        def counted(*args: Any, **options: Any) -> Any:
            with self._lock:
                self._calls[f"{self._name} {operation}"] += 1
            return found(*args, **options)

        return counted


class Ticking:
    """A world in memory whose background work is counted: ``s3``, ``runs``, ``segments`` and ``work``."""

    def __init__(self) -> None:
        self.world, self.runs, self.calls = World(), InMemoryRunCatalog(), Counter[str]()
        self.parts = self.world.parts()
        lock = Lock()

        def counting(port: Any, name: str) -> Any:
            return Counting(port, name, self.calls, lock)

        work = counting(InMemoryPartitionStore(), "work")
        ports = composition.Ports(
            store=counting(self.world.store, "s3"),
            archive_store=counting(self.world.archive_store, "s3"),
            index=counting(self.world.index, "segments"),
            runs=counting(self.runs, "runs"),
            database=self.world.database,
            publisher=None,
            clock=self.world.clock,
            work_sources=lambda source: (work, WorkSource(source)),
        )
        settings = Settings(bucket_name="bucket", archive_bucket_name="archive", position_keys=SecretStr("0123456789abcdef"))
        self.services = composition.assemble(settings, ports)

    def append(self, run: Run, *texts: str, told: bool = True) -> None:
        """Segments; ``told``: and their notifications."""
        position: str | None = None
        for text in texts:
            appended = self.parts.writer.append(run, Batch.from_text(text), position=position)
            position = appended.position
            assert appended.entry
            self.runs.record_segment(run, appended.entry)
            if told:
                self.world.index.put(run, [appended.entry])

    def compacted(self, run: Run, *texts: str) -> None:
        """An open run that has a partial.txt, and nothing else to do."""
        self.append(run, *texts)
        self.world.parts().compactor.compact(run, self.world.deadline())
        row = self.runs.get(run)
        assert row
        self.runs.record_compaction(run, row.bytes, row.segments, self.world.clock.now_ms())

    def tick(self) -> Counter[str]:
        """The calls of one."""
        self.calls.clear()
        result = schedules.compact(self.services, ENOUGH_MS)
        assert result["done"] == sum(result.values())
        return Counter(self.calls)

    def sweep(self) -> Counter[str]:
        self.calls.clear()
        schedules.sweep(self.services, ENOUGH_MS)
        return Counter(self.calls)


def ticked(due: int, idle: int = 0) -> Counter[str]:
    """A tick over so many runs that have logged since the one before, and others that have not."""
    ticking = Ticking()
    for number in range(due + idle):
        ticking.compacted(run := Run("svc.pipe", f"run-{number:04d}"), "one")
        if number < due:
            ticking.append(run, *["line"] * SEGMENTS)
    return ticking.tick()


def each(more: Mapping[str, float], fewer: Mapping[str, float], runs: int) -> dict[str, float]:
    """What one run more costs."""
    return {name: (count - fewer.get(name, 0)) / runs for name, count in more.items() if count != fewer.get(name, 0)}


def one_more(ticking: Ticking) -> dict[str, float]:
    """What the runs of this world cost beyond a tick without any."""
    return each(ticking.tick(), ticked(0), 1)


def of(name: str, calls: Mapping[str, float]) -> dict[str, float]:
    """The calls of one port."""
    return {call.removeprefix(name + " "): count for call, count in calls.items() if call.startswith(name + " ")}


LEASED = {"work create": 1, "work replace": 1, "work delete": 1, "runs get": 1}
"""The lease of one run's work, and its row."""


@pytest.mark.slow
def test_a_due_run_costs_the_same_whether_50_are_due_or_150() -> None:
    spent = each(ticked(150), ticked(50), runs=100)
    looks = spent.pop("work query")
    assert spent == LEASED | {
        "runs record_compaction": 1,
        "segments positions_from": 1,
        "s3 head": 2,
        "s3 list": 1,
        "s3 get": 1 + SEGMENTS,
        "s3 put": 1,
    }
    assert looks == pytest.approx(1 / 25, abs=1 / 50)


def test_runs_that_are_not_due_cost_nothing() -> None:
    nothing = ticked(0, idle=300)
    assert nothing["runs active"] == 1 and sum(of("runs", nothing).values()) == 1
    assert of("s3", nothing) == of("segments", nothing) == {}
    assert sum(of("work", nothing).values()) <= 20, "to find that there is nothing, whatever is open"
    among, alone = ticked(25, idle=300), ticked(25)
    among.pop("work query"), alone.pop("work query")  # its last looks depend on which thread comes first
    assert among == alone


def test_the_first_compaction_of_a_run_looks_behind_itself() -> None:
    ticking = Ticking()
    ticking.append(Run("svc.pipe", "run-1"), *["line"] * SEGMENTS)
    assert of("s3", one_more(ticking)) == {"head": 2, "list": 1, "get": SEGMENTS, "put": 1}


def test_a_log_of_more_than_5_mib_is_copied_on_the_server() -> None:
    ticking = Ticking()
    ticking.compacted(run := Run("svc.pipe", "run-1"), *["x" * 1023 * 1024] * 6)
    ticking.append(run, *["line"] * SEGMENTS)
    assert of("s3", one_more(ticking)) == {
        "head": 2,
        "list": 1,
        "get": SEGMENTS,
        "create_multipart": 1,
        "copy_part": 1,
        "upload_part": 1,
        "complete_multipart": 1,
    }


def test_segments_that_ingestion_has_not_come_to_are_looked_up() -> None:
    ticking = Ticking()
    ticking.compacted(run := Run("svc.pipe", "run-1"), "one")
    ticking.append(run, *["line"] * SEGMENTS, told=False)
    spent = one_more(ticking)
    assert of("s3", spent) == {"head": 2 + SEGMENTS, "list": 1, "get": 1 + SEGMENTS, "put": 1}
    assert of("segments", spent) == {"positions_from": 1, "put": 1}


def retirable(segments: int) -> Ticking:
    """A due run with so many old segments, compacted long ago."""
    ticking = Ticking()
    ticking.compacted(run := Run("svc.pipe", "run-1"), *["line"] * segments)
    ticking.world.clock.advance(RETIRE_AFTER_MS / 1000 + 1)
    ticking.append(run, *["line"] * SEGMENTS)
    return ticking


def test_retiring_old_segments_keeps_their_entries_and_deletes_them() -> None:
    """Decision 0016: a HEAD, a query and a PUT before the DeleteObjects, for 100 to 1,000 segments of a running run."""
    usual, spent = one_more(retirable(RETIRE_TOGETHER - 1)), one_more(retirable(RETIRE_TOGETHER))
    assert each(of("s3", spent), of("s3", usual), 1) == {"head": 1, "put": 1, "delete_many": 1}
    assert each(of("segments", spent), of("segments", usual), 1) == {"rows_from": 1}


def test_segments_whose_rows_are_lost_are_looked_at_before_they_go() -> None:
    ticking, known = retirable(RETIRE_TOGETHER), one_more(retirable(RETIRE_TOGETHER))
    ticking.world.index.clear()
    spent = one_more(ticking)
    assert each(of("s3", spent), of("s3", known), 1) == {"head": RETIRE_TOGETHER - 1 + SEGMENTS}


def explained(failed: int) -> Counter[str]:
    """A tick over so many finalized, failed runs."""
    ticking = Ticking()
    for number in range(failed):
        ticking.append(run := Run("svc.pipe", f"run-{number:04d}"), "ERROR one")
        ticking.parts.finalizer.close(run, end=RunEnd(FAILED))
        ticking.runs.record_segment(run, ticking.parts.writer.tails.segment(run, 1))
        ticking.runs.record_finalization(run, 1, 10, 2, ticking.world.clock.now_ms())
    return ticking.tick()


def test_an_explanation_costs_a_head_and_a_get_of_the_log_and_a_write_of_the_row() -> None:
    spent = each(explained(30), explained(10), runs=20)
    looks = spent.pop("work query")
    assert spent == LEASED | {"runs record_explanation": 1, "s3 head": 1, "s3 get": 1}
    assert looks == pytest.approx(1 / 25, abs=1 / 20)


def test_a_sweep_of_runs_that_are_not_idle_costs_nothing() -> None:
    ticking = Ticking()
    for number in range(30):
        ticking.append(Run("svc.pipe", f"run-{number}"), "line")
    spent = ticking.sweep()
    assert of("runs", spent) == {"active": 1}
    assert of("s3", spent) == of("segments", spent) == {}
    assert "create" in of("work", spent) and spent["work create"] == 1, "the map that all share, once for ever"


class Shards:
    """A table that is asked for activity: queries of the index, nothing else."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.at_once = self.most_at_once = 0
        self._lock = Lock()

    def query_all(self, condition: str, values: Mapping[str, Any], **options: Any) -> Iterator[dict[str, Any]]:
        assert options == {"IndexName": "activity"} and condition == "activity_shard = :shard AND last_append_ms < :before"
        with self._lock:
            self.asked.append(values[":shard"])
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        yield {"fqn": "svc.pipe", "run_id": values[":shard"], "last_append_ms": values[":before"] - 1}
        with self._lock:
            self.at_once -= 1


def test_finding_what_is_due_is_a_query_a_shard_old_ones_among_them() -> None:
    table = Shards()
    rows = list(DynamoDbRunCatalog(table, 1).active(START_MS))  # type: ignore[arg-type]
    assert sorted(table.asked) == sorted(f"open#{shard}" for shard in range(SHARDS)) == sorted(row.run.run_id for row in rows)
    assert {f"open#{shard}" for shard in range(8)} <= set(table.asked), "rows of the version that had eight"
    assert table.most_at_once <= 8


def test_a_shard_takes_its_share_of_the_appends_of_100_000_runs() -> None:
    shards = Counter(shard_of(Run(f"svc.pipe-{number % 200}", f"run-{number}")) for number in range(100_000))
    assert len(shards) == SHARDS
    appends_a_second = max(shards.values()) / 10
    assert 2 * appends_a_second < 400, "of the 1,000 units that a partition takes"


def test_rows_of_background_work_are_one_unit_each() -> None:
    waiting = new_partition("compaction|PARTITION", schedules.partition_key(NAMED), START_MS * 1000)
    held = waiting.assigned(new_owner(), START_MS)
    assert max(map(row_bytes, (ROW, to_row(waiting), to_row(held)))) < UNIT_BYTES


@pytest.mark.parametrize(("open_runs", "units"), [(1_000, 32), (10_000, 320), (100_000, 3040)])
def test_read_units_of_a_look_at_the_index_as_decision_0013_tells_them(open_runs: int, units: int) -> None:
    shard_bytes = open_runs / SHARDS * row_bytes(ROW)
    assert SHARDS * -(-shard_bytes // READ_UNIT_BYTES) / 2 == units
