"""One run as events, from a place on, in pieces of bounded size: whether it goes on or has ended, wherever its bytes lie now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from chalicelib.lines.choice import SAMPLE_LINES, choose
from chalicelib.lines.clock import Clock as StampClock
from chalicelib.lines.events import events
from chalicelib.lines.formats import FORMATS, PLAIN, Format
from chalicelib.pipelines.ordering import Pending
from chalicelib.pipelines.rows import Place
from chalicelib.ports import Clock, Run
from chalicelib.runlog.reader import Stretch

MOST_BYTES = 8 * 1024 * 1024
"""Of one piece, where an event or a line is longer than a fetch. What is beyond of a single line is left out."""
_SAMPLE_BYTES = 256 * 1024
_ENOUGH_LINES = 100
_BY_NAME = {each.name: each for each in (*FORMATS, PLAIN)}


class Logs(Protocol):
    """Where logs are read. ``runlog.reader.Reader`` is one."""

    def stretch(self, run: Run, start: int, length: int) -> Stretch:
        """Bytes of a log, and its end."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A piece of a run. ``at_end``: there is no more now; ``final``: the run has ended. ``lines``: of the whole log."""

    events: Sequence[Pending]
    at_end: bool
    final: bool
    lines: int


class Feed:
    """``place``: where the next piece begins. ``format``: the name of the run's format once it is certain, else empty.

    ``patience_ms``: the last event of a run that goes on may be continued; it is given out when nothing came for so long.
    """

    def __init__(
        self, logs: Logs, run: Run, place: Place, format: str, *, fetch_bytes: int, patience_ms: int, clock: Clock
    ) -> None:
        self._logs, self._run, self.partition = logs, run, f"{run.fqn}/{run.run_id}"
        self._fetch_bytes, self._patience_ms, self._clock = fetch_bytes, patience_ms, clock
        self.place, self.format = place, format
        self._stamps = StampClock(reference_us=place.time_ms * 1000 if place.time_ms else None)

    def fetch(self) -> Fetched:
        """Read on. About ``fetch_bytes`` at once, more (up to 8 MiB) where one event is longer. Raises UnavailableError."""
        length = self._fetch_bytes
        while True:
            stretch = self._logs.stretch(self._run, self.place.byte, length)
            at_end = self.place.byte + len(stretch.body) >= stretch.end.byte
            longest = length >= MOST_BYTES
            body, cut = _whole_lines(stretch.body, at_end, longest)
            fetched = self._lifted(body, stretch, at_end, forced=longest and not at_end) if body else None
            if fetched is not None and (fetched.events or at_end):
                if cut:
                    self._skip_line()
                return fetched
            if at_end:
                return Fetched((), True, bool(stretch.end.seal), stretch.end.line)
            length = min(length * 4, MOST_BYTES)

    def _lifted(self, body: bytes, stretch: Stretch, at_end: bool, *, forced: bool) -> Fetched:
        lines = body.removesuffix(b"\n").split(b"\n")
        final = at_end and bool(stretch.end.seal)
        waited = at_end and self._clock.now_ms() - stretch.end.appended_ms >= self._patience_ms
        format_ = self._format_of(lines, certain=final)
        numbered = enumerate(lines, self.place.line)
        line, byte, time_ms = self.place.line, self.place.byte, self.place.time_ms
        now_ms = self._clock.now_ms()
        found = []
        for event in events(numbered, format_, self._stamps, final=final or waited or forced):
            stamp = event.parsed.timestamp
            if stamp is not None:
                time_ms = stamp // 1000
            order_ms = time_ms if final or time_ms <= now_ms else now_ms
            found.append(Pending(order_ms, self.partition, line, byte, time_ms, event))
            line += event.lines
            byte += len(event.raw) + 1
        self.place = Place(line, byte, time_ms)
        # What was kept back is still to come.
        through = byte >= stretch.end.byte
        return Fetched(found, at_end and (through or not final), final, stretch.end.line)

    def _format_of(self, lines: Sequence[bytes], *, certain: bool) -> Format:
        """From the log's first lines, so that it is the same wherever reading begins."""
        if self.format:
            return _BY_NAME.get(self.format, PLAIN)
        if self.place.line:
            head = self._logs.stretch(self._run, 0, _SAMPLE_BYTES)
            certain = certain or len(head.body) >= _SAMPLE_BYTES
            lines = head.body.split(b"\n")
        chosen = choose(lines[:SAMPLE_LINES])
        if certain or len(lines) >= _ENOUGH_LINES:
            self.format = chosen.name
        return chosen

    def _skip_line(self) -> None:
        """Past the rest of a line that was cut."""
        at = self.place.byte - 1  # its newline was counted, and is still to come
        while True:
            stretch = self._logs.stretch(self._run, at, MOST_BYTES)
            newline = stretch.body.find(b"\n")
            if newline >= 0 or at + len(stretch.body) >= stretch.end.byte:
                at += newline + 1 if newline >= 0 else len(stretch.body)
                self.place = Place(self.place.line, at, self.place.time_ms)
                return
            at += len(stretch.body)


def _whole_lines(body: bytes, at_end: bool, longest: bool) -> tuple[bytes, bool]:
    """The bytes up to the last newline, and whether a line had to be cut: one that is longer than the longest piece."""
    if at_end:
        return body, False
    whole = body[: body.rfind(b"\n") + 1]
    if whole or not longest:
        return whole, False
    return body, True
