"""What a segment has of each of its steps: pure functions of its companion."""

from __future__ import annotations

from dataclasses import dataclass

from chalicelib.events.companion import Companion, Noted
from chalicelib.events.ranges import Range, of_ids
from chalicelib.events.spans import Span, joined


@dataclass(frozen=True, slots=True)
class Part:
    """What one segment has of one step. Times are the events' own, in ms; ``errors``: how many of them tell of one."""

    step: str
    sequence: int
    spans: tuple[Span, ...]
    first_ms: int
    last_ms: int
    events: int
    errors: int

    @property
    def bytes(self) -> int:
        """Of all spans."""
        return sum(each.bytes for each in self.spans)

    @property
    def lines(self) -> int:
        """Of all spans."""
        return sum(each.lines for each in self.spans)


def parts_of(companion: Companion) -> list[Part]:
    """One for each step."""
    by_step: dict[str, list[Noted]] = {}
    for event in companion.events:
        if event.step is not None:
            by_step.setdefault(event.step, []).append(event)
    return [_part(step, companion.sequence, events) for step, events in by_step.items()]


def ids_of(companion: Companion) -> list[Range]:
    """The ids that a companion makes visible of its writer."""
    return of_ids(each.id for each in companion.events if each.id is not None) if companion.writer else []


def _part(step: str, sequence: int, events: list[Noted]) -> Part:
    return Part(
        step=step,
        sequence=sequence,
        spans=tuple(joined(Span(each.byte, each.end_byte - each.byte, each.line, each.lines) for each in events)),
        first_ms=min(each.timestamp for each in events),
        last_ms=max(each.timestamp for each in events),
        events=len(events),
        errors=sum(each.error for each in events),
    )
