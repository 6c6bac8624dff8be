"""A world that is served and catalogued: what lands in the bucket is ingested and reported, as on AWS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pydantic import SecretStr

from chalicelib import composition
from chalicelib.memory.publisher import InMemoryPublisher
from chalicelib.memory.run_catalog import InMemoryRunCatalog
from chalicelib.settings import Settings
from tests.ingesting import ingest_one, message, s3_record
from tests.world import World

BUCKET, ARCHIVE = "runlake-logs", "runlake-archive"


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
    settings = Settings(bucket_name=BUCKET, archive_bucket_name=ARCHIVE, position_keys=SecretStr("0123456789abcdef"))
    ports = composition.Ports(
        store=made.world.store,
        archive_store=made.world.archive_store,
        index=made.world.index,
        runs=InMemoryRunCatalog(),
        database=made.world.database,
        publisher=made.topic,
        clock=made.world.clock,
    )
    composition.install(composition.assemble(settings, ports))
    try:
        yield made
    finally:
        composition.install(None)
