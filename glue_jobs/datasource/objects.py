"""Objects of runs from a listing, with sizes and times. No further request; memory: 12 bytes a segment."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from chalicelib.events.sidecar_bundle import BundleName
from chalicelib.ports import SEQUENCE_DIGITS, Run
from chalicelib.runlog.layout import UNFINISHED, Layout

_SEGMENTS = "segments/"
_RETIRED = "retired/"  # entries of deleted segments, without bytes of the log
_EVENTS = "events/"  # sidecars of segments
BUNDLES = f"{_EVENTS}bundles/"
_BUNDLE = re.compile(rf"{BUNDLES}(\d{{{SEQUENCE_DIGITS}}})-(\d{{{SEQUENCE_DIGITS}}})", re.ASCII)


class Listed(NamedTuple):
    """A listed object. ``modified_ms`` by the store's clock."""

    key: str
    size: int
    etag: str
    modified_ms: int


@dataclass(slots=True)
class SegmentRange:
    """Segments with consecutive numbers from ``first``: sizes, and times of writing (seconds)."""

    first: int
    sizes: array[int] = field(default_factory=lambda: array("q"))
    written_s: array[int] = field(default_factory=lambda: array("I"))

    @property
    def end(self) -> int:
        """The number after the last."""
        return self.first + len(self.sizes)

    def tail(self, first: int) -> SegmentRange:
        """The range without numbers below ``first``."""
        skipped = max(first - self.first, 0)
        return SegmentRange(self.first + skipped, self.sizes[skipped:], self.written_s[skipped:]) if skipped else self


class ListedSidecars(NamedTuple):
    """Where a run's sidecars are. ``singles``: ascending numbers of those that are objects (``chalicelib.events.sidecar``).
    ``bundles``: of an ended run (``chalicelib.events.sidecar_bundle``)."""

    singles: tuple[range, ...] = ()
    bundles: tuple[BundleName, ...] = ()


NO_SIDECARS = ListedSidecars()


