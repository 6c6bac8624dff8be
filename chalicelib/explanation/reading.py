"""The pass over a log: looks only at marked lines and at stack traces."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chalicelib.explanation.evidence import CONTEXT_BYTES, NOTE_BYTES, TAIL_LINES, Evidence, Note
from chalicelib.explanation.json_lines import text_of_containers, text_of_json
from chalicelib.explanation.marks import CAUSE, EXIT, LINK, TRACE, FrameSearch, find_marks
from chalicelib.explanation.texts import COMPANION, INFO, LEVEL_NAMES, PLAIN, WARNINGS, clean_bytes, message_of, quick_level
from chalicelib.explanation.traces import HEADER, TraceReader, is_exceptional
from chalicelib.explanation.wrappers import EXIT_REPORTS

_BACK_LINES = 8
"""Lines that are searched for the one before, over empty ones."""
_DETAIL_LINES = 4
_STATEMENT_LINES, _PREFIX_BYTES = 100, 300
"""Lines of a statement in the log of Postgres, and bytes before its first line's text."""
_ANNOUNCES = re.compile(
    rb"(?:(?:[A-Z][a-z]+ Error|Failure) in [a-z_]+ [^\n]{1,400}\)|(?:^| - )(?:Database|Compilation|Runtime|Parsing"
    rb"|Dependency) Error| -(?: \x1b\[[0-9;]*m)*|What went wrong:|\bMsg \d+, Level \d+[^\n]{0,200}|ERROR in \./[^\n]{1,200}|SQL compilation error:"
    rb"|\berror: \|-?|\| FAIL \||[^.\s] FAIL|^CMake Error at [^\n]{1,200}:|panicked at [^\n]{1,400}:"
    rb"|terminate called after throwing an instance of [^\n]{1,200}|--- FAIL: [^\n]{1,200}\)"
    rb"|(?:Error|Exception): ?[\[{(]|\xe2\x95\xad\xe2\x94\x80 Error \xe2\x94\x80[^\n]*|\[\S{1,200}:\d+\]:|Failure/Error: [^\n]{1,200}"
    rb"|(?:[Ee]rror|ERROR|[Ff]ailures?|[Ee]xception|[Ff]ailed|because|[Rr]eason)[^:\n]{0,100}:)$"
)
"""The end of a line whose details are on the next one."""
_R_PLACE = re.compile(rb"(?:\d+: )?In [^\n]{1,150} :$|Warning messages?:$")
"""The line before a warning of R."""
_ANNOUNCE_BYTES = 300
TESTED = len(LEVEL_NAMES)
"""In place of the level of a line whose details a failed test reports."""
_SENTENCE = re.compile(rb"[ \t>|*-]*+(?!ERROR|INFO|PASS: )[A-Za-z]{2}")
_WORD = re.compile(rb"[A-Za-z\xc3-\xe1\xe3-\xf4]")
"""A letter. No lines and marks of Unicode, whose first byte is 0xe2."""
_OUTPUT_LINES = 3
"""Lines before the report of an exit code."""
_SECTION = re.compile(
    rb"section_(?:start|end):\d|Cleaning up project directory|Uploading artifacts|: no matching files\. Ensure|ERROR: No files to upload"
    rb"|Running after_script|(?:Creating|Saving) cache|Post job cleanup"
)
"""Lines of GitLab's runner and GitHub's between the output of a command and the report of its exit code."""
_OTHER_FRAME = re.compile(
    rb"\s++(?:at (?:(?:\./|/)\S+:\d+|[^\n(]{1,200}+\(\S{1,300}:\d+\)$)|\d+: [\w<](?:[\w<> ]*+::)+|>? *+\d++ \| )"
)
"""A frame of a backtrace of Rust or of Jest, or a line of an excerpt of source code."""
_TEST = re.compile(rb" *(?:\xe2\x97\x8f \S[^\n]{0,200} \xe2\x80\xba |FAIL +\S+ > )")
"""The name of a failed test, of Jest and of Vitest."""
_GO_LOG = re.compile(rb" +\w+_test\.go:\d+: [^\n]{0,200}\b(?:want|got|expected|unexpected|error|fail|should|not)")
"""What a test of Go reports; before its failure with option -v, otherwise after it."""
_GO_FRAMES = re.compile(
    rb"(?:(?:\[[^\]\n]{1,100}\] ?|[a-z][\w.-]{1,60} *\| ?)?"
    rb"(?:\t\S{1,300}\.go:\d+[^\n]{0,40}|created by [^\n]{1,300}|[\w./*()\[\]-]{1,300}\([^\n]{0,400}\)|goroutine \d+ \[[^\n]{1,200}:|)\r?\n)+"
)
"""The goroutines after a panic, behind the prefix of a container."""
_LETTERS = re.compile(r"[^\W\d_]{2}")
_TAIL_PIECE = 1024
"""Bytes in which the end of the last line with text is sought at once."""
_MAX_CREDIT = 60_000
_COST, _LINE_COST, _TRACE_COST, _RECORD_COST = 120, 40, 300, 400
"""Bytes of the log that pay for a look at a marked line or at one that another announced, at a further line of a trace, at the start of a trace,
and at a record in JSON with a trace. So a log of nothing but short marked lines costs little more than another one: after many of them, some are
not looked at."""
_RECORD = re.compile(
    rb"\s*+(?:(?:\d{4}-\d\d-\d\d[T ][\d:.,]{8,30}(?:Z|[+-]\d\d:?\d\d)? (?:std(?:out|err) [FP] )?|[a-z][\w.-]{1,60} *\| "
    rb"|[A-Z][a-z]{2} [ \d]\d [\d:]{8} \S{1,100} \S{1,100}: )\s*+)?(?=\{)"
)
"""What precedes a record in JSON: nothing, or the prefix of a container."""
_LOGGER, _LOGGER_BYTES = (
    re.compile(rb'"(?:logger|logger_name|name|component|SourceContext|log\.logger)": ?"([A-Za-z_][\w.]{1,60})"'),
    1000,
)
"""The logger of a record in JSON."""
_ENDS = (
    b":",
    b")",
    b"\r",
    b" ",
    b"-",
    b"Error",
    b"'",
    b"\x1b[0m",
    b";1m",
    b"1m",
    b"|",
    b" FAIL",
    b"[",
    b"{",
    b"(",
    b"\xe2\x95\xae",
)


