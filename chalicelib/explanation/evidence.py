"""What a pass over a log remembers: a bounded number of lines and of stack traces."""

from __future__ import annotations

import re
from base64 import b85decode, b85encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, Self

from chalicelib.explanation.texts import LEVEL_NAMES, WARNINGS, clean_bytes, quick_level
from chalicelib.explanation.wrappers import TRIVIAL, VAGUE_EXCEPTION, WEAK_CAUSE, WRAPPING_EXCEPTION

NOTE_BYTES, CONTEXT_BYTES = 400, 200
_CLUSTER_LINES = 60
"""Ordinary lines after which the next failure is a new one."""
DIRECT, DURING, NESTED = "direct", "during", "nested"
_IGNORED = (b"Exception ignored in", b"atexit", b"Logging error", b"never retrieved", b"future: <", b"hutdown")
PYTHON, JAVA, WORKER = "python", "java", "worker"


class Note(NamedTuple):
    """A line, shortened. ``progress``: the number of ordinary lines before it. ``role``: "" for a line by itself, "detail" if the line before
    announces it, "output" if the report of an exit code follows it, "test" if a failed test reports it."""

    line: int
    raw: bytes
    progress: int = 0
    role: str = ""

    @classmethod
    def of(cls, line: int, raw: bytes, progress: int = 0, role: str = "", limit: int = NOTE_BYTES) -> Self:
        return cls(line, clean_bytes(raw)[:limit], progress, role)

    def state(self) -> list[Any]:
        return [self.line, b85encode(self.raw).decode(), self.progress, self.role]

    @classmethod
    def resumed(cls, state: Any) -> Self:
        return cls(int(state[0]), b85decode(state[1]), int(state[2]), str(state[3]))

    @property
    def text(self) -> str:
        return self.raw.decode(errors="replace")

    @property
    def wraps(self) -> bool:
        """Whether it is an exception that only carries another one. The answer is remembered: the root of a long chain is asked at each
        of its causes."""
        return _wraps(self.raw)


@lru_cache(maxsize=64)
def _wraps(raw: bytes) -> bool:
    return WRAPPING_EXCEPTION.match(raw.decode(errors="replace")) is not None


_THREAD = re.compile(r'Exception in thread "[^"]{0,200}" ')


def _says_less(cause: str, exception: str) -> bool:
    """Whether the cause of an exception of Java only names a class, where the exception says what happened."""
    if WEAK_CAUSE.match(cause):
        return True
    named = exception[thread.end() :] if (thread := _THREAD.match(exception)) else exception
    return ":" not in cause and ": " in named and VAGUE_EXCEPTION.match(named) is None


@dataclass(slots=True)
class Incident:
    """A stack trace with its chain of exceptions. ``before``: the line that announces it; ``root``: the cause so far; ``last``: the exception
    that was not handled, Python's last and Java's first; ``end``: the last line of an exception."""

    before: Note
    kind: str
    root: Note | None = None
    last: Note | None = None
    end: int = 0
    progress: int = 0

    @property
    def is_consequence(self) -> bool:
        """Whether the line before says that the trace follows from another failure."""
        return any(map(self.before.raw.__contains__, _IGNORED))

    def add_python(self, note: Note, link: str) -> None:
        """The exception of the next traceback of the chain."""
        root = self.root
        is_better = root is None or root.wraps
        if not is_better and root is not None:
            is_trivial = link == DURING and TRIVIAL.match(root.text) is not None
            is_empty = ":" not in root.text and link == DIRECT
            is_better = is_trivial or is_empty or (link == NESTED and self.kind != PYTHON)
        if is_better and (root is None or not note.wraps or self.kind != PYTHON):
            self.root = note
        self._extend(note)

    def add_java(self, note: Note) -> None:
        """The next cause of the chain."""
        root = self.root
        if self.kind != WORKER and (root is None or root.wraps or not (note.wraps or _says_less(note.text, root.text))):
            self.root = note
        top = self.last
        self._extend(note)
        self.last = top or note

    def _extend(self, note: Note) -> None:
        self.last = note
        self.end, self.progress = note.line, note.progress

    def state(self) -> list[Any]:
        parts = (self.before, self.root, self.last)
        return [self.kind, self.end, self.progress, *(part and part.state() for part in parts)]

    @classmethod
    def resumed(cls, state: Any) -> Self:
        before, root, last = (part and Note.resumed(part) for part in state[3:])
        return cls(before, str(state[0]), root, last, int(state[1]), int(state[2]))


