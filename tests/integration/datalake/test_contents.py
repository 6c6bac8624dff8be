"""Fetched contents equal pushed contents: by both URLs, of any size and type, to files, to the terminal and to a program."""

from __future__ import annotations

import gzip
import random
from contextlib import closing
from pathlib import Path

import pytest

from tests.integration.datalake.client import Datalake, file_id, fingerprint
from tests.integration.stacks import Stack

INTERVAL = {"start": "2017-08-21T16:04:05.060Z", "end": "2017-08-21T17:00:00Z"}
TEXT = "Größe\tünd 表 \x1b[31mrot\x1b[0m\r\nlast line without newline".encode()
MB = 1024 * 1024


def random_bytes(size: int) -> bytes:
    return random.Random(size).randbytes(size)


CONTENTS = {
    "plain.log": TEXT,
    "empty.log": b"",
    "no-extension": TEXT,
    "rotated.log-0123456789abcdef0123456789abcdef": TEXT,
    "latin-1.txt": "Größe".encode("latin-1"),
    "data.json": b'{"a": 1}',
    "page.html": TEXT,
    "picture.png": b"\x89PNG\r\n\x1a\n" + random_bytes(50_000),
    "noise.log": random_bytes(100_000),
    "not-packed.log.gz": TEXT,
    "below-the-limit.bin": random_bytes(4 * MB),
    "above-the-limit.bin": random_bytes(6 * MB),
    "long.log": TEXT * 150_000,
}


def push(datalake: Datalake, path: Path, content: bytes, what: str, where: str, **metadata: str) -> str:
    path.write_bytes(content)
    return datalake.push(path, what=what, where=where, **INTERVAL, **metadata)


def fetch(datalake: Datalake, url: str, folder: Path, *options: str) -> bytes:
    """The file that the client wrote."""
    name = datalake.run("fetch", *options, url, cwd=folder).removesuffix("\n")
    return (folder / name).read_bytes()


def cat(datalake: Datalake, *urls: str) -> bytes:
    """Concatenated contents, with a newline that the client adds to each."""
    done = datalake.attempt("cat", *urls)
    assert done.code == 0, done.error
    return done.output


def test_contents_of_all_kinds_are_the_same_by_both_addresses(datalake: Datalake, what: str, where: str, tmp_path: Path) -> None:
    """Immediately, before ingestion: the API serves contents and metadata from S3."""
    for name, content in CONTENTS.items():
        (tmp_path / name).write_bytes(content)
    files = [{"filename": str(tmp_path / name), "what": what, "where": where, **INTERVAL, "work_id": None} for name in CONTENTS]
    urls = datalake.call("push_many", files=files)
    fetched = datalake.call("fetch", urls=urls + [datalake.http_url(url) for url in urls])
    expected = {"what": what, "where": where, "work_id": None, "start": 1503331445060, "end": 1503334800000}
    for (name, content), *both in zip(CONTENTS.items(), fetched[: len(urls)], fetched[len(urls) :], strict=True):
        for each in both:
            assert each["contents"] == [fingerprint(content)] * 3, name
            for metadata in each["metadata"]:
                assert expected.items() <= metadata.items()
                assert (metadata["hash"], metadata["path"]) == (fingerprint(content), str(tmp_path / name))


@pytest.mark.behavior("The datalake client pushes and fetches files of any size unchanged.")
def test_150_mb_are_pushed_in_parts_and_fetched_by_both_addresses(
    stack: Stack, datalake: Datalake, what: str, where: str, tmp_path: Path
) -> None:
    content = random_bytes(150 * MB)
    url = push(datalake, tmp_path / "large.bin", content, what, where)
    [record] = datalake.listed(what=what, **INTERVAL)
    assert (record["url"], record["size"]) == (url, len(content))
    assert record["metadata"]["hash"] == fingerprint(content)
    with closing(stack.client("s3")) as s3:
        head = s3.head_object(Bucket=stack["archive_bucket"], Key=f"{file_id(url)}/data")
    assert head["ETag"].strip('"').endswith("-2")  # parts of 100 MB, the client's default
    assert fingerprint(fetch(datalake, url, tmp_path, "--filename-template", "by-s3")) == fingerprint(content)
    assert fingerprint(fetch(datalake, record["http_url"], tmp_path, "--filename-template", "by-http")) == fingerprint(content)


@pytest.mark.parametrize(
    ("name", "unpacked"),
    [("small.log.gz", TEXT * 1000), ("redirected.log.gz", random_bytes(7 * MB)), ("of-a-name.log", TEXT)],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_gzip_is_unpacked_by_http_and_left_alone_by_s3(
    datalake: Datalake, what: str, where: str, tmp_path: Path, name: str, unpacked: bytes
) -> None:
    """The HTTP response has Content-Encoding, so the client's HTTP library decompresses it, whatever the file's name."""
    packed = gzip.compress(unpacked, compresslevel=1, mtime=0)
    url = push(datalake, tmp_path / name, packed, what, where)
    [record] = datalake.listed(what=what, **INTERVAL)
    assert (record["size"], record["metadata"]["hash"]) == (len(packed), fingerprint(packed))
    assert fingerprint(fetch(datalake, url, tmp_path)) == fingerprint(packed)
    assert fingerprint(fetch(datalake, record["http_url"], tmp_path)) == fingerprint(unpacked)


def test_a_work_is_fetched_into_files_named_by_a_template(
    datalake: Datalake, what: str, where: str, work_id: str, tmp_path: Path
) -> None:
    urls = [push(datalake, tmp_path / kind, kind.encode(), f"{what}-{kind}", where, work_id=work_id) for kind in ("gather", "etl")]
    for url, kind in zip(urls, ("gather", "etl"), strict=True):
        datalake.listed(what=f"{what}-{kind}", work_id=work_id)
        listed = datalake.run("list", f"{what}-{kind}", "--work-id", work_id, "--format", "http")
        template = "{where}/{work_id}/{what}-{start_iso}-{end}.log"
        for address in (listed, url):
            target = tmp_path / address[:2]
            target.mkdir(exist_ok=True)
            name = datalake.run("fetch", "--filename-template", template, stdin=address, cwd=target)
            assert name == f"{where}/{work_id}/{what}-{kind}-2017-08-21T16:04:05.060-1503334800000.log\n"
            assert (target / name.strip()).read_bytes() == kind.encode()


def test_files_are_named_by_their_ids_without_a_template(datalake: Datalake, what: str, where: str, tmp_path: Path) -> None:
    urls = [push(datalake, tmp_path / "a.log", content, what, where) for content in (b"one\n", b"two\n")]
    assert datalake.run("fetch", urls[0], datalake.http_url(urls[1]), cwd=tmp_path).split() == [file_id(url) for url in urls]
    assert [(tmp_path / file_id(url)).read_bytes() for url in urls] == [b"one\n", b"two\n"]


def test_cat_prints_contents(datalake: Datalake, what: str, where: str, tmp_path: Path) -> None:
    urls = [push(datalake, tmp_path / "a.log", content, what, where) for content in (TEXT, random_bytes(5000))]
    assert cat(datalake, urls[0], datalake.http_url(urls[1])) == TEXT + b"\n" + random_bytes(5000) + b"\n"
    done = datalake.attempt("cat", stdin=f"{datalake.http_url(urls[0])}\n{urls[0]}\n")
    assert (done.code, done.output) == (0, (TEXT + b"\n") * 2), done.error
