"""Uploads in parts that a pass had no time to finish: what the next pass needs to go on (decision 0037).

::

    {run}/unfinished.json    {"upload_id", "key", "plan", "through", "parts": [[number, etag], …]}

``plan`` is a digest of everything that the upload is made of. Sources are immutable, or meant in one version, so the same plan makes the same
bytes, whoever sends which part.
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
    """``through``: the last segment in it. ``parts``: those that were sent, from 1 on without a gap."""

    upload_id: str
    key: str
    plan: str
    through: int
    parts: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class UnfinishedUploadStore:
    """One for each run at most. Losing it loses work, nothing else."""

    store: ObjectStore
    layout: Layout

    def find(self, run: Run) -> UnfinishedUpload | None:
        """One GET. None where there is none, or none that can be read."""
        try:
            document = json.loads(self.store.get(self.layout.unfinished(run)).body)
            parts = tuple((int(number), str(etag)) for number, etag in document["parts"])
            upload_id, key, plan = (str(document[name]) for name in ("upload_id", "key", "plan"))
            return UnfinishedUpload(upload_id, key, plan, int(document["through"]), parts)
        except (ObjectNotFoundError, ValueError, TypeError, KeyError):
            return None

    def save(self, run: Run, upload: UnfinishedUpload) -> None:
        """One PUT."""
        self.store.put(self.layout.unfinished(run), json.dumps(asdict(upload)).encode(), _JSON)

    def abort(self, run: Run, upload: UnfinishedUpload) -> None:
        """Give an upload up. What cannot be removed now is removed by the next pass, or by the bucket's lifecycle."""
        with suppress(RunlakeError):
            self.store.abort_multipart(upload.key, upload.upload_id)
        self.forget(run)

    def forget(self, run: Run) -> None:
        """It was completed."""
        with suppress(RunlakeError):
            self.store.delete(self.layout.unfinished(run))


def plan_id(key: str, parts: Sequence[UploadPart]) -> str:
    """Of the object that parts make: the same for the same bytes, cut the same way."""
    digest = blake2b(key.encode(), digest_size=16)
    for part in parts:
        digest.update(repr((part.copied, [(s.key, s.start, s.end, s.etag, s.literal) for s in part.sources])).encode())
    return digest.hexdigest()
