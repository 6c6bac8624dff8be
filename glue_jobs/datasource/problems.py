"""What is wrong with stored data, where a read meets it: logged and passed over, or an error (``mode=failfast``).

======== ==========================================================================================================
kind
======== ==========================================================================================================
missing  numbers of segments, or bytes, that should be there: events after them keep their numbers where they are known
metadata an object without its metadata, or one that contradicts the bytes: the bytes are read, and counted
line     a line longer than can be a row: passed over
gone     what was planned to be read is in no object any more: expired or deleted meanwhile
key      an object where only a run's own objects should be: passed over
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
    """Takes problems, each once. ``strict``: the first is an error. Of one task at most 100 are logged, the others counted."""

    def __init__(self, strict: bool = False) -> None:
        self.reported: list[Problem] = []
        self._strict = strict
        self._known: set[Problem] = set()
        self._count = 0

    def report(self, run: Run, kind: str, key: str, detail: str) -> None:
        """Raises DamagedLogError when strict."""
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
        """Tell how many were not logged."""
        if self._count > _MAX_LOGGED:
            LOG.warning("%d more problems: read with rows=problems to see them", self._count - _MAX_LOGGED)
