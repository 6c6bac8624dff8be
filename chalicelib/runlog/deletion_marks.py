"""Marks of runs that were deleted on purpose: who deleted a run, when and why, and what was removed. Decision 0058.

::

    _deleted/{fqn}/{run_id}.json     the mark, outside of the prefix whose objects expire
    the last row of the segments     derived from it: a cold append, and every reader of rows, finds it
    the run's row in the catalog     derived from it: ahead of every notification, and in no index

A mark is never removed, because a client may keep lines of the run for any time: a spool has no age limit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from urllib.parse import unquote

from chalicelib.errors import InvalidNameError, ObjectNotFoundError, PreconditionFailedError
from chalicelib.ports import ABSENT, DELETED, MAX_SEQUENCE, ObjectStore, PutOptions, Run, SegmentEntry
from chalicelib.runlog.conflicts import put_retrying_conflicts
from chalicelib.runlog.layout import checked_run, encode_name
from chalicelib.runlog.segment import SEAL

MARKS = "_deleted/"
MAX_REASON_CHARS = 500
_LAST_LINE = 10**16 - 1
_DATASET = f"{MARKS}.dataset.json"  # no encoded name begins with a dot
_JSON = PutOptions(content_type="application/json")


@dataclass(frozen=True, slots=True)
class DeletionOrder:
    """``by``: the subject that deletes; ``why``: its reason, None: not stated."""

    by: str
    why: str | None = None


NOBODY = DeletionOrder("")
"""Of a deletion in this process, without a request."""


@dataclass(frozen=True, slots=True)
class DeletionMark:
    """``by`` and ``why``: see ``DeletionOrder``. ``is_done``: nothing else is left of the run. ``counts``: of
    what was removed, by kind. ``attempts``: ids of the later attempts that were deleted with it."""

    fqn: str
    run_id: str
    deleted_ms: int
    by: str
    why: str | None = None
    is_done: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)
    attempts: tuple[str, ...] = ()

    @property
    def run(self) -> Run:
        """The deleted run."""
        return Run(self.fqn, self.run_id)

    def entry(self) -> SegmentEntry:
        """The row of the index that marks the run: after all segments."""
        return replace(DELETED_ENTRY, appended_ms=self.deleted_ms)


DELETED_ENTRY = SegmentEntry(
    sequence=MAX_SEQUENCE, kind=SEAL, epoch=0, line=_LAST_LINE, byte=0, lines=0, bytes=0, session="", base=MAX_SEQUENCE, digest="",
    appended_ms=0, reason=DELETED,
)  # fmt: skip
"""The seal of a deleted run."""


def mark_key(run: Run) -> str:
    """The key of a run's mark: shorter than those of its log."""
    return f"{MARKS}{encode_name(run.fqn)}/{encode_name(run.run_id)}.json"


def is_marked(store: ObjectStore, run: Run) -> bool:
    """Whether a run was deleted. One HEAD."""
    try:
        store.head(mark_key(run))
    except ObjectNotFoundError:
        return False
    return True


def find_mark(store: ObjectStore, run: Run) -> DeletionMark | None:
    """The mark of a deleted run. One GET. A mark whose text cannot be read is a mark all the same: of nobody."""
    try:
        stored = store.get(mark_key(run))
    except ObjectNotFoundError:
        return None
    try:
        document = json.loads(stored.body)
        return DeletionMark(**document | {"fqn": run.fqn, "run_id": run.run_id, "attempts": tuple(document["attempts"])})
    except (ValueError, KeyError, TypeError):
        return DeletionMark(run.fqn, run.run_id, stored.info.last_modified_ms, NOBODY.by)


def put_mark(store: ObjectStore, mark: DeletionMark) -> DeletionMark:
    """Store a new mark; returns the one that counts: the first. One PUT, and a GET if there is one."""
    try:
        put_retrying_conflicts(store, mark_key(mark.run), _text(mark), _JSON, ABSENT)
    except PreconditionFailedError:
        return find_mark(store, mark.run) or mark
    return mark


def replace_mark(store: ObjectStore, mark: DeletionMark) -> None:
    """Store the state of a deletion. One PUT."""
    store.put(mark_key(mark.run), _text(mark), _JSON)


def marked_runs(store: ObjectStore, fqn: str | None = None, since_ms: int = 0) -> Iterator[Run]:
    """The deleted runs, of one pipeline or of all, whose marks were written at a time or later. One LIST per 1,000."""
    prefix, start_after = MARKS + (f"{encode_name(fqn)}/" if fqn else ""), ""
    while True:
        page = store.list(prefix, start_after=start_after)
        for found in (each for each in page.objects if each.last_modified_ms >= since_ms):
            names = found.key.removeprefix(MARKS).removesuffix(".json").split("/")
            try:
                yield checked_run(*(unquote(name, errors="strict") for name in names))
            except (InvalidNameError, UnicodeDecodeError, TypeError):
                continue  # an object of another program
        if not page.truncated:
            return
        start_after = page.objects[-1].key


def _text(mark: DeletionMark) -> bytes:
    return json.dumps(asdict(mark)).encode()


def put_dataset_time(store: ObjectStore, began_ms: int) -> None:
    """Record that a job has removed the rows of all runs that were marked when it began. One PUT."""
    store.put(_DATASET, json.dumps({"began_ms": began_ms}).encode(), _JSON)


def last_dataset_ms(store: ObjectStore) -> int:
    """When the last such job began; -1: none did. One GET."""
    try:
        return int(json.loads(store.get(_DATASET).body)["began_ms"])
    except (ObjectNotFoundError, ValueError, KeyError, TypeError):
        return -1
