"""Every fault at every call of a tick that bundles sidecars, of the bucket, the catalog and the work's store; repeat, and compare with the
events that were sent."""

from __future__ import annotations

import pytest

from chalicelib.coordination import InMemoryPartitionStore
from chalicelib.runlog.compaction import BUNDLE_FROM
from tests.events_harness import all_events, event_parts, make_event
from tests.faults.interception import CONFLICT, FAULTS
from tests.faults.test_explanation_every_call import Ticked, stop_at_every_call
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import RUN, World


class EndedRun(Ticked):
    """A finalized run of as many batches as are bundled, which is due."""

    def __init__(self) -> None:
        self.world, self.runs, self.work = World(), InMemoryRunCatalog(), InMemoryPartitionStore()
        parts = event_parts(self.world)
        for number in range(BUNDLE_FROM):
            parts.log.append(RUN, [make_event(f"event {number}")])
        parts.finalizer.close(RUN)
        for found in parts.writer.tails.list_segments(RUN):
            self.runs.record_segment(RUN, parts.writer.tails.segment(RUN, self.world.layout.sequence_of(RUN, found.key)))
        row = self.runs.get(RUN)
        assert row
        self.runs.record_finalization(RUN, row.lines, row.bytes, row.segments, self.world.clock.now_ms())
        self.world.clock.advance(32 * 60)
        parts.compactor.compact(RUN, self.world.deadline())  # only the bundles are left to do

    def check(self) -> None:
        parts = event_parts(self.world)
        assert [event.message for event in all_events(parts, RUN)] == [f"event {number}" for number in range(BUNDLE_FROM)]
        assert (parts.indexing.single_numbers(RUN, 0), len(parts.indexing.sidecars.bundles(RUN))) == ([], 1)
        assert list(self.runs.active(self.world.clock.now_ms() + 1)) == [], "it is retired"


@pytest.mark.parametrize(("moment", "how"), [fault for fault in FAULTS if fault[0] != CONFLICT])
def test_stop_at_every_call(moment: str, how: str) -> None:
    stop_at_every_call(EndedRun, moment, how)
