"""OpenMetadata's own objects, and on whose behalf they may be read.

OpenMetadata writes every character of an FQN but letters, digits, ``_`` and ``-`` as ``_``: ``team.hr_payroll`` and ``team_hr.payroll``
share one folder, and nothing in it says whose it is. What such a folder holds is read for a caller whose permission covers **every** name
that is spelled like that, and for nobody else (decision 0033). Once segments of a run continue an object of OpenMetadata's, it is the
beginning of that run.
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
"""Whether a permission covers all names that are like this one: ``shared_legacy_name`` of an FQN."""

_covers: ContextVar[Covers | None] = ContextVar("covers", default=None)


@contextmanager
def on_behalf_of(covers: Covers) -> Iterator[None]:
    """Work for a caller with this permission. It holds for the thread alone: elsewhere shared folders are not looked into."""
    token = _covers.set(covers)
    try:
        yield
    finally:
        _covers.reset(token)


@contextmanager
def without_caller() -> Iterator[None]:
    """Work that is nobody's request, or that another has to be asked for: the same whether a request or a schedule does it."""
    token = _covers.set(None)
    try:
        yield
    finally:
        _covers.reset(token)


def find_shared(store: ObjectStore, layout: Layout, run: Run) -> Artifact | None:
    """What a shared folder holds of a run that has nothing of its own, if the caller may see it. Requests as of ``find_legacy``."""
    covers = _covers.get()
    if covers is None or not covers(shared_legacy_name(run.fqn)):
        return None
    return find_legacy(store, layout, run)


def check_shared_access(run: Run, artifact: Artifact | None) -> None:
    """An FQN that OpenMetadata would have left as it is has its folder in common with others. Raises ForbiddenError where the object is
    OpenMetadata's and the caller may not see all of them. Without a caller, as in schedules and jobs, nothing is asked."""
    covers = _covers.get()
    is_shared = artifact is not None and artifact.is_legacy and may_share_legacy_name(run.fqn)
    if covers and is_shared and not covers(shared_legacy_name(run.fqn)):
        raise ForbiddenError(
            "openmetadata stored this log under a name that several pipelines share: ask for a permission that covers all of them, "
            f"or for a copy under the pipeline's own name fqn={run.fqn!r}"
        )


def find_legacy(store: ObjectStore, layout: Layout, run: Run) -> Artifact | None:
    """What OpenMetadata itself stored under this run's spelling: its logs.txt (``reason`` closed), else its partial.txt. One LIST; a
    HEAD for each. For what is known to be this run's; see ``find_shared``.

    An object with our metadata under that name belongs to another pipeline, whose name OpenMetadata would have mapped there too.
    """
    listed = {found.key for found in store.list(layout.legacy_run_prefix(run), limit=2).objects}
    logs, partial = (
        find_artifact(store, key) if key in listed else None for key in (layout.legacy_logs(run), layout.legacy_partial(run))
    )
    if logs and logs.is_legacy:
        return closed_if_legacy(logs)
    return partial if partial and partial.is_legacy else None
