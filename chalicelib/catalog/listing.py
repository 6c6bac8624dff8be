"""Table ``listing``: every file once in each order that queries ask for, so that a query reads about what it returns.

A **lane** holds files of one source (or of one ``what`` from everywhere, or of one work id) and of about one duration, in the order of
their start. Files of a lane stand in partitions of a fixed period, so that none grows with the years. What overlaps an interval
[a, b] in a lane whose files last at most D started in [a - D, b]: one range. Every file of the lane lasts more than D / 4 (or D is a
minute, or none), so before ``a`` about one in four that are read is answered at worst, and after it every one.

    partition                      sort                     row
    t#{what}#{c}#{period}          {start}#{id}             document      files of a what
    w#{where}:{what}#{c}#{period}  {start}#{id}             document      files of a source
    k#{work_id}#-#0                {start}#{id}             document      files of a work id
    n#what, n#where                {name}                                 which names there are
    n#what@{where}, n#where@{what} {name}                                 which sources there are
    c#{scope}                      {c}                                    which classes of duration a scope has
    p#{scope}#{c}                  {period}                               which periods of a lane hold files

Names, classes and periods are written before the first file that needs them, and stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chalicelib.catalog.files import FileRecord
from chalicelib.catalog.moments import DAY_MS
from chalicelib.ports import Key

LISTING = "listing"
_MINUTE_MS = 60_000
CLASSES_MS = (0, *(_MINUTE_MS << 2 * step for step in range(9)))
"""The longest duration of each class: instants, up to 1 min, 4 min, 16 min, 64 min, 4.3 h, 17 h, 2.8 days, 11 days, 46 days."""
PERIODS_PER_DURATION = 32
_PERIOD_DIGITS = 12
_PERIOD_SHIFT = 100_000_000_000
# Times before 1970 are negative: shifted, so that texts sort as numbers do.
_SHIFT_MS = 10**15
_START_DIGITS = 16
_NO_CLASS = "-"


@dataclass(frozen=True, slots=True)
class Lane:
    """Files of one scope (``t#{what}``, ``w#{where}:{what}``, ``k#{work_id}``) that last at most ``longest_ms``, in order of start.

    ``period_ms`` 0: all of them in one partition.
    """

    scope: str
    class_: str
    longest_ms: int
    period_ms: int

    def partition(self, period: int) -> str:
        """Where files of a period stand."""
        return f"{self.scope}#{self.class_}#{period}"

    @property
    def periods(self) -> str:
        """The partition that tells which periods hold files."""
        return f"p#{self.scope}#{self.class_}"

    def period_of(self, start_ms: int) -> int:
        """The period of a file that starts then."""
        return start_ms // self.period_ms if self.period_ms else 0


def duration_class(duration_ms: int) -> int:
    """The class of files that last so long."""
    return next(number for number, longest_ms in enumerate(CLASSES_MS) if duration_ms <= longest_ms)


def timed_lane(scope: str, class_: int) -> Lane:
    """A lane of files by duration. A period is 32 times what its longest file lasts; a day for instants."""
    longest_ms = CLASSES_MS[class_]
    return Lane(scope, str(class_), longest_ms, PERIODS_PER_DURATION * longest_ms or DAY_MS)


def work_lane(work_id: str) -> Lane:
    """The lane of a work id: few files, of any duration, in one partition."""
    return Lane(f"k#{work_id}", _NO_CLASS, CLASSES_MS[-1], 0)


def what_scope(what: str) -> str:
    """Files of a what, from everywhere."""
    return f"t#{what}"


def source_scope(what: str, where: str) -> str:
    """Files of a what from one where."""
    return f"w#{where}:{what}"


def position(start_ms: int, file_id: str = "") -> str:
    """A place in a lane. Without an id: before every file that starts then."""
    return f"{start_ms + _SHIFT_MS:0{_START_DIGITS}d}#{file_id}"


def period_text(period: int) -> str:
    """A period, so that texts sort as the periods do."""
    return f"{period + _PERIOD_SHIFT:0{_PERIOD_DIGITS}d}"


def period_number(text: str) -> int:
    """The inverse of ``period_text``."""
    return int(text) - _PERIOD_SHIFT


def lanes_of(record: FileRecord) -> Iterator[Lane]:
    """The lanes that a file stands in: two, and a third when it has a work id."""
    metadata = record.metadata
    class_ = duration_class(metadata.last_ms - metadata.start)
    yield timed_lane(what_scope(metadata.what), class_)
    yield timed_lane(source_scope(metadata.what, metadata.where), class_)
    if metadata.work_id:
        yield work_lane(metadata.work_id)


def listing_rows(record: FileRecord) -> dict[Key, dict[str, Any]]:
    """A file's rows, one for each lane."""
    start_ms, document = record.metadata.start, record.text()
    at = position(start_ms, record.id)
    partitions = [lane.partition(lane.period_of(start_ms)) for lane in lanes_of(record)]
    return {Key(LISTING, name, at): {"partition": name, "at": at, "document": document} for name in partitions}


def directory_keys(record: FileRecord) -> Iterator[Key]:
    """The rows without which nobody would look for the file. They hold nothing but their keys."""
    what, where = record.source
    yield from (Key(LISTING, "n#what", what), Key(LISTING, "n#where", where))
    yield from (Key(LISTING, f"n#what@{where}", what), Key(LISTING, f"n#where@{what}", where))
    for lane in lanes_of(record):
        if lane.period_ms:
            yield Key(LISTING, f"c#{lane.scope}", lane.class_)
            yield Key(LISTING, lane.periods, period_text(lane.period_of(record.metadata.start)))
