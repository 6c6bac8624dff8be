"""Parses paths of logs into run and action: ``logs/{fqn}``, ``logs/{fqn}/{runId}``, ``logs/{fqn}/{runId}/close``, …
The functions at the top serve other paths with names of runs too.

Connectors do not quote the FQN, so its slashes add segments, and paths are parsed from the right. A path is taken as the client sent it
(API Gateway's REST APIs and ``chalice local`` pass paths percent-encoded), split on raw slashes, and then decoded exactly once: ``%2F``
stays inside a name, ``%25`` is a literal ``%``, ``+`` is a plus.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote

from chalice.app import NotFoundError

from chalicelib.errors import InvalidNameError

_DEPTH = 8


def routes_below(base: str, least: int = 1) -> tuple[str, ...]:
    """One route for each number of segments from ``least`` on, a form that API Gateway, its emulators and ``chalice local`` all support.
    The last one is greedy at the gateway; ``chalice local`` treats it as one segment."""
    names = [f"{{s{level}{'+' if level == _DEPTH else ''}}}" for level in range(1, _DEPTH + 1)]
    return tuple("/".join([base, *names[:depth]]) for depth in range(least, _DEPTH + 1))


def segments_below(path: str, base: str) -> list[str]:
    """The segments after ``base`` in a path as sent, still percent-encoded, with any stage before ``base``."""
    return path.partition(f"{base}/")[2].removesuffix("/").split("/")


def decode_name(name: str) -> str:
    """Decode a name in a path. Raises InvalidNameError."""
    try:
        return unquote(name, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidNameError(f"a path must be percent-encoded UTF-8 path={name!r}") from error


BASE = "/v1/services/ingestionPipelines"
_LOGS = "/services/ingestionPipelines/logs"
ROUTES = routes_below(f"{BASE}/logs")
RECENT_RUNS, CATALOG, COORDINATION = "/v1/catalog", "/v1/catalog/pipelines", "/v1/coordination"
PIPELINES, PIPELINE_FILES = "/v1/pipelines", "/v1/pipeline-files"
ARCHIVE, AGENTS = "/v0/archive", "/v1/agents"
ELASTICSEARCH = f"{AGENTS}/elasticsearch"
CATALOG_ROUTES = routes_below(CATALOG, least=2)
COORDINATION_ROUTES = routes_below(f"{COORDINATION}/{{source}}", least=3)


class LogAction(StrEnum):
    """Operations on a run, or on the runs of a pipeline."""

    APPEND = "append"
    CLOSE = "close"
    PAGE = "page"
    DOWNLOAD = "download"
    RUNS = "runs"
    STREAM = "stream"
    LAST_PAGE = "last"
    LAST_DOWNLOAD = "last/download"


@dataclass(frozen=True, slots=True)
class LogPath:
    """A parsed path. ``run_id`` is empty if the action concerns all runs of the pipeline."""

    action: LogAction
    fqn: str
    run_id: str = ""


def parse(method: str, path: str) -> LogPath:
    """Parse a path under ``logs/`` as sent, still percent-encoded. Raises NotFoundError, InvalidNameError."""
    segments = segments_below(path, _LOGS)
    action, names = _post(segments) if method == "POST" else _get(segments)
    if not all(names):
        raise NotFoundError(f"no such path method={method}")
    return LogPath(action, *map(decode_name, names))


def _post(segments: list[str]) -> tuple[LogAction, tuple[str, ...]]:
    match segments:
        case [*fqn, run_id, "close"] if fqn:
            return LogAction.CLOSE, ("/".join(fqn), run_id)
        case [*fqn, run_id] if fqn:
            return LogAction.APPEND, ("/".join(fqn), run_id)
    raise NotFoundError("logs are appended to logs/{fqn}/{runId}")


def _get(segments: list[str]) -> tuple[LogAction, tuple[str, ...]]:
    match segments:
        case [fqn]:
            return LogAction.RUNS, (fqn,)
        case [*fqn, "last", "download"] if fqn:
            return LogAction.LAST_DOWNLOAD, ("/".join(fqn),)
        case [*fqn, run_id, "download"] if fqn:
            return LogAction.DOWNLOAD, ("/".join(fqn), run_id)
        case [*fqn, "stream", run_id] if fqn:
            return LogAction.STREAM, ("/".join(fqn), run_id)
        case [*fqn, "last"]:
            return LogAction.LAST_PAGE, ("/".join(fqn),)
        case [*fqn, run_id]:
            return LogAction.PAGE, ("/".join(fqn), run_id)
    raise NotFoundError("no such path")
