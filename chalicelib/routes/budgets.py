"""Limits of each operation, keyed by its method and its path in the OpenAPI document.

A request over a limit is rejected before any part is stored: 413 for its size, 400 for its names. ``docs/limits.md`` and the tests are
generated from this table. API Gateway and Lambda have limits as well: 10,240 bytes of request line and headers, 6 MiB of event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import ClassVar
from urllib.parse import unquote

from chalicelib.errors import BatchTooLargeError, InvalidInputError
from chalicelib.events.depth import MAX_DEPTH, MAX_OTLP_DEPTH
from chalicelib.events.names import MAX_NAME_CHARS
from chalicelib.response_size import RESPONSE_BYTES
from chalicelib.routes import event_paths
from chalicelib.routes.paths import (
    AGENTS,
    ARCHIVE,
    BASE,
    CATALOG,
    COORDINATION,
    ELASTICSEARCH,
    PIPELINE_FILES,
    PIPELINES,
    RECENT_RUNS,
)
from chalicelib.runlog.layout import MAX_KEY_BYTES

KIB, MIB = 1024, 1024 * 1024
EVENT_BYTES = 6 * MIB
"""Limit of a body in Lambda's event."""
_SLUG_CHARS = 256
"""As in ``catalog.metadata``, which is not imported here because it imports pydantic."""
NAME_CHARS: Mapping[str, int] = {
    "fqn": MAX_KEY_BYTES,
    "runId": MAX_KEY_BYTES,
    "writer": MAX_NAME_CHARS,
    "step": MAX_NAME_CHARS,
    "start": MAX_NAME_CHARS,
    "index": _SLUG_CHARS,
    "id": _SLUG_CHARS,
    "what": _SLUG_CHARS,
    "where": _SLUG_CHARS,
    "source": _SLUG_CHARS,
    "name": _SLUG_CHARS,
    "file": _SLUG_CHARS,
}
"""Characters of each name in a path, decoded. A run's names must also fit into an S3 key."""


class BodyForm(StrEnum):
    """The kind of body of an operation."""

    IGNORED = "ignored"
    TEXT = "text"
    DOCUMENT = "one document"
    RECORDS = "records"


@dataclass(frozen=True, slots=True)
class Growth:
    """A limit that grows with the bytes received, so a small body cannot cause a large amount of work."""

    floor: int
    per_byte: float
    limit: int

    def of(self, received_bytes: int) -> int:
        """The limit for a body of ``received_bytes``."""
        return min(self.limit, max(self.floor, int(self.per_byte * received_bytes)))


