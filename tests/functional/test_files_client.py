"""`runlake files` against the API in memory: from push to fetch, over the real validation, verification, catalog and links."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import partialmethod
from pathlib import Path
from urllib.parse import parse_qsl

import httpx
import pytest
from click.testing import CliRunner

from chalicelib.archive import uploads
from chalicelib.errors import ObjectNotFoundError, PreconditionFailedError
from chalicelib.ports import ABSENT, Condition, ObjectStore, PutOptions, Run
from runlake import Archive, Files
from runlake.__main__ import runlake
from tests.functional.archive import BASE, FROM_HERE, Site, deployed
from tests.functional.gateway import STAGE, call

MIB = 1024 * 1024
STORE = "store.test"
PUSH = ("push", "--what", "nginx", "--where", "webserver01", "--start", "2026-03-20T00:05:32.345Z", "--end", "2026-03-20T23:59Z")
DAY = ("--start", "2026-03-20", "--end", "2026-03-21")
_PART = re.compile(r"<PartNumber>(\d+)</PartNumber><ETag>([^<]*)</ETag>")


class InMemory(httpx.BaseTransport):
    """Sends requests to the API of this process, and presigned ones to its store; each new object is ingested at once."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        body = request.read()
        with redirect_stdout(io.StringIO()):  # the function's log
            if request.url.host == STORE:
                return self._store(request, body)
            headers = dict(request.headers) | FROM_HERE
            answer = call(request.method, request.url.raw_path.decode().removeprefix(STAGE), body.decode() or None, headers)
        headers = {name: _with_host(value) for name, value in answer.headers.items()}
        return httpx.Response(answer.status, headers=headers, stream=httpx.ByteStream(_with_host(answer.body).encode()))

    def _store(self, request: httpx.Request, body: bytes) -> httpx.Response:
        assert "authorization" not in request.headers
        store, key, signed = self.site.world.archive_store, request.url.path[1:], dict(parse_qsl(request.url.query.decode()))
        try:
            if signed["operation"] == "get":
                return self._read(request, self.site.world.store if key.endswith("logs.txt") else store, key)
            if signed["operation"] == "put":
                prefix = "x-amz-meta-"
                metadata = {name[len(prefix) :]: value for name, value in request.headers.items() if name.startswith(prefix)}
                store.put(key, body, PutOptions(metadata), ABSENT)
            elif signed["operation"] == "part":
                assert len(body) == int(signed["size"]) == int(request.headers["content-length"])
                etag = store.upload_part(key, signed["upload"], int(signed["number"]), body)
                return httpx.Response(200, headers={"ETag": etag})
            elif signed["operation"] == "complete":
                parts = [(int(number), etag) for number, etag in _PART.findall(body.decode())]
                store.complete_multipart(key, signed["upload"], parts, Condition())
            else:
                store.abort_multipart(key, signed["upload"])
                return httpx.Response(204)
        except PreconditionFailedError:
            return httpx.Response(412, text="<Error><Code>PreconditionFailed</Code><Message>it exists</Message></Error>")
        except ObjectNotFoundError:
            return httpx.Response(404, text="<Error><Code>NoSuchUpload</Code><Message>it does not exist</Message></Error>")
        assert self.site.notify(key) == []
        return httpx.Response(200)

    def _read(self, request: httpx.Request, store: ObjectStore, key: str) -> httpx.Response:
        size, begin = store.head(key).size, int(request.headers.get("range", "bytes=0-")[len("bytes=") : -1])
        body = store.get(key, begin, size).body if begin < size else b""
        return httpx.Response(206 if begin else 200, stream=httpx.ByteStream(body))


def _with_host(text: str) -> str:
    """httpx takes a link without a host for a relative one."""
    return text.replace("memory:///", f"https://{STORE}/")


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Site]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUNLAKE_SPOOL_DIR", f"{tmp_path}-spool")
    monkeypatch.setenv("RUNLAKE_URL", BASE)
    with deployed() as made:
        monkeypatch.setattr(Archive, "of", lambda _: Archive(BASE, transport=InMemory(made)))
        yield made


