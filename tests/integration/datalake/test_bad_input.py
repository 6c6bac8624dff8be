"""Invalid input is a usage error: exit code 2, one line with the reason, no traceback.

Where the client itself does not catch an error (exit code 1 and a traceback), the test says so. The client catches bad metadata,
bad translations, missing settings and the API's errors; not InvalidDatalakePath, and nothing that ``Archive()`` raises in ``push``,
``list`` and ``latest``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.datalake.client import Datalake, options
from tests.integration.preloaded import Done

UNKNOWN = "0123456789abcdef0123456789abcdef"
PUSHED = {"what": "bad-input", "where": "here", "start": "2020-01-01"}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "job.log"
    path.write_bytes(b"a line\n")
    return path


def assert_usage_error(done: Done, *words: str) -> None:
    assert (done.code, done.output) == (2, b""), done
    assert "Traceback" not in done.error and "Usage: datalake" in done.error, done.error
    assert done.last_line.startswith("Error: ") and all(word in done.last_line for word in words), done.last_line


def assert_let_through(done: Done, error: str, *words: str) -> None:
    assert (done.code, done.output) == (1, b""), done
    assert "Traceback" in done.error and error in done.last_line, done.error
    assert all(word in done.last_line for word in words), done.last_line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["(NoWorkInterval)"]),
        (["--where", "here"], ["(NoWorkInterval)"]),
        (["--start", "2020-01-01"], ["(InvalidWorkInterval)"]),
        (["--end", "2020-01-01"], ["(InvalidWorkInterval)"]),
        (["--start", "2020-01-02", "--end", "2020-01-01"], ["(InvalidWorkInterval)"]),
        (["--start", "2020-01-01T00:00:00.001Z", "--end", "2020-01-01"], ["(InvalidWorkInterval)"]),
        # The client itself reports invalid times.
        (["--start", "yesterday", "--end", "now"], ["yesterday"]),
        (["--start", "2020-01-01", "--end", "2020-13-01"], ["month"]),
        (["--start", "2020-01-01", "--end", "2020-01-02", "--format", "xml"], ["xml"]),
    ],
    ids=" ".join,
)
def test_list_refuses(datalake: Datalake, what: str, arguments: list[str], words: list[str]) -> None:
    assert_usage_error(datalake.attempt("list", what, *arguments), *words)


def test_list_needs_a_kind(datalake: Datalake) -> None:
    assert_usage_error(datalake.attempt("list", "--work-id", "job-1"), "WHAT")
    assert_usage_error(datalake.attempt("list", "--work-id", "job-1", ""), "(NoWhat)")


@pytest.mark.parametrize("nobodys", ["no-such-what", "Not A Slug.log", "größe", "a/b&c=d"])
def test_a_kind_that_nobody_pushed_has_no_files(datalake: Datalake, nobodys: str) -> None:
    assert datalake.listing(nobodys, start="2020-01-01", end="2020-01-02") == []
    assert datalake.listing(nobodys, work_id="no-such-work") == []


def test_a_work_that_nobody_did_has_no_files(datalake: Datalake, what: str, where: str, log: Path) -> None:
    """A file without a work id has a separate key in the index, which starts with ``null``."""
    datalake.push(log, what=what, where=where, start="2020-01-01")
    datalake.listed(what=what, start="2020-01-01", end="2020-01-02")
    assert datalake.listing(what, work_id="no-such-work") == datalake.listing(what, work_id="null") == []


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"what": "bad-input.log"}, ["bad-input.log", "what"]),
        ({"where": "a b"}, ["a b", "where"]),
        ({"work_id": "null"}, ["work_id", "null"]),
        ({"work_id": "Work 1"}, ["Work 1", "work_id"]),
        ({"end": "2019-12-31"}, ["end", "start"]),
        ({"start": "someday"}, ["someday"]),
        ({"what": "(?P<a>.*)~{b}"}, ["b"]),
        ({"what": "nothing(?P<a>.)~{a}"}, ["nothing"]),
    ],
    ids=str,
)
def test_push_refuses(datalake: Datalake, log: Path, metadata: dict[str, str], words: list[str]) -> None:
    assert_usage_error(datalake.attempt("push", *options(**PUSHED | metadata), log), *words)


@pytest.mark.parametrize("metadata", [{"what": "bad-input.log"}, {"work_id": "null"}, {"end": "2019-12-31"}], ids=str)
def test_enqueue_refuses_and_queues_nothing(datalake: Datalake, log: Path, tmp_path: Path, metadata: dict[str, str]) -> None:
    queue = tmp_path / "queue"
    queue.mkdir()
    settings = datalake.environment | {"DATALAKE_QUEUE_DIR": str(queue)}
    assert_usage_error(datalake.attempt("enqueue", *options(**PUSHED | metadata), log, environment=settings), *metadata)
    assert list(queue.iterdir()) == []


@pytest.mark.parametrize("missing", PUSHED)
def test_push_names_what_is_missing(datalake: Datalake, log: Path, missing: str) -> None:
    given = {name: value for name, value in PUSHED.items() if name != missing}
    assert_usage_error(datalake.attempt("push", *options(**given), log), missing)


def test_push_of_no_file_is_let_through(datalake: Datalake, tmp_path: Path) -> None:
    assert_let_through(datalake.attempt("push", *options(**PUSHED), tmp_path / "none.log"), "FileNotFoundError")


@pytest.mark.parametrize(
    ("command", "unknown"), [("cat", UNKNOWN), *(("fetch", each) for each in (UNKNOWN, "no-id", "%20", "a%2Fb", "größe"))]
)
def test_an_unknown_file_is_refused_by_http(datalake: Datalake, tmp_path: Path, command: str, unknown: str) -> None:
    url = f"{datalake.api_url}/v0/archive/files/{unknown}/data"
    assert_usage_error(datalake.attempt(command, url, cwd=tmp_path), "(NoSuchFile)")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["fetch", "cat"])
def test_an_unknown_file_by_s3_and_a_foreign_address_are_let_through(datalake: Datalake, tmp_path: Path, command: str) -> None:
    """The client does not catch its own InvalidDatalakePath."""
    for url, words in [
        (f"{datalake.storage_url}/{UNKNOWN}/data", "Failed to find"),
        (f"s3://another-bucket/{UNKNOWN}/data", "does not start with the configured storage urls"),
        (f"http://127.0.0.1:9/v0/archive/files/{UNKNOWN}/data", "does not start with the configured storage urls"),
    ]:
        assert_let_through(datalake.attempt(command, url, cwd=tmp_path), "InvalidDatalakePath", words)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_variable_of_a_template_is_let_through(datalake: Datalake, log: Path, what: str, tmp_path: Path) -> None:
    url = datalake.push(log, **PUSHED | {"what": what})
    for address in (url, datalake.http_url(url)):
        done = datalake.attempt("fetch", "--filename-template", "{whose}.log", address, cwd=tmp_path)
        assert_let_through(done, "InvalidDatalakePath", "whose")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such-what", "here"], ["(NoSuchFile)"]),
        (["Not A Slug", "größe"], ["(NoSuchFile)"]),
        (["--lookback", "99999999", "no-such-what", "here"], ["(NoSuchFile)"]),
        (["--lookback", "soon", "no-such-what", "here"], ["lookback"]),  # the client's own message
        (["no-such-what"], ["WHERE"]),
    ],
    ids=" ".join,
)
def test_latest_refuses(datalake: Datalake, arguments: list[str], words: list[str]) -> None:
    assert_usage_error(datalake.attempt("latest", *arguments), *words)


@pytest.mark.parametrize("lookback", ["-1", "0", "99999999999999999999"])
def test_latest_refuses_a_lookback_of_no_or_endless_days(datalake: Datalake, what: str, lookback: str) -> None:
    done = datalake.attempt("latest", "--lookback", lookback, what, "here")
    assert_usage_error(done)
    assert done.last_line.endswith(("(InvalidLookback)", "(NoSuchFile)"))


@pytest.mark.parametrize(
    ("expression", "path"),
    [("no tilde", "/a"), ("(?P<a>.*)~{a}", "relative"), ("b(?P<a>.*)~{a}", "/a")],
)
def test_translate_refuses(datalake: Datalake, expression: str, path: str) -> None:
    assert_usage_error(datalake.attempt("translate", expression, path))


def test_a_queue_needs_a_folder(datalake: Datalake, log: Path) -> None:
    assert_usage_error(datalake.attempt("enqueue", *options(**PUSHED), log), "DATALAKE_QUEUE_DIR")
    assert_usage_error(datalake.attempt("uploader", "--timeout", "0.1"), "DATALAKE_QUEUE_DIR")
