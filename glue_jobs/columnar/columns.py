"""The events of a block as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chalicelib.lines.events import LineEvent
from chalicelib.lines.levels import ORDER
from glue_jobs.columnar.blocks import Ints, LineBlock, spans
from glue_jobs.columnar.matching import NO_LEVEL, LineMatches

_LEVEL_NAMES = pa.array([*ORDER, None], pa.string())
_LEVEL_NUMBERS: dict[str | None, int] = {None: NO_LEVEL, **{level: number for number, level in enumerate(ORDER)}}


class JoinedMatches(NamedTuple):
    """Events of which only the first line is in a format: their lines [``first``, ``end``) in the block, the places of their first
    lines in the block's matches, and where the text ends."""

    first: Ints
    end: Ints
    matches: Ints
    text_end: Ints


class EventSpans:
    """Where the events of a block are, in order.

    ``line`` and ``end_line``: lines of each event in the block, from 0. ``start`` and ``end``: its bytes in the block, with newlines.
    ``size``: bytes of all events; behind them is an event that was held back.
    """

    def __init__(self, block: LineBlock, line: Ints, end_line: Ints) -> None:
        self._block = block
        self.line, self.end_line = line, end_line
        self.start = block.starts[line]
        self.end = block.next_starts[end_line - 1]
        self.size = int(self.end[-1]) if len(line) else 0

    def __len__(self) -> int:
        return len(self.line)

    @property
    def line_count(self) -> int:
        """The lines of all events."""
        return int(self.end_line[-1]) if len(self) else 0

    def raws(self, places: Ints) -> pa.BinaryArray:
        """The exact bytes of events, in the order of the block, with newlines except that the last line of a log may lack."""
        if len(places) == len(self):
            offsets = np.append(self.start, self.size).astype(np.int32)
            return pa.Array.from_buffers(pa.binary(), len(self), [None, pa.py_buffer(offsets), self._block.data])
        return spans(self._block.data, self.start[places], self.end[places], pa.binary())


Spans = TypeVar("Spans", bound=EventSpans)


def parse_blocks(parse: Callable[..., Spans], blocks: Iterable[bytes], least_bytes: int) -> Iterator[Spans]:
    """The events of consecutive blocks of whole lines, of which the last one may lack its newline. ``parse(body, final=…)`` parses a
    block. Blocks are joined until they have ``least_bytes``, and parsed when another one follows; with 0 each is parsed at once. Lines
    of an event that goes on are parsed again with the next block."""
    pending: list[bytes] = []
    size = 0
    for block in blocks:
        if 0 < least_bytes <= size:
            events, pending, size = _parsed(parse, pending)
            yield events
        pending.append(block)
        size += len(block)
        if not least_bytes:
            events, pending, size = _parsed(parse, pending)
            yield events
    yield parse(b"".join(pending), final=True)


def _parsed(parse: Callable[..., Spans], blocks: list[bytes]) -> tuple[Spans, list[bytes], int]:
    body = b"".join(blocks)
    events = parse(body, final=False)
    return events, [body[events.size :]], 0


class EventColumns(EventSpans):
    """The events of a block, in order. Numbers are arrays; texts are made when they are asked for, of the events with some places.

    ``us``: microseconds since the epoch where ``has_time``. ``level``: places in ``levels.ORDER``, or ``NO_LEVEL``.
    """

    def __init__(
        self, block: LineBlock, matches: LineMatches, joined: JoinedMatches, others: Sequence[LineEvent], *, final: bool
    ) -> None:
        self._matches, self._joined, self._others = matches, joined, others
        line = np.concatenate((joined.first, np.array([event.line for event in others], np.int64)))
        order = np.argsort(line, kind="stable")
        self._order = order if final else order[:-1]
        super().__init__(block, line[self._order], self._merged(joined.end, [event.next_line for event in others]))
        times = [event.parsed.timestamp for event in others]
        self.us = self._merged(matches.us[joined.matches], [time or 0 for time in times])
        self.has_time = self._merged(matches.has_time[joined.matches], [time is not None for time in times])
        self.level = self._merged(matches.level[joined.matches], [_LEVEL_NUMBERS[event.parsed.level] for event in others])

    def timestamps(self, places: Ints) -> pa.TimestampArray:
        """Times of events, in UTC."""
        return pa.array(self.us[places], pa.int64(), mask=~self.has_time[places]).cast(pa.timestamp("us", "UTC"))

    def levels(self, places: Ints) -> pa.StringArray:
        """Levels of events."""
        return _LEVEL_NAMES.take(pa.array(self.level[places]))

    def loggers(self, places: Ints) -> pa.StringArray:
        """Loggers of events."""
        joined, others = self._divided(places)
        loggers = self._matches.loggers.take(pa.array(self._joined.matches[joined]))
        return self._mixed(places, loggers, [event.parsed.logger for event in others])

    def messages(self, places: Ints) -> pa.StringArray:
        """Messages of events, in the order of the block."""
        joined, others = self._divided(places)
        matches = self._joined.matches[joined]
        if self._matches.messages is None:
            messages = spans(self._block.data, self._matches.message[matches], self._joined.text_end[joined])
        else:
            messages = self._matches.messages.take(pa.array(matches))
        return self._mixed(places, messages, [event.parsed.message for event in others])

    def _merged(self, joined: npt.NDArray[Any], others: Sequence[Any]) -> npt.NDArray[Any]:
        """A column in the order of events."""
        return np.concatenate((joined, np.array(others, joined.dtype)))[self._order]

    def _divided(self, places: Ints) -> tuple[Ints, list[LineEvent]]:
        sources = self._order[places]
        count = len(self._joined.first)
        return sources[sources < count], [self._others[source - count] for source in sources[sources >= count].tolist()]

    def _mixed(self, places: Ints, joined: pa.StringArray, others: Sequence[str | None]) -> pa.StringArray:
        if not others:
            return joined
        is_other = self._order[places] >= len(self._joined.first)
        at = np.empty(len(places), np.int64)
        at[~is_other] = np.arange(len(joined))
        at[is_other] = np.arange(len(joined), len(places))
        return pa.concat_arrays([joined, _texts(others)]).take(pa.array(at))


def _texts(texts: Sequence[str | None]) -> pa.StringArray:
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        # A lone UTF-16 surrogate, possible in JSON but not in UTF-8.
        return pa.array([text and text.encode(errors="replace").decode() for text in texts], pa.string())
