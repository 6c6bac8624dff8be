"""A world that is served and catalogued: what lands in the bucket is ingested and reported, as on AWS. One run was set aside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pydantic import SecretStr

from chalicelib import composition
from chalicelib.composition import COMPACTION
from chalicelib.coordination import Partition, Status
from chalicelib.coordination.partition import encode_state, format_timestamp
from chalicelib.settings import Settings
from tests.ingestion_harness import ingest_one, message, s3_record
from tests.support.publisher import InMemoryPublisher
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import START_MS, World

BUCKET, ARCHIVE = "runlake-logs", "runlake-archive"
ASIDE = "nightly.orders/run-6"


@dataclass
class Served:
    """``topic`` keeps the reports."""

    world: World = field(default_factory=World)
    topic: InMemoryPublisher = field(default_factory=InMemoryPublisher)
    _known: set[tuple[str, str]] = field(default_factory=set)

    def deliver(self) -> None:
        """Send S3's notification of each object that is new, or newly written, and let a second pass."""
        ingester = composition.ingester(composition.services())
        for bucket, store in ((BUCKET, self.world.store), (ARCHIVE, self.world.archive_store)):
            for found in store.list("").objects:
                if (found.key, found.etag) not in self._known:
                    self._known.add((found.key, found.etag))
                    ingest_one(ingester, message(s3_record(found.key, bucket=bucket)))
        self.world.clock.advance(1)


@contextmanager
def served() -> Iterator[Served]:
    """This process serves it meanwhile."""
    made = Served()
    settings = Settings(bucket_name=BUCKET, archive_bucket_name=ARCHIVE, position_keys=SecretStr("0123456789abcdef"), auth="none")
    ports = composition.Ports(
        store=made.world.store,
        archive_store=made.world.archive_store,
        index=made.world.index,
        runs=InMemoryRunCatalog(),
        database=made.world.database,
        publisher=made.topic,
        clock=made.world.clock,
        work_sources=made.world.work_sources,
    )
    _set_aside(made.world)
    composition.install(composition.assemble(settings, ports))
    try:
        yield made
    finally:
        composition.install(None)


def _set_aside(world: World) -> None:
    """Its compaction has failed 20 times, each time in three writes: taken, told why, put off."""
    store, source = world.work_sources(COMPACTION)
    error = f"StoreUnavailableError: put failed code=AccessDenied what=pipeline-logs/{ASIDE}/partial.txt"
    state = encode_state({"error": error, "failed_ms": START_MS})
    aside = Partition(
        source.partitions, ASIDE, Status.COMPLETED, format_timestamp(START_MS), state=state, closed_count=20, version=60
    )
    assert store.create(aside) is None
