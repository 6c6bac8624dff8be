"""The steps of a run: what their events show, and what was told of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from chalicelib.events.index import EventIndex
from chalicelib.events.parts import Part
from chalicelib.events.step_log import with_tail
from chalicelib.events.tail import EventTails
from chalicelib.events.told import ToldStep, read_told
from chalicelib.events.views import Views
from chalicelib.ports import Run
from chalicelib.runlog.conflicts import retry_on_change


@dataclass(frozen=True, slots=True)
class StepFacts:
    """A step. ``first_line`` None: nothing was said yet. ``complete``: nothing will follow of it. Times in ms; ``ended_ms`` as it was told,
    or of its last event once the run has ended."""

    step: str
    name: str
    parent: str | None
    started_ms: int | None
    ended_ms: int | None
    last_ms: int | None
    lines: int
    bytes: int
    errors: int
    first_line: int | None
    status: str | None
    complete: bool

    @property
    def duration_ms(self) -> int | None:
        """So far, by what is known."""
        end = self.ended_ms if self.ended_ms is not None else self.last_ms
        return None if self.started_ms is None or end is None else max(0, end - self.started_ms)


class Steps:
    """Lists steps. Reads the rows of all of them: as many as segments have steps."""

    def __init__(self, views: Views, index: EventIndex, tails: EventTails) -> None:
        self._views, self._index, self._tails = views, index, tails

    def all(self, run: Run) -> list[StepFacts]:
        """In the order in which they began. A view, a query for each MB of rows, and those of ``EventTails``. Raises UnavailableError."""
        return retry_on_change(lambda: self._all(run))

    def _all(self, run: Run) -> list[StepFacts]:
        parts = list(self._index.parts(run))
        view = self._views.take(run)
        tail = self._tails.look(run, view)
        parts = with_tail(parts, tail, None)
        told = {step: read_told(document) for step, document in self._index.told(run).items()}
        is_ended = not tail.holds_back and self._views.is_ended(run, view)
        by_step: dict[str, list[Part]] = {step: [] for step in told}
        for part in parts:
            by_step.setdefault(part.step, []).append(part)
        facts = [_facts(step, of, told.get(step, ToldStep()), is_ended) for step, of in by_step.items()]
        return sorted(facts, key=_order)


def _facts(step: str, parts: Iterable[Part], told: ToldStep, is_ended: bool) -> StepFacts:
    parts = list(parts)
    first_ms = min((part.first_ms for part in parts), default=None)
    last_ms = max((part.last_ms for part in parts), default=None)
    ended_ms = told.ended_ms if told.ended_ms is not None else last_ms if is_ended else None
    status = told.status or (None if is_ended or told.ended_ms is not None else "running")
    return StepFacts(
        step=step,
        name=told.name or step,
        parent=told.parent,
        started_ms=told.started_ms if told.started_ms is not None else first_ms,
        ended_ms=ended_ms,
        last_ms=last_ms,
        lines=sum(part.lines for part in parts),
        bytes=sum(part.bytes for part in parts),
        errors=sum(part.errors for part in parts),
        first_line=min((span.line for part in parts for span in part.spans), default=None),
        status=status,
        complete=is_ended,
    )


def _order(facts: StepFacts) -> tuple[int, int, str]:
    started_ms = facts.started_ms if facts.started_ms is not None else 1 << 60
    return started_ms, facts.first_line if facts.first_line is not None else 1 << 60, facts.step
