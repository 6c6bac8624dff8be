"""Table ``listing``: each file once in every order that queries need, so queries read little more than they return.

A **sort key index** has the files of one source (or of one ``what`` of all sources, or of one work id) and of one class of
duration, in order of their start. In an index whose files last at most D, those that overlap an interval [a, b] started in [a - D,
b]: one range. Each of its files lasts more than D / 2 (unless D is a minute, or 0), so every file that started within D / 2 before
``a`` is a result.

An index is divided into partitions of a fixed period, so that partitions do not grow over the years. A file that extends into the
next period has a row there too, before the files that start in it, so a query never reads the period before.

Queries for the files of a day are frequent, so each ``what`` also has an index by day, for files of all durations: a day's
partition has all files that overlap that day, as the datalake's own table does, but in order and with the document as one text.

    partition                      sort                     row
    d#{what}#-#{day}               {start}#{id}             document      files of a what
    t#{what}#{c}#{period}          {start}#{id}             document      files of a what
    w#{where}:{what}#{c}#{period}  {start}#{id}             document      files of a source
    k#{work_id}:{what}#-#0         {start}#{id}             document      files of a work id
    n#what, n#where                {name}                                 directory of names
    n#what@{where}, n#where@{what} {name}                                 directory of sources
    n#what@work:{work_id}          {name}                                 directory of a work id's whats
    c#{scope}                      {c}                                    directory of a scope's classes of duration
    p#{scope}#{c}                  {period}                               directory of an index's periods with files

Directory rows are written before the first file that needs them, and are never deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chalicelib.catalog.file_ids import MAX_ID_BYTES
from chalicelib.catalog.files import FileRecord
from chalicelib.catalog.timestamps import DAY_MS
from chalicelib.ports import Key

LISTING = "listing"
_MINUTE_MS = 60_000
CLASSES_MS = (0, *(_MINUTE_MS << step for step in range(17)))
"""The longest duration of each class: instants, up to 1 minute, 2, 4, 8, and so on to 46 days."""
DURATIONS_PER_PERIOD = 32
SPARSE_PERIOD_MS = 32 * DAY_MS
"""For instants and files with a work id, whose duration says nothing about their frequency. That of rotated logs does: they follow each
other without a gap."""
_PERIOD_DIGITS = 12
_PERIOD_SHIFT = 100_000_000_000
# Times before 1970 are negative; shifted, so that texts sort like numbers.
_SHIFT_MS = 10**15
_START_DIGITS = 16
_BEFORE_ID, _AFTER_IDS = "#", "$"  # adjacent characters
_FIRST_CHARACTER, _LAST_CHARACTER = " ", "\U0010ffff"  # of an id
_BEFORE_SURROGATES, _AFTER_SURROGATES = "\ud7ff", "\ue000"
_NO_CLASS = "-"
_JOB = "j"


@dataclass(frozen=True, slots=True)
class SortKeyIndex:
    """Files of one scope (``t#{what}``, ``w#{where}:{what}``, ``k#{work_id}:{what}``) that last at most ``longest_ms``, in order of
    start.

    ``period_ms`` 0: a single partition. ``is_listed``: the directory has rows for its class and its periods.
    """

    scope: str
    class_: str
    longest_ms: int
    period_ms: int
    is_listed: bool = True

    @property
    def is_by_day(self) -> bool:
        """Whether a partition has exactly the files that overlap its day."""
        return self.period_ms == DAY_MS

    def partition(self, period: int) -> str:
        """The partition key of a period."""
        return f"{self.scope}#{self.class_}#{period}"

    @property
    def periods(self) -> str:
        """The partition key of the directory of its periods with files."""
        return f"p#{self.scope}#{self.class_}"

    def periods_of(self, record: FileRecord) -> range:
        """The periods in which a file has a row: one or two."""
        return range(self.period_of(record.metadata.start), self.period_of(record.metadata.last_ms) + 1)

    def period_of(self, start_ms: int) -> int:
        """The period of a file with this start."""
        return start_ms // self.period_ms if self.period_ms else 0


def duration_class(duration_ms: int) -> int:
    """The class of files with this duration."""
    return next(number for number, longest_ms in enumerate(CLASSES_MS) if duration_ms <= longest_ms)


def duration_index(scope: str, class_: str) -> SortKeyIndex:
    """An index by class of duration: ``3`` or, for files with a work id, ``3j``. A period is 32 times the longest duration, and
    at least 32 days for sparse files."""
    longest_ms = CLASSES_MS[int(class_.removesuffix(_JOB))]
    least_ms = SPARSE_PERIOD_MS if class_.endswith(_JOB) or not longest_ms else 0
    return SortKeyIndex(scope, class_, longest_ms, max(DURATIONS_PER_PERIOD * longest_ms, least_ms))


def work_index(work_id: str, what: str) -> SortKeyIndex:
    """The index of a work id's files of a what: few, of any duration, in one partition."""
    return SortKeyIndex(f"k#{work_id}:{what}", _NO_CLASS, CLASSES_MS[-1], 0, is_listed=False)


def day_index(what: str) -> SortKeyIndex:
    """The index of a what by day, of files of any duration."""
    return SortKeyIndex(f"d#{what}", _NO_CLASS, CLASSES_MS[-1], DAY_MS, is_listed=False)


def whats_of_work(work_id: str) -> str:
    """The partition key of the directory of a work id's whats."""
    return f"n#what@work:{work_id}"


def what_scope(what: str) -> str:
    """The scope of a what, of all sources."""
    return f"t#{what}"


def source_scope(what: str, where: str) -> str:
    """The scope of a what and a where."""
    return f"w#{where}:{what}"


def sort_key(start_ms: int, file_id: str = "") -> str:
    """The sort key of a file; without an id, a key before all files with this start. Keys sort by their UTF-8 bytes, which is the order of
    their code points."""
    return f"{start_ms + _SHIFT_MS:0{_START_DIGITS}d}{_BEFORE_ID}{file_id}"


def last_sort_key(start_ms: int) -> str:
    """A key after all files with this start, whatever their ids."""
    return f"{start_ms + _SHIFT_MS:0{_START_DIGITS}d}{_AFTER_IDS}"


def key_after(at: str) -> str:
    """The first key after a file's: no id has a character before the space."""
    return at + _FIRST_CHARACTER


def key_before(at: str) -> str:
    """A key before a file's, and not before that of any other file before it."""
    rest, end = at[:-1], at[-1]
    below = _BEFORE_SURROGATES if end == _AFTER_SURROGATES else chr(ord(end) - 1)
    room_bytes = len(sort_key(0)) + MAX_ID_BYTES - len((rest + below).encode())
    return rest + below + _LAST_CHARACTER * (room_bytes // len(_LAST_CHARACTER.encode()) + 1)


def period_text(period: int) -> str:
    """A period as a text; texts sort like the periods."""
    return f"{period + _PERIOD_SHIFT:0{_PERIOD_DIGITS}d}"


def period_number(text: str) -> int:
    """The inverse of ``period_text``."""
    return int(text) - _PERIOD_SHIFT


def indexes_of(record: FileRecord) -> Iterator[SortKeyIndex]:
    """The indexes of a file: three, and a fourth if it has a work id."""
    metadata = record.metadata
    class_ = str(duration_class(metadata.last_ms - metadata.start)) + (_JOB if metadata.work_id else "")
    yield day_index(metadata.what)
    yield duration_index(what_scope(metadata.what), class_)
    yield duration_index(source_scope(metadata.what, metadata.where), class_)
    if metadata.work_id:
        yield work_index(metadata.work_id, metadata.what)


def listing_rows(record: FileRecord) -> dict[Key, dict[str, Any]]:
    """A file's rows, one for each index and period."""
    at, document = sort_key(record.metadata.start, record.id), record.text()
    partitions = [index.partition(period) for index in indexes_of(record) for period in index.periods_of(record)]
    return {Key(LISTING, name, at): {"partition": name, "at": at, "document": document} for name in partitions}


def directory_keys(record: FileRecord) -> Iterator[Key]:
    """The directory rows that queries need to find the file. They have no attributes but their keys."""
    what, where = record.source
    yield from (Key(LISTING, "n#what", what), Key(LISTING, "n#where", where))
    yield from (Key(LISTING, f"n#what@{where}", what), Key(LISTING, f"n#where@{what}", where))
    if record.metadata.work_id:
        yield Key(LISTING, whats_of_work(record.metadata.work_id), what)
    for index in indexes_of(record):
        if index.is_listed:
            yield Key(LISTING, f"c#{index.scope}", index.class_)
            yield from (Key(LISTING, index.periods, period_text(period)) for period in index.periods_of(record))
