"""Paths under logs/: read from the right, decoded once."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from chalice.app import NotFoundError
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.errors import InvalidNameError
from chalicelib.routes.paths import LogAction, LogPath, parse

LOGS = "/api/v1/services/ingestionPipelines/logs/"
RUN = "0f1e2d3c-0000-4000-8000-000000000001"
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("method", "tail", "expected"),
    [
        ("POST", "svc.pipe/run", LogPath(LogAction.APPEND, "svc.pipe", "run")),
        ("POST", "svc.pipe/run/close", LogPath(LogAction.CLOSE, "svc.pipe", "run")),
        ("GET", "svc.pipe/run", LogPath(LogAction.PAGE, "svc.pipe", "run")),
        ("GET", "svc.pipe/run/download", LogPath(LogAction.DOWNLOAD, "svc.pipe", "run")),
        ("GET", "svc.pipe", LogPath(LogAction.RUNS, "svc.pipe")),
        ("GET", "svc.pipe/last", LogPath(LogAction.LAST_PAGE, "svc.pipe")),
        ("GET", "svc.pipe/last/download", LogPath(LogAction.LAST_DOWNLOAD, "svc.pipe")),
        ("GET", "svc.pipe/run/", LogPath(LogAction.PAGE, "svc.pipe", "run")),
        # slashes in the FQN, as the client sends them
        ("POST", "svc/a/b.pipe/run", LogPath(LogAction.APPEND, "svc/a/b.pipe", "run")),
        ("POST", "svc/a/b.pipe/run/close", LogPath(LogAction.CLOSE, "svc/a/b.pipe", "run")),
        ("GET", "svc/a/b.pipe/run/download", LogPath(LogAction.DOWNLOAD, "svc/a/b.pipe", "run")),
        ("GET", "svc/a/b.pipe/last", LogPath(LogAction.LAST_PAGE, "svc/a/b.pipe")),
        ("GET", "svc/a/b.pipe/last/download", LogPath(LogAction.LAST_DOWNLOAD, "svc/a/b.pipe")),
        ("GET", "a//b/run", LogPath(LogAction.PAGE, "a//b", "run")),
        # encoded slashes stay inside the name
        ("GET", "svc%2Fa%2fb", LogPath(LogAction.RUNS, "svc/a/b")),
        ("GET", "svc%2Fa/last", LogPath(LogAction.LAST_PAGE, "svc/a")),
        # reserved words of the API inside an FQN
        ("POST", "close/run", LogPath(LogAction.APPEND, "close", "run")),
        ("GET", "last/download/run", LogPath(LogAction.PAGE, "last/download", "run")),
        ("GET", "last", LogPath(LogAction.RUNS, "last")),
        # quotes, spaces, dots, letters, percent, plus
        ("GET", "%22my%20svc%22.p%C3%AFpe/run", LogPath(LogAction.PAGE, '"my svc".pïpe', "run")),
        ("GET", '"my svc".pïpe/run', LogPath(LogAction.PAGE, '"my svc".pïpe', "run")),
        ("GET", "100%25/run", LogPath(LogAction.PAGE, "100%", "run")),
        ("GET", "100%2520/run", LogPath(LogAction.PAGE, "100%20", "run")),
        ("GET", "fqn/stream/run", LogPath(LogAction.STREAM, "fqn", "run")),
        ("GET", "a/b/stream/r%25", LogPath(LogAction.STREAM, "a/b", "r%")),
        ("GET", "a/stream/last", LogPath(LogAction.STREAM, "a", "last")),
        ("GET", "a/stream/download", LogPath(LogAction.DOWNLOAD, "a", "stream")),
        ("GET", "a%2Fstream/run", LogPath(LogAction.PAGE, "a/stream", "run")),
        ("GET", "stream/run", LogPath(LogAction.PAGE, "stream", "run")),
        ("POST", "a/stream/run", LogPath(LogAction.APPEND, "a/stream", "run")),
        ("GET", "100%/run", LogPath(LogAction.PAGE, "100%", "run")),
        ("GET", "a+b/run", LogPath(LogAction.PAGE, "a+b", "run")),
        ("GET", "../../etc/passwd", LogPath(LogAction.PAGE, "../../etc", "passwd")),
        ("GET", "x/services/ingestionPipelines/logs/y/run", LogPath(LogAction.PAGE, "x/services/ingestionPipelines/logs/y", "run")),
    ],
)
def test_parsed_path(method: str, tail: str, expected: LogPath) -> None:
    assert parse(method, LOGS + tail) == expected


@pytest.mark.parametrize(
    ("method", "tail"), [("POST", "fqn"), ("POST", "/run"), ("POST", ""), ("GET", ""), ("GET", "/run"), ("GET", "/stream/run")]
)
def test_unknown_path_is_refused(method: str, tail: str) -> None:
    with pytest.raises(NotFoundError):
        parse(method, LOGS + tail)


def test_bytes_that_are_no_utf8() -> None:
    with pytest.raises(InvalidNameError, match="a path must be percent-encoded"):
        parse("GET", LOGS + "a%FFb/run")


@given(NAMES, NAMES)
def test_a_quoted_name_is_read_back(fqn: str, run_id: str) -> None:
    reserved = {"last", "close", "download", "stream"}
    if run_id not in reserved and fqn not in reserved:
        path = f"{LOGS}{quote(fqn, safe='')}/{quote(run_id, safe='')}"
        assert parse("POST", path) == LogPath(LogAction.APPEND, fqn, run_id)
        assert parse("GET", path) == LogPath(LogAction.PAGE, fqn, run_id)
        assert parse("GET", LOGS + quote(fqn, safe="")) == LogPath(LogAction.RUNS, fqn)


@given(st.lists(st.text("abc. \"'é%+-_", min_size=1, max_size=8), min_size=1, max_size=6))
def test_an_fqn_with_raw_slashes_is_read_back(parts: list[str]) -> None:
    fqn = "/".join(parts)
    sent = quote(fqn, safe="/")  # an unquoted FQN as requests encodes it
    assert parse("POST", f"{LOGS}{sent}/{RUN}") == LogPath(LogAction.APPEND, fqn, RUN)
    assert parse("POST", f"{LOGS}{sent}/{RUN}/close") == LogPath(LogAction.CLOSE, fqn, RUN)
    assert parse("GET", f"{LOGS}{sent}/{RUN}/download") == LogPath(LogAction.DOWNLOAD, fqn, RUN)
