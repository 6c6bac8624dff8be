"""Access to objects that OpenMetadata itself stored.

OpenMetadata replaces every character of an FQN except letters, digits, ``_`` and ``-`` by ``_``: ``team.hr_payroll`` and ``team_hr.payroll``
share one folder, and no object in it names its pipeline. Such a folder is read only for a caller whose permission covers **every** FQN that
maps to it (decision 0033). Once segments of a run continue an object of OpenMetadata, the object is the beginning of that run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from chalicelib.errors import ForbiddenError
from chalicelib.ports import ObjectStore, Run
from chalicelib.runlog.artifact import Artifact, closed_if_legacy, find_artifact
from chalicelib.runlog.layout import Layout, may_share_legacy_name, shared_legacy_name

Covers = Callable[[str], bool]
"""Whether a permission covers all FQNs that share a folder; the argument is ``shared_legacy_name`` of one of them."""

_covers: ContextVar[Covers | None] = ContextVar("covers", default=None)


@contextmanager
def on_behalf_of(covers: Covers) -> Iterator[None]:
    """Run the block with the permission of a caller. It applies to this thread only: other threads do not read shared folders."""
    token = _covers.set(covers)
    try:
        yield
    finally:
        _covers.reset(token)


@contextmanager
def without_caller() -> Iterator[None]:
    """Run the block without a caller, so that it behaves the same in a request and in a schedule."""
    token = _covers.set(None)
    try:
        yield
    finally:
        _covers.reset(token)


def find_shared(store: ObjectStore, layout: Layout, run: Run) -> Artifact | None:
    """OpenMetadata's artifact in the shared folder of a run without other objects, if the caller may read it. Requests: see ``find_legacy``."""
    covers = _covers.get()
    if covers is None or not covers(shared_legacy_name(run.fqn)):
        return None
    return find_legacy(store, layout, run)


def check_shared_access(run: Run, artifact: Artifact | None) -> None:
    """Check access to an artifact whose FQN OpenMetadata stores unchanged, and whose folder other FQNs share. Raises ForbiddenError if
    OpenMetadata wrote the artifact and the caller may not read all these pipelines. Schedules and jobs have no caller and are not checked."""
    covers = _covers.get()
    is_shared = artifact is not None and artifact.is_legacy and may_share_legacy_name(run.fqn)
    if covers and is_shared and not covers(shared_legacy_name(run.fqn)):
        raise ForbiddenError(
            "openmetadata stored this log under a name that several pipelines share: request a permission that covers all of them, "
            f"or for a copy under the pipeline's own name fqn={run.fqn!r}"
        )


def find_legacy(store: ObjectStore, layout: Layout, run: Run) -> Artifact | None:
    """The artifact that OpenMetadata stored under its encoding of this run's name: logs.txt (``reason`` closed), else partial.txt. One LIST,
    and a HEAD per artifact. Only for objects known to belong to this run; else see ``find_shared``.

    An object with Runlake's metadata in that folder belongs to another pipeline whose FQN maps to the same folder.
    """
    listed = {found.key for found in store.list(layout.legacy_run_prefix(run), limit=2).objects}
    logs, partial = (
        find_artifact(store, key) if key in listed else None for key in (layout.legacy_logs(run), layout.legacy_partial(run))
    )
    if logs and logs.is_legacy:
        return closed_if_legacy(logs)
    return partial if partial and partial.is_legacy else None
