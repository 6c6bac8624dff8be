"""Finalized logs as files of the archive, so that archive queries return them: their what, where and time are those of the run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from chalicelib.archive.hashing import content_hash
from chalicelib.catalog.file_ids import run_object_id
from chalicelib.catalog.files import FileRecord
from chalicelib.catalog.metadata import MAX_DAYS, Metadata
from chalicelib.catalog.registration import Description, ObjectRef
from chalicelib.catalog.runs import outcome_of_end
from chalicelib.catalog.timestamps import DAY_MS
from chalicelib.deadline import Deadline
from chalicelib.errors import DamagedLogError, ObjectNotFoundError
from chalicelib.ports import ObjectInfo, ObjectStore, Run, SegmentEntry, SegmentIndex
from chalicelib.runlog.artifact import Artifact, artifact_of
from chalicelib.runlog.layout import Layout

UNKNOWN_HOST = "unknown"
MAX_HASHED_BYTES = 4 * 1024**3
"""The largest log that ingestion reads. The hash of a larger one is of its key, size and ETag, and its ``hash_of`` is ``identity``."""
_SLUG_CHARS = 256
_NOT_A_SLUG = re.compile(r"[^a-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Describes ``logs.txt`` of runs."""

    bucket: str
    store: ObjectStore
    index: SegmentIndex
    layout: Layout

    def ref(self, key: str) -> ObjectRef:
        """The reference of a finalized log."""
        return ObjectRef(self.bucket, key, run_object_id(key))

    def is_log(self, key: str) -> bool:
        """Whether a key is of a finalized log."""
        parsed = self.layout.parse(key)
        return parsed is not None and parsed.kind == "logs"

    def describe(self, ref: ObjectRef, deadline: Deadline) -> Description:
        """One HEAD, two reads of the index, and one read of the whole log for its hash. The rows of a log's segments are written
        before the log, so the same log always gives the same file. The log of a deleted run counts as deleted. Raises
        UnavailableError."""
        parsed = self.layout.parse(ref.key)
        assert parsed and parsed.kind == "logs", ref
        try:
            info = self.store.head(ref.key)
            artifact = artifact_of(info)
            if artifact.is_deleted:
                return Description()
            metadata = self._metadata(parsed.run, info, artifact, deadline)
        except ObjectNotFoundError:
            return Description()
        except DamagedLogError as error:
            return Description(problem=str(error))
        return Description(FileRecord(ref.url, info.size, info.last_modified_ms, metadata))

    def _metadata(self, run: Run, info: ObjectInfo, artifact: Artifact, deadline: Deadline) -> Metadata:
        first = next(iter(self.index.rows_from(run, 0, 0, 1)), None)
        last = self.index.at_line(run, max((artifact.lines or 0) - 1, 0)) if first else None
        end = last.appended_ms if last else info.last_modified_ms
        start = min(first.appended_ms, end) if first else end
        is_hashed = info.size <= MAX_HASHED_BYTES
        identity = f"{info.key} {info.size} {info.etag}".encode()
        document = run_object_metadata(run, info, first) | {
            "start": max(start, (end // DAY_MS - MAX_DAYS + 1) * DAY_MS),  # a run of more than 30 days is listed on its last 30
            "end": end,
            "hash": content_hash(self.store, info, deadline) if is_hashed else blake2b(identity, digest_size=16).hexdigest(),
        }
        outcome = outcome_of_end(artifact.reason, artifact.end)
        ours: dict[str, Any] = {"fqn": run.fqn, "run_id": run.run_id, "lines": artifact.lines, "outcome": outcome}
        return Metadata.model_validate(document | ours | ({} if is_hashed else {"hash_of": "identity"}))


def run_object_metadata(run: Run, info: ObjectInfo, entry: SegmentEntry | None) -> dict[str, Any]:
    """The metadata document of a run's object; ``entry`` if it is a segment, or has the connector."""
    moment_ms = entry.appended_ms if entry else info.last_modified_ms
    return {
        "version": 0,
        "start": moment_ms,
        "end": moment_ms,
        "path": "/" + info.key,
        "work_id": _work_id(run.run_id),
        "where": slug(entry.connector) if entry and entry.connector else UNKNOWN_HOST,
        "what": slug(run.fqn),
        "id": run_object_id(info.key),
        "hash": entry.digest if entry and entry.digest else None,
    }


def _work_id(run_id: str) -> str:
    """The text "null" means no work id, so it gets a prefix."""
    name = slug(run_id)
    return name if name != "null" else "run-null"


def slug(name: str) -> str:
    """A name in the datalake's alphabet (``[a-z0-9_-]``); never empty."""
    return _NOT_A_SLUG.sub("_", name.lower()).strip("_")[:_SLUG_CHARS] or "_"