def answered(*arguments: str | Path, stdin: str = "") -> str:
    result = CliRunner().invoke(runlake, ["files", *map(str, arguments)], input=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


def interrupt() -> str:
    raise KeyboardInterrupt


@pytest.mark.behavior("`runlake files` pushes, lists and fetches files with the token alone.")
def test_files_are_pushed_listed_and_fetched(site: Site, tmp_path: Path) -> None:
    text, binary = tmp_path / "nginx.log", tmp_path / "nginx.log.gz"
    text.write_bytes(b"GET /\n" * 100)
    binary.write_bytes(b"\x1f\x8b\x08 no real gzip \xff")
    starts = ["2026-03-20T00:05:32.345Z", "2026-03-20T01:00Z"]
    pushes = [(*PUSH, "--work-id", f"w-{at}", "--start", starts[at], path) for at, path in enumerate((text, binary))]
    ids = [json.loads(answered(*each, "--json"))["id"] for each in pushes]
    assert answered(*PUSH, text, "--work-id", "w-0").endswith("the archive has it already\n")
    assert answered("list", "nginx", *DAY, "--format", "s3").splitlines() == [f"s3://archive/{each}/data" for each in ids]
    assert answered("list", "nginx", *DAY, "--work-id", "w-1").startswith(ids[1] + "\t")
    for form in ("table", "json", "http", "s3"):
        lines = answered("list", "ngi*,none", *DAY, "--format", form)
        template = form + "-{what}-{work_id}-{start_iso}"
        names = [f"{form}-nginx-w-0-2026-03-20T00:05:32.345", f"{form}-nginx-w-1-2026-03-20T01:00:00.000"]
        assert answered("fetch", "--filename-template", template, stdin=lines).splitlines() == names
        assert [Path(name).read_bytes() for name in names] == [text.read_bytes(), binary.read_bytes()]
    assert answered("cat", "--work-id", "w-0", "--what", "nginx") == text.read_text()


def test_large_file_is_pushed_in_parts_once(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first push is interrupted after the first part."""
    monkeypatch.setattr(uploads, "PART_BYTES", 5 * MIB)
    monkeypatch.setattr(
        "runlake.files.Files.__init__", partialmethod(Files.__init__, clock_s=lambda: site.world.clock.now_ms() / 1000)
    )
    path = tmp_path / "large"
    path.write_bytes(b"x" * (11 * MIB))
    with monkeypatch.context() as patch:
        put, parts = Archive.put_object, ["first"]
        patch.setattr(Archive, "put_object", lambda *asked: put(*asked) if parts and parts.pop() else interrupt())
        assert CliRunner().invoke(runlake, ["files", *PUSH, str(path)]).exit_code == 130
    pushed = json.loads(answered(*PUSH, path, "--json"))
    assert (pushed["size"], pushed["resumedAt"], pushed["verified"]) == (11 * MIB, 5 * MIB, True)
    assert answered(*PUSH, path).endswith("the archive has it already\n")
    assert site.world.archive_store.uploads == 0, "the second upload is not left unfinished"
    (listed,) = answered("list", "nginx", *DAY, "--format", "http").splitlines()
    assert answered("fetch", "--filename-template", "copy", listed) == "copy\n"
    assert Path("copy").read_bytes() == path.read_bytes()


def test_file_that_changes_while_it_is_sent_is_rejected(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"before")
    begin = Archive.begin_upload

    def changed(archive: Archive, document: dict[str, object]) -> dict[str, object]:
        path.write_bytes(b"after!")
        return begin(archive, document)

    monkeypatch.setattr(Archive, "begin_upload", changed)
    result = CliRunner().invoke(runlake, ["files", *PUSH, str(path)])
    assert result.exit_code == 2 and "the upload's hash differs" in result.stderr and "next: push it again" in result.stderr
    assert CliRunner().invoke(runlake, ["files", "list", "nginx", *DAY]).stdout == ""


def test_log_of_a_run_is_a_file(site: Site) -> None:
    run = Run("nightly.orders", "run-7")
    site.write_run(run, "one\n", "two\n")
    site.finish_run(run)
    (record,) = map(json.loads, answered("list", "nightly_orders", "--work-id", "run-7", "--format", "json").splitlines())
    assert answered("fetch", "--filename-template", "{fqn}-{run_id}.log", record["url"]) == "nightly.orders-run-7.log\n"
    assert Path("nightly.orders-run-7.log").read_bytes() == b"one\ntwo\n"
    assert answered("latest", "nightly_orders", record["metadata"]["where"]).startswith(record["metadata"]["id"])
