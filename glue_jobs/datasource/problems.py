"""Problems of stored data that a read meets: logged and skipped, or an error (``mode=failfast``).

======== ==========================================================================================================
kind
======== ==========================================================================================================
missing  segment numbers or bytes are missing: later events keep their line numbers where these are known
metadata an object has no metadata, or its metadata contradicts the bytes: the bytes are read, and lines counted
line     a line is longer than the maximum of a row: skipped
gone     planned bytes are in no object any more: expired or deleted meanwhile
key      a foreign object in a run's folder: skipped
======== ==========================================================================================================
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from chalicelib.errors import DamagedLogError
from chalicelib.ports import Run

MISSING, METADATA, LINE, GONE, KEY = "missing", "metadata", "line", "gone", "key"

LOG = logging.getLogger("runlake.datasource")
_MAX_LOGGED = 100
_MAX_KEPT = 100_000


class Problem(NamedTuple):
    """A row of ``rows=problems``."""

    fqn: str
    run_id: str
    kind: str
    key: str
    detail: str


class Problems:
    """Collects problems without duplicates. ``strict``: the first one is an error. At most 100 of a task are logged, the rest
    counted."""

    def __init__(self, strict: bool = False) -> None:
        self.reported: list[Problem] = []
        self._strict = strict
        self._known: set[Problem] = set()
        self._count = 0

    def report(self, run: Run, kind: str, key: str, detail: str) -> None:
        """Raises DamagedLogError if strict."""
        problem = Problem(run.fqn, run.run_id, kind, key, detail)
        if self._strict:
            raise DamagedLogError(f"{kind}: {detail} key={key}")
        if problem in self._known:
            return
        self._count += 1
        if len(self._known) < _MAX_KEPT:
            self._known.add(problem)
            self.reported.append(problem)
        if self._count <= _MAX_LOGGED:
            LOG.warning("%s: %s key=%s run=%s/%s", kind, detail, key, run.fqn, run.run_id)

    def end(self) -> None:
        """Log the number of problems that were not logged."""
        if self._count > _MAX_LOGGED:
            LOG.warning("%d more problems: read with rows=problems to see them", self._count - _MAX_LOGGED)
