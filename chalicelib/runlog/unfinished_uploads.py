"""Records of unfinished multipart uploads, which the next pass resumes (decision 0037).

::

    {run}/unfinished.json    {"upload_id", "key", "plan", "through", "parts": [[number, etag], …]}

``plan`` is a digest of all sources of the upload. Sources are immutable, or pinned to a version, so the same plan makes the same bytes, no
matter which pass sends which part.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b

from chalicelib.errors import ObjectNotFoundError, RunlakeError
from chalicelib.ports import ObjectStore, PutOptions, Run
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.multipart_plan import UploadPart

_JSON = PutOptions(content_type="application/json")


@dataclass(frozen=True, slots=True)
class UnfinishedUpload:
    """``through``: number of the last segment in it. ``parts``: (number, ETag) of the uploaded parts, from 1 on without a gap."""

    upload_id: str
    key: str
    plan: str
    through: int
    parts: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class UnfinishedUploadStore:
    """At most one record per run. Its loss costs repeated work, no data."""

    store: ObjectStore
    layout: Layout

    def find(self, run: Run) -> UnfinishedUpload | None:
        """The record of a run; None if there is none, or if it is invalid. One GET."""
        try:
            document = json.loads(self.store.get(self.layout.unfinished(run)).body)
            parts = tuple((int(number), str(etag)) for number, etag in document["parts"])
            upload_id, key, plan = (str(document[name]) for name in ("upload_id", "key", "plan"))
            return UnfinishedUpload(upload_id, key, plan, int(document["through"]), parts)
        except (ObjectNotFoundError, ValueError, TypeError, KeyError):
            return None

    def save(self, run: Run, upload: UnfinishedUpload) -> None:
        """Write the record. One PUT."""
        self.store.put(self.layout.unfinished(run), json.dumps(asdict(upload)).encode(), _JSON)

    def abort(self, run: Run, upload: UnfinishedUpload) -> None:
        """Abort the upload and delete the record. After an error the next pass, or the bucket's lifecycle, cleans up."""
        with suppress(RunlakeError):
            self.store.abort_multipart(upload.key, upload.upload_id)
        self.forget(run)

    def forget(self, run: Run) -> None:
        """Delete the record of a completed upload."""
        with suppress(RunlakeError):
            self.store.delete(self.layout.unfinished(run))


def plan_id(key: str, parts: Sequence[UploadPart]) -> str:
    """Digest of a key and its parts: equal for the same bytes, split the same way."""
    digest = blake2b(key.encode(), digest_size=16)
    for part in parts:
        digest.update(repr((part.copied, [(s.key, s.start, s.end, s.etag, s.literal) for s in part.sources])).encode())
    return digest.hexdigest()
