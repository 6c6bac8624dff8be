"""The pass over a log: looks only at marked lines and at stack traces."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from chalicelib.explanation.evidence import CONTEXT_BYTES, TAIL_LINES, Evidence, Note
from chalicelib.explanation.json_lines import text_of_json
from chalicelib.explanation.marks import CAUSE, EXIT, LINK, TRACE, FrameSearch, find_marks
from chalicelib.explanation.texts import INFO, PLAIN, quick_level
from chalicelib.explanation.traces import TraceReader, is_exceptional
from chalicelib.explanation.wrappers import EXIT as EXIT_REPORT

_BACK_LINES = 8
"""Lines that are searched for the one before, over empty ones."""
_DETAIL_LINES = 3
_ANNOUNCES = re.compile(
    rb"(?:[A-Z][a-z]+ Error in [a-z_]+ [^\n]{1,400}\)|What went wrong:|^Msg \d+, Level \d+[^\n]{0,200}|SQL compilation error:|panicked at [^\n]{1,400}:"
    rb"|(?:[Ee]rror|ERROR|[Ff]ailures?|[Ee]xception|[Ff]ailed|because|[Rr]eason)[^:\n]{0,100}:)\s*$"
)
"""A line whose details are on the next one."""
_ENDS = (b":", b")", b"\r", b" ", b"m")


class LogReader:
    """Where the pass is: ``line`` and ``progress``, the numbers of lines and of ordinary lines so far; and what it remembers."""

    def __init__(self, line: int = 0) -> None:
        self.line, self.progress, self.detail, self.detail_level = line, 0, 0, PLAIN
        self.evidence = Evidence()
        self.traces = TraceReader(self.evidence)

    def read(self, block: bytes) -> None:
        """Read complete lines."""
        _BlockReader(self, block, self.line).read()
        self.line += block.count(b"\n")
        self._remember_tail(block)

    def _remember_tail(self, block: bytes) -> None:
        tail: list[Note] = []
        end, line = len(block) - 1, self.line
        while end >= 0 and len(tail) < TAIL_LINES:
            start = block.rfind(b"\n", 0, end) + 1
            line -= 1
            if (raw := block[start:end]).strip():
                tail.append(Note.of(line, raw, self.progress))
            end = start - 1
        self.evidence.tail = [*self.evidence.tail, *reversed(tail)][-TAIL_LINES:]

    def state(self) -> dict[str, Any]:
        return {
            "at": [self.line, self.progress, self.detail, self.detail_level],
            "evidence": self.evidence.state(),
            "trace": self.traces.state(),
        }

    @classmethod
    def resumed(cls, state: Mapping[str, Any]) -> LogReader:
        self = cls()
        self.line, self.progress, self.detail, self.detail_level = map(int, state["at"])
        self.evidence = Evidence.resumed(state["evidence"])
        self.traces = TraceReader(self.evidence)
        self.traces.resume(state["trace"])
        return self


class _BlockReader:
    """Reads one block. ``step``: 0 for the text of a record in JSON, whose lines all have the record's number."""

    def __init__(self, reader: LogReader, block: bytes, line: int, step: int = 1) -> None:
        self._reader, self._block, self._line, self._step = reader, block, line, step
        self._at = 0
        self._frames = FrameSearch(block)

    def read(self) -> None:
        block, traces, reader = self._block, self._reader.traces, self._reader
        marks = find_marks(block)
        order, index = sorted(marks), 0
        while True:
            if reader.detail:
                self._read_details(marks)
            if traces.is_open:
                self._read_trace()
            while index < len(order) and order[index] < self._at:
                index += 1
            mark = order[index] if index < len(order) else len(block)
            frame, before = self._frames.find(self._at)
            if 0 <= frame <= mark and frame < len(block):
                self._go_to(frame)
                self._begin_java(before)
            elif mark < len(block):
                self._go_to(mark)
                self._look(marks[mark])
            else:
                break
        self._go_to(len(block))

    def _go_to(self, at: int) -> None:
        """Pass ordinary lines."""
        lines = self._pass(at)
        self._reader.progress += lines

    def _pass(self, at: int) -> int:
        lines = self._step * self._block.count(b"\n", self._at, at)
        self._line, self._at = self._line + lines, at
        return lines

    @property
    def _end(self) -> int:
        return self._block.index(b"\n", self._at)

    def _next(self) -> None:
        self._line, self._at = self._line + self._step, self._end + 1

    def _read_details(self, marks: Mapping[int, int]) -> None:
        """The line that the one before announced."""
        reader = self._reader
        while reader.detail and self._at < len(self._block):
            raw = self._block[self._at : self._end]
            reader.detail -= 1
            if raw.strip():
                reader.detail = 0
                if marks.get(self._at, 0) & (TRACE | CAUSE) or self._frames.find(self._at)[0] == self._at:
                    return
                if is_exceptional(raw):
                    reader.traces.note_exception(self._note(raw), self._before(CONTEXT_BYTES))
                reader.evidence.add(self._note(raw, "detail"), reader.detail_level)
            self._next()

    def _read_trace(self) -> None:
        traces, block, reader = self._reader.traces, self._block, self._reader
        while traces.is_open and self._at < len(block):
            if (skip := traces.skip) is not None and (found := skip.match(block, self._at)) is not None and found.end() > self._at:
                traces.see_frames(found[0])
                self._pass(found.end())
                continue
            if not traces.take(self._line, block[self._at : self._end], reader.progress):
                return
            self._next()

    def _begin_java(self, before: int) -> None:
        prefix = self._block[self._at : self._at + before]
        previous = next(self._back(1), None)
        note = None if previous is None else Note.of(previous[0], previous[1], self._reader.progress)
        self._reader.traces.begin_java(self._line, prefix, self._reader.progress, note)
        self._next()

    def _look(self, kinds: int) -> None:
        """A line with a mark."""
        reader, raw = self._reader, self._block[self._at : self._end]
        if self._step and raw.lstrip()[:1] == b"{" and (text := text_of_json(raw)) is not None:
            _BlockReader(reader, text, self._line, 0).read()
            reader.traces.close()
        elif kinds & TRACE:
            reader.traces.begin_python(self._line, raw, reader.progress, self._before(CONTEXT_BYTES))
        elif kinds & LINK:
            reader.traces.connect(self._line, raw)
        else:
            self._look_at_text(raw, kinds)
        self._next()

    def _look_at_text(self, raw: bytes, kinds: int) -> None:
        reader = self._reader
        level = quick_level(raw)
        if kinds & CAUSE and reader.traces.add_cause(self._line, raw, reader.progress, self._before(CONTEXT_BYTES)):
            return
        note = self._note(raw)
        if is_exceptional(raw):
            reader.traces.note_exception(note, note if level != PLAIN else self._before(CONTEXT_BYTES))
        if kinds & EXIT and EXIT_REPORT.search(raw):
            for line, output in self._back(2):
                reader.evidence.add(Note.of(line, output, reader.progress, "output"), PLAIN)
        reader.evidence.add(note, level)
        reader.progress += level == INFO
        if raw.endswith(_ENDS) and _ANNOUNCES.search(raw, max(0, len(raw) - 600)):
            reader.detail, reader.detail_level = _DETAIL_LINES, level

    def _note(self, raw: bytes, role: str = "") -> Note:
        return Note.of(self._line, raw, self._reader.progress, role)

    def _before(self, limit: int) -> Note:
        for line, raw in self._back(1):
            return Note.of(line, raw, self._reader.progress, limit=limit)
        return Note(self._line, b"", self._reader.progress)

    def _back(self, count: int) -> Iterator[tuple[int, bytes]]:
        """The last lines with text before this one, the nearest first, at most eight lines before."""
        if not self._step:
            return
        line, end = self._line, self._at - 1
        while end >= 0 and self._line - line < _BACK_LINES:
            start = self._block.rfind(b"\n", 0, end) + 1
            line -= 1
            if (raw := self._block[start:end]).strip():
                yield line, raw
                count -= 1
                if not count:
                    return
            end = start - 1
        if end < 0:
            earlier = [note for note in self._reader.evidence.tail if self._line - note.line <= _BACK_LINES]
            yield from ((note.line, note.raw) for note in reversed(earlier[-count:]))
