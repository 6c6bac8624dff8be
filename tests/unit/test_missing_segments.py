"""Number of lost lines, compared with the appended ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chalicelib.runlog.batch import Batch
from chalicelib.runlog.missing_segments import lost_lines
from tests.world import RUN, World


@given(st.lists(st.integers(1, 5), min_size=2, max_size=12), st.integers(0, 8), st.data())
def test_lines_of_segments_that_were_deleted(sizes: list[int], compacted: int, data: st.DataObject) -> None:
    """All segments but the last, which shows the log's end, may be deleted. Compacted lines are not lost."""
    world = World()
    parts = world.parts()
    for number, lines in enumerate(sizes):
        parts.writer.append(RUN, Batch.from_text("x\n" * lines))
        if number + 1 == compacted:
            parts.compactor.compact(RUN, world.deadline())
    held = compacted if compacted <= len(sizes) else 0
    gone = data.draw(st.sets(st.integers(0, len(sizes) - 2)))
    for number in gone:
        world.store.delete(world.layout.segment(RUN, number))
    expected = sum(sizes[number] for number in gone if number >= held)
    assert lost_lines(parts.compactor, parts.writer.tails, RUN) == expected


def test_unknown_run_has_no_lost_lines() -> None:
    world = World()
    assert lost_lines(world.parts().compactor, world.parts().writer.tails, RUN) == 0