NOTHING = Growth(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one operation. ``body_bytes``: as the function receives the body. ``expanded_bytes``: decompressed. ``values``: JSON or
    MessagePack values. ``items``: events, records or actions. ``streams``: runs and writers that items name; each is an append. ``depth``:
    nesting of lists and objects. ``shared_bytes``: bytes shared by several items, counted in each (``events.weight``). ``members``: members
    of gzip. ``target_chars``: path and query together, their values decoded. ``time_s`` of the function and ``response_bytes`` of Lambda are
    the same for all operations."""

    form: BodyForm = BodyForm.IGNORED
    body_bytes: int = 64 * KIB
    expanded_bytes: Growth = NOTHING
    values: Growth = NOTHING
    items: Growth = NOTHING
    streams: int = 0
    shared_bytes: Growth = NOTHING
    depth: int = 0
    members: int = 1000
    target_chars: int = 8 * KIB
    time_s: ClassVar[int] = 29
    response_bytes: ClassVar[int] = RESPONSE_BYTES

    def check_request(self, target_chars: int, body_bytes: int) -> None:
        """Enforce the limits of target and body. Raises InvalidInputError, BatchTooLargeError."""
        if target_chars > self.target_chars:
            raise InvalidInputError(f"path and query are too long chars={target_chars} limit={self.target_chars}")
        if body_bytes > self.body_bytes:
            raise BatchTooLargeError(f"body is too large bytes={body_bytes} limit={self.body_bytes}")


_TEXT_BYTES = Growth(3 * MIB, 200, 256 * MIB)
"""The cost of text is linear in its length. ``maxExpandedBytes`` is the limit of an installation."""
_STRUCTURED_BYTES = Growth(MIB, 100, 16 * MIB)
_VALUES = Growth(50_000, 5, 1_000_000)
_ITEMS = Growth(2_500, 0.75, 50_000)
_ACTIONS = Growth(2_500, 0.25, 10_000)
_EVENT_ITEMS = Growth(5_000, 0.5, 10_000)
_SHARED_BYTES = Growth(8 * MIB, 800, 64 * MIB)
"""For OTLP's resources and scopes, and for log groups and streams: 3 KiB for each of 2,500 records, 8 KiB for each of 8,192."""

_READ = Budget()
_DOCUMENT = Budget(BodyForm.DOCUMENT, expanded_bytes=Growth(64 * KIB, 0, 64 * KIB), depth=MAX_DEPTH)
_METADATA = Budget(BodyForm.DOCUMENT)
_LINES = Budget(BodyForm.TEXT, EVENT_BYTES, _TEXT_BYTES, _VALUES)
_EVENTS = Budget(BodyForm.RECORDS, EVENT_BYTES, _STRUCTURED_BYTES, _VALUES, _EVENT_ITEMS, streams=1, depth=MAX_DEPTH)
_RECORDS = Budget(BodyForm.RECORDS, EVENT_BYTES, _STRUCTURED_BYTES, _VALUES, _ITEMS, streams=250, depth=MAX_DEPTH)
_SHARING = replace(_RECORDS, shared_bytes=_SHARED_BYTES)
_OTLP = replace(_SHARING, depth=MAX_OTLP_DEPTH)
_BULK = Budget(BodyForm.RECORDS, EVENT_BYTES, _STRUCTURED_BYTES, _VALUES, _ACTIONS, streams=250, depth=MAX_DEPTH)
"""Its response has an item per action, so the number of actions bounds the response."""

_LOG, _EVENT = f"{BASE}/logs/{{fqn}}", f"{event_paths.BASE}/{{fqn}}/{{runId}}"
_RUNS = f"{CATALOG}/{{fqn}}/runs"
Operation = tuple[str, str]
BUDGETS: Mapping[Operation, Budget] = {
    ("POST", f"{_LOG}/{{runId}}"): _LINES,
    ("GET", f"{_LOG}/{{runId}}"): _READ,
    ("POST", f"{_LOG}/{{runId}}/close"): _READ,
    ("GET", f"{_LOG}/stream/{{runId}}"): _READ,
    ("GET", f"{_LOG}/{{runId}}/download"): _READ,
    ("GET", _LOG): _READ,
    ("GET", f"{_LOG}/last"): _READ,
    ("GET", f"{_LOG}/last/download"): _READ,
    ("POST", _EVENT): _EVENTS,
    ("GET", _EVENT): _READ,
    ("PUT", f"{_EVENT}/starts/{{start}}"): _DOCUMENT,
    ("PUT", f"{_EVENT}/heartbeat"): _READ,
    ("PUT", f"{_EVENT}/writers/{{writer}}"): _READ,
    ("POST", f"{_EVENT}/writers/{{writer}}/close"): _DOCUMENT,
    ("POST", f"{_EVENT}/steps/{{step}}"): _DOCUMENT,
    ("GET", f"{_EVENT}/log"): _READ,
    ("GET", f"{_EVENT}/steps"): _READ,
    ("GET", f"{_EVENT}/completeness"): _READ,
    ("GET", "/v1/configuration"): _READ,
    ("POST", f"{AGENTS}/fluent"): _RECORDS,
    ("POST", f"{AGENTS}/logstash"): _RECORDS,
    ("POST", f"{AGENTS}/syslog"): _RECORDS,
    ("POST", f"{AGENTS}/firehose"): _SHARING,
    ("POST", f"{AGENTS}/otlp/v1/logs"): _OTLP,
    ("POST", f"{ELASTICSEARCH}/_bulk"): _BULK,
    ("PUT", f"{ELASTICSEARCH}/_bulk"): _BULK,
    ("POST", f"{ELASTICSEARCH}/{{index}}/_bulk"): _BULK,
    ("PUT", f"{ELASTICSEARCH}/{{index}}/_bulk"): _BULK,
    ("GET", ELASTICSEARCH): _READ,
    ("HEAD", ELASTICSEARCH): _READ,
    ("GET", f"{ELASTICSEARCH}/_license"): _READ,
    ("GET", f"{ELASTICSEARCH}/_cluster/health"): _READ,
    ("GET", RECENT_RUNS): _READ,
    ("GET", CATALOG): _READ,
    ("GET", _RUNS): _READ,
    ("GET", f"{_RUNS}/{{runId}}"): _READ,
    ("GET", f"{_RUNS}/{{runId}}/grep"): _READ,
    ("GET", f"{_RUNS}/{{runId}}/histogram"): _READ,
    ("GET", ARCHIVE): _READ,
    ("GET", f"{ARCHIVE}/files"): _READ,
    ("POST", f"{ARCHIVE}/files"): _METADATA,
    ("GET", f"{ARCHIVE}/files/{{id}}/data"): _READ,
    ("GET", f"{ARCHIVE}/files/{{id}}/metadata"): _READ,
    ("PATCH", f"{ARCHIVE}/files/{{id}}/metadata"): _METADATA,
    ("DELETE", f"{ARCHIVE}/files/{{id}}"): _READ,
    ("GET", f"{ARCHIVE}/latest/{{what}}/{{where}}"): _READ,
    ("GET", f"{ARCHIVE}/latest/{{what}}/{{where}}/data"): _READ,
    ("GET", f"{COORDINATION}/{{source}}"): _READ,
    ("POST", f"{COORDINATION}/{{source}}/{{fqn}}/{{runId}}/retry"): _READ,
    ("POST", f"{COORDINATION}/{{source}}/{{fqn}}/{{runId}}/release"): _READ,
    ("GET", PIPELINE_FILES): _READ,
    ("DELETE", PIPELINE_FILES): _READ,
    ("GET", f"{PIPELINE_FILES}/repair"): _READ,
    ("POST", f"{PIPELINE_FILES}/repair"): _READ,
    ("GET", PIPELINES): _READ,
    ("POST", f"{PIPELINES}/{{name}}/enable"): _READ,
    ("POST", f"{PIPELINES}/{{name}}/disable"): _READ,
    ("POST", f"{PIPELINES}/{{name}}/replay"): _METADATA,
    ("GET", "/"): _READ,
    ("GET", "/v1/ui"): _READ,
    ("GET", "/v1/ui/config"): _READ,
    ("GET", "/v1/ui/{file}"): _READ,
    ("GET", "/v1/health"): _READ,
    ("GET", "/health"): _READ,
    ("GET", "/v0/environment"): _READ,
    ("GET", "/spec"): _READ,
    ("GET", "/v1/openapi.json"): _READ,
    ("GET", "/docs"): _READ,
}


_request: ContextVar[Budget] = ContextVar("budget")


def current_budget() -> Budget:
    """The budget of the current request."""
    return _request.get()


def set_current_budget(budget: Budget) -> None:
    """Set the budget of the current request."""
    _request.set(budget)


def find_operation(method: str, resource: str, path: str) -> Operation | None:
    """The operation of a request: the one of its route, or for a path with an FQN the one that matches from the right with the most literal
    parts. ``resource``: the gateway's route; ``path``: as sent, with any stage. None: no such operation."""
    if (method, resource) in BUDGETS:
        return method, resource
    base = resource.partition("{")[0].rstrip("/")
    segments = _segments(path, base)
    fitting = [each for each in _below(method, base) if _fits(each[1][len(base) + 1 :].split("/"), segments)]
    return max(fitting, key=lambda each: (_literals(each[1]), each[1].count("/")), default=None)


@cache
def _below(method: str, base: str) -> tuple[Operation, ...]:
    return tuple(each for each in BUDGETS if each[0] == method and each[1].startswith(f"{base}/{{"))


def _fits(template: list[str], segments: list[str]) -> bool:
    """Whether segments match a template; ``{fqn}`` matches one or more segments."""
    if "{fqn}" not in template:
        return len(template) == len(segments) and all(_matches(*pair) for pair in zip(template, segments, strict=True))
    at = template.index("{fqn}")
    behind = len(template) - at - 1
    if len(segments) < len(template) or not all(map(_matches, template[:at], segments)):
        return False
    return behind == 0 or all(map(_matches, template[-behind:], segments[-behind:]))


def _matches(part: str, segment: str) -> bool:
    return part.startswith("{") or part == segment


def _literals(template: str) -> int:
    return sum(not part.startswith("{") for part in template.split("/"))


def check_names(operation: Operation, path: str) -> None:
    """Check the lengths of names in a path. Raises InvalidInputError."""
    for placeholder, name in _names(operation[1], path):
        limit = NAME_CHARS[placeholder]
        if len(name) > limit and (chars := len(unquote(name, errors="replace"))) > limit:
            raise InvalidInputError(f"{placeholder} is too long chars={chars} limit={limit}")


def _names(template: str, path: str) -> Iterator[tuple[str, str]]:
    """The placeholders of a template with their values in a path, as sent."""
    base, begin, rest = template.partition("/{")
    if not begin:
        return
    parts, segments = f"{{{rest}".split("/"), _segments(path, base)
    fqn_segments = len(segments) - len(parts) + 1
    for part in parts:
        taken = fqn_segments if part == "{fqn}" else 1
        if part.startswith("{"):
            yield part.strip("{}"), "/".join(segments[:taken])
        segments = segments[taken:]


def _segments(path: str, base: str) -> list[str]:
    """The segments after ``base``, with any stage before it."""
    return path.partition(f"{base}/")[2].rstrip("/").split("/")
