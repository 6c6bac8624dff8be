"""A world that is served and catalogued: what lands in the bucket is ingested and reported, as on AWS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pydantic import SecretStr

from chalicelib import composition
from chalicelib.memory.publisher import InMemoryPublisher
from chalicelib.memory.run_catalog import InMemoryRunCatalog
from chalicelib.settings import Settings
from tests.world import World

BUCKET = "runlake-logs"


@dataclass
class Served:
    """``topic`` keeps the reports."""

    world: World = field(default_factory=World)
    topic: InMemoryPublisher = field(default_factory=InMemoryPublisher)
    _known: set[tuple[str, str]] = field(default_factory=set)

    def deliver(self) -> None:
        """Send S3's notification of each object that is new, or newly written, and let a second pass."""
        ingester = composition.ingester(composition.services())
        for found in self.world.store.list("").objects:
            if (found.key, found.etag) not in self._known:
                self._known.add((found.key, found.etag))
                ingester.ingest(_notification(found.key))
        self.world.clock.advance(1)


@contextmanager
def served() -> Iterator[Served]:
    """This process serves it meanwhile."""
    made = Served()
    settings = Settings(bucket_name=BUCKET, position_keys=SecretStr("0123456789abcdef"))
    ports = composition.Ports(made.world.store, made.world.index, InMemoryRunCatalog(), made.topic, made.world.clock)
    composition.install(composition.assemble(settings, ports))
    try:
        yield made
    finally:
        composition.install(None)


def _notification(key: str) -> str:
    what = {"bucket": {"name": BUCKET}, "object": {"key": key}}
    return json.dumps({"Records": [{"eventVersion": "2.1", "eventName": "ObjectCreated:Put", "s3": what}]})
