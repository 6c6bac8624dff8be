"""The events of one step in one segment, summarized: pure functions of a sidecar."""

from __future__ import annotations

from dataclasses import dataclass

from chalicelib.events.byte_ranges import ByteRange, merge_adjacent
from chalicelib.events.ranges import Range, of_ids
from chalicelib.events.sidecar import Sidecar, SidecarEntry


@dataclass(frozen=True, slots=True)
class StepSegment:
    """The events of one step in one segment. Times are those of the events, in ms; ``errors`` counts the events that are errors."""

    step: str
    sequence: int
    byte_ranges: tuple[ByteRange, ...]
    first_ms: int
    last_ms: int
    events: int
    errors: int

    @property
    def bytes(self) -> int:
        """Of all byte ranges."""
        return sum(each.bytes for each in self.byte_ranges)

    @property
    def lines(self) -> int:
        """Of all byte ranges."""
        return sum(each.lines for each in self.byte_ranges)


def step_segments_of(sidecar: Sidecar) -> list[StepSegment]:
    """One for each step in a sidecar."""
    by_step: dict[str, list[SidecarEntry]] = {}
    for event in sidecar.events:
        if event.step is not None:
            by_step.setdefault(event.step, []).append(event)
    return [_step_segment(step, sidecar.sequence, events) for step, events in by_step.items()]


def visible_ids(sidecar: Sidecar) -> list[Range]:
    """The ids of its writer that a sidecar makes visible."""
    return of_ids(each.id for each in sidecar.events if each.id is not None) if sidecar.writer else []


def _step_segment(step: str, sequence: int, events: list[SidecarEntry]) -> StepSegment:
    return StepSegment(
        step=step,
        sequence=sequence,
        byte_ranges=tuple(
            merge_adjacent(ByteRange(each.byte, each.end_byte - each.byte, each.line, each.lines) for each in events)
        ),
        first_ms=min(each.timestamp for each in events),
        last_ms=max(each.timestamp for each in events),
        events=len(events),
        errors=sum(each.error for each in events),
    )
