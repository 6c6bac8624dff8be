"""Logging methods built from sinks: a target, or a primary with secondary copies. Events are masked by the pipeline's rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from chalicelib.events.event import Loggable, run_of
from chalicelib.events.forwarding import Forwarder
from chalicelib.events.ports import NO_DATA, EventWriter, Target, WriterData
from chalicelib.events.sinks import Sink
from chalicelib.events.tee import Secondary, Tee
from chalicelib.events.writing import OnClose, SinkWriter
from chalicelib.masking.masker import Masker
from chalicelib.ports import Clock

MakeSink = Callable[[Loggable], Sink]
"""Creates the sink of one writer."""


class SinkMethod:
    """``LoggingMethod`` that creates a sink for each writer."""

    def __init__(self, make_sink: MakeSink, clock: Clock, on_close: OnClose | None = None) -> None:
        self._make_sink, self._clock, self._on_close = make_sink, clock, on_close

    def create_writer(
        self, loggable: Loggable, *, writer: str | None = None, step: str | None = None, data: WriterData = NO_DATA
    ) -> EventWriter:
        """See the port."""
        sink = self._make_sink(loggable)
        return SinkWriter(sink, loggable, self._clock, writer=writer, step=step, data=data, on_close=self._on_close)


def to_target(make_target: Callable[[], Target], masker: Masker | None, clock: Clock) -> MakeSink:
    """Sends events to another system, over a connection for each writer. The returned function raises InvalidNameError for a
    loggable whose names contain a configured secret."""

    def make(loggable: Loggable) -> Sink:
        run = run_of(loggable)
        if masker:
            masker.check_names(run.fqn, run.fqn, run.run_id)
        mask = partial(masker.mask, run.fqn) if masker else None
        return Forwarder(make_target(), loggable, clock, mask)

    return make


def teed(primary: MakeSink, secondaries: Sequence[MakeSink]) -> MakeSink:
    """Sends events to the primary, and copies of accepted ones to the secondaries without waiting for them."""

    def make(loggable: Loggable) -> Sink:
        return Tee(primary(loggable), [Secondary(secondary(loggable)) for secondary in secondaries])

    return make
