"""Inspects all objects of a run on S3: the entry of each segment, also of deleted ones, and the extent of each artifact.

Damaged objects do not end the inspection: they are reported together with all intact ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar

from chalicelib.errors import DamagedLogError, ObjectNotFoundError, StoreUnavailableError
from chalicelib.ports import ListedObject, ObjectStore, Run, RunStart, SegmentEntry
from chalicelib.runlog.artifact import Artifact, artifact_of, read_chunks
from chalicelib.runlog.attempts import read_start
from chalicelib.runlog.layout import Layout, ParsedKey
from chalicelib.runlog.log_end import list_all
from chalicelib.runlog.segment import SEAL, entry_of, landmarks_of
from chalicelib.runlog.segment_gc import read_retired_entries

THREADS = 16
_MAX_LANDMARKS = 96
_LOOKS = 3

Argument = TypeVar("Argument")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """An artifact, and its last-modified time on S3."""

    artifact: Artifact
    modified_ms: int


@dataclass(frozen=True, slots=True)
class RunInspection:
    """``entries``: by sequence number; ``live``: numbers of existing segments; ``unknown``: numbers whose bytes are in an artifact, but whose
    entries are lost. ``problems``: messages for operators."""

    entries: Mapping[int, SegmentEntry] = field(default_factory=dict)
    live: Sequence[int] = ()
    partial: StoredArtifact | None = None
    logs: StoredArtifact | None = None
    unknown: Sequence[range] = ()
    problems: Sequence[str] = ()
    start: RunStart | None = None

    @property
    def exists(self) -> bool:
        """Whether S3 contains any part of the log, or the run's start; leftovers of a deleted run do not count."""
        is_deleted = self.logs is not None and self.logs.artifact.is_deleted
        return not is_deleted and bool(self.entries or self.live or self.partial or self.logs or self.start)

    @property
    def base(self) -> StoredArtifact | None:
        """The artifact that contains most of the log."""
        found = [stored for stored in (self.logs, self.partial) if stored]
        return max(found, key=lambda stored: stored.artifact.next_segment, default=None)

    @property
    def tail(self) -> SegmentEntry | None:
        """The last segment."""
        return self.entries[max(self.entries)] if self.entries else None

    @property
    def expired_seal(self) -> SegmentEntry | None:
        """The entry of an expired seal, reconstructed from the ``logs.txt`` that ends with it, including its time. None: the seal exists, or the
        log has no end, or continues after it."""
        base = self.base
        if base is None or base.artifact.lines is None or not base.artifact.reason:
            return None
        number = base.artifact.next_segment - 1
        if number in self.entries or max([*self.entries, *self.live], default=-1) > number:
            return None
        return SegmentEntry(
            sequence=number,
            kind=SEAL,
            epoch=base.artifact.epoch,
            line=base.artifact.lines,
            byte=base.artifact.bytes,
            lines=0,
            bytes=0,
            session="",
            base=number,
            digest="",
            appended_ms=base.modified_ms,
            reason=base.artifact.reason,
            end=base.artifact.end,
            zone=base.artifact.zone,
        )


