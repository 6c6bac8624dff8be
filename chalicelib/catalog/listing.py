"""Table ``listing``: every file once in each order that queries ask for, so that a query reads about what it returns.

A **lane** holds files of one source (or of one ``what`` from everywhere, or of one work id) and of about one duration, in the order of
their start. What overlaps an interval [a, b] in a lane whose files last at most D started in [a - D, b]: one range. Every file of
the lane lasts more than D / 2 (or D is a minute, or none), so of what began in the last half of D before ``a``, and after ``a``, every
one is answered.

A lane is cut into partitions of a fixed period, so that none grows with the years. A file that goes on into the next period stands
there too, before those that begin in it; so nobody has to look into the period before.

What came on a day is asked so often that it has a lane of its own, by days, of all durations: a day's partition holds whatever
overlaps that day, as the datalake's own table does, but in order and in one text a file.

    partition                      sort                     row
    d#{what}#-#{day}               {start}#{id}             document      files of a what
    t#{what}#{c}#{period}          {start}#{id}             document      files of a what
    w#{where}:{what}#{c}#{period}  {start}#{id}             document      files of a source
    k#{work_id}:{what}#-#0         {start}#{id}             document      files of a work id
    n#what, n#where                {name}                                 which names there are
    n#what@{where}, n#where@{what} {name}                                 which sources there are
    n#what@work:{work_id}          {name}                                 which whats a work id has
    c#{scope}                      {c}                                    which classes of duration a scope has
    p#{scope}#{c}                  {period}                               which periods of a lane hold files

Names, classes and periods are written before the first file that needs them, and stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chalicelib.catalog.files import FileRecord
from chalicelib.catalog.timestamps import DAY_MS
from chalicelib.ports import Key

LISTING = "listing"
_MINUTE_MS = 60_000
CLASSES_MS = (0, *(_MINUTE_MS << step for step in range(17)))
"""The longest duration of each class: instants, up to 1 minute, 2, 4, 8, and so on to 46 days."""
DURATIONS_PER_PERIOD = 32
SPARSE_PERIOD_MS = 32 * DAY_MS
"""Of instants, and of files with a work id: how long they last says nothing of how often they come. Logs that are rotated follow each
other, so their duration does."""
_PERIOD_DIGITS = 12
_PERIOD_SHIFT = 100_000_000_000
# Times before 1970 are negative: shifted, so that texts sort as numbers do.
_SHIFT_MS = 10**15
_START_DIGITS = 16
_NO_CLASS = "-"
_JOB = "j"


@dataclass(frozen=True, slots=True)
class SortKeyIndex:
    """Files of one scope (``t#{what}``, ``w#{where}:{what}``, ``k#{work_id}:{what}``) that last at most ``longest_ms``, in order of start.

    ``period_ms`` 0: all of them in one partition. ``is_listed``: the directory has its class and its periods.
    """

    scope: str
    class_: str
    longest_ms: int
    period_ms: int
    is_listed: bool = True

    @property
    def is_by_day(self) -> bool:
        """Whether a partition holds whatever overlaps its day, and nothing else."""
        return self.period_ms == DAY_MS

    def partition(self, period: int) -> str:
        """Where files of a period stand."""
        return f"{self.scope}#{self.class_}#{period}"

    @property
    def periods(self) -> str:
        """The partition that tells which periods hold files."""
        return f"p#{self.scope}#{self.class_}"

    def periods_of(self, record: FileRecord) -> range:
        """The periods that a file stands in: one, or two."""
        return range(self.period_of(record.metadata.start), self.period_of(record.metadata.last_ms) + 1)

    def period_of(self, start_ms: int) -> int:
        """The period of a file that starts then."""
        return start_ms // self.period_ms if self.period_ms else 0


def duration_class(duration_ms: int) -> int:
    """The class of files that last so long."""
    return next(number for number, longest_ms in enumerate(CLASSES_MS) if duration_ms <= longest_ms)


def duration_index(scope: str, class_: str) -> SortKeyIndex:
    """A lane of files by duration: ``3`` or, of files with a work id, ``3j``. A period is 32 times what its longest file lasts, and at
    least 32 days where files are sparse."""
    longest_ms = CLASSES_MS[int(class_.removesuffix(_JOB))]
    least_ms = SPARSE_PERIOD_MS if class_.endswith(_JOB) or not longest_ms else 0
    return SortKeyIndex(scope, class_, longest_ms, max(DURATIONS_PER_PERIOD * longest_ms, least_ms))


def work_index(work_id: str, what: str) -> SortKeyIndex:
    """The lane of a work id's files of a what: few, of any duration, in one partition."""
    return SortKeyIndex(f"k#{work_id}:{what}", _NO_CLASS, CLASSES_MS[-1], 0, is_listed=False)


def day_index(what: str) -> SortKeyIndex:
    """The lane of a what by days, of files of any duration."""
    return SortKeyIndex(f"d#{what}", _NO_CLASS, CLASSES_MS[-1], DAY_MS, is_listed=False)


def whats_of_work(work_id: str) -> str:
    """The partition that tells which whats a work id has."""
    return f"n#what@work:{work_id}"


def what_scope(what: str) -> str:
    """Files of a what, from everywhere."""
    return f"t#{what}"


def source_scope(what: str, where: str) -> str:
    """Files of a what from one where."""
    return f"w#{where}:{what}"


def sort_key(start_ms: int, file_id: str = "") -> str:
    """A place in a lane. Without an id: before every file that starts then."""
    return f"{start_ms + _SHIFT_MS:0{_START_DIGITS}d}#{file_id}"


def period_text(period: int) -> str:
    """A period, so that texts sort as the periods do."""
    return f"{period + _PERIOD_SHIFT:0{_PERIOD_DIGITS}d}"


def period_number(text: str) -> int:
    """The inverse of ``period_text``."""
    return int(text) - _PERIOD_SHIFT


def indexes_of(record: FileRecord) -> Iterator[SortKeyIndex]:
    """The lanes that a file stands in: three, and a fourth when it has a work id."""
    metadata = record.metadata
    class_ = str(duration_class(metadata.last_ms - metadata.start)) + (_JOB if metadata.work_id else "")
    yield day_index(metadata.what)
    yield duration_index(what_scope(metadata.what), class_)
    yield duration_index(source_scope(metadata.what, metadata.where), class_)
    if metadata.work_id:
        yield work_index(metadata.work_id, metadata.what)


def listing_rows(record: FileRecord) -> dict[Key, dict[str, Any]]:
    """A file's rows, one for each lane and period."""
    at, document = sort_key(record.metadata.start, record.id), record.text()
    partitions = [index.partition(period) for index in indexes_of(record) for period in index.periods_of(record)]
    return {Key(LISTING, name, at): {"partition": name, "at": at, "document": document} for name in partitions}


def directory_keys(record: FileRecord) -> Iterator[Key]:
    """The rows without which nobody would look for the file. They hold nothing but their keys."""
    what, where = record.source
    yield from (Key(LISTING, "n#what", what), Key(LISTING, "n#where", where))
    yield from (Key(LISTING, f"n#what@{where}", what), Key(LISTING, f"n#where@{what}", where))
    if record.metadata.work_id:
        yield Key(LISTING, whats_of_work(record.metadata.work_id), what)
    for index in indexes_of(record):
        if index.is_listed:
            yield Key(LISTING, f"c#{index.scope}", index.class_)
            yield from (Key(LISTING, index.periods, period_text(period)) for period in index.periods_of(record))
