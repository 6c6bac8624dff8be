"""Reads over several requests: events, the log of a step, later attempts; and steps as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any, TypeVar

from runlake.archive import Archive
from runlake.errors import NotFoundError
from runlake.names import RunName

FAILURES = ("failed", "lost")
"""Outcomes of runs that failed."""
_PAGE_EVENTS = 1000
_MAX_RUNS_SINCE = 1000
Json = dict[str, Any]
_Empty = TypeVar("_Empty")


def events_of(archive: Archive, run: RunName, limit: int | None, **query: Any) -> Iterator[Json]:
    """Events in the log's order, ``limit`` at most. A page may be empty: each request is bounded in time. Raises ApiError."""
    left = limit
    after: Json = {}
    while left != 0:
        page = archive.events_page(run, **query, **after, limit=min(left or _PAGE_EVENTS, _PAGE_EVENTS))
        yield from page["events"]
        left = None if left is None else left - len(page["events"])
        if page["after"] is None:
            return
        after = {"after": page["after"]}


def checked_run(archive: Archive, run: RunName, empty: _Empty) -> _Empty:
    """Return ``empty``, the result of a read that may be of a run that does not exist. Raises NotFoundError if it does not exist."""
    if not archive.page(run, limit=1, after=0).total:
        archive.facts(run)
    return empty


def last_failed(archive: Archive, fqn: str | None) -> Json | None:
    """The facts of the run that failed or was lost last: of all pipelines, of one, or of those that match a pattern. None if none has.
    Raises NotFoundError if the pipeline, or those that match, have no runs."""
    query = {"outcome": ",".join(FAILURES)} | ({"fqn": fqn} if fqn else {})
    facts = next(archive.recent_runs(1, **query), None)
    if facts is None and fqn:
        archive.check_runs_of(fqn)
    return facts


def step_log(archive: Archive, run: RunName, step: str) -> Iterator[bytes]:
    """The log of a step so far, in pieces. Raises ApiError, UnavailableError."""
    start = 0
    while True:
        part = archive.step_log(run, step, start)
        yield str(part["text"]).encode("utf-8", "surrogatepass")
        if part["complete"] or int(part["next"]) == start:
            return
        start = int(part["next"])


def step_of(archive: Archive, run: RunName, named: str) -> str:
    """The id of a step that is named by its id, or by a name that only one step has. Raises NotFoundError."""
    steps = archive.steps(run)
    if any(step["step"] == named for step in steps):
        return named
    ids = [str(step["step"]) for step in steps if step["name"] == named]
    if len(ids) != 1:
        problem = f"several steps have that name ids={', '.join(ids)}" if ids else "the run has no such step"
        raise NotFoundError(
            404, f"{problem} step={named!r}", next_step=f"name a step by its id: `runlake steps {run.words}` lists them"
        )
    return ids[0]


def later_attempts(archive: Archive, run: RunName, facts: Json) -> list[Json]:
    """The attempts after this one, whose catalog entry is ``facts``; the latest first. Costs a request for each 100 runs that the pipeline
    started since, at most ten."""
    since = takewhile(lambda each: int(each["startedMs"]) >= int(facts["startedMs"]), archive.runs(run.fqn, _MAX_RUNS_SINCE))
    own = int(facts["attempt"])
    found = [each for each in since if each["firstRunId"] == facts["firstRunId"] and int(each["attempt"]) > own]
    return sorted(found, key=lambda each: -int(each["attempt"]))


def as_tree(steps: Sequence[Json]) -> list[tuple[int, Json]]:
    """Steps with their depth, each below its parent, otherwise in the given order. A step is at the top if its parent is missing or is its own
    descendant: every step is in the tree once."""
    known = {step["step"] for step in steps}
    children: dict[Any, list[Json]] = {}
    for step in steps:
        children.setdefault(step["parent"] if step["parent"] in known else None, []).append(step)
    shown: list[tuple[int, Json]] = []
    seen: set[str] = set()

    def add(first: Json) -> None:
        waiting = [(0, first)]
        while waiting:
            depth, step = waiting.pop()
            if step["step"] not in seen:
                seen.add(step["step"])
                shown.append((depth, step))
                waiting += [(depth + 1, child) for child in reversed(children.get(step["step"], []))]

    for step in [*children.get(None, []), *steps]:
        add(step)
    return shown
