"""Artifacts: objects with a prefix of the log, ``partial.txt`` while the run is running, ``logs.txt`` once it is finalized.

User metadata: ``last-flushed-line``, ``total-bytes``, ``writer-epoch``, ``writer-version`` as in OpenMetadata, and Runlake's:
``next-segment`` (the first number that is not in it), ``zone`` (the run's), ``layouts`` (the version of the layouts of lines when it was
written), ``reason`` (of the seal that it ends with), the end of the run from that seal (``outcome`` and others, see ``segment``) and
``deleted`` (the run was deleted: the object is empty, rejects appends, and is in no list). An object without ``next-segment`` was
written by OpenMetadata: it is readable, and its lines must be counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from chalicelib import __version__
from chalicelib.errors import DamagedLogError, ObjectNotFoundError
from chalicelib.lines.version import LAYOUTS_VERSION
from chalicelib.ports import ObjectInfo, ObjectStore, RunEnd
from chalicelib.runlog.segment import CLOSED, end_of, metadata_of_end

_READ_BYTES = 5 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Artifact:
    """Bytes [0, ``bytes``) and lines [0, ``lines``) of a log in the version ``etag`` of the object ``key``.

    ``next_segment``: all segments below are in it. ``reason``: "closed" or "abandoned" if it ends with such a seal, else empty.
    ``lines`` is None if the lines must be counted (an object of OpenMetadata). ``modified_ms``: last modified on S3.
    ``end``: from the seal that it ends with; None: not stated. ``is_deleted``: marker of a deleted run, which
    catalogs omit. ``zone``: the run's, see ``SegmentEntry``.
    """

    key: str
    etag: str
    bytes: int
    lines: int | None
    next_segment: int
    epoch: int
    reason: str
    modified_ms: int = field(default=0, compare=False)
    is_deleted: bool = False
    end: RunEnd | None = None
    zone: str = ""

    @property
    def is_legacy(self) -> bool:
        """Whether OpenMetadata wrote it: it contains none of Runlake's segments."""
        return self.lines is None


def artifact_metadata(
    lines: int,
    size: int,
    next_segment: int,
    epoch: int,
    reason: str = "",
    end: RunEnd | None = None,
    *,
    zone: str = "",
    deleted: bool = False,
) -> dict[str, str]:
    """User metadata of partial.txt and logs.txt."""
    metadata = {
        "last-flushed-line": str(lines),
        "total-bytes": str(size),
        "writer-epoch": str(epoch),
        "writer-version": f"runlake-{__version__}",
        "next-segment": str(next_segment),
        "layouts": str(LAYOUTS_VERSION),
    }
    metadata |= ({"zone": zone} if zone else {}) | ({"reason": reason} if reason else {})
    return metadata | (metadata_of_end(end) if end else {}) | ({"deleted": "1"} if deleted else {})


def artifact_of(info: ObjectInfo) -> Artifact:
    """The artifact in an object's metadata. Raises DamagedLogError if the metadata is invalid or contradicts the object's size."""
    metadata = info.metadata
    if "next-segment" not in metadata:
        return Artifact(info.key, info.etag, info.size, None, 0, 0, "", info.last_modified_ms)
    try:
        artifact = Artifact(
            key=info.key,
            etag=info.etag,
            bytes=int(metadata["total-bytes"]),
            lines=int(metadata["last-flushed-line"]),
            next_segment=int(metadata["next-segment"]),
            epoch=int(metadata["writer-epoch"]),
            reason=metadata.get("reason", ""),
            modified_ms=info.last_modified_ms,
            is_deleted="deleted" in metadata,
            end=end_of(metadata),
            zone=metadata.get("zone", ""),
        )
    except (KeyError, ValueError) as error:
        raise DamagedLogError(f"object metadata is missing key={info.key} missing={error}") from error
    if artifact.bytes != info.size:
        raise DamagedLogError(f"object differs from its metadata key={info.key} size={info.size} expected={artifact.bytes}")
    return artifact


def find_artifact(store: ObjectStore, key: str) -> Artifact | None:
    """The artifact under a key. One HEAD."""
    try:
        return artifact_of(store.head(key))
    except ObjectNotFoundError:
        return None


def closed_if_legacy(logs: Artifact) -> Artifact:
    """``logs.txt`` with its reason: OpenMetadata stores none, and its runs with a ``logs.txt`` are closed."""
    return replace(logs, reason=CLOSED) if logs.is_legacy else logs


def furthest(*artifacts: Artifact | None) -> Artifact | None:
    """The artifact that contains most of the log; the first one if equal. ``logs.txt`` of a reopened run contains less than its
    ``partial.txt``, and stays until the next end."""
    return max((artifact for artifact in artifacts if artifact), key=lambda artifact: artifact.next_segment, default=None)


def read_chunks(store: ObjectStore, artifact: Artifact, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """Bytes [start, end) of an artifact in pieces of 5 MiB, all of the same version (else PreconditionFailedError)."""
    end = artifact.bytes if end is None else end
    for at in range(start, end, _READ_BYTES):
        yield store.get(artifact.key, at, min(at + _READ_BYTES, end), if_match=artifact.etag).body


@dataclass(frozen=True, slots=True)
class Extent:
    """Lines and bytes of an artifact; ``bytes`` includes the final newline that a log of OpenMetadata may lack."""

    lines: int
    bytes: int
    lacks_newline: bool = False


def extent_of(store: ObjectStore, artifact: Artifact | None) -> Extent:
    """Lines and bytes of an artifact: from its metadata, or by reading an object of OpenMetadata (5 MiB at a time)."""
    if artifact is None:
        return Extent(0, 0)
    if artifact.lines is not None:
        return Extent(artifact.lines, artifact.bytes)
    lines, last = 0, b"\n"
    for chunk in read_chunks(store, artifact):
        lines += chunk.count(b"\n")
        last = chunk[-1:]
    lacks_newline = last != b"\n"
    return Extent(lines + lacks_newline, artifact.bytes + lacks_newline, lacks_newline)
