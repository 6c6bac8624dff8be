"""Follows stack traces line by line: chained tracebacks of Python, causes of Java, Python's workers within Spark's traces.

Lines of a trace may have a prefix, such as that of a container or of Airflow's records: what precedes the first line, compared without its
digits.
"""

from __future__ import annotations

import re
from base64 import b85decode, b85encode
from collections.abc import Mapping
from typing import Any

from chalicelib.explanation.evidence import CONTEXT_BYTES, DIRECT, DURING, JAVA, NESTED, PYTHON, WORKER, Evidence, Incident, Note
from chalicelib.explanation.texts import PLAIN, clean_bytes, message_of, quick_level
from chalicelib.explanation.wrappers import CLEANUP

HEADER = b"Traceback (most recent call last"
_SKIP = re.compile(rb"(?:[ \t\r](?! *+(?:\[cause\]|parent|original): )[^\n]*+\n|\n|[\]})]++[,;]?\r?\n)*+")
_EXCEPTION = re.compile(rb"(?!(?:INFO|DEBUG|WARNING|ERROR|CRITICAL)\b)[A-Za-z_][\w$]*(?:\.[\w$<>]+)*+(?::|\s*$)")
_JAVA_CAUSE = re.compile(rb"(?:Caused by|Wrapped by|Nested exception is): ?| *+\[cause\]: | *+(?:parent|original): (?=\w*Error: )")
_ART = re.compile(rb"\xe2[\x94\x95][\x80-\xbf]|[|+]")
"""Frames drawn around tracebacks, and of exception groups."""
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
CLEANED = "cleaned"
_MAX_PREFIX = 200
_NEAR, _CHAIN = 12, 200
"""Lines between the parts of a trace: the message of a cause; the message of an exception before the next traceback."""
_MESSAGE = 60
"""Lines of a message between an exception of Java and its frames, if the last of them names no exception."""
_TOLERANCE = 8
"""Lines of others within a traceback."""


def is_exceptional(raw: bytes) -> bool:
    """Whether a line may name an exception."""
    return b"xception" in raw or b"Error" in raw


def _comparable(prefix: bytes) -> bytes:
    return prefix.translate(_DIGITS) if len(prefix) <= _MAX_PREFIX else b""


