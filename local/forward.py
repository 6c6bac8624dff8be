"""``python -m local forward``: forward a run's events, read over HTTP from any installation, to another system.

Progress is stored in a file after each settled batch: a command that was killed, or whose target refused events for an hour,
resumes from it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from chalicelib.aws.clock import SystemClock
from chalicelib.aws.targets import make_target
from chalicelib.errors import InvalidInputError, UnavailableError
from chalicelib.events.event import Event, Loggable
from chalicelib.events.forwarding import Forwarder, ForwardingStats
from chalicelib.events.targets.configuration import parsed_target
from chalicelib.ports import Run
from local.forward_run import EventBatch, follow, forward
from local.state import LocalError, StackFolder

_PAGE_EVENTS = 1_000
_TIMEOUT_S = 60
_ATTEMPTS = 5
_MAX_PRINTED_REJECTIONS = 10
Get = Callable[[str, Mapping[str, str]], Any]
"""Reads a path below a run's events and returns its JSON."""


class ApiSource:
    """Events of a run over HTTP. A position is a cursor of the API and the number of events behind it that were already read: the
    last page of a log has no cursor for its end."""

    def __init__(self, get: Get) -> None:
        self._get = get

    def pages(self, position: str | None) -> Iterator[EventBatch]:
        """See ``EventSource``."""
        skip, after = _read_position(position)
        while True:
            answer = self._get("", {"limit": str(_PAGE_EVENTS)} | ({"after": after} if after else {}))
            events, behind = [event_of(each) for each in answer["events"]], answer["after"]
            is_last = behind is None or behind == after
            yield EventBatch(events[skip:], _position(max(len(events), skip), after) if is_last else _position(0, behind))
            if is_last:
                return
            skip, after = 0, behind

    def is_complete(self) -> bool:
        """See ``EventSource``: true if the events are complete, or lost, which is final too."""
        return bool(self._get("/completeness", {})["state"] != "pending")


def event_of(document: Mapping[str, Any]) -> Event:
    """Converts an event of the API. A line without a timestamp gets time 0."""
    names = ("id", "message", "timestamp", "data", "annotations", "level", "writer")
    fields = {name: document[name] for name in names if document.get(name) is not None}
    return Event.model_validate_json(json.dumps({"timestamp": 0, **fields}))


def send(
    fqn: str,
    run_id: str,
    target: str,
    *,
    api_url: str,
    token: str | None,
    position_file: Path | None,
    is_live: bool,
    instance_id: str,
) -> ForwardingStats:
    """Forward a run. ``target`` is a JSON document. Raises LocalError for an invalid target or an unknown run before anything is
    sent."""
    keep, clock, run = _PositionFile(position_file), SystemClock(), Run(fqn, run_id)
    try:
        forwarder = Forwarder(make_target(parsed_target(target)), Loggable.of_run(run, instance_id), clock)
    except (InvalidInputError, UnavailableError) as error:
        raise LocalError(str(error)) from error
    _check_there(api_url, run, token)
    source = ApiSource(_getter(events_address(api_url, run), token))
    try:
        if is_live:
            follow(source, forwarder, clock, keep.position, keep.save)
        else:
            forward(source, forwarder, keep.position, keep.save)
        forwarder.close()
    except (InvalidInputError, UnavailableError) as error:
        raise LocalError(f"{error}; resume with the same --position" if position_file else str(error)) from error
    return forwarder.figures


def summarize(figures: ForwardingStats) -> str:
    """A summary for display."""
    rest = [
        f"  not taken: {each.event.id if each.event else '?'} {each.reason}"
        for each in figures.rejections[:_MAX_PRINTED_REJECTIONS]
    ]
    head = f"taken={figures.taken} refused={figures.refused} requests={figures.requests} repeated={figures.repeated}"
    return "\n".join([head, *rest])


def read_target(path: Path) -> str:
    """Read the document that describes the target. Raises LocalError."""
    try:
        return path.read_text()
    except (OSError, UnicodeError) as error:
        raise LocalError(f"the target cannot be read: file={path} error={error}") from error


def address_of(port: int) -> str:
    """URL of the stack that runs on a port. Raises LocalError."""
    stack = StackFolder(port).read()
    if stack is None:
        raise LocalError(f"no stack runs on the port, give another address with --url: port={port}")
    return str(stack["api_url"])


class _PositionFile:
    """Stores a position in a file, which is replaced atomically."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        try:
            self.position = path.read_text().strip() or None if path and path.exists() else None
            _read_position(self.position)
        except (OSError, ValueError) as error:
            raise LocalError(f"the position cannot be read: file={path} error={error}") from error

    def save(self, position: str) -> None:
        if self._path:
            draft = self._path.with_name(self._path.name + ".new")
            draft.write_text(position)
            os.replace(draft, self._path)


def events_address(api_url: str, run: Run) -> str:
    """URL of a run's events."""
    return f"{api_url.rstrip('/')}/v1/events/{quote(run.fqn, safe='')}/{quote(run.run_id, safe='')}"


def facts_address(api_url: str, run: Run) -> str:
    """URL of a run's facts; 404 if the run does not exist."""
    return f"{api_url.rstrip('/')}/v1/catalog/pipelines/{quote(run.fqn, safe='')}/runs/{quote(run.run_id, safe='')}"


def _check_there(api_url: str, run: Run, token: str | None) -> None:
    """An unknown run has an empty list of events, which would be followed forever. Raises LocalError."""
    try:
        _getter(facts_address(api_url, run), token)("", {})
    except LocalError as error:
        if isinstance(error.__cause__, HTTPError) and error.__cause__.code == 404:
            raise LocalError(f"there is no such run: run={run.fqn}/{run.run_id}") from error
        raise


def _getter(base: str, token: str | None) -> Get:
    headers = {"Authorization": f"Bearer {token}"} if token else {}

    def get(path: str, query: Mapping[str, str]) -> Any:
        url = f"{base}{path}" + (f"?{urlencode(query)}" if query else "")
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with urlopen(Request(url, headers=headers), timeout=_TIMEOUT_S) as answer:
                    return json.load(answer)
            except HTTPError as error:
                if error.code < 500 or attempt == _ATTEMPTS:
                    raise LocalError(f"the archive responded with an error status={error.code} url={url}") from error
            except (URLError, TimeoutError, ValueError) as error:
                if attempt == _ATTEMPTS:
                    raise LocalError(f"the archive cannot be read url={url} error={error}") from error
            time.sleep(attempt)
        raise AssertionError("not reached")

    return get


def _position(skip: int, after: str | None) -> str:
    return f"{skip}:{after or ''}"


def _read_position(position: str | None) -> tuple[int, str | None]:
    skip, _, after = (position or "0:").partition(":")
    return int(skip), after or None
