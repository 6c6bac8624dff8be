"""Destinations: the same calls on a folder, on S3 and in memory give the same results."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import boto3
import pytest

from bench.spark_bucket import BucketServer
from bench.stored_runs import Bucket
from chalicelib.errors import InvalidConfigurationError, ObjectNotFoundError
from glue_jobs.dataset.destination import destination
from glue_jobs.dataset.files import Files, LocalFiles
from glue_jobs.dataset.s3_destination import S3Files
from tests.spark.dataset_store import Job, MemoryFiles, by_glob, by_ledger


@pytest.fixture(params=["folder", "s3", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path, bucket: Bucket) -> Iterator[Files]:
    if request.param == "folder":
        yield LocalFiles(tmp_path / "a dataset")
    elif request.param == "memory":
        yield MemoryFiles()
    else:
        with closing(client(bucket.server)) as s3:
            yield S3Files(s3, bucket.server.bucket, "deep/dataset")


def client(server: BucketServer) -> Any:
    return boto3.client(
        "s3", endpoint_url=server.url, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
    )


def names(files: Files, prefix: str = "") -> list[str]:
    return [found.name for found in files.list(prefix)]


def test_what_was_written_is_read(files: Files) -> None:
    files.put("a/b", b"0123456789")
    assert (files.read("a/b"), files.read("a/b", 2), files.read("a/b", 2, 5)) == (b"0123456789", b"23456789", b"234")
    files.put("a/b", b"another")
    files.upload("a/b", io.BytesIO(b"other"))
    assert files.read("a/b") == b"other" and [tuple(each) for each in files.list("a/")] == [("a/b", 5)]
    with pytest.raises(ObjectNotFoundError):
        files.read("a/c")


def test_only_one_creates(files: Files) -> None:
    assert files.create("a/1", b"first") and not files.create("a/1", b"second")
    assert files.read("a/1") == b"first" and names(files) == ["a/1"]


def test_a_listing_is_in_order_and_of_a_prefix(files: Files) -> None:
    for name in ("data/b/2", "data/b/1", "data/a/3", "data-2/x", "other"):
        files.put(name, b"")
    assert names(files, "data/") == ["data/a/3", "data/b/1", "data/b/2"]
    assert names(files, "data/b/1") == ["data/b/1"] and names(files, "none/") == []


def test_a_move_can_be_done_again(files: Files) -> None:
    files.put("from/1", b"x")
    files.move("from/1", "to/deep/1")
    assert files.read("to/deep/1") == b"x"
    files.clear("from/")
    with pytest.raises(ObjectNotFoundError):
        files.move("from/1", "to/deep/1")
    assert files.read("to/deep/1") == b"x"


def test_what_is_gone_is_removed_again(files: Files) -> None:
    for name in ("a/1", "a/2", "b/1"):
        files.put(name, b"x")
    files.delete(["a/1", "a/none"])
    files.clear("b/")
    files.clear("b/")
    files.delete([])
    assert names(files) == ["a/2"]


def test_jobs_over_it(files: Files) -> None:
    source = [(("2026-11-20", n % 2), n) for n in range(6)]
    for there in (2, 4, 6):
        Job(files, source[:there]).run()
    assert by_glob(files) == by_ledger(files) == dict.fromkeys(source, 1) and names(files, "_staging/") == []


@pytest.mark.parametrize("uri", ["s3://bucket", "s3://bucket/", "https://bucket/x", "file://host/x", "file://", ""])
def test_what_is_no_destination(uri: str) -> None:
    with pytest.raises(InvalidConfigurationError):
        destination(uri)


def test_how_engines_name_it(tmp_path: Path) -> None:
    assert destination(f"file://{tmp_path}/a b").uri == destination(f"{tmp_path}/a b").uri == f"file://{tmp_path}/a b"
