"""Parses the events of text files: their times are read from any known layout that has them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from logging import Formatter, LogRecord

from chalicelib.lines.events import events
from chalicelib.lines.format_detection import detect_format
from chalicelib.lines.timestamps import TimestampParser
from chalicelib.pipelines.files.records import FileEvent, time_of

_SAMPLE_LINES = 200
_SAMPLE_BYTES = 256 * 1024


class LineFormatter(Formatter):
    """The default layout of text: time (UTC, ms), level, logger, message."""

    def __init__(self) -> None:
        super().__init__("%(runlake_moment)s %(levelname)s %(name)s - %(message)s")

    def formatMessage(self, record: LogRecord) -> str:
        """See ``logging``."""
        moment = datetime.fromtimestamp(time_of(record) / 1000, UTC)
        record.runlake_moment = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return super().formatMessage(record)


def text_events(lines: Iterable[bytes], from_ms: int) -> Iterator[FileEvent]:
    """Lines that belong together are one event. An event without a time has that of the event before, the first one the file's."""
    ahead = iter(lines)
    sample: list[bytes] = []
    size = 0
    for line in ahead:
        sample.append(line)
        size += len(line)
        if len(sample) == _SAMPLE_LINES or size >= _SAMPLE_BYTES:
            break
    format_ = detect_format(sample)
    time_ms = from_ms
    for event in events(enumerate(itertools.chain(sample, ahead)), format_, TimestampParser(UTC, from_ms * 1000)):
        parsed = event.parsed
        if parsed.timestamp is not None:
            time_ms = parsed.timestamp // 1000
        yield FileEvent(time_ms, parsed.level or "", parsed.logger or "", parsed.message)