@dataclass(slots=True)
class Pool:
    """The first notes since the last long stretch of ordinary lines, and the last ones."""

    firsts: int
    lasts: int
    first: list[Note] = field(default_factory=list)
    last: list[Note] = field(default_factory=list)

    def add(self, note: Note) -> None:
        last = self.last
        newest = last or self.first
        if newest and note.progress - newest[-1].progress >= _CLUSTER_LINES:
            last = self.last = [*self.first, *last][-self.lasts :]
            self.first = []
        if len(self.first) < self.firsts:
            self.first.append(note)
            return
        last.append(note)
        if len(last) > self.lasts:
            del last[0]

    def __iter__(self) -> Iterator[Note]:
        yield from self.first
        yield from self.last

    def state(self) -> list[Any]:
        return [[note.state() for note in notes] for notes in (self.first, self.last)]

    def resume(self, state: Any) -> None:
        self.first, self.last = ([Note.resumed(note) for note in notes] for notes in state)


MAX_INCIDENTS = 8
TAIL_LINES = 24
_FULL_LINES, _TAIL_BYTES = 8, 200
"""Of the last lines, so many are remembered as notes are, the others shorter."""


class Evidence:
    """Everything that is remembered, apart from what the current trace needs."""

    def __init__(self) -> None:
        self.pools = {
            "fatal": Pool(2, 3),
            "error": Pool(5, 7),
            "plain": Pool(4, 7),
            "info": Pool(0, 4),
            "warning": Pool(0, 2),
            "output": Pool(0, 5),
            "test": Pool(2, 2),
        }
        self.incidents: list[Incident] = []
        self.tail: list[Note] = []
        self.last_warning: Note | None = None

    def add(self, note: Note, level: int) -> None:
        """A line with words of a failure."""
        self.pools[note.role if note.role in ("output", "test") else LEVEL_NAMES[level]].add(note)

    def add_tail(self, notes: Iterable[Note]) -> None:
        """The last lines so far."""
        tail = [*self.tail, *notes][-TAIL_LINES:]
        for at, note in enumerate(tail[:-_FULL_LINES]):
            if len(note.raw) > _TAIL_BYTES:
                tail[at] = note._replace(raw=note.raw[:_TAIL_BYTES])
        self.tail = tail

    def forget(self, line: int) -> None:
        """Remove the note of a line that turns out to belong to a trace."""
        for pool in self.pools.values():
            for notes in (pool.first, pool.last):
                if notes and notes[-1].line == line:
                    del notes[-1]

    def begin(self, incident: Incident) -> Incident:
        """A new stack trace. Of too many, the oldest consequence is forgotten, or else the oldest."""
        if len(self.incidents) >= MAX_INCIDENTS:
            del self.incidents[next((at for at, each in enumerate(self.incidents) if each.is_consequence), 0)]
        self.incidents.append(incident)
        return incident

    def notes(self) -> Iterator[tuple[str, Note]]:
        """All notes with the name of their pool."""
        for name, pool in self.pools.items():
            for note in pool:
                yield name, note
        if self.last_warning is not None and quick_level(self.last_warning.raw) == WARNINGS:
            yield "warning", self.last_warning

    def state(self) -> dict[str, Any]:
        return {
            "pools": {name: pool.state() for name, pool in self.pools.items()},
            "incidents": [incident.state() for incident in self.incidents],
            "warning": self.last_warning and self.last_warning.state(),
            "tail": [note.state() for note in self.tail],
        }

    @classmethod
    def resumed(cls, state: Any) -> Self:
        self = cls()
        for name, pool in self.pools.items():
            pool.resume(state["pools"][name])
        self.incidents = [Incident.resumed(each) for each in state["incidents"]]
        self.last_warning = Note.resumed(state["warning"]) if state["warning"] else None
        self.tail = [Note.resumed(each) for each in state["tail"]]
        return self
