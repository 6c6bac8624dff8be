"""Matching of paths to operations: an FQN may have raw slashes, because clients do not quote them; names are decoded once."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.errors import InvalidNameError
from chalicelib.routes.chalice_adapter import _split
from chalicelib.routes.operations import OPERATIONS, Operation, gateway_routes, match
from chalicelib.routes.paths import decode_name

LOGS = "/v1/services/ingestionPipelines/logs/"
RUN = "0f1e2d3c-0000-4000-8000-000000000001"
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)


def parse(method: str, path: str) -> tuple[str, ...] | None:
    """The operation's id and the decoded names."""
    found = match(method, path)
    return (found.operation.id, *map(decode_name, found.names.values())) if found else None


@pytest.mark.parametrize(
    ("method", "tail", "expected"),
    [
        ("POST", "svc.pipe/run", ("appendLog", "svc.pipe", "run")),
        ("POST", "svc.pipe/run/close", ("closeRun", "svc.pipe", "run")),
        ("GET", "svc.pipe/run", ("readLog", "svc.pipe", "run")),
        ("GET", "svc.pipe/run/download", ("downloadLog", "svc.pipe", "run")),
        ("GET", "svc.pipe", ("listRuns", "svc.pipe")),
        ("GET", "svc.pipe/last", ("readLastLog", "svc.pipe")),
        ("GET", "svc.pipe/last/download", ("downloadLastLog", "svc.pipe")),
        ("GET", "svc.pipe/run/", ("readLog", "svc.pipe", "run")),
        # slashes in the FQN, as the client sends them
        ("POST", "svc/a/b.pipe/run", ("appendLog", "svc/a/b.pipe", "run")),
        ("POST", "svc/a/b.pipe/run/close", ("closeRun", "svc/a/b.pipe", "run")),
        ("GET", "svc/a/b.pipe/run/download", ("downloadLog", "svc/a/b.pipe", "run")),
        ("GET", "svc/a/b.pipe/last", ("readLastLog", "svc/a/b.pipe")),
        ("GET", "svc/a/b.pipe/last/download", ("downloadLastLog", "svc/a/b.pipe")),
        ("GET", "a//b/run", ("readLog", "a//b", "run")),
        # encoded slashes stay inside the name
        ("GET", "svc%2Fa%2fb", ("listRuns", "svc/a/b")),
        ("GET", "svc%2Fa/last", ("readLastLog", "svc/a")),
        # reserved words of the API inside an FQN
        ("POST", "close/run", ("appendLog", "close", "run")),
        ("GET", "last/download/run", ("readLog", "last/download", "run")),
        ("GET", "last", ("listRuns", "last")),
        # quotes, spaces, dots, letters, percent, plus
        ("GET", "%22my%20svc%22.p%C3%AFpe/run", ("readLog", '"my svc".pïpe', "run")),
        ("GET", '"my svc".pïpe/run', ("readLog", '"my svc".pïpe', "run")),
        ("GET", "100%25/run", ("readLog", "100%", "run")),
        ("GET", "100%2520/run", ("readLog", "100%20", "run")),
        ("GET", "fqn/stream/run", ("streamLog", "fqn", "run")),
        ("GET", "a/b/stream/r%25", ("streamLog", "a/b", "r%")),
        ("GET", "a/stream/last", ("streamLog", "a", "last")),
        ("GET", "a/stream/download", ("downloadLog", "a", "stream")),
        ("GET", "a%2Fstream/run", ("readLog", "a/stream", "run")),
        ("GET", "stream/run", ("readLog", "stream", "run")),
        ("POST", "a/stream/run", ("appendLog", "a/stream", "run")),
        ("GET", "100%/run", ("readLog", "100%", "run")),
        ("GET", "a+b/run", ("readLog", "a+b", "run")),
        ("GET", "../../etc/passwd", ("readLog", "../../etc", "passwd")),
        ("GET", "x/services/ingestionPipelines/logs/y/run", ("readLog", "x/services/ingestionPipelines/logs/y", "run")),
    ],
)
def test_parsed_path(method: str, tail: str, expected: tuple[str, ...]) -> None:
    assert parse(method, LOGS + tail) == expected


@pytest.mark.parametrize(
    ("method", "tail"),
    [("POST", "fqn"), ("POST", "/run"), ("POST", ""), ("GET", ""), ("GET", "/run"), ("GET", "/stream/run"), ("GET", "a//download"),
     ("POST", "a//close"), ("PUT", "a/b"), ("GET", "a/b//")],
)  # fmt: skip
def test_path_without_an_operation(method: str, tail: str) -> None:
    """A name that is empty does not make another operation of a path."""
    assert parse(method, LOGS + tail) is None


def test_bytes_that_are_no_utf8() -> None:
    with pytest.raises(InvalidNameError, match="a path must be percent-encoded"):
        parse("GET", LOGS + "a%FFb/run")


@given(NAMES, NAMES)
def test_a_quoted_name_is_read_back(fqn: str, run_id: str) -> None:
    reserved = {"last", "close", "download", "stream"}
    if run_id not in reserved and fqn not in reserved:
        path = f"{LOGS}{quote(fqn, safe='')}/{quote(run_id, safe='')}"
        assert parse("POST", path) == ("appendLog", fqn, run_id)
        assert parse("GET", path) == ("readLog", fqn, run_id)
        assert parse("GET", LOGS + quote(fqn, safe="")) == ("listRuns", fqn)


