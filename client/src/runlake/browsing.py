"""Reading what writers of events said: events and the log of a step over as many requests as it takes, steps as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any, TypeVar

from runlake.archive import Archive
from runlake.errors import NotFoundError
from runlake.names import RunName

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
    """``empty``, which an answer was that may be of a run that does not exist. Raises NotFoundError when it does not."""
    if not archive.page(run, limit=1, after=0).total:
        archive.facts(run)
    return empty


def step_log(archive: Archive, run: RunName, step: str) -> Iterator[bytes]:
    """What a step said so far, in pieces. Raises ApiError, UnavailableError."""
    start = 0
    while True:
        part = archive.step_log(run, step, start)
        yield str(part["text"]).encode("utf-8", "surrogatepass")
        if part["complete"] or int(part["next"]) == start:
            return
        start = int(part["next"])


def step_of(archive: Archive, run: RunName, named: str) -> str:
    """The id of a step that is named by its id, or by its name where one step alone has it. Raises NotFoundError."""
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


def completeness_of(archive: Archive, run: RunName) -> Json | None:
    """None where the server knows none: it is of a version before events."""
    try:
        return archive.completeness(run)
    except NotFoundError:
        return None


def later_attempts(archive: Archive, run: RunName, facts: Json) -> list[Json]:
    """Facts of the attempts after this one, which has ``facts``; the latest first. A request for each 100 runs of the pipeline that were started
    since, at most ten."""
    since = takewhile(lambda each: int(each["startedMs"]) >= int(facts["startedMs"]), archive.runs(run.fqn, _MAX_RUNS_SINCE))
    own = int(facts.get("attempt", 1))
    found = [each for each in since if each.get("firstRunId") == facts.get("firstRunId") and int(each.get("attempt", 1)) > own]
    return sorted(found, key=lambda each: -int(each["attempt"]))


def as_tree(steps: Sequence[Json]) -> list[tuple[int, Json]]:
    """Steps with their depth, each below its parent, in the order in which they are given. One whose parent is not there, or is
    itself in the end, stands at the top: none is left out."""
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
