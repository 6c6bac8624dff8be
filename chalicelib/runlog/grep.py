"""Searches the lines of a run: forward from a line, in large pieces, within the time and byte limits of a request.

Each scanned byte is read once: O(scanned), not O(log). The result contains the line where the next request continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from chalicelib.deadline import Deadline
from chalicelib.errors import InvalidInputError
from chalicelib.ports import Clock, Run
from chalicelib.response_size import PAGE_BYTES, document_bytes
from chalicelib.runlog.conflicts import retry_on_change
from chalicelib.runlog.matching import Matcher, SlowPatternError, TimeUpError, matcher_of
from chalicelib.runlog.reader import Reader, Scan

SCAN_S = 5.0
SCAN_BYTES = 128 * 1024 * 1024
"""Approximate scan limit of a request, which scans at least one line."""
MAX_MATCHES = 1000
TEXT_CHARS = 2000
MAX_SPANS = 100
_BEFORE_CHARS = 500
_FRAME_BYTES = 60
"""JSON field names of a match in the response."""
_LONGEST_BYTES = 64 * 1024 * 1024
"""Searched prefix of a line. An append cannot store a longer one."""


@dataclass(frozen=True, slots=True)
class GrepRequest:
    """``query``: a text, or a pattern if ``is_pattern``. ``invert``: search the lines without it. ``after``: the first line to search."""

    query: str
    is_pattern: bool = False
    ignore_case: bool = False
    invert: bool = False
    after: int = 0
    limit: int = 100


@dataclass(frozen=True, slots=True)
class Match:
    """A matching line. ``text``: the line, or an excerpt around its first match; ``spans``: (start, end) of the matches, in characters of
    ``text``."""

    line: int
    text: str
    spans: list[tuple[int, int]]


@dataclass(slots=True)
class GrepResult:
    """``line``: the first line that was not searched; equals ``total`` at the end of the log."""

    line: int
    limit: int
    matches: list[Match] = field(default_factory=list)
    scanned_lines: int = 0
    scanned_bytes: int = 0
    total: int = 0
    _answer_bytes: int = 0

    @property
    def after(self) -> int | None:
        """The line where the next request continues; None at the end of the log."""
        return self.line if self.line < self.total else None

    @property
    def is_full(self) -> bool:
        """Whether no further match fits."""
        return len(self.matches) >= self.limit or self._answer_bytes >= PAGE_BYTES

    def advance(self, block: bytes, start: int, end: int) -> None:
        """Count the lines of ``block[start:end]`` as searched."""
        lines = block.count(b"\n", start, end)
        self.line += lines
        self.scanned_lines += lines
        self.scanned_bytes += end - start

    def add_match(self, matcher: Matcher, line: bytes) -> None:
        """Add the current line as a match."""
        text, spans = _excerpt(matcher, line.decode(errors="replace"))
        self.matches.append(Match(self.line, text, spans))
        self._answer_bytes += document_bytes([self.line, text, spans]) + _FRAME_BYTES


class Grep:
    """Searches running and ended runs."""

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self._reader, self._clock = reader, clock

    def find(self, run: Run, request: GrepRequest) -> GrepResult:
        """Matches within ``SCAN_S`` and ``SCAN_BYTES``. Requests: one query for the first line; then a GET per 5 MiB of an artifact, and per
        segment. Raises InvalidInputError (an invalid pattern, or a slow one), UnavailableError."""
        matcher = matcher_of(request.query, is_pattern=request.is_pattern, ignore_case=request.ignore_case, invert=request.invert)
        deadline, result = Deadline(self._clock, SCAN_S), GrepResult(request.after, request.limit)

        def attempt() -> GrepResult:
            scan = self._reader.scan(run, result.line)
            result.total = scan.end.line
            self._look_through(scan, matcher, deadline, result)
            return result

        return retry_on_change(attempt)

    @staticmethod
    def _look_through(scan: Scan, matcher: Matcher, deadline: Deadline, result: GrepResult) -> None:
        for block in line_blocks(scan):
            is_late = deadline.remaining_s() <= 0 or result.scanned_bytes >= SCAN_BYTES
            if (result.scanned_lines and is_late) or not _look_at(block, matcher, deadline, result):
                return


def _look_at(block: bytes, matcher: Matcher, deadline: Deadline, result: GrepResult) -> bool:
    """Search a block; whether the search continues with the next one."""
    at = 0
    try:
        for start, end in matcher.lines(block, deadline):
            result.advance(block, at, start)
            result.add_match(matcher, block[start:end])
            at = start
            if result.is_full:
                result.advance(block, start, end + 1)
                return False
    except TimeUpError as up:
        result.advance(block, at, up.at)
        return False
    except SlowPatternError as slow:
        line = result.line + block.count(b"\n", at, slow.at)
        raise InvalidInputError(f"the pattern takes too long: make it simpler line={line}") from slow
    result.advance(block, at, len(block))
    return True


def line_blocks(scan: Scan) -> Iterator[bytes]:
    """The log from a scan's line on, in blocks of complete lines."""
    rest, skip = b"", scan.skip
    for chunk in scan.chunks:
        data = rest + chunk
        cut = data.rfind(b"\n") + 1
        rest, block = data[cut:][:_LONGEST_BYTES], data[:cut]
        lines = block.count(b"\n") if skip else 0
        if skip >= lines > 0:
            skip -= lines
            continue
        if skip and block:
            block, skip = block.split(b"\n", skip)[-1], 0
        if block:
            yield block


def _excerpt(matcher: Matcher, line: str) -> tuple[str, list[tuple[int, int]]]:
    """A line, or the part of a long line around its first match, and the matches in it."""
    first = next(matcher.spans(line), (0, 0))[0] if len(line) > TEXT_CHARS else 0
    start = max(0, min(first - _BEFORE_CHARS, len(line) - TEXT_CHARS))
    text = line[start : start + TEXT_CHARS]
    spans = ((begin, end) for begin, end in matcher.spans(text) if end > begin)
    return text, list(islice(spans, MAX_SPANS))