@given(st.lists(st.text("abc. \"'é%+-_", min_size=1, max_size=8), min_size=1, max_size=6))
def test_an_fqn_with_raw_slashes_is_read_back(parts: list[str]) -> None:
    fqn = "/".join(parts)
    sent = quote(fqn, safe="/")  # an unquoted FQN as requests encodes it
    assert parse("POST", f"{LOGS}{sent}/{RUN}") == ("appendLog", fqn, RUN)
    assert parse("POST", f"{LOGS}{sent}/{RUN}/close") == ("closeRun", fqn, RUN)
    assert parse("GET", f"{LOGS}{sent}/{RUN}/download") == ("downloadLog", fqn, RUN)


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/v1/events/a/b", ("appendEvents", "a", "b")),
        ("GET", "/v1/events/a/b/c", ("browseEvents", "a/b", "c")),
        ("GET", "/v1/events/a/b/log", ("readEventLog", "a", "b")),
        ("GET", "/v1/events/a/log", ("browseEvents", "a", "log")),
        ("POST", "/v1/events/a/b/steps/close", ("updateStep", "a", "b", "close")),
        ("POST", "/v1/events/a/b/writers/steps/close", ("closeWriter", "a", "b", "steps")),
        ("PUT", "/v1/events/a/b/writers/heartbeat", ("openWriter", "a", "b", "heartbeat")),
        ("PUT", "/v1/events/a/b/heartbeat", ("sendHeartbeat", "a", "b")),
        ("PUT", "/v1/events/a/heartbeat", None),
        ("GET", "/v1/events/a//log", None),
        ("GET", "/v1/catalog/pipelines/a/b/runs", ("listRunFacts", "a/b")),
        ("GET", "/v1/catalog/pipelines/a/runs/runs", ("getRun", "a", "runs")),
        ("GET", "/v1/catalog/pipelines/a/runs/r/explanation", ("explainRun", "a", "r")),
        ("GET", "/v1/catalog/pipelines/a/runs/r/grep", ("grepRun", "a", "r")),
        ("GET", "/v1/catalog/pipelines/a", None),
        ("POST", "/v1/coordination/sweep/a/b/c/retry", ("retryPartition", "sweep", "a/b", "c")),
        ("GET", "/v1/coordination/sweep/a", None),
        ("GET", "/v1/ui/config", ("getViewerConfig",)),
        ("GET", "/v1/ui/index.js", ("getViewerFile", "index.js")),
        ("GET", "/", ("getHome",)),
        ("GET", "/docs/", ("getDocs",)),
        ("GET", "/docs/static/index.html", ("getPage",)),
        ("GET", "/docs/static", None),
        ("GET", "/health", ("getArchiveHealth",)),
        ("GET", "/health/", ("getArchiveHealth",)),
        ("POST", "/health", None),
    ],
)  # fmt: skip
def test_matched_operation(method: str, path: str, expected: tuple[str, ...] | None) -> None:
    assert parse(method, path) == expected


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.id)
def test_every_operation_is_the_match_of_its_own_path_and_has_a_route(operation: Operation) -> None:
    path = operation.path.replace("{", "").replace("}", "")
    found = match(operation.method, path)
    assert found and found.operation is operation and all(name == value for name, value in found.names.items())
    base, has_fqn, _ = operation.path.partition("/{fqn}")
    parts = operation.path.removeprefix(base).count("/") if has_fqn else 0
    route = "/".join([base.rstrip("/"), *(f"{{s{number}}}" for number in range(1, parts + 1))]) or "/"
    assert operation.method in gateway_routes()[route]


def test_only_the_deepest_routes_of_an_fqn_are_greedy() -> None:
    """So that the gateway passes on paths of any depth; the form of all others is one that each emulator supports."""
    deepest = {route for route in gateway_routes() if "/{s8" in route}
    assert deepest and deepest == {route for route in gateway_routes() if "+}" in route}
    assert all(route.endswith("/{s8+}") for route in deepest)


@pytest.mark.parametrize(
    ("path", "route", "expected"),
    [
        ("/api/v1/health", "/v1/health", ("/api", "/v1/health")),
        ("/v1/health", "/v1/health", ("", "/v1/health")),
        ("/api/health/", "/health", ("/api", "/health/")),
        ("/api/%68ealth", "/health", ("/api", "/health")),
        ("/v1/health/v1/health", "/v1/health", ("/v1/health", "/v1/health")),
        ("/api", "/", ("/api", "/")),
        ("/", "/", ("", "/")),
        ("//evil.example/v1/health", "/v1/health", ("/evil.example", "/v1/health")),
        ("/a/b/v1/ui/x.js", "/v1/ui/{file}", ("/a/b", "/v1/ui/x.js")),
        ("/api/v1/events/x/v1/events/y/r", "/v1/events/{s1}/{s2}/{s3}", ("/api", "/v1/events/x/v1/events/y/r")),
        ("/api/v1/%65vents/x/r", "/v1/events/{s1}/{s2}", ("", "/api/v1/%65vents/x/r")),
    ],
)
def test_prefix_of_a_stage_or_domain(path: str, route: str, expected: tuple[str, str]) -> None:
    assert _split(path, route) == expected
