"""Events on an in-memory world, or on wrapped ports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chalicelib.events.bundling import SidecarBundler
from chalicelib.events.completeness import CompletenessWatch
from chalicelib.events.event import NewEvent
from chalicelib.events.event_browser import MAX_LIMIT, EventBrowser
from chalicelib.events.event_view import EventFilter, EventView
from chalicelib.events.index import EventIndex
from chalicelib.events.indexing import EventIndexing
from chalicelib.events.ports import Accepted
from chalicelib.events.run_event_log import RunEventLog
from chalicelib.events.snapshots import LogSnapshots
from chalicelib.events.step_events import StepEvents
from chalicelib.events.step_log import StepLogs
from chalicelib.events.step_updates import StepUpdates
from chalicelib.events.steps import Steps
from chalicelib.events.tail import EventTails
from chalicelib.events.writers import Writers
from chalicelib.masking.masker import Masker
from chalicelib.masking.rules import OFF, MaskingRule, parse_rules
from chalicelib.ports import Run
from chalicelib.runlog.compaction import Compactor
from chalicelib.runlog.finalization import Finalizer
from chalicelib.runlog.fingerprints import BatchFingerprints
from chalicelib.runlog.log_end import list_all
from chalicelib.runlog.reader import Reader
from chalicelib.runlog.writer import Writer
from tests.world import RUN, World

INSTANCE = "house-1"
GRACE_MS = 60_000


NOT_MASKED = parse_rules(OFF)


@dataclass
class EventParts:
    """The event services of one process."""

    writer: Writer
    compactor: Compactor
    finalizer: Finalizer
    log: RunEventLog
    writers: Writers
    step_updates: StepUpdates
    index: EventIndex
    indexing: EventIndexing
    logs: StepLogs
    steps: Steps
    browser: EventBrowser
    watch: CompletenessWatch
    bundler: SidecarBundler


def event_parts(
    world: World, port: Callable[[Any], Any] = lambda inner: inner, rules: Sequence[MaskingRule] = NOT_MASKED, masked: Any = None
) -> EventParts:
    """``port`` wraps each port except the clock."""
    store, segments, database, layout, clock = port(world.store), port(world.index), port(world.database), world.layout, world.clock
    masker = Masker(rules, None, clock)
    writer = Writer(store, segments, layout, world.signer, clock, BatchFingerprints(["test-key"], masker.may_contain_secrets))
    index = EventIndex(database, clock, 86_400)
    step_updates = StepUpdates(store, layout, index)
    indexing = EventIndexing(store, layout, index, step_updates)
    compactor = Compactor(store, segments, layout, clock, event_indexer=indexing)
    reader = Reader(store, segments, layout, clock, compactor)
    snapshots, writers = LogSnapshots(store, segments, layout), Writers(store, layout, clock)
    tails = EventTails(snapshots, indexing, index, clock)
    return EventParts(
        writer=writer,
        compactor=compactor,
        finalizer=Finalizer(store, compactor, writer, clock),
        log=RunEventLog(store, layout, clock, writer, reader, masker, INSTANCE, masked or (lambda counts: None)),
        writers=writers,
        step_updates=step_updates,
        index=index,
        indexing=indexing,
        logs=StepLogs(snapshots, index, tails),
        steps=Steps(snapshots, index, tails),
        browser=EventBrowser(
            reader, snapshots, tails, indexing, StepEvents(snapshots, index, indexing, tails), segments, clock, INSTANCE
        ),
        watch=CompletenessWatch(writers, index, writer.tails, clock, GRACE_MS),
        bundler=SidecarBundler(store, layout, clock),
    )


def make_event(message: str, step: str | None = None, **given: Any) -> NewEvent:
    """An event as received."""
    return NewEvent(message=message, step=step, **given)


class ClientWriter:
    """A client's writer: keeps its position and numbers its events."""

    def __init__(self, parts: EventParts, writer: str | None = None, run: Run = RUN) -> None:
        self.parts, self.writer, self.run = parts, writer, run
        self.position: str | None = None
        self.next_id = 0

    def say(self, *events: NewEvent) -> Accepted:
        """Append a batch, with ids if the writer has a name."""
        numbered = (
            [event.model_copy(update={"id": self.next_id + at}) for at, event in enumerate(events)] if self.writer else events
        )
        answer = self.parts.log.append(self.run, numbered, writer=self.writer, position=self.position)
        self.position = answer.position
        self.next_id += len(events) if self.writer else 0
        return answer


def notify(world: World, parts: EventParts, run: Run = RUN) -> None:
    """Deliver every notification of objects under ``events/``, in order."""
    for found in list_all(world.store, world.layout.events(run)):
        parsed = world.layout.parse(found.key)
        assert parsed
        parts.indexing.index_object(parsed)


def all_events(parts: EventParts, run: Run = RUN) -> Iterator[EventView]:
    """Every event, page by page."""
    after: int | None = 0
    while after is not None:
        page = parts.browser.page(run, EventFilter(), after, MAX_LIMIT)
        yield from page.events
        after = page.after


def read_log(parts: EventParts, run: Run = RUN) -> str:
    """The overall log, response by response."""
    return _all(lambda start: parts.logs.overall_log(run, start))


def read_step_log(parts: EventParts, step: str, run: Run = RUN, max_lines: int | None = None) -> str:
    """A step's log, response by response."""
    return _all(lambda start: parts.logs.step_log(run, step, start, max_lines))


def _all(read: Callable[[int], Any]) -> str:
    text, start = "", 0
    while (answer := read(start)).next != start:
        text, start = text + answer.text, answer.next
    return text
