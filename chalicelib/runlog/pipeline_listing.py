"""Lists pipelines: the folders directly below the bucket's prefix, one LIST per thousand, however many runs they have.

It needs no stored list, and a pipeline disappears once all its runs have expired. Names are in the order of their keys: alphabetical, but
``a.b`` before ``a``, and percent-encoded characters first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from chalicelib.errors import InvalidCursorError, InvalidNameError
from chalicelib.ports import ObjectStore, after_folder
from chalicelib.runlog.layout import Layout, checked_fqn, encode_name, is_key

MAX_LISTS = 8
"""Per page. A request skips up to a thousand names that do not match or that the caller may not see; a page that stops at this limit contains
a cursor."""
_ENCODED = re.compile(r"[A-Za-z0-9._~%-]{1,1024}")


@dataclass(frozen=True, slots=True)
class PipelineQuery:
    """Names that begin with ``prefix``, contain ``contains`` (case-insensitive), and are visible to the caller. ``beginnings``: every visible
    name begins with at least one of these."""

    prefix: str = ""
    contains: str = ""
    may_see: Callable[[str], bool] = lambda _: True
    beginnings: Sequence[str] = ("",)


@dataclass(frozen=True, slots=True)
class PipelinePage:
    """``after``: the encoded name that the next page follows; None at the end. It may be a skipped name."""

    names: Sequence[str]
    after: str | None


@dataclass(frozen=True, slots=True)
class PipelineListing:
    """Lists the pipelines of a bucket."""

    store: ObjectStore
    layout: Layout

    def page(self, query: PipelineQuery, limit: int, after: str = "") -> PipelinePage:
        """Up to ``limit`` names after ``after``. At most ``MAX_LISTS`` requests. Raises InvalidCursorError, UnavailableError."""
        if after and not (_ENCODED.fullmatch(after) and self._is_key(f"{after}/")):
            raise InvalidCursorError("invalid cursor: omit it to start from the first page")
        names: list[str] = []
        reached = after
        for encoded in self._listed(_ranges(query), after):
            if encoded is None:
                return PipelinePage(names, reached)
            name = _seen_name(encoded, query)
            if name is not None and len(names) == limit:
                return PipelinePage(names, reached)
            reached = encoded
            if name is not None:
                names.append(name)
        return PipelinePage(names, None)

    def exists(self, fqn: str) -> bool:
        """Whether a pipeline has an object of a run. One LIST."""
        return bool(self.store.list(f"{self.layout.prefix}/{encode_name(fqn)}/", limit=1).objects)

    def _is_key(self, rest: str) -> bool:
        """Whether a key with this beginning is valid: S3 rejects a LIST of any other."""
        return is_key(f"{self.layout.prefix}/{rest}")

    def _listed(self, ranges: Sequence[str], after: str) -> Iterator[str | None]:
        """Encoded names of all ranges, ascending; None if the request limit is reached and more may follow."""
        requests = 0
        for beginning in (each for each in ranges if f"{after}/" < each or f"{after}/".startswith(each)) if after else ranges:
            start_after: str | None = after_folder(f"{self.layout.prefix}/{after}/") if after else ""
            while start_after is not None and self._is_key(beginning):
                if requests == MAX_LISTS:
                    yield None
                    return
                folders = self.store.list_folders(f"{self.layout.prefix}/{beginning}", start_after=start_after)
                requests, start_after = requests + 1, folders.start_after
                yield from folders.names


def _ranges(query: PipelineQuery) -> list[str]:
    """Key prefixes to list, encoded and ascending, none a prefix of another."""
    narrowed = {_narrower(query.prefix, beginning) for beginning in query.beginnings} - {None}
    ranges: list[str] = []
    for encoded in sorted(encode_name(each) for each in narrowed if each is not None):
        if not (ranges and encoded.startswith(ranges[-1])):
            ranges.append(encoded)
    return ranges


def _narrower(prefix: str, beginning: str) -> str | None:
    """The longer of the two, if it begins with the shorter one."""
    short, long = sorted((prefix, beginning), key=len)
    return long if long.startswith(short) else None


def _seen_name(encoded: str, query: PipelineQuery) -> str | None:
    """The pipeline name of a folder; None if the folder is no pipeline (``.active``), is not visible, or does not match."""
    try:
        name = checked_fqn(unquote(encoded, errors="strict"))
    except (UnicodeDecodeError, InvalidNameError):
        return None
    is_pipeline = not encoded.startswith(".") and query.may_see(name)
    return name if is_pipeline and name.startswith(query.prefix) and query.contains.casefold() in name.casefold() else None