def is_warned(raw: bytes, before: bytes) -> bool:
    """Whether a line is the text of a warning of R."""
    return raw.startswith(b"  ") and _R_PLACE.match(before) is not None


def _reports_exit(raw: bytes) -> bool:
    return any(map(raw.lower().__contains__, EXIT_REPORTS))


def _announces(raw: bytes) -> bool:
    raw = raw.rstrip()
    return _ANNOUNCES.search(raw, max(0, len(raw) - _ANNOUNCE_BYTES)) is not None


def _accompanies(block: bytes, at: int, tail: Sequence[Note]) -> bool:
    """Whether a line is a further one of a statement, or whatever else Postgres adds to an error: they begin with a tab. ``tail``: the
    lines before the block."""
    for _ in range(_STATEMENT_LINES):
        if block[at : at + 1] != b"\t":
            return False
        if not at:
            return bool(tail) and COMPANION.search(tail[-1].raw, 0, _PREFIX_BYTES) is not None
        end, at = at, block.rfind(b"\n", 0, at - 1) + 1
        if COMPANION.search(block, at, min(end, at + _PREFIX_BYTES)):
            return True
    return False


def _is_escaped(raw: bytes) -> bool:
    """Whether a traceback is in one line, such as in JSON."""
    return (at := raw.find(HEADER)) >= 0 and raw.find(b"\\n", at, at + 60) >= 0