class RunInspector:
    """Inspects one run, repeatedly if needed; immutable objects are read once. At most ``threads`` concurrent requests."""

    def __init__(self, store: ObjectStore, layout: Layout, run: Run, threads: int = THREADS) -> None:
        self._store, self._layout, self._run, self._threads = store, layout, run, threads
        self._live: dict[int, SegmentEntry | str] = {}
        self._retired: dict[str, list[SegmentEntry] | str] = {}

    def inspect(self) -> RunInspection:
        """Inspect the run. A LIST per 1,000 objects, a HEAD per segment and artifact, a GET per object of entries and for the start; another LIST
        if numbers are missing. Raises UnavailableError."""
        for _ in range(_LOOKS):
            listed = list(list_all(self._store, self._layout.run_prefix(self._run)))
            parsed = [(self._layout.parse(found.key), found) for found in listed]
            ours = [(what, found) for what, found in parsed if what and what.run == self._run]
            if self._read(ours):
                break
        else:
            raise StoreUnavailableError(
                f"segments keep disappearing during the inspection run={self._run.fqn}/{self._run.run_id} tries={_LOOKS}"
            )
        # ``retired/`` sorts before ``segments/``: a segment that was deleted in between has its entry in a newer object.
        if self._missing(ours):
            self._read_retired(found.key for found in list_all(self._store, self._layout.all_retired(self._run)))
        return self._inspection(ours, foreign=len(listed) - len(ours))

    def placeholder_entry(self, inspection: RunInspection, numbers: range) -> SegmentEntry | None:
        """One entry that replaces the lost entries of ``numbers``, with landmarks, so that a page in this range reads little. A GET per 5 MiB.
        None: the artifact does not contain all of their bytes."""
        base, before, after = inspection.base, inspection.entries.get(numbers.start - 1), inspection.entries.get(numbers.stop)
        if base is None or base.artifact.lines is None or (before is None and numbers.start):
            return None
        line, byte = (before.end_line, before.end_byte) if before else (0, 0)
        end = (after.line, after.byte) if after else (base.artifact.lines, base.artifact.bytes)
        if not (line <= end[0] and byte <= end[1] <= base.artifact.bytes):
            return None
        return SegmentEntry(
            sequence=numbers.stop - 1,
            kind="data",
            epoch=after.epoch if after else base.artifact.epoch,
            line=line,
            byte=byte,
            lines=end[0] - line,
            bytes=end[1] - byte,
            session="",
            base=numbers.start,
            digest="",
            appended_ms=after.appended_ms if after else base.modified_ms,
            landmarks=_landmarks(read_chunks(self._store, base.artifact, byte, end[1]), end[1] - byte),
            zone=base.artifact.zone,
        )

    def _read(self, ours: Sequence[tuple[ParsedKey, ListedObject]]) -> bool:
        """Read the listed objects; False if a segment was deleted meanwhile: list again."""
        self._read_retired(found.key for what, found in ours if what.kind == "retired")
        unread = [what.sequence for what, _ in ours if what.sequence is not None and what.sequence not in self._live]
        read = zip(unread, self._each(self._segment, unread), strict=True)
        self._live |= {number: found for number, found in read if found is not None}
        return all(number in self._live for number in unread)

    def _read_retired(self, keys: Iterable[str]) -> None:
        unread = [key for key in keys if key not in self._retired]
        self._retired |= dict(zip(unread, self._each(self._entries, unread), strict=True))

    def _each(self, read: Callable[[Argument], Result], arguments: Sequence[Argument]) -> list[Result]:
        if len(arguments) < 2:
            return [read(each) for each in arguments]
        with ThreadPoolExecutor(self._threads) as threads:
            return list(threads.map(read, arguments))

    def _segment(self, sequence: int) -> SegmentEntry | str | None:
        try:
            info = self._store.head(self._layout.segment(self._run, sequence))
            return entry_of(sequence, info.metadata, info.size)
        except ObjectNotFoundError:
            return None
        except DamagedLogError as error:
            return str(error)

    def _entries(self, key: str) -> list[SegmentEntry] | str:
        try:
            return read_retired_entries(self._store.get(key).body)
        except DamagedLogError as error:
            return f"{error} key={key}"
        except ObjectNotFoundError:
            return []  # it has expired

    def _artifact(self, key: str, problems: list[str]) -> StoredArtifact | None:
        try:
            info = self._store.head(key)
            return StoredArtifact(artifact_of(info), info.last_modified_ms)
        except ObjectNotFoundError:
            return None
        except DamagedLogError as error:
            problems.append(str(error))
            return None

    def _start(self, problems: list[str]) -> RunStart | None:
        try:
            return read_start(self._store, self._layout, self._run)
        except DamagedLogError as error:
            problems.append(str(error))
            return None

    def _missing(self, ours: Sequence[tuple[ParsedKey, ListedObject]]) -> bool:
        numbers = {what.sequence for what, _ in ours if what.sequence is not None} | {
            entry.sequence for entry in self._retired_entries()
        }
        return bool(numbers) and len(numbers) < max(numbers) + 1

    def _retired_entries(self) -> list[SegmentEntry]:
        return [entry for entries in self._retired.values() if isinstance(entries, list) for entry in entries]

    def _inspection(self, ours: Sequence[tuple[ParsedKey, ListedObject]], foreign: int) -> RunInspection:
        live = [what.sequence for what, _ in ours if what.sequence is not None]
        problems = [
            problem
            for problem in [self._live[number] for number in live] + list(self._retired.values())
            if isinstance(problem, str)
        ]
        entries = {entry.sequence: entry for entry in sorted(self._retired_entries(), key=lambda entry: entry.appended_ms)}
        entries |= {number: entry for number in live if isinstance(entry := self._live[number], SegmentEntry)}
        keys = {what.kind: found.key for what, found in ours}
        partial_, logs = (self._artifact(keys[kind], problems) if kind in keys else None for kind in ("partial", "logs"))
        start = self._start(problems) if "start" in keys else None
        if foreign:
            problems.append(f"unknown objects under the run's prefix count={foreign}")
        inspection = RunInspection(entries, live, partial_, logs, (), problems, start)
        return _with_gaps(inspection, live)


def _with_gaps(inspection: RunInspection, live: Sequence[int]) -> RunInspection:
    """Add the missing numbers: as ``unknown`` if an artifact contains them, else as problems."""
    base = inspection.base
    covered = base.artifact.next_segment if base else 0
    end = max([covered, *(number + 1 for number in inspection.entries), *(number + 1 for number in live)])
    missing = _stretches([number for number in range(end) if number not in inspection.entries])
    unknown = [each for each in missing if each.stop <= covered]
    lost = [f"segments are missing first={each.start} last={each.stop - 1}" for each in missing if each.stop > covered]
    return replace(inspection, unknown=unknown, problems=[*inspection.problems, *lost])


def _stretches(numbers: Sequence[int]) -> list[range]:
    found: list[range] = []
    for number in numbers:
        if found and found[-1].stop == number:
            found[-1] = range(found[-1].start, number + 1)
        else:
            found.append(range(number, number + 1))
    return found


def _landmarks(chunks: Iterable[bytes], size: int) -> tuple[tuple[int, int], ...]:
    """Like ``landmarks_of``, for a stream of chunks."""
    found: list[tuple[int, int]] = []
    line = byte = 0
    stride = max(256 * 1024, size // _MAX_LANDMARKS + 1)
    for chunk in chunks:
        last_line, last_byte = found[-1] if found else (0, 0)
        for at_line, at_byte in (*landmarks_of(chunk), _last_start(chunk)):
            if byte + at_byte - last_byte >= stride and byte + at_byte < size:
                last_line, last_byte = line + at_line, byte + at_byte
                found.append((last_line, last_byte))
        line, byte = line + chunk.count(b"\n"), byte + len(chunk)
    return tuple(found[:_MAX_LANDMARKS])


def _last_start(chunk: bytes) -> tuple[int, int]:
    """(line, byte) of the last line start in a chunk; (0, 0) if it contains no newline."""
    return chunk.count(b"\n"), chunk.rfind(b"\n") + 1
