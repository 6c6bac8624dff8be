"""Fixtures for the datalake's own tests of its API, in place of their ``conftest.py``: a client that sends to a stack of ours, and records that
our ingestion made of files in the stack's bucket.

The tests come from a checkout of the datalake (``upstream``), fixtures of random metadata from its package in ``.venv-datalake``. Two things
are adapted, since the tests write rows of tables, with invented objects, and our rows come from real ones:

- A record's object has the key ``{id}/data``, as the client's have. The tests give several records one object.
- ``hash`` is the hash of the contents. The tests have random digits of another length, which our ingestion refuses.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pytest
import requests

from tests.integration.datalake.client import BIN, fingerprint, wait_for
from tests.integration.stacks import PATIENCE_S, Stack

YEAR_2010 = 1_262_304_000_000
_RESENT = {307, 308}
"""Redirects of ours. The datalake's own are 302, and its tests look at them."""
_DAY_MS = 86_400_000
_DELETED_AT_ONCE = 1000
_NOT_HTTP = {
    re.compile(r"\[archive-\w+\]$"): "calls ArchiveQuerier, a class of the datalake's server",
    re.compile(r"::test_archive_file_\w+$"): "calls ArchiveFile, a class of the datalake's server",
}
"""Tests that are not run, by a pattern of their ids, with the reason."""
_stacks: list[Stack] = []


def use(stack: Stack) -> None:
    """Send the requests of all tests to this stack."""
    _stacks[:] = [stack]
    paths = (BIN.parent / "lib").glob("python*/site-packages")  # exists once the client is installed
    sys.path += map(str, paths)  # last: only for packages that .venv lacks
    sys.modules.update(_stand_ins())


def not_http(test_id: str) -> str:
    """Why a test does not use the HTTP API; empty if it does."""
    return next((reason for pattern, reason in _NOT_HTTP.items() if pattern.search(test_id)), "")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests of classes."""
    left_out = [item for item in items if not_http(item.nodeid)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@dataclass(frozen=True, slots=True)
class Response:
    """A response as Flask's test client has it. ``data``: the bytes as sent, packed if ``content_encoding`` says so."""

    status_code: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def content_type(self) -> str | None:
        """The header."""
        return self.headers.get("Content-Type")

    @property
    def content_encoding(self) -> str | None:
        """The header; None also if it is empty."""
        return self.headers.get("Content-Encoding") or None

    def get_data(self) -> bytes:
        """The contents."""
        return self.data


class Client:
    """Sends requests below the stack's address. Follows our own redirects."""

    def __init__(self) -> None:
        self._base = _stacks[0].api_url

    def get(self, uri: str) -> Response:
        """``uri``: a path of the datalake's API, or the path of a link from a response, which begins with our stage."""
        stage = urlsplit(self._base).path
        url = self._base.removesuffix(stage) + (uri if uri.startswith(f"{stage}/") else stage + uri)
        with requests.Session() as web:
            while (answer := web.get(url, allow_redirects=False, stream=True, timeout=PATIENCE_S)).status_code in _RESENT:
                url = requests.compat.urljoin(url, answer.headers["Location"])
                answer.close()
            with answer:
                return Response(answer.status_code, answer.headers, answer.raw.read(decode_content=False))

    def document(self, uri: str) -> Any:
        """The JSON of a response; None for a 404."""
        answer = self.get(uri)
        assert answer.status_code in (200, 404), answer
        return json.loads(answer.data) if answer.status_code == 200 else None


def get_client() -> Client:
    """A client; tests import this function."""
    return Client()