class LogReader:
    """Where the pass is: ``line`` and ``progress``, the numbers of lines and of ordinary lines so far; and what it remembers."""

    def __init__(self, line: int = 0, evidence: Evidence | None = None) -> None:
        self.line, self.progress, self.detail, self.detail_level = line, 0, 0, PLAIN
        self.byte, self.looked, self.credit = 0, 0, _MAX_CREDIT
        self.is_in_goroutine = False
        self.evidence = Evidence() if evidence is None else evidence
        self.traces = TraceReader(self.evidence)

    def read(self, block: bytes) -> None:
        """Read complete lines."""
        if b'{"log":' in block or b'"MESSAGE":[' in block or b'"MESSAGE" : [' in block:
            block = text_of_containers(block)
        _BlockReader(self, block, self.line).read()
        self.line += block.count(b"\n")
        self.byte += len(block)
        self._remember_tail(block)
        if (at := block.rfind(b"WARN")) >= 0:
            start = block.rfind(b"\n", 0, at) + 1
            line = self.line - block.count(b"\n", start)
            self.evidence.last_warning = Note.of(line, block[start : block.index(b"\n", at)])

    def _remember_tail(self, block: bytes) -> None:
        tail: list[Note] = []
        line, end = self.line, len(block)
        while len(tail) < TAIL_LINES and end > 0:
            last = block[max(0, end - _TAIL_PIECE) : end]
            text = last.rstrip()
            line -= last.count(b"\n", len(text))
            end -= len(last) - len(text)
            if text:
                start = block.rfind(b"\n", 0, end) + 1
                if not _accompanies(block, start, self.evidence.tail):
                    tail.append(Note.of(line, block[start : block.index(b"\n", start)]))
                end = start
        self.evidence.add_tail(reversed(tail))

    def state(self) -> dict[str, Any]:
        return {
            "at": [self.line, self.progress, self.detail, self.detail_level, self.byte, self.looked, self.credit],
            "goroutine": self.is_in_goroutine,
            "evidence": self.evidence.state(),
            "trace": self.traces.state(),
        }

    @classmethod
    def resumed(cls, state: Mapping[str, Any]) -> LogReader:
        self = cls()
        self.line, self.progress, self.detail, self.detail_level, self.byte, self.looked, self.credit = map(int, state["at"])
        self.is_in_goroutine = bool(state["goroutine"])
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
        block, traces, frames, reader = self._block, self._reader.traces, self._frames, self._reader
        marks, size = find_marks(block), len(block)
        for mark in (*sorted(marks), size):
            while mark >= self._at:
                if reader.detail:
                    self._read_details(marks)
                if traces.mode:
                    self._read_trace()
                if (frame := frames.start if frames.start >= self._at else frames.find(self._at)) > mark or frame == size:
                    break
                self._go_to(frame)
                if self._at > frame:
                    continue
                if self._may_look(_TRACE_COST):
                    self._begin_java(frames.indent)
                else:
                    self._next()
            if self._at <= mark < size:
                self._go_to(mark)
                if self._at > mark:
                    continue
                kinds = marks[mark]
                if self._may_look(_TRACE_COST if kinds & TRACE else _COST):
                    self._look(kinds)
                else:
                    self._next()
        self._go_to(size)

    def _may_look(self, cost: int) -> bool:
        """Whether the bytes since the last look pay for another one."""
        reader = self._reader
        if self._step:
            byte = reader.byte + self._at
            credit = reader.credit + byte - reader.looked
            reader.looked = byte
            reader.credit = credit if credit < _MAX_CREDIT else _MAX_CREDIT
        if reader.credit < 0:
            return False
        reader.credit -= cost
        return True

    def _go_to(self, at: int) -> None:
        """Pass ordinary lines."""
        if self._reader.is_in_goroutine:
            self._pass_goroutine()
        if at > self._at:
            self._reader.progress += self._pass(at)

    def _pass_goroutine(self) -> None:
        if (frames := _GO_FRAMES.match(self._block, self._at)) is not None:
            self._pass(frames.end())
        self._reader.is_in_goroutine = self._at == len(self._block)

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
            if not self._may_look(_COST):
                reader.detail = 0
                return
            raw = self._block[self._at : self._end]
            reader.detail -= 1
            if _SENTENCE.match(raw) or b" != " in raw or _LETTERS.search(message_of(raw[:NOTE_BYTES])):
                reader.detail = 0
                kinds = marks.get(self._at, 0)
                if kinds & (TRACE | CAUSE) or (kinds & EXIT and _reports_exit(raw)) or self._frames.find(self._at) == self._at:
                    return
                if is_exceptional(raw):
                    reader.traces.note_exception(self._note(raw), self._before())
                if _announces(raw):
                    reader.detail = _DETAIL_LINES
                else:
                    reader.evidence.add(self._note(raw, "test" if reader.detail_level == TESTED else "detail"), reader.detail_level)
            self._next()

    def _read_trace(self) -> None:
        traces, block, reader = self._reader.traces, self._block, self._reader
        while traces.mode and self._at < len(block):
            if (skip := traces.skip) is not None and (found := skip.match(block, self._at)) is not None and found.end() > self._at:
                self._pass(found.end())
                traces.see_frames(found[0], self._line)
                continue
            if not self._may_look(_LINE_COST):
                traces.close()
                return
            raw = block[self._at : self._end]
            if not traces.take(self._line, raw, reader.progress):
                return
            if not traces.mode and raw.endswith(_ENDS) and _announces(raw):
                reader.detail, reader.detail_level = _DETAIL_LINES, PLAIN
            self._next()

    def _begin_java(self, before: int) -> None:
        prefix = self._block[self._at : self._at + before]
        self._reader.traces.begin_java(self._line, prefix, self._reader.progress, self._previous(NOTE_BYTES))
        self._next()

    def _look(self, kinds: int) -> None:
        """A line with a mark."""
        end = self._end
        raw = self._block[self._at : end]
        record = _RECORD.match(raw) if self._step and raw.find(b"{", 0, 200) >= 0 else None
        if record is not None and (text := text_of_json(raw[record.end() :])) is not None:
            self._look_at_record(raw[: record.end()], text, kinds)
        elif kinds & (TRACE | LINK) and not _is_escaped(raw):
            self._look_at_trace(raw, kinds)
        else:
            self._look_at_text(raw, kinds)
        self._line, self._at = self._line + self._step, end + 1
        if b"panic: " in raw:
            self._reader.is_in_goroutine = True

    def _look_at_trace(self, raw: bytes, kinds: int) -> None:
        reader = self._reader
        if kinds & TRACE:
            reader.traces.begin_python(self._line, raw, reader.progress, self._before())
        else:
            reader.traces.connect(self._line, raw)

    def _look_at_record(self, prefix: bytes, text: bytes, kinds: int) -> None:
        """The text of a record in JSON."""
        if text.count(b"\n") == 1:
            logger = _LOGGER.search(self._block, self._at, self._at + _LOGGER_BYTES)
            level, space, message = text[:-1].partition(b" ")
            if logger is not None and level.isupper() and space:
                text = b"%b:%b:%b\n" % (level, logger[1], message)
            self._look_at_text(prefix + text[:-1], kinds & EXIT)
            return
        reader = self._reader
        reader.credit -= _RECORD_COST
        _BlockReader(reader, text, self._line, 0).read()
        reader.traces.close()
        first, second, *_ = text.split(b"\n")
        if _WORD.match(second) and HEADER not in second:
            reader.evidence.add(self._note(second, "detail"), quick_level(first))

    def _look_at_text(self, raw: bytes, kinds: int) -> None:
        reader = self._reader
        raw = clean_bytes(raw) if b"\r" in raw else raw
        if kinds & CAUSE and reader.traces.add_cause(self._line, raw, reader.progress, self._before()):
            return
        if raw[:1] == b"\t" and _accompanies(self._block, self._at, reader.evidence.tail):
            return
        level, note = quick_level(raw), Note.of(self._line, raw, reader.progress)
        if level == PLAIN and _OTHER_FRAME.match(raw):
            return
        if level == PLAIN and raw[:1] == b" " and is_warned(raw, self._before().raw):
            level = WARNINGS
        if is_exceptional(raw):
            before = note if level != PLAIN else self._before()
            reader.traces.note_exception(note, before)
            note = note._replace(role="test") if _TEST.match(before.raw) else note
        note = note._replace(role="test") if raw.startswith(b"E   ") or _GO_LOG.match(raw) else note
        if kinds & EXIT and _reports_exit(raw):
            for line, output in self._back(_OUTPUT_LINES):
                if line > reader.traces.end:
                    reader.evidence.add(Note.of(line, output, reader.progress, "output"), PLAIN)
        reader.evidence.add(note, level)
        if level == INFO:
            reader.progress += 1
        is_test = b"Failure/Error: " in raw[:40] or raw.rstrip().endswith((b" error: |-", b" error: |"))
        if (raw.endswith(_ENDS) or b"Msg " in raw[:80] or is_test) and _announces(raw):
            reader.detail, reader.detail_level = _DETAIL_LINES, TESTED if is_test else level

    def _note(self, raw: bytes, role: str = "") -> Note:
        return Note.of(self._line, raw, self._reader.progress, role)

    def _before(self) -> Note:
        return self._previous(CONTEXT_BYTES) or Note(self._line, b"", self._reader.progress)

    def _previous(self, limit: int) -> Note | None:
        if not self._step and self._at:
            return Note.of(self._line, self._block[: self._block.index(b"\n")], self._reader.progress, limit=limit)
        return next((Note.of(line, raw, self._reader.progress, limit=limit) for line, raw in self._back(1)), None)

    def _back(self, count: int) -> Iterator[tuple[int, bytes]]:
        """The last lines with text before this one, the nearest first, at most eight lines before."""
        if not self._step:
            return
        line, end = self._line, self._at - 1
        while end >= 0 and self._line - line < _BACK_LINES:
            start = self._block.rfind(b"\n", 0, end) + 1
            line -= 1
            if _WORD.search(raw := self._block[start:end]) and not _SECTION.search(raw):
                yield line, raw
                count -= 1
                if not count:
                    return
            end = start - 1
        if end < 0:
            earlier = [
                note
                for note in self._reader.evidence.tail
                if self._line - note.line <= _BACK_LINES and _WORD.search(note.raw) and not _SECTION.search(note.raw)
            ]
            yield from ((note.line, note.raw) for note in reversed(earlier[-count:]))
