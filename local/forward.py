"""``python -m local forward``: sends a run's events, read over HTTP from any installation, to another system.

Where it got to is kept in a file, written after each batch that is settled: killed, or refused for an hour, it goes on from there.
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
from chalicelib.composition.environment import make_target
from chalicelib.errors import InvalidInputError, UnavailableError
from chalicelib.events.event import Event, Loggable
from chalicelib.events.forward_run import EventBatch, follow, forward
from chalicelib.events.forwarding import Forwarder, ForwardingStats
from chalicelib.events.targets.configuration import parsed_target
from chalicelib.ports import Run
from local.state import LocalError, StackFolder

_PAGE_EVENTS = 1_000
_TIMEOUT_S = 60
_ATTEMPTS = 5
_MAX_PRINTED_REJECTIONS = 10
Get = Callable[[str, Mapping[str, str]], Any]
"""Reads an address below a run's events: its JSON."""


class ApiSource:
    """Events of a run over HTTP. A position is a cursor of the API, and how many events behind it were read already: the last page of a
    log has no cursor behind it."""

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
        """See ``EventSource``: complete, or lost, which will not change any more."""
        return bool(self._get("/completeness", {})["state"] != "pending")


def event_of(document: Mapping[str, Any]) -> Event:
    """An event as the API tells it. A line that does not say when it was written has time 0."""
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
    """Forward a run. ``target`` is a JSON document. Raises LocalError: a target or a run that is none is told before anything is sent."""
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
        raise LocalError(f"{error}; go on with the same --position" if position_file else str(error)) from error
    return forwarder.figures


def summarize(figures: ForwardingStats) -> str:
    """A summary for a person."""
    rest = [
        f"  not taken: {each.event.id if each.event else '?'} {each.reason}"
        for each in figures.rejections[:_MAX_PRINTED_REJECTIONS]
    ]
    head = f"taken={figures.taken} refused={figures.refused} requests={figures.requests} repeated={figures.repeated}"
    return "\n".join([head, *rest])


def read_target(path: Path) -> str:
    """The document that says where to. Raises LocalError."""
    try:
        return path.read_text()
    except (OSError, UnicodeError) as error:
        raise LocalError(f"the target cannot be read: file={path} error={error}") from error


def address_of(port: int) -> str:
    """The address of the stack that runs on a port. Raises LocalError."""
    stack = StackFolder(port).read()
    if stack is None:
        raise LocalError(f"no stack runs there, name another address with --url: port={port}")
    return str(stack["api_url"])


class _PositionFile:
    """A position in a file, replaced whole."""

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
    """Where a run's events are read."""
    return f"{api_url.rstrip('/')}/v1/events/{quote(run.fqn, safe='')}/{quote(run.run_id, safe='')}"


def facts_address(api_url: str, run: Run) -> str:
    """Where a run's facts are read; 404 when there is no such run."""
    return f"{api_url.rstrip('/')}/v1/catalog/pipelines/{quote(run.fqn, safe='')}/runs/{quote(run.run_id, safe='')}"


def _check_there(api_url: str, run: Run, token: str | None) -> None:
    """The events of a run that nobody wrote are an empty list, which would be followed forever. Raises LocalError."""
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
                    raise LocalError(f"the archive did not answer status={error.code} url={url}") from error
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
