"""The tables of files rebuilt from the buckets, on real tables: lost, damaged at random, or with orphan rows."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from pydantic import SecretStr

from chalicelib import composition
from chalicelib.aws.database import DynamoDbDatabase
from chalicelib.catalog.file_ids import run_object_id
from chalicelib.composition import Services
from chalicelib.deadline import Deadline
from chalicelib.ports import PutOptions, Run
from chalicelib.runlog.batch import Batch
from chalicelib.settings import Settings
from glue_jobs.catalog.files import CHECKED_LAST, READ_FIRST, check_rows, register_archive, register_logs
from tests.contract.conftest import KEYS, client_of, create_file_tables
from tests.ingestion_harness import ARCHIVE, BUCKET, message, s3_record
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import START_MS, World

RUNS = [Run("svc.pipe", f"run-{number}") for number in range(3)]
MEMORY = ("revision", "unsettled", "left")
"""Attributes with the number of reads and the earlier contents of a file."""
Rows = dict[tuple[str, str], dict[str, Any]]


class Archive:
    """Files and finalized logs, catalogued on arrival."""

    def __init__(self, client: Any) -> None:
        schemas = create_file_tables(client)
        self.client, self.tables = client, {table: schema.name for table, schema in schemas.items()}
        self.world = world = World()
        ports = composition.Ports(
            store=world.store,
            archive_store=world.archive_store,
            index=world.index,
            runs=InMemoryRunCatalog(),
            database=DynamoDbDatabase(client, schemas),
            publisher=None,
            clock=world.clock,
        )
        names: dict[str, Any] = {f"{table}_table": name for table, name in self.tables.items()}
        self.settings = Settings(
            bucket_name=BUCKET, archive_bucket_name=ARCHIVE, position_keys=SecretStr("0123456789abcdef"), **names
        )
        self.ports = ports
        self.services: Services = composition.assemble(self.settings, ports)

    def fill(self, chance: random.Random, count: int = 14) -> None:
        for number in range(count):
            file_id = f"{chance.getrandbits(128):032x}" if number % 3 else f"a:b#{number}~é"
            start = START_MS + chance.randrange(10**9) + number
            document = {
                "version": 0, "start": start, "end": start + chance.choice([0, 10**5, 3 * 10**8]), "path": f"/{number}",
                "work_id": chance.choice([None, "job-1"]), "where": f"host-{number % 3}", "what": f"what-{number % 2}", "id": file_id,
                "hash": f"{number:032x}", "level": number / 4,
            }  # fmt: skip
            key = f"{file_id}/data" if number % 4 else f"odd/{number}"
            self.world.archive_store.put(key, b"x" * number, PutOptions({"datalake": json.dumps(document)}))
            self.tell(key, ARCHIVE)
        for run in RUNS:
            entry = self.services.writer.append(run, Batch.from_text("line\n", "host-9")).entry
            assert entry
            self.world.index.put(run, [entry])
            self.services.finalizer.close(run)
            self.world.clock.advance(5)
            self.tell(self.world.layout.logs(run), BUCKET)

    def tell(self, key: str, bucket: str, name: str = "ObjectCreated:Put") -> None:
        composition.ingester(self.services).ingest([message(s3_record(key, name, bucket))], Deadline(self.world.clock))

    def rebuild(self, *, prune: bool = False, dry_run: bool = False) -> list[dict[str, Any]]:
        self.services = composition.assemble(self.settings, self.ports)  # a new process without caches
        told = [each for table in READ_FIRST for each in self._check(table, is_last=False, prune=prune, dry_run=dry_run)]
        for first, last in (("", "7"), ("7", "")):
            told += register_archive(self.services, first, last, dry_run=dry_run)
        keys = {found.key for found in self.world.store.list("").objects}
        told += register_logs(self.services, [run for run in RUNS if self.world.layout.logs(run) in keys], dry_run=dry_run)
        return told + [each for table in CHECKED_LAST for each in self._check(table, is_last=True, prune=prune, dry_run=dry_run)]

    def _check(self, table: str, **options: bool) -> list[dict[str, Any]]:
        return [each for part in range(2) for each in check_rows(self.services, self.client, table, part, 2, **options)]

    def rows(self) -> dict[str, Rows]:
        """All rows of existing files."""
        found: dict[str, Rows] = {}
        for table, name in self.tables.items():
            items = self.client.scan(TableName=name, ConsistentRead=True)["Items"]
            partition, sort = KEYS[table]
            found[table] = {
                (item[partition]["S"], item[sort]["S"] if sort else ""): {
                    key: value for key, value in item.items() if key not in MEMORY
                }
                for item in items
                if table != "objects" or {"document", "problem", "id"} & set(item)
            }
        return found

    def damage(self, chance: random.Random) -> None:
        table = chance.choice(list(self.tables))
        items = self.client.scan(TableName=self.tables[table], ConsistentRead=True)["Items"]
        if not items:
            return
        item, keys = chance.choice(items), [name for name in KEYS[table] if name]
        name = chance.choice([name for name in item if name not in (*keys, "work_id_index_key")] or [""])
        match chance.choice(["gone", "another", "lacks", "twin"]):
            case "another" if name:
                item[name] = {"N": "7"} if "N" in item[name] else {"S": chance.choice(["x", "{}", "null"])}
            case "lacks" if name:
                del item[name]
            case "twin" if table != "objects" and not item[keys[0]]["S"].startswith(("n#", "c#", "p#")):
                item[keys[-1]] = {"S": item[keys[-1]]["S"] + chance.choice(["0", "#x", ":y"])}
            case _:
                self.client.delete_item(TableName=self.tables[table], Key={name: item[name] for name in keys})
                return
        self.client.put_item(TableName=self.tables[table], Item=item)

    def lose(self, table: str) -> None:
        keys = [name for name in KEYS[table] if name]
        for item in self.client.scan(TableName=self.tables[table], ConsistentRead=True)["Items"]:
            self.client.delete_item(TableName=self.tables[table], Key={name: item[name] for name in keys})


@pytest.fixture
def archive(ministack_url: str) -> Iterator[Archive]:
    with closing(client_of("dynamodb", ministack_url)) as client:
        yield Archive(client)


@pytest.mark.sampled(default=2)
@pytest.mark.parametrize("lost", ["files", "latest", "listing", "objects", "all"])
def test_a_lost_table_is_as_it_was(archive: Archive, lost: str) -> None:
    archive.fill(random.Random(1))
    before = archive.rows()
    for table in [lost] if lost != "all" else archive.tables:
        archive.lose(table)
    assert any(each["differences"] for each in archive.rebuild(dry_run=True))
    archive.rebuild()
    assert archive.rows() == before
    assert not any(each["differences"] for each in archive.rebuild(dry_run=True))


@pytest.mark.sampled(default=3)
@pytest.mark.parametrize("seed", range(8))
def test_damaged_rows_are_as_they_were(archive: Archive, seed: int) -> None:
    print(f"seed: {seed}")
    chance = random.Random(seed)
    archive.fill(chance)
    before = archive.rows()
    for _ in range(chance.randint(1, 15)):
        archive.damage(chance)
    told = archive.rebuild()
    assert [each for each in told if each["counts"].get("file_failed")] == []
    assert archive.rows() == before


def test_rebuild_leaves_the_id_of_a_log_to_the_log(archive: Archive) -> None:
    """Objects of the archive are registered before logs, and again when the rows of the logs exist."""
    archive.fill(random.Random(2), count=1)
    before, key = archive.rows(), archive.world.layout.logs(RUNS[0])
    document = {
        "version": 0, "start": START_MS, "end": None, "path": "/x", "work_id": None, "where": "host-9", "what": "x", "id": run_object_id(key),
        "hash": "0" * 32,
    }  # fmt: skip
    archive.world.archive_store.put("odd/claim", b"x", PutOptions({"datalake": json.dumps(document)}))
    for lost in (["objects", "files", "latest", "listing"], []):
        for table in lost:
            archive.lose(table)
        archive.rebuild()
        rows = archive.rows()
        assert [rows[table] for table in ("files", "latest")] == [before[table] for table in ("files", "latest")]
    told = archive.rebuild(dry_run=True)
    assert sum(each["counts"].get("file_refused", 0) for each in told) == 1 and not any(each["differences"] for each in told)


def test_files_whose_objects_are_gone_go_when_asked(archive: Archive) -> None:
    chance = random.Random(3)
    archive.fill(chance, count=6)
    listed = archive.world.archive_store.list("").objects
    before = archive.rows()
    for found in (listed[0], listed[-1]):
        archive.world.archive_store.delete(found.key)
    archive.world.store.delete(archive.world.layout.logs(RUNS[0]))
    archive.rebuild()
    assert archive.rows() == before, "not asked"
    archive.rebuild(prune=True)
    urls = {
        f"s3://{ARCHIVE}/{listed[0].key}",
        f"s3://{ARCHIVE}/{listed[-1].key}",
        f"s3://{BUCKET}/{archive.world.layout.logs(RUNS[0])}",
    }
    left = archive.rows()
    assert urls.isdisjoint(row["url"]["S"] for row in (*left["files"].values(), *left["latest"].values()))
    assert not any(url in str(left["listing"]) for url in urls)
