"""Ledger entries; each takes the dataset from one state to the next."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from chalicelib.errors import DamagedLogError, InvalidConfigurationError

VERSION = 2
APPEND, REWRITE, REMOVAL = "append", "rewrite", "removal"
STAGING, DATA = "_staging/", "data/"


class DataFile(NamedTuple):
    """A Parquet file. ``path`` is relative to the destination: ``data/date=…/what_bucket=…/….parquet``."""

    path: str
    bytes: int
    rows: int

    @property
    def partition(self) -> str:
        """Its folder below data/."""
        return self.path.removeprefix(DATA).rpartition("/")[0]


class StagedFile(NamedTuple):
    """A complete file of an attempt. ``name``: below the attempt's output folder."""

    name: str
    bytes: int
    rows: int


class Added(NamedTuple):
    """A file that an entry adds, and its path below the attempt's staging folder."""

    file: DataFile
    staged: str


@dataclass(frozen=True, slots=True)
class Layout:
    """Settings that are fixed for a dataset's lifetime. ``buckets``: number of buckets of ``what``; ``zone``: of timestamps
    without one; ``of``: the selection of runs (``offsets.fingerprint``)."""

    buckets: int
    zone: str
    of: str

    def check(self, known: Layout | None) -> None:
        """Raises InvalidConfigurationError if the dataset has another layout."""
        if known is None or known == self:
            return
        names = [name for name, value in asdict(self).items() if asdict(known)[name] != value]
        said = ", ".join(f"{name}={asdict(known)[name]!r} given={asdict(self)[name]!r}" for name in names)
        raise InvalidConfigurationError(f"the dataset was created with other settings: use these, or create another dataset {said}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A commit. ``offset``: up to which runs were read; None: unchanged (a rewrite). ``counts``: for people. ``layouts``: the version of the
    layouts of lines that parsed its rows (``lines.version``); None: those of a rewrite, or not stored."""

    number: int
    attempt: str
    kind: str
    layout: Layout
    offset: Mapping[str, Any] | None
    added: tuple[Added, ...] = ()
    removed: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    layouts: int | None = None

    @property
    def staging(self) -> str:
        """The folder of its attempt."""
        return f"{STAGING}{self.attempt}/"

    def to_json(self) -> bytes:
        """The stored form."""
        added = [[*each.file, each.staged] for each in self.added]
        return _dumped(
            {
                "v": VERSION,
                "number": self.number,
                "attempt": self.attempt,
                "kind": self.kind,
                "layout": asdict(self.layout),
                "counts": dict(self.counts),
                "layouts": self.layouts,
                "added": added,
                "removed": list(self.removed),
                "offset": self.offset,
            }
        )

    @classmethod
    def from_json(cls, body: bytes) -> Entry:
        """The inverse. Raises DamagedLogError."""
        document = _loaded(body)
        try:
            added = tuple(Added(DataFile(*each[:3]), each[3]) for each in document["added"])
            names = ("number", "attempt", "kind", "offset", "counts")
            return cls(
                **{name: document[name] for name in names},
                layout=Layout(**document["layout"]),
                layouts=document.get("layouts"),
                added=added,
                removed=tuple(document["removed"]),
            )
        except (KeyError, TypeError, IndexError) as error:
            raise DamagedLogError(f"invalid ledger entry error={error!r}") from error


@dataclass(frozen=True, slots=True)
class State:
    """The dataset after entry ``number``; 0: before the first. ``files`` by path."""

    number: int = 0
    layout: Layout | None = None
    offset: Mapping[str, Any] | None = None
    files: Mapping[str, DataFile] = field(default_factory=dict)

    def after(self, entry: Entry) -> State:
        """The state after one more entry."""
        files = dict(self.files)
        for path in entry.removed:
            del files[path]
        files |= {each.file.path: each.file for each in entry.added}
        return State(entry.number, entry.layout, self.offset if entry.offset is None else entry.offset, files)

    def to_json(self) -> bytes:
        """The form stored in a checkpoint."""
        layout = asdict(self.layout) if self.layout else None
        files = [list(each) for each in self.files.values()]
        return _dumped({"v": VERSION, "number": self.number, "layout": layout, "files": files, "offset": self.offset})

    @classmethod
    def from_json(cls, body: bytes) -> State:
        """The inverse. Raises DamagedLogError."""
        document = _loaded(body)
        try:
            files = {each[0]: DataFile(*each) for each in document["files"]}
            layout = Layout(**document["layout"]) if document["layout"] else None
            return cls(document["number"], layout, document["offset"], files)
        except (KeyError, TypeError, IndexError) as error:
            raise DamagedLogError(f"invalid ledger checkpoint error={error!r}") from error


def _dumped(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _loaded(body: bytes) -> Any:
    try:
        document = json.loads(body)
    except ValueError as error:
        raise DamagedLogError("invalid JSON in a ledger file") from error
    if not isinstance(document, dict) or document.get("v") != VERSION:
        raise InvalidConfigurationError(f"unsupported ledger version expected={VERSION}")
    return document
