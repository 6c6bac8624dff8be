"""Every fault at every call of ingestion, of the store, both tables and the topic: the queue brings the message again, and the rows
converge."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from chalicelib.catalog.recent import ENDED
from chalicelib.catalog.runs import RunRow
from chalicelib.errors import UnavailableError
from chalicelib.events.choices import RunChoices
from chalicelib.events.configuration import EventsConfiguration
from chalicelib.ingestion.ingester import Ingester
from chalicelib.ports import RunEnd
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.choice import Choice, read_choice
from chalicelib.runlog.writer import Writer
from tests.faults.interception import CONFLICT, FAULTS, THROTTLED, Crash, Intercepted, StopAt
from tests.ingestion_harness import BUCKET, ingest_one, ingester_of, message, s3_record
from tests.support.publisher import InMemoryPublisher
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import RUN, World


class Catalogued:
    """A run of three segments with another browser, compacted and closed, and a message for each of its objects."""

    def __init__(self) -> None:
        self.world = world = World()
        choices = RunChoices(world.store, world.layout, EventsConfiguration(browser="elsewhere"))
        writer = Writer(world.store, world.index, world.layout, world.signer, world.clock, policy=choices)
        for number in range(3):
            writer.append(RUN, Batch.from_text(f"line {number}\n", "host-1"))
            world.clock.advance(30)
        self.world.parts().finalizer.close(RUN, end=RunEnd("failed", exit_code=3))
        self.index, self.runs, self.topic = self.world.index, InMemoryRunCatalog(), InMemoryPublisher()
        prefix = self.world.layout.run_prefix(RUN)
        self.messages = [message(s3_record(prefix + key)) for key in self.world.names()]

    def ingester(self, gate: Callable[[str, Callable[[], Any]], Any] | None = None) -> Ingester:
        return ingester_of(
            self.world, self.runs, self.topic, port=lambda inner: Intercepted(inner, gate) if gate else inner, watermark_bytes=10
        )

    def lists_of_outcomes(self) -> list[str]:
        """The lists of runs by outcome that have the run."""
        return [outcome for outcome in ENDED for _, run in self.runs.ended(outcome, 0, "", 10).keys if run == RUN]

    def rows(self) -> tuple[RunRow | None, list[int]]:
        return self.runs.get(RUN), [row.sequence for row in self.index.rows_from(RUN, 0, 0, 100)]


def undisturbed() -> tuple[RunRow | None, list[int]]:
    catalogued = Catalogued()
    for body in catalogued.messages:
        ingest_one(catalogued.ingester(), body)
    return catalogued.rows()


@pytest.mark.parametrize(("moment", "how"), FAULTS)
@pytest.mark.parametrize("order", [1, -1], ids=["in order", "reversed"])
def test_stop_at_every_call(order: int, moment: str, how: str) -> None:
    expected, number = undisturbed(), 0
    assert expected[0] and (expected[0].status, expected[0].lines, expected[1]) == ("finalized", 3, [0, 1, 2, 3])
    while True:
        catalogued = Catalogued()
        stop = StopAt(number, moment, how)
        queue = catalogued.messages[::order]
        failed = []
        for body in queue:
            try:
                ingest_one(catalogued.ingester(stop), body)
            except (UnavailableError, Crash):
                failed.append(body)
        if not stop.fired:
            break
        for body in failed:
            ingest_one(catalogued.ingester(stop.successor), body)
        stop.land()
        assert catalogued.rows() == expected
        assert read_choice(catalogued.world.store, catalogued.world.layout, RUN) == Choice(browser="elsewhere")
        assert catalogued.lists_of_outcomes() == ["failed"]
        reported = [json.loads(text)["records"][0]["url"] for text, _ in catalogued.topic.messages]
        names = set(catalogued.world.names()) - {"events/chosen"}
        assert {f"s3://{BUCKET}/{catalogued.world.layout.run_prefix(RUN)}{key}" for key in names} <= set(reported)
        number += 1
    print(f"\ncrash points of ingestion: {number}")
    assert number >= (1 if moment == CONFLICT else 10)


@pytest.mark.parametrize(("moment", "how"), [fault for fault in FAULTS if fault[0] != CONFLICT])
@pytest.mark.parametrize("order", [1, -1], ids=["in order", "reversed"])
def test_stopped_heartbeat_changes_no_end(order: int, moment: str, how: str) -> None:
    """Between any two messages, and repeated."""
    expected, _ = undisturbed()
    assert expected
    for position in range(len(Catalogued().messages) + 1):
        catalogued = Catalogued()
        queue, stop = catalogued.messages[::order], StopAt(0, moment, how)
        now_ms = catalogued.world.clock.now_ms()
        for body in queue[:position]:
            ingest_one(catalogued.ingester(), body)
        with suppress(UnavailableError, Crash):
            Intercepted(catalogued.runs, stop).record_heartbeat(RUN, now_ms)
        Intercepted(catalogued.runs, stop.successor).record_heartbeat(RUN, now_ms)
        for body in queue[position:]:
            ingest_one(catalogued.ingester(), body)
        stop.land()
        row, _ = catalogued.rows()
        assert row and replace(row, alive_ms=0) == expected and row.alive_ms in (0, now_ms)
        assert stop.fired or moment == THROTTLED
        assert catalogued.lists_of_outcomes() == ["failed"]
