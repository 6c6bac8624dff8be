"""What stays of a run that has expired: that it was there, and why it is gone.

``{prefix}/.tombstones/{fqn}/{run_id}/expired.json``, written before anything of the run is deleted. It goes by the bucket's lifecycle, as logs do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from chalicelib.errors import ObjectNotFoundError
from chalicelib.ports import ObjectStore, PutOptions, Run
from chalicelib.runlog.layout import Layout, is_key
from chalicelib.runlog.log_end import list_all


@dataclass(frozen=True, slots=True)
class Tombstone:
    """``reason`` and ``rule`` as the plan has them, ``plan`` its id. ``lines`` is -1 where only counting could tell.

    ``tail`` and ``tail_ms``: the highest number of a segment and when it was written, -1 where there was none; ``logs_etag`` of logs.txt.
    By them what is left of a run whose deletion broke off is known from another run of the same name.
    """

    fqn: str
    run_id: str
    reason: str
    rule: int
    plan: str
    expired_ms: int
    ended_ms: int
    lines: int
    bytes: int
    objects: int
    tail: int
    tail_ms: int
    logs_etag: str


def put_tombstone(store: ObjectStore, layout: Layout, tombstone: Tombstone) -> None:
    """Write it, over an older one. One PUT; none where names leave no room for the key, as only those of earlier releases do."""
    key = layout.tombstone(Run(tombstone.fqn, tombstone.run_id))
    if not is_key(key):
        return
    store.put(key, json.dumps(asdict(tombstone)).encode(), PutOptions(content_type="application/json"))


def find_tombstone(store: ObjectStore, layout: Layout, run: Run) -> Tombstone | None:
    """A run's tombstone. One GET; none where names leave no room for the key."""
    key = layout.tombstone(run)
    if not is_key(key):
        return None
    try:
        return Tombstone(**json.loads(store.get(key).body))
    except ObjectNotFoundError:
        return None


def tombstones_of(store: ObjectStore, layout: Layout, fqn: str) -> Iterator[tuple[str, int]]:
    """(run id, when it was written) of a pipeline's tombstones. One LIST for each 1,000."""
    for found in list_all(store, layout.tombstones(fqn)):
        parsed = layout.parse(found.key)
        if parsed is not None:
            yield parsed.run.run_id, found.last_modified_ms
