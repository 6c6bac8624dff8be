"""Everything that S3 tells of a run: where each of its segments stands, also of those that were deleted, and what its artifacts hold.

Damage does not end the look: it is told, and what is whole is told too.
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
from chalicelib.runlog.retirement import read_kept
from chalicelib.runlog.segment import SEAL, entry_of, landmarks_of
from chalicelib.runlog.tail import list_all

THREADS = 16
_MAX_LANDMARKS = 96
_LOOKS = 3

Asked = TypeVar("Asked")
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Held:
    """An artifact, and when S3 took it."""

    artifact: Artifact
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Census:
    """``entries`` by number; ``live``: numbers whose segments are there; ``unknown``: numbers that an artifact holds, and of which nothing
    is left but that. ``problems`` in words."""

    entries: Mapping[int, SegmentEntry] = field(default_factory=dict)
    live: Sequence[int] = ()
    partial: Held | None = None
    logs: Held | None = None
    unknown: Sequence[range] = ()
    problems: Sequence[str] = ()
    start: RunStart | None = None

    @property
    def exists(self) -> bool:
        """Whether S3 has anything of the run's log, or its start; what stays of a deleted run for a while is nothing."""
        is_deleted = self.logs is not None and self.logs.artifact.is_deleted
        return not is_deleted and bool(self.entries or self.live or self.partial or self.logs or self.start)

    @property
    def base(self) -> Held | None:
        """The artifact that reaches furthest."""
        found = [held for held in (self.logs, self.partial) if held]
        return max(found, key=lambda held: held.artifact.next_segment, default=None)

    @property
    def tail(self) -> SegmentEntry | None:
        """The last segment."""
        return self.entries[max(self.entries)] if self.entries else None

    @property
    def expired_seal(self) -> SegmentEntry | None:
        """The seal that is gone while the ``logs.txt`` that ends with it stays, as that tells of it; its time is that of ``logs.txt``. None: the
        seal is there, or the log has no end, or goes on behind it."""
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
        )


class Examiner:
    """Looks at one run, once or more: what never changes is read once. ``threads`` requests at a time."""

    def __init__(self, store: ObjectStore, layout: Layout, run: Run, threads: int = THREADS) -> None:
        self._store, self._layout, self._run, self._threads = store, layout, run, threads
        self._live: dict[int, SegmentEntry | str] = {}
        self._kept: dict[str, list[SegmentEntry] | str] = {}

    def examine(self) -> Census:
        """A LIST for each 1,000 objects, a HEAD for each segment and artifact, a GET for each object of entries and the start; a LIST more where
        numbers are missing. Raises UnavailableError."""
        for _ in range(_LOOKS):
            listed = list(list_all(self._store, self._layout.run_prefix(self._run)))
            parsed = [(self._layout.parse(found.key), found) for found in listed]
            ours = [(what, found) for what, found in parsed if what and what.run == self._run]
            if self._read(ours):
                break
        else:
            raise StoreUnavailableError(f"others keep deleting segments run={self._run.fqn}/{self._run.run_id} looks={_LOOKS}")
        # Entries are listed before segments: what was deleted in between is in one of them by now.
        if self._missing(ours):
            self._read_kept(found.key for found in list_all(self._store, self._layout.all_retired(self._run)))
        return self._census(ours, foreign=len(listed) - len(ours))

    def landmark(self, census: Census, numbers: range) -> SegmentEntry | None:
        """One entry that stands for segments of which only their bytes are known, with landmarks, so that a page in them reads little. A GET
        for each 5 MiB. None: the artifact doesn't have them, or not whole."""
        base, before, after = census.base, census.entries.get(numbers.start - 1), census.entries.get(numbers.stop)
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
        )

    def _read(self, ours: Sequence[tuple[ParsedKey, ListedObject]]) -> bool:
        """Read what was listed; False when some of it is gone by now: look again."""
        self._read_kept(found.key for what, found in ours if what.kind == "retired")
        wanted = [what.sequence for what, _ in ours if what.sequence is not None and what.sequence not in self._live]
        read = zip(wanted, self._each(self._segment, wanted), strict=True)
        self._live |= {number: found for number, found in read if found is not None}
        return all(number in self._live for number in wanted)

    def _read_kept(self, keys: Iterable[str]) -> None:
        wanted = [key for key in keys if key not in self._kept]
        self._kept |= dict(zip(wanted, self._each(self._entries, wanted), strict=True))

    def _each(self, read: Callable[[Asked], Read], wanted: Sequence[Asked]) -> list[Read]:
        if len(wanted) < 2:
            return [read(each) for each in wanted]
        with ThreadPoolExecutor(self._threads) as threads:
            return list(threads.map(read, wanted))

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
            return read_kept(self._store.get(key).body)
        except DamagedLogError as error:
            return f"{error} key={key}"
        except ObjectNotFoundError:
            return []  # it has expired

    def _artifact(self, key: str, problems: list[str]) -> Held | None:
        try:
            info = self._store.head(key)
            return Held(artifact_of(info), info.last_modified_ms)
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
            entry.sequence for entry in self._known_kept()
        }
        return bool(numbers) and len(numbers) < max(numbers) + 1

    def _known_kept(self) -> list[SegmentEntry]:
        return [entry for entries in self._kept.values() if isinstance(entries, list) for entry in entries]

    def _census(self, ours: Sequence[tuple[ParsedKey, ListedObject]], foreign: int) -> Census:
        live = [what.sequence for what, _ in ours if what.sequence is not None]
        problems = [told for told in [self._live[number] for number in live] + list(self._kept.values()) if isinstance(told, str)]
        entries = {entry.sequence: entry for entry in sorted(self._known_kept(), key=lambda entry: entry.appended_ms)}
        entries |= {number: entry for number in live if isinstance(entry := self._live[number], SegmentEntry)}
        keys = {what.kind: found.key for what, found in ours}
        partial_, logs = (self._artifact(keys[kind], problems) if kind in keys else None for kind in ("partial", "logs"))
        start = self._start(problems) if "start" in keys else None
        if foreign:
            problems.append(f"objects that are not the run's count={foreign}")
        census = Census(entries, live, partial_, logs, (), problems, start)
        return _with_gaps(census, live)


def _with_gaps(census: Census, live: Sequence[int]) -> Census:
    """What is missing: known to be in an artifact, or lost."""
    base = census.base
    held = base.artifact.next_segment if base else 0
    end = max([held, *(number + 1 for number in census.entries), *(number + 1 for number in live)])
    missing = _stretches([number for number in range(end) if number not in census.entries])
    unknown = [each for each in missing if each.stop <= held]
    lost = [f"segments are missing first={each.start} last={each.stop - 1}" for each in missing if each.stop > held]
    return replace(census, unknown=unknown, problems=[*census.problems, *lost])


def _stretches(numbers: Sequence[int]) -> list[range]:
    found: list[range] = []
    for number in numbers:
        if found and found[-1].stop == number:
            found[-1] = range(found[-1].start, number + 1)
        else:
            found.append(range(number, number + 1))
    return found


def _landmarks(chunks: Iterable[bytes], size: int) -> tuple[tuple[int, int], ...]:
    """As ``landmarks_of`` has them, of bytes that come one chunk after the other."""
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
    """The last start of a line in a chunk; its beginning where there is none."""
    return chunk.count(b"\n"), chunk.rfind(b"\n") + 1