@dataclass(slots=True)
class RunObjects:
    """A run's objects. ``base``: their key prefix. ``segment_ranges`` in order; between two of them numbers are missing.
    ``single_sidecars`` and ``bundles``: see ``ListedSidecars``."""

    run: Run
    base: str
    logs: Listed | None = None
    partial: Listed | None = None
    segment_ranges: list[SegmentRange] = field(default_factory=list)
    single_sidecars: list[range] = field(default_factory=list)
    bundles: list[BundleName] = field(default_factory=list)

    @property
    def sidecars(self) -> ListedSidecars:
        """Its sidecars, as slices of it carry them."""
        return ListedSidecars(tuple(self.single_sidecars), tuple(self.bundles))

    @property
    def end(self) -> int:
        """The number after the highest listed segment; 0 if there is none."""
        return self.segment_ranges[-1].end if self.segment_ranges else 0

    @property
    def artifact(self) -> Listed | None:
        """The artifact that reaches further: both begin where the log does, so it is the larger one."""
        return max((listed for listed in (self.logs, self.partial) if listed), key=lambda listed: listed.size, default=None)

    @property
    def seems_ended(self) -> bool:
        """Whether the last segment is empty, as a seal is, or logs.txt exists without segments."""
        return (
            self.segment_ranges[-1].sizes[-1] == 0
            if self.segment_ranges
            else self.artifact is not None and self.artifact is self.logs
        )

    @property
    def last_written_s(self) -> int:
        """Time of the last segment, or of the artifact if there is none."""
        if self.segment_ranges:
            return self.segment_ranges[-1].written_s[-1]
        return self.artifact.modified_ms // 1000 if self.artifact else 0

    @property
    def first_known_s(self) -> int:
        """The earliest known time: that of the first segment while it exists."""
        artifacts = [listed.modified_ms // 1000 for listed in (self.logs, self.partial) if listed]
        return min([segment_range.written_s[0] for segment_range in self.segment_ranges[:1]] + artifacts, default=0)

    @property
    def has_bytes_in_segments(self) -> bool:
        """Whether any listed segment has bytes."""
        return any(any(segment_range.sizes) for segment_range in self.segment_ranges)

    def segment_key(self, sequence: int) -> str:
        """The key of the segment with this number."""
        return f"{self.base}{_SEGMENTS}{sequence:010d}"

    def add_segment(self, sequence: int, size: int, modified_ms: int) -> None:
        """Call this in ascending order of the numbers."""
        if not self.segment_ranges or self.segment_ranges[-1].end != sequence:
            self.segment_ranges.append(SegmentRange(sequence))
        last = self.segment_ranges[-1]
        last.sizes.append(size)
        last.written_s.append(min(max(modified_ms // 1000, 0), 2**32 - 1))

    def add_sidecar(self, sequence: int) -> None:
        """Call this in ascending order of the numbers."""
        singles = self.single_sidecars
        first = singles.pop().start if singles and singles[-1].stop == sequence else sequence
        singles.append(range(first, sequence + 1))

    def last_sidecar(self, end: int) -> int | None:
        """The highest number of a sidecar below ``end``, which is in no bundle."""
        numbers = [min(each.stop, end) - 1 for each in self.single_sidecars if each.start < end]
        return max([*numbers, *(bundle.last for bundle in self.bundles if bundle.last < end)], default=None)

    def has_sidecar(self, sequence: int) -> bool:
        """Whether a sidecar of this segment was listed as an object."""
        return any(sequence in each for each in self.single_sidecars)

    def merge(self, later: RunObjects) -> None:
        """Add the objects of a later part of the listing."""
        self.logs, self.partial = self.logs or later.logs, self.partial or later.partial
        self.single_sidecars += later.single_sidecars
        self.bundles += later.bundles
        for segment_range in later.segment_ranges:
            if self.segment_ranges and self.segment_ranges[-1].end == segment_range.first:
                self.segment_ranges[-1].sizes.extend(segment_range.sizes)
                self.segment_ranges[-1].written_s.extend(segment_range.written_s)
            else:
                self.segment_ranges.append(segment_range)


class RunGrouper:
    """Groups listed keys, in order, into runs. ``wants`` selects runs; ``on_foreign`` is called with keys in a run's folder that
    are not its own."""

    def __init__(self, layout: Layout, wants: Callable[[Run], bool], on_foreign: Callable[[Run, str], None] | None = None) -> None:
        self.runs: list[RunObjects] = []
        self._layout, self._wants, self._on_foreign = layout, wants, on_foreign
        self._base = ""
        self._current: RunObjects | None = None

    def add(self, objects: Iterable[Listed]) -> None:
        """Add a page of a listing."""
        for listed in objects:
            if not self._base or not listed.key.startswith(self._base):
                self._begin(listed.key)
            if self._current is not None:
                self._put(self._current, listed)

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

    def _put(self, current: RunObjects, listed: Listed) -> None:
        name = listed.key[len(self._base) :]
        if (number := _number(name, _SEGMENTS)) is not None:
            current.add_segment(number, listed.size, listed.modified_ms)
        elif (number := _number(name, _EVENTS)) is not None:
            current.add_sidecar(number)
        elif bundle := bundle_name(name):
            current.bundles.append(bundle)
        elif name == "logs.txt":
            current.logs = listed
        elif name == "partial.txt":
            current.partial = listed
        elif self._on_foreign and not name.startswith((_RETIRED, _EVENTS, UNFINISHED)):
            self._on_foreign(current.run, listed.key)


def sidecar_key(base: str, sequence: int) -> str:
    """The key of the sidecar of the segment with this number."""
    return f"{base}{_EVENTS}{sequence:0{SEQUENCE_DIGITS}d}"


def bundle_key(base: str, bundle: BundleName) -> str:
    """The key of a bundle of sidecars."""
    return f"{base}{BUNDLES}{bundle.first:0{SEQUENCE_DIGITS}d}-{bundle.last:0{SEQUENCE_DIGITS}d}"


def bundle_name(name: str) -> BundleName | None:
    """The bundle with this key, without the base; None if it is another object."""
    found = _BUNDLE.fullmatch(name)
    return BundleName(int(found[1]), int(found[2])) if found else None


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
    return [run for run in runs if run.logs or run.partial or run.segment_ranges]
