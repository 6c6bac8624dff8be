"""A block of lines: its bytes, and where its lines begin and end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chalicelib.lines.layout import HEAD_CHARS
from chalicelib.lines.text import INDENTATION

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
_PADDING_BYTES = 64
"""Newlines behind a block: its last line may be shorter than what is looked at from its beginning on."""
_NEWLINE, _RETURN, _ESCAPE, _ASCII = 10, 13, 27, 128


def bytes_among(members: bytes) -> Bools:
    """For each byte: whether it is one of these."""
    return np.isin(np.arange(256), list(members))


INDENTED = bytes_among(b"".join(INDENTATION) + b"\n")
"""For each byte: whether a line that begins with it is indented, so that it continues the line before; an empty line begins with its
newline."""


@dataclass(frozen=True, slots=True)
class LineBlock:
    """``body`` is followed by padding from ``size`` on; ``octets`` are the same as numbers. Lines begin at ``starts``; their text ends at
    ``ends``, before a carriage return and the newline; the next line begins at ``next_starts``.
    """

    body: bytes
    size: int
    octets: Bytes
    starts: Ints
    ends: Ints
    next_starts: Ints
    ends_with_return: Bools

    @classmethod
    def of(cls, body: bytes) -> LineBlock:
        """A block of whole lines; the last one may lack its newline. Less than 2 GiB."""
        padded = body + b"\n" * _PADDING_BYTES
        octets = np.frombuffer(padded, np.uint8)
        newlines = np.flatnonzero(octets[: len(body)] == _NEWLINE)
        if body and not body.endswith(b"\n"):
            newlines = np.append(newlines, len(body))
        starts = np.append(0, newlines[:-1] + 1) if len(newlines) else newlines
        ends_with_return = (octets[newlines - 1] == _RETURN) & (newlines > starts)
        next_starts = np.minimum(newlines + 1, len(body))
        return cls(padded, len(body), octets, starts, newlines - ends_with_return, next_starts, ends_with_return)

    @classmethod
    def of_texts(cls, texts: pa.StringArray) -> LineBlock:
        """A block with a line for each text; texts have no newlines."""
        lines = pc.binary_join_element_wise(texts, "", "\n")
        return cls.of(lines.buffers()[2].to_pybytes()[: pc.sum(pc.binary_length(lines)).as_py()] if len(lines) else b"")

    def __len__(self) -> int:
        return len(self.starts)

    def special(self) -> Bools:
        """Lines with escape sequences, invalid UTF-8 or several states, and lines too long for a layout."""
        ends = self.ends + self.ends_with_return
        is_special = (ends - self.starts > HEAD_CHARS) | self.has_states()
        if b"\x1b" in self.body:
            is_special[self.lines_at(np.flatnonzero(self.octets == _ESCAPE))] = True
        if not self.body.isascii():
            is_special |= self._invalid(ends)
        return is_special

    def has_states(self) -> Bools:
        """Lines with a carriage return before their end."""
        are_several = np.zeros(len(self), np.bool_)
        if b"\r" in self.body:
            returns = np.flatnonzero(self.octets == _RETURN)
            lines = self.lines_at(returns)
            are_several[lines[returns < self.ends[lines]]] = True
        return are_several

    def lines_at(self, places: Ints) -> Ints:
        """The lines that contain these places."""
        return np.searchsorted(self.starts, places, side="right") - 1

    def line(self, number: int) -> bytes:
        """A line without its newline."""
        return self.body[self.starts[number] : self.ends[number] + self.ends_with_return[number]]

    def numbered(self, first: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Lines [first, end) with their numbers."""
        return ((number, self.line(number)) for number in range(first, end))

    def windows(self, at: Ints, width: int) -> Bytes:
        """The ``width`` bytes from each place on, as rows."""
        return np.lib.stride_tricks.sliding_window_view(self.octets, width)[at]

    @property
    def data(self) -> pa.Buffer:
        """The bytes for Arrow."""
        return pa.py_buffer(self.body)

    def _invalid(self, ends: Ints) -> Bools:
        """Lines that are not UTF-8. Looked for one by one only if the block is not."""
        are_invalid = np.zeros(len(self), np.bool_)
        offsets = pa.py_buffer(np.array([0, len(self.body)], np.int32))
        try:
            pa.StringArray.from_buffers(1, offsets, self.data).validate(full=True)
        except pa.ArrowInvalid:
            for line in np.unique(self.lines_at(np.flatnonzero(self.octets >= _ASCII))).tolist():
                try:
                    self.body[self.starts[line] : ends[line]].decode()
                except UnicodeDecodeError:
                    are_invalid[line] = True
        return are_invalid


def spans(data: pa.Buffer, starts: Ints, ends: Ints, kind: pa.DataType | None = None) -> pa.Array:
    """The parts [start, end) of a buffer, by default texts; each begins at or behind the end of the one before it. Texts must be UTF-8."""
    offsets = np.empty(2 * len(starts) + 1, np.int32)
    offsets[0:-1:2], offsets[1::2] = starts, ends
    offsets[-1] = ends[-1] if len(ends) else 0
    parts = pa.Array.from_buffers(kind or pa.string(), 2 * len(starts), [None, pa.py_buffer(offsets), data])
    return parts.take(pa.array(np.arange(0, 2 * len(starts), 2)))
