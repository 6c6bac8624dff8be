"""The objects that hold a prefix of the log in one piece: ``partial.txt`` while the run is open, ``logs.txt`` once it is finalized.

User metadata: ``last-flushed-line``, ``total-bytes``, ``writer-epoch``, ``writer-version`` as OpenMetadata has them, and ours:
``next-segment`` (the first number that is not in it), ``reason`` (of the seal that it ends with), what that seal says of the end of the
run (``outcome`` and others, see ``segment``) and ``deleted`` (the run was deleted: the object is empty, refuses appends, and is of no
list). An object without ``next-segment`` is OpenMetadata's own: it reads normally, and its lines must be counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from chalicelib import __version__
from chalicelib.errors import DamagedLogError, ObjectNotFoundError
from chalicelib.ports import ObjectInfo, ObjectStore, RunEnd
from chalicelib.runlog.segment import CLOSED, end_of, metadata_of_end

_READ_BYTES = 5 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Artifact:
    """Bytes [0, ``bytes``) and lines [0, ``lines``) of a log in the object ``key``, as it was at ``etag``.

    ``next_segment``: everything below is in it. ``reason``: "closed" or "abandoned" when it ends with that seal, else empty.
    ``lines`` is None where only counting could tell (an object of OpenMetadata's own). ``modified_ms``: when S3 took it.
    ``end``: what the seal that it ends with says; None: nothing, or a release before this one wrote it. ``is_deleted``: all that is left of a
    deleted run, which catalogs leave out.
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

    @property
    def is_legacy(self) -> bool:
        """Whether OpenMetadata wrote it: no segment of ours is in it."""
        return self.lines is None


def artifact_metadata(
    lines: int, size: int, next_segment: int, epoch: int, reason: str = "", end: RunEnd | None = None, *, deleted: bool = False
) -> dict[str, str]:
    """User metadata of partial.txt and logs.txt."""
    metadata = {
        "last-flushed-line": str(lines),
        "total-bytes": str(size),
        "writer-epoch": str(epoch),
        "writer-version": f"runlake-{__version__}",
        "next-segment": str(next_segment),
    }
    metadata |= {"reason": reason} if reason else {}
    return metadata | (metadata_of_end(end) if end else {}) | ({"deleted": "1"} if deleted else {})


def artifact_of(info: ObjectInfo) -> Artifact:
    """What an object's metadata says of it. Raises DamagedLogError when it contradicts itself or the object's size."""
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
        )
    except (KeyError, ValueError) as error:
        raise DamagedLogError(f"object without its metadata key={info.key} missing={error}") from error
    if artifact.bytes != info.size:
        raise DamagedLogError(f"object differs from its metadata key={info.key} size={info.size} said={artifact.bytes}")
    return artifact


def find_artifact(store: ObjectStore, key: str) -> Artifact | None:
    """The artifact under a key. One HEAD."""
    try:
        return artifact_of(store.head(key))
    except ObjectNotFoundError:
        return None


def closed_if_legacy(logs: Artifact) -> Artifact:
    """``logs.txt`` as the end of its log: one of OpenMetadata's does not say so itself, and is a closed run."""
    return replace(logs, reason=CLOSED) if logs.is_legacy else logs


def furthest(*artifacts: Artifact | None) -> Artifact | None:
    """The artifact that holds most of the log; the first of two that hold the same. ``logs.txt`` of a run that was reopened is behind
    its ``partial.txt``, and stays until the next end."""
    return max((artifact for artifact in artifacts if artifact), key=lambda artifact: artifact.next_segment, default=None)


def read_chunks(store: ObjectStore, artifact: Artifact, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """Bytes [start, end) of an artifact in pieces of 5 MiB, all of the version that was found (else PreconditionFailedError)."""
    end = artifact.bytes if end is None else end
    for at in range(start, end, _READ_BYTES):
        yield store.get(artifact.key, at, min(at + _READ_BYTES, end), if_match=artifact.etag).body


@dataclass(frozen=True, slots=True)
class Extent:
    """How far an artifact reaches: ``bytes`` includes the newline that a log of OpenMetadata's may lack at its end."""

    lines: int
    bytes: int
    lacks_newline: bool = False


def extent_of(store: ObjectStore, artifact: Artifact | None) -> Extent:
    """Lines and bytes of an artifact: from its metadata, or by reading one of OpenMetadata's (5 MiB at a time)."""
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
