"""Bundles: many small sidecars of an ended run in one object (decision 0048).

::

    {run}/events/bundles/{first:010d}-{last:010d}    gzip of a line of JSON, the directory; then the sidecars, byte for byte, ascending

``first`` and ``last`` are the lowest and the highest number in it; not every number between them has a sidecar. The directory is
``{"v": 1, "sidecars": [[number, bytes], …]}``. Each part is a gzip member, so the object is a gzip file. Immutable, written
put-if-absent.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from chalicelib.errors import DamagedLogError

VERSION = 1
BUNDLE_BYTES = 1024 * 1024
"""Sidecars in a bundle, at most; without the directory."""
MAX_SIDECARS = 4096
"""In a bundle."""
_MAX_DIRECTORY_BYTES = 1024 * 1024
_GZIP = 31


class BundleName(NamedTuple):
    """The numbers in a bundle's key, and the ETag of a listed one."""

    first: int
    last: int
    etag: str = ""


@dataclass(frozen=True, slots=True)
class SidecarGroup:
    """Sidecars that are read together: a single object, or a bundle with the single objects among its numbers.

    Only numbers from ``first`` to ``last`` are read. Several ``bundles`` overlap each other. A number in both is the bundle's.
    """

    first: int
    last: int
    singles: tuple[int, ...] = ()
    bundles: tuple[BundleName, ...] = ()


def encode_bundle(sidecars: Sequence[tuple[int, bytes]]) -> bytes:
    """The object's bytes: numbers, ascending, and stored sidecars. Deterministic."""
    directory = {"v": VERSION, "sidecars": [[number, len(body)] for number, body in sidecars]}
    first = gzip.compress(json.dumps(directory, separators=(",", ":")).encode() + b"\n", mtime=0)
    return b"".join([first, *(body for _, body in sidecars)])


def decode_bundle(body: bytes) -> Mapping[int, bytes]:
    """The stored sidecars by number, ascending. Holds the body once more. Raises DamagedLogError."""
    inflater = zlib.decompressobj(_GZIP)
    try:
        directory = json.loads(inflater.decompress(body, _MAX_DIRECTORY_BYTES))
        sizes = [(int(number), int(size)) for number, size in directory["sidecars"]]
    except (zlib.error, ValueError, TypeError, KeyError, RecursionError) as error:
        raise DamagedLogError(f"not a bundle of sidecars bytes={len(body)} error={type(error).__name__}") from error
    at = len(body) - len(inflater.unused_data)
    is_ascending = all(before[0] < after[0] for before, after in pairwise(sizes))
    if not inflater.eof or not is_ascending or at + sum(size for _, size in sizes) != len(body):
        raise DamagedLogError(f"the directory of a bundle does not match its size bytes={len(body)}")
    sidecars: dict[int, bytes] = {}
    for number, size in sizes:
        sidecars[number] = body[at : at + size]
        at += size
    return sidecars


def group_sidecars(singles: Iterable[int], bundles: Iterable[BundleName], first: int = 0) -> Iterator[SidecarGroup]:
    """All sidecars from number ``first`` on in ascending order of their groups. ``singles``: ascending, read lazily."""
    clusters = deque(each for each in _clusters(bundles, first) if each.last >= first)
    among: list[int] = []
    for number in singles:
        while clusters and clusters[0].last < number:
            yield _with(clusters.popleft(), among)
            among = []
        if clusters and clusters[0].first <= number:
            among.append(number)
        elif number >= first:
            yield SidecarGroup(number, number, (number,))
    while clusters:
        yield _with(clusters.popleft(), among)
        among = []


def _clusters(bundles: Iterable[BundleName], first: int) -> list[SidecarGroup]:
    """A group for each bundle, or for bundles that overlap."""
    clusters: list[SidecarGroup] = []
    for each in sorted(bundles):
        last = clusters[-1] if clusters else None
        if last and each.first <= last.last:
            clusters[-1] = SidecarGroup(last.first, max(last.last, each.last), (), (*last.bundles, each))
        else:
            clusters.append(SidecarGroup(max(first, each.first), each.last, (), (each,)))
    return clusters


def _with(cluster: SidecarGroup, singles: Sequence[int]) -> SidecarGroup:
    return SidecarGroup(cluster.first, cluster.last, tuple(singles), cluster.bundles)