@dataclass
class Archive:
    """The files of one test, in the order in which they were stored, by their keys."""

    s3: Any
    bucket: str
    client: Client
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    awaited: bool = False

    def put(self, key: str, content: bytes | str, metadata: dict[str, Any]) -> None:
        """Store a file as the client does. Corrects ``hash`` in place."""
        body = content.encode() if isinstance(content, str) else content
        metadata["hash"] = fingerprint(body)
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body, Metadata={"datalake": json.dumps(metadata)})
        self.files[key] = metadata

    def wait_until_ingested(self) -> None:
        """Returns once all files are listed, and the latest of each source is the latest."""
        self.awaited = True
        ids = {metadata["id"] for metadata in self.files.values()}
        wait_for(lambda: ids <= self._listed() or None, f"{len(ids)} files to be listed")
        for (what, where), latest in self._latest().items():
            path = f"/v0/archive/latest/{what}/{where}"
            wait_for(lambda path=path, latest=latest: self._is_latest(path, latest) or None, f"the latest of {path}")

    def clear(self) -> None:
        """Delete all files, and return once they are listed no more: the next test has files of the same names and times."""
        keys = [{"Key": key} for key in self.files]
        for start in range(0, len(keys), _DELETED_AT_ONCE):
            self.s3.delete_objects(Bucket=self.bucket, Delete={"Objects": keys[start : start + _DELETED_AT_ONCE]})
        if self.awaited:
            ids = {metadata["id"] for metadata in self.files.values()}
            wait_for(lambda: not ids & self._listed() or None, f"{len(ids)} files to be listed no more")

    def _is_latest(self, path: str, file_id: str) -> bool:
        found = self.client.document(path)
        return bool(found) and found["metadata"]["id"] == file_id

    def _listed(self) -> set[str]:
        return {file_id for what in {metadata["what"] for metadata in self.files.values()} for file_id in self._ids(what)}

    def _ids(self, what: str) -> Iterator[str]:
        times = [time for each in self.files.values() if each["what"] == what for time in (each["start"], each.get("end")) if time]
        uri = "/v0/archive/files/?" + urlencode({"what": what, "start": int(min(times)), "end": int(max(times)) + 1})
        while uri:
            page = self.client.document(uri)
            yield from (record["metadata"]["id"] for record in page["records"])
            uri = page["next"] and "/" + page["next"].split("/", 3)[3]

    def _latest(self) -> dict[tuple[str, str], str]:
        """The ids of the latest files that ``latest`` returns at present, by what and where."""
        now_ms = time.time() * 1000
        recent = [each for each in self.files.values() if now_ms - 13 * _DAY_MS < each["start"] < now_ms + _DAY_MS]
        return {(each["what"], each["where"]): each["id"] for each in sorted(recent, key=lambda each: each["start"])}


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the datalake: its rows are there once the ingestion has listed the files."""

    archive: Archive

    def put_item(self, Item: Mapping[str, Any]) -> None:
        """Wait for the file of a record, which is stored already."""
        self.archive.wait_until_ingested()


@pytest.fixture
def client() -> Client:
    """A client of the API."""
    return get_client()


@pytest.fixture
def archive() -> Iterator[Archive]:
    """The test's files, which are deleted after it."""
    stack = _stacks[0]
    with closing(stack.client("s3")) as s3:
        archive = Archive(s3, stack["archive_bucket"], Client())
        yield archive
        archive.clear()


@pytest.fixture
def dynamodb() -> None:
    """Nothing: the tables are the stack's."""


@pytest.fixture
def random_metadata() -> dict[str, Any]:
    """Valid metadata."""
    return _random_metadata()


@pytest.fixture
def s3_bucket_maker() -> Callable[[str], None]:
    """Makes nothing: the bucket is the stack's."""
    return lambda name: None


@pytest.fixture
def s3_file_maker(archive: Archive) -> Callable[[str, str, bytes | str, dict[str, Any]], None]:
    """Stores an object in the stack's bucket, whatever the bucket's name is in the test."""
    return lambda bucket, key, content, metadata: archive.put(key, content, metadata)


@pytest.fixture
def s3_file_from_metadata(archive: Archive) -> Callable[[str, dict[str, Any]], None]:
    """Stores an empty file under the key of a URL."""
    return lambda url, metadata: archive.put(urlsplit(url).path.lstrip("/"), b"", metadata)


@pytest.fixture
def record_maker(archive: Archive) -> Callable[..., list[dict[str, Any]]]:
    """Stores an empty file with random metadata, some of which are given."""

    def make(**given: Any) -> list[dict[str, Any]]:
        metadata = _random_metadata() | given
        key = f"{metadata['id']}/data"
        archive.put(key, b"", metadata)
        return _records(f"s3://{archive.bucket}/{quote(key)}", metadata)

    return make


@pytest.fixture
def table_maker(archive: Archive) -> Callable[[Sequence[Any]], tuple[Table, Table]]:
    """Waits until the files of these records are listed."""

    def make(records: Sequence[Any]) -> tuple[Table, Table]:
        if records:
            archive.wait_until_ingested()
        return Table(archive), Table(archive)

    return make


def _random_metadata() -> dict[str, Any]:
    from datalake.tests import generate_random_metadata

    return generate_random_metadata()


def _records(url: str, metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """What tests hand to ``table_maker``."""
    return [{"url": url, "metadata": metadata}]


def _stand_ins() -> dict[str, ModuleType]:
    """Modules that the tests import from the datalake's server, without what only deselected tests call."""
    from datalake.common import DatalakeRecord

    DatalakeRecord.list_from_metadata = staticmethod(_records)  # it would read the object from the test's bucket
    modules = {
        "datalake_api": {},
        "datalake_api.settings": {"DATALAKE_USE_LATEST_TABLE": False},
        "datalake_api.v0": {"reset_archive_querier": lambda: None},
        "datalake_api.querier": {"ArchiveQuerier": None, "MAX_RESULTS": 100},
        "datalake_api.fetcher": {"ArchiveFile": None},
    }
    made = {name: ModuleType(name) for name in modules}
    for name, contents in modules.items():
        vars(made[name]).update(contents)
        if "." in name:
            setattr(made["datalake_api"], name.partition(".")[2], made[name])
    return made | {"simplejson": json}
