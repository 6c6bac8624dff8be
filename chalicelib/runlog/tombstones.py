"""Tombstones: a record that an expired run existed, and why it was deleted.

``{prefix}/.tombstones/{fqn}/{run_id}/expired.json``, written before any object of the run is deleted. The bucket's lifecycle removes it, as it
does logs.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from chalicelib.errors import ObjectNotFoundError
from chalicelib.ports import ObjectStore, PutOptions, Run
from chalicelib.runlog.layout import Layout, is_key


@dataclass(frozen=True, slots=True)
class Tombstone:
    """``plan``: id of the retention plan, ``reason`` and ``rule`` are from it. ``lines`` is -1 if only reading the log could count them."""

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


def put_tombstone(store: ObjectStore, layout: Layout, tombstone: Tombstone) -> None:
    """Write a tombstone, replacing an older one. One PUT; none if the key is too long, as it can be for a log of OpenMetadata."""
    key = layout.tombstone(Run(tombstone.fqn, tombstone.run_id))
    if not is_key(key):
        return
    store.put(key, json.dumps(asdict(tombstone)).encode(), PutOptions(content_type="application/json"))


def find_tombstone(store: ObjectStore, layout: Layout, run: Run) -> Tombstone | None:
    """A run's tombstone. One GET; none if the key is too long."""
    key = layout.tombstone(run)
    if not is_key(key):
        return None
    try:
        return Tombstone(**json.loads(store.get(key).body))
    except ObjectNotFoundError:
        return None
