"""The examples of docs/http-api.md and docs/how-to.md print what they say."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request

import pytest

from chalicelib.archive import uploads
from chalicelib.ports import ABSENT, PutOptions, Run
from tests.docs.pages import DOCS, blocks
from tests.docs.served import ARCHIVE, Served, served
from tests.docs.shell import Shell, examples, same
from tests.functional.gateway import LOGS, call, post

_YEARS_S = 5 * 365 * 86_400


@pytest.mark.parametrize("later_s", [0, _YEARS_S], ids=["now", "years later"])
@pytest.mark.parametrize(("page", "least"), [("http-api.md", 40), ("how-to.md", 8)])
def test_examples_print_what_they_say(page: str, least: int, later_s: int) -> None:
    """Whenever they are tried: dates that are written in them are past then."""
    requests = 0
    with served() as world:
        world.world.clock.advance(later_s)
        shell = Shell(world.deliver, lambda *given: store_object(world, *given))
        for block in blocks(DOCS / page, "console"):
            for example in examples(block.text):
                real = shell.run(example.command)
                assert same(example.printed, real, later_s * 1000) if example.printed or real else True, (
                    f"{example.command}\nprints\n{real}"
                )
                requests += "curl" in example.command
    assert requests >= least


def store_object(world: Served, bucket: str, key: str, body: bytes, metadata: dict[str, str]) -> None:
    """What any client of S3 does."""
    assert bucket == ARCHIVE, bucket
    world.world.archive_store.put(key, body, PutOptions(metadata))


def test_a_difference_is_noticed() -> None:
    assert not same('{"line":0,"position":"…"}', '{"line":1,"position":"p"}')
    assert not same("one\ntwo\n", "one\nthree\n")
    assert same('{"line":0,"position":"…"}', '{"line":0,"position":"p"}')


def test_the_report_that_is_shown_is_a_real_one() -> None:
    (shown,) = [json.loads(block.text) for block in blocks(DOCS / "how-to.md", "json") if '"records"' in block.text]
    with served() as world:
        post(
            "mysql.ingest/run-1", json.dumps({"connectorId": "host-17", "logs": "one\ntwo\n"}), {"Content-Type": "application/json"}
        )
        world.deliver()
    (message, attributes), *_ = world.topic.messages
    assert json.loads(message) == shown
    assert attributes == {"status": shown["status"]}


def test_the_reader_that_is_shown_reads_to_the_end() -> None:
    """Lines come while it reads, an empty one among them, and the run is closed under it."""
    (block,) = [block for block in blocks(DOCS / "how-to.md", "python") if "def follow" in block.text]
    names: dict[str, Any] = {}
    exec(block.text, names)
    with served() as world:
        coming = [["", "two"], [], ["three"]]

        def urlopen(url: str) -> io.StringIO:
            answer = call("GET", url)
            if not answer.json["logs"]:
                if coming:
                    lines = coming.pop(0)
                    post("a/b", "".join(f"{line}\n" for line in lines), {"Content-Type": "text/plain"})
                else:
                    post("a/b/close")
            return io.StringIO(answer.body)

        post("a/b", "one\n", {"Content-Type": "text/plain"})
        names["urlopen"] = urlopen
        assert list(names["follow"](f"{LOGS}/a/b")) == ["one", "", "two", "three"]
        assert world.world.body("logs.txt", Run("a", "b")) == b"one\n\ntwo\nthree\n"


@pytest.mark.parametrize("size", [0, 8, 11 * 1024 * 1024])
def test_the_upload_that_is_shown_ends_in_the_archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, size: int) -> None:
    """Whole, and in parts, which are made small for it."""
    monkeypatch.setattr(uploads, "PART_BYTES", 5 * 1024 * 1024)
    (block,) = [block for block in blocks(DOCS / "how-to.md", "python") if "def upload" in block.text]
    names: dict[str, Any] = {}
    exec(block.text, names)
    path = tmp_path / "report.bin"
    path.write_bytes(bytes(index % 251 for index in range(size)))
    with served() as world:
        names["urlopen"] = lambda request: answer_of(world, request)
        file_id = names["upload"]("http://127.0.0.1:4566/api", path, what="report", where="backend-1", start="now")
        world.deliver()
        (record,) = call("GET", "/v0/archive/files/?what=report&start=2026-09-01&end=now").json["records"]
        assert (record["metadata"]["id"], record["size"], record["metadata"]["path"]) == (file_id, size, str(path))
        assert world.world.archive_store.get(f"{file_id}/data").body == path.read_bytes()


def answer_of(world: Served, request: Request) -> Any:
    """The API's answer, or that of the store, to which the links of a world in memory lead."""
    body = request.data or b""
    assert isinstance(body, bytes)
    if request.type != "memory":
        answer = call(request.get_method(), request.selector.removeprefix("/api"), body.decode())
        assert answer.status == 201, answer.body
        return io.StringIO(answer.body)
    link, store = urlsplit(request.full_url), world.world.archive_store
    key, given = link.path.removeprefix("/"), {name: values[0] for name, values in parse_qs(link.query).items()}
    if given["operation"] == "put":
        headers = {name.lower(): value for name, value in request.headers.items()}
        assert (headers.pop("if-none-match"), headers.pop("content-length")) == ("*", str(len(body)))
        metadata = {name.removeprefix("x-amz-meta-"): value for name, value in headers.items()}
        return store.put(key, body, PutOptions(metadata), ABSENT)
    if given["operation"] == "part":
        assert len(body) == int(given["size"])
        etag = store.upload_part(key, given["upload"], int(given["number"]), body)
        return SimpleNamespace(headers={"ETag": etag})
    assert given["operation"] == "complete"
    named = re.findall(r"<Part><PartNumber>(\d+)</PartNumber><ETag>(\w+)</ETag></Part>", body.decode())
    return store.complete_multipart(key, given["upload"], [(int(number), etag) for number, etag in named])