class TraceReader:
    """The trace that is being read, and what the next one needs to know of the lines before it. ``mode``: the kind of the trace, empty
    if the next line does not belong to one."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self.mode, self._prefix, self._tolerance, self._link = "", b"", 0, ""
        self._frames_end = -1
        self._connected: tuple[str, int] | None = None
        self._exception: tuple[Note, Note] | None = None

    @property
    def end(self) -> int:
        """The last line of the last trace."""
        return max(self._frames_end - 1, self._current.end if self._current else -1)

    @property
    def skip(self) -> re.Pattern[bytes] | None:
        """Lines that need no look; None if each has to be looked at."""
        return None if self._prefix else _SKIP

    def note_exception(self, note: Note, before: Note) -> None:
        """A line that may be the first of a Java trace."""
        self._exception = note, before

    def connect(self, line: int, raw: bytes) -> None:
        """A sentence between two tracebacks."""
        if b"direct cause" in raw:
            self._connected = DIRECT, line
        elif b"During handling" in raw:
            self._connected = DURING, line

    def begin_python(self, line: int, raw: bytes, progress: int, before: Note) -> None:
        """The first line of a traceback."""
        prefix = raw[: raw.find(HEADER)]
        incident = self._current
        link = self._link_of(line, prefix)
        if link and incident is not None:
            self._link = link
            if incident.kind == JAVA:
                incident.kind = WORKER
        else:
            message = message_of(raw[: len(prefix) + len(HEADER)]).lstrip(" \t|+-\u2500\u256d")
            is_text = quick_level(prefix) != PLAIN or not message.startswith("Traceback")
            announced = Note.of(line, prefix, progress, limit=CONTEXT_BYTES) if is_text else before
            kind = WORKER if b"Exception" in prefix and b"Exception Group" not in prefix else PYTHON
            incident = self._evidence.begin(Incident(announced, kind, end=line, progress=progress))
            self._link = ""
        self._connected = None
        self.mode, self._tolerance = PYTHON, _TOLERANCE
        self._prefix = b"  | " if b"Exception Group" in prefix else _comparable(prefix)

    def _link_of(self, line: int, prefix: bytes) -> str:
        incident = self._current
        if incident is None:
            return ""
        if self._connected and line - self._connected[1] <= 3 and self._connected[1] - incident.end <= _CHAIN:
            return self._connected[0]
        is_near = line - incident.end <= _NEAR
        if incident.end == line and self.mode == JAVA:
            return NESTED
        if is_near and incident.root is not None and incident.root.wraps:
            return NESTED
        return (
            NESTED
            if is_near and b"|" in prefix and not prefix.strip(b" |") and self.mode == "" and self._prefix[-2:] == b"| "
            else ""
        )

    @property
    def _current(self) -> Incident | None:
        return self._evidence.incidents[-1] if self._evidence.incidents else None

    def begin_java(self, line: int, prefix: bytes, progress: int, before: Note | None) -> None:
        """The first frame of a trace, or the first after a cause of several lines."""
        incident, exception = self._current, self._exception
        near = _NEAR if before is None or is_exceptional(before.raw) else _MESSAGE
        self.mode, self._prefix = JAVA, _comparable(prefix) if prefix.strip() else b""
        is_new = (
            exception is not None and (incident is None or exception[0].line > incident.end) and line - exception[0].line <= near
        )
        if incident is not None and not is_new and line - max(incident.end, self._frames_end) <= _NEAR:
            return
        header, context = exception if is_new and exception else (before, before)
        if header is None or context is None:
            self.mode = ""
            return
        self._evidence.forget(header.line)
        if incident is not None and header.raw.startswith(b": ") and header.line - incident.end <= 2:
            incident.kind = JAVA
            incident.add_java(header)
            return
        incident = self._evidence.begin(Incident(context, JAVA, end=header.line, progress=progress))
        incident.add_java(header)

    def see_frames(self, frames: bytes, end_line: int) -> None:
        """Lines of a trace that are passed over, up to a line. The failure of a clean-up does not replace the exception that it followed."""
        self._frames_end = end_line
        self._see_cleanup(frames)

    def _see_cleanup(self, frames: bytes) -> None:
        if self._link == DURING and CLEANUP.search(frames):
            self._link = CLEANED

    def close(self) -> None:
        """The end of a text that contains traces as a whole."""
        self.mode, self._prefix = "", b""

    def add_cause(self, line: int, raw: bytes, progress: int, before: Note) -> bool:
        """A ``Caused by:`` outside of a trace, such as after a message of several lines; whether it is one."""
        text = raw[self._prefix_length(raw) :]
        cause = _JAVA_CAUSE.match(text)
        if cause is None:
            return False
        incident = self._current
        if incident is None or line - incident.end > _CHAIN or incident.kind == PYTHON:
            exception = self._exception
            incident = self._evidence.begin(
                Incident(exception[0] if exception and line - exception[0].line <= _NEAR else before, JAVA, end=line)
            )
        incident.add_java(Note.of(line, text[cause.end() :], progress))
        self.mode = JAVA
        return True

    def take(self, line: int, raw: bytes, progress: int) -> bool:
        """Read the next line of an open trace; whether it belongs to the trace."""
        text = clean_bytes(raw)[self._prefix_length(raw) :]
        if not text.strip() or (text[:1] in b" \t" and not (self.mode == JAVA and _JAVA_CAUSE.match(text))):
            self._see_cleanup(text + b"\n")
            return True
        taken = self._take_python(line, text, progress) if self.mode == PYTHON else self._take_java(line, text, progress)
        if not taken:
            self.mode = ""
        return taken

    def _prefix_length(self, raw: bytes) -> int:
        size = len(self._prefix)
        if size and raw[:size].translate(_DIGITS) == self._prefix:
            return size
        if size and self._prefix.strip() and raw.rstrip().translate(_DIGITS) == self._prefix.rstrip():
            return len(raw)
        return 0

    def _take_python(self, line: int, text: bytes, progress: int) -> bool:
        incident = self._current
        if incident is None:
            return False
        if HEADER in text or _ART.match(text):
            return True
        if _EXCEPTION.match(text) is None:
            self._tolerance -= 1
            return self._tolerance > 0
        incident.add_python(Note.of(line, text, progress), self._link)
        self.mode = ""
        return True

    def _take_java(self, line: int, text: bytes, progress: int) -> bool:
        incident, cause = self._current, _JAVA_CAUSE.match(text)
        if incident is None:
            return False
        if text.find(HEADER) > 0:
            incident.end = line
            self.begin_python(line, text, progress, incident.before)
            return True
        if cause is not None:
            incident.add_java(Note.of(line, text[cause.end() :], progress))
            return True
        return text.startswith((b"Driver stacktrace", b"... "))

    def state(self) -> dict[str, Any]:
        exception = self._exception and [note.state() for note in self._exception]
        return {
            "mode": self.mode,
            "prefix": b85encode(self._prefix).decode(),
            "numbers": [self._tolerance, self._frames_end],
            "link": self._link,
            "connected": self._connected,
            "exception": exception,
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        self.mode, self._prefix = str(state["mode"]), b85decode(state["prefix"])
        self._tolerance, self._frames_end = map(int, state["numbers"])
        self._link = str(state["link"])
        connected, exception = state["connected"], state["exception"]
        self._connected = (str(connected[0]), int(connected[1])) if connected else None
        self._exception = (Note.resumed(exception[0]), Note.resumed(exception[1])) if exception else None
