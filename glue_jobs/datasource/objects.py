"""What a listing tells of runs: which objects each has, how large, how old. No request, and little memory: 12 bytes a segment."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from chalicelib.ports import Run
from chalicelib.runlog.layout import SEQUENCE_DIGITS, UNFINISHED, Layout

_SEGMENTS = "segments/"
_RETIRED = "retired/"  # what deleted segments were: no log's bytes
_EVENTS = "events/"  # what lies beside its text


class Listed(NamedTuple):
    """An object of a listing. ``modified_ms`` by the store's clock."""

    key: str
    size: int
    etag: str
    modified_ms: int


@dataclass(slots=True)
class Stretch:
    """Segments whose numbers follow each other, from ``first`` on: their sizes, and when they were written (seconds)."""

    first: int
    sizes: array[int] = field(default_factory=lambda: array("q"))
    written_s: array[int] = field(default_factory=lambda: array("I"))

    @property
    def end(self) -> int:
        """The number behind the last."""
        return self.first + len(self.sizes)

    def tail(self, first: int) -> Stretch:
        """Without the numbers below ``first``."""
        skipped = max(first - self.first, 0)
        return Stretch(self.first + skipped, self.sizes[skipped:], self.written_s[skipped:]) if skipped else self


@dataclass(slots=True)
class RunObjects:
    """A run's objects. ``base``: what their keys begin with. ``stretches`` in order; more than one: numbers are missing between them.
    ``companions``: the numbers of those segments beside which there is one (``chalicelib.events.sidecar``), ascending."""

    run: Run
    base: str
    logs: Listed | None = None
    partial: Listed | None = None
    stretches: list[Stretch] = field(default_factory=list)
    companions: list[range] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The number behind the highest listed segment; 0 where none is."""
        return self.stretches[-1].end if self.stretches else 0

    @property
    def artifact(self) -> Listed | None:
        """The artifact that reaches further: both begin where the log does, so it is the larger one."""
        return max((found for found in (self.logs, self.partial) if found), key=lambda found: found.size, default=None)

    @property
    def seems_ended(self) -> bool:
        """Whether the last segment is empty, as a seal is; or there is logs.txt and no segment."""
        return self.stretches[-1].sizes[-1] == 0 if self.stretches else self.artifact is not None and self.artifact is self.logs

    @property
    def last_written_s(self) -> int:
        """When the last segment was written; where there is none, the artifact."""
        if self.stretches:
            return self.stretches[-1].written_s[-1]
        return self.artifact.modified_ms // 1000 if self.artifact else 0

    @property
    def first_known_s(self) -> int:
        """The earliest time that is known of it: its first segment's, while that is there."""
        artifacts = [found.modified_ms // 1000 for found in (self.logs, self.partial) if found]
        return min([stretch.written_s[0] for stretch in self.stretches[:1]] + artifacts, default=0)

    @property
    def has_bytes_in_segments(self) -> bool:
        """Whether any listed segment has bytes."""
        return any(any(stretch.sizes) for stretch in self.stretches)

    def segment_key(self, sequence: int) -> str:
        """The key of the segment with this number."""
        return f"{self.base}{_SEGMENTS}{sequence:010d}"

    def add_segment(self, sequence: int, size: int, modified_ms: int) -> None:
        """In ascending order of their numbers."""
        if not self.stretches or self.stretches[-1].end != sequence:
            self.stretches.append(Stretch(sequence))
        last = self.stretches[-1]
        last.sizes.append(size)
        last.written_s.append(min(max(modified_ms // 1000, 0), 2**32 - 1))

    def add_companion(self, sequence: int) -> None:
        """In ascending order of their numbers."""
        first = self.companions.pop().start if self.companions and self.companions[-1].stop == sequence else sequence
        self.companions.append(range(first, sequence + 1))

    def last_companion(self, end: int) -> int | None:
        """The highest number of a companion below a number."""
        return next((min(each.stop, end) - 1 for each in reversed(self.companions) if each.start < end), None)

    def has_companion(self, sequence: int) -> bool:
        """Whether one was listed beside this segment."""
        return any(sequence in each for each in self.companions)

    def merge(self, later: RunObjects) -> None:
        """Take over what another part of the listing found, of keys behind these."""
        self.logs, self.partial = self.logs or later.logs, self.partial or later.partial
        self.companions += later.companions
        for stretch in later.stretches:
            if self.stretches and self.stretches[-1].end == stretch.first:
                self.stretches[-1].sizes.extend(stretch.sizes)
                self.stretches[-1].written_s.extend(stretch.written_s)
            else:
                self.stretches.append(stretch)


class Folder:
    """Folds listed keys, in their order, into runs. ``wants`` chooses them; ``on_foreign`` is told keys below a run that are not its."""

    def __init__(self, layout: Layout, wants: Callable[[Run], bool], on_foreign: Callable[[Run, str], None] | None = None) -> None:
        self.runs: list[RunObjects] = []
        self._layout, self._wants, self._on_foreign = layout, wants, on_foreign
        self._base = ""
        self._current: RunObjects | None = None

    def add(self, objects: Iterable[Listed]) -> None:
        """A page of a listing."""
        for found in objects:
            if not self._base or not found.key.startswith(self._base):
                self._begin(found.key)
            if self._current is not None:
                self._put(self._current, found)

    def _begin(self, key: str) -> None:
        elements = key[len(self._layout.prefix) + 1 :].split("/", 2)
        if len(elements) < 3 or elements[0].startswith("."):
            self._base, self._current = "", None
            return
        self._base = f"{self._layout.prefix}/{elements[0]}/{elements[1]}/"
        parsed = self._layout.parse(self._base + "logs.txt")
        self._current = RunObjects(parsed.run, self._base) if parsed and self._wants(parsed.run) else None
        if self._current:
            self.runs.append(self._current)

    def _put(self, current: RunObjects, found: Listed) -> None:
        name = found.key[len(self._base) :]
        if (number := _number(name, _SEGMENTS)) is not None:
            current.add_segment(number, found.size, found.modified_ms)
        elif (number := _number(name, _EVENTS)) is not None:
            current.add_companion(number)
        elif name == "logs.txt":
            current.logs = found
        elif name == "partial.txt":
            current.partial = found
        elif self._on_foreign and not name.startswith((_RETIRED, _EVENTS, UNFINISHED)):
            self._on_foreign(current.run, found.key)


def companion_key(base: str, sequence: int) -> str:
    """The key of the companion of the segment with this number."""
    return f"{base}{_EVENTS}{sequence:0{SEQUENCE_DIGITS}d}"


def _number(name: str, folder: str) -> int | None:
    digits = name[len(folder) :]
    is_number = name.startswith(folder) and len(digits) == SEQUENCE_DIGITS and digits.isascii() and digits.isdigit()
    return int(digits) if is_number else None


def merged(parts: Iterable[list[RunObjects]]) -> list[RunObjects]:
    """Runs of the parts of one listing, in the order of their keys."""
    runs: list[RunObjects] = []
    for part in parts:
        if runs and part and runs[-1].base == part[0].base:
            runs[-1].merge(part[0])
            part = part[1:]
        runs += part
    return [run for run in runs if run.logs or run.partial or run.stretches]
