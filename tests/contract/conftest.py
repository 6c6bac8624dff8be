"""Stores that must behave alike: in memory, on moto, on ministack. A fresh bucket and fresh tables for each test."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from moto.server import ThreadedMotoServer

from chalicelib.aws.clients import make_client
from chalicelib.aws.database import DynamoDbDatabase, Schema
from chalicelib.aws.dynamodb import Table
from chalicelib.aws.object_store import S3ObjectStore
from chalicelib.aws.run_catalog import DynamoDbRunCatalog
from chalicelib.aws.segment_index import DynamoDbSegmentIndex
from chalicelib.catalog.file_state import OBJECTS
from chalicelib.catalog.files import FILES, LATEST
from chalicelib.catalog.listing import LISTING
from chalicelib.catalog.runs import RunCatalog
from chalicelib.pipelines.files.table import TABLE as PIPELINE_FILES
from chalicelib.ports import Database, ObjectStore, SegmentIndex
from local.emulator import CREDENTIALS, REGION, Emulator, free_port
from tests import sampling
from tests.support.clock import ManualClock
from tests.support.database import InMemoryDatabase
from tests.support.object_store import InMemoryObjectStore
from tests.support.run_catalog import InMemoryRunCatalog
from tests.support.segment_index import InMemorySegmentIndex

MEMORY, MOTO, MINISTACK = "memory", "moto", "ministack"
_FEW = 5
"""Tests of a file that run on each emulator in any case."""
KEEP_S = 30 * 86_400
TABLES = {
    FILES: "FilesTable", LATEST: "LatestTable", LISTING: "ListingTable", OBJECTS: "ObjectsTable", PIPELINE_FILES: "PipelineFilesTable",
}  # fmt: skip
"""Tables of files, by logical name, as the template names them."""
KEYS = {
    FILES: ("time_index_key", "range_key"), LATEST: ("what_where_key", ""), LISTING: ("partition", "at"), OBJECTS: ("key", ""),
    PIPELINE_FILES: ("partition", "at"),
}  # fmt: skip
"""Their key attributes."""
_TEMPLATE = Path(__file__).parents[2] / "infra" / "template.yaml"
_names = (f"contract-{number}" for number in itertools.count())


class _Template(yaml.SafeLoader):
    """Reads the template's tables; ignores CloudFormation's tags."""


_Template.add_multi_constructor("!", lambda loader, suffix, node: None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """All tests run in memory; of each file that has many, an eighth on each emulator. ``RUNLAKE_SAMPLE=all``: all everywhere."""
    folder = f"{Path(__file__).parent}/"
    if sampling.LEVEL == "fast" or any("::" in argument for argument in config.args):
        return
    families: dict[tuple[Path, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if str(item.path).startswith(folder) and isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            emulator = item.callspec.params.get("kind")
            if emulator in (MOTO, MINISTACK):
                families[item.path, emulator].append(item)
    left_out = {
        id(item)
        for (path, emulator), family in families.items()
        for item in set(family) - set(sampling.sample(family, f"{path.name} {emulator}", max(_FEW, len(family) // 8)))
    }
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if id(item) in left_out])
        items[:] = [item for item in items if id(item) not in left_out]


@pytest.fixture(scope="session")
def moto_url() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=free_port(), verbose=False)
    server.start()
    yield f"http://127.0.0.1:{server._port}"
    server.stop()


@pytest.fixture(scope="session")
def ministack_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("ministack")
    emulator = Emulator(free_port(), folder / "scratch", folder / "emulator.log")
    try:
        emulator.wait_until_healthy()
        yield emulator.endpoint_url
    finally:
        emulator.stop()


@pytest.fixture(params=[MEMORY, MOTO, MINISTACK])
def kind(request: pytest.FixtureRequest) -> str:
    """Which implementation a test runs on."""
    return str(request.param)


@pytest.fixture
def endpoint_url(kind: str, request: pytest.FixtureRequest) -> str | None:
    return None if kind == MEMORY else str(request.getfixturevalue(f"{kind}_url"))


def client_of(service: str, endpoint_url: str) -> Any:
    """A client configured as in a function."""
    return make_client(service, region=REGION, endpoint_url=endpoint_url, **CREDENTIALS)


@pytest.fixture
def bucket(endpoint_url: str | None) -> str:
    name = next(_names)
    if endpoint_url:
        with closing(client_of("s3", endpoint_url)) as client:
            client.create_bucket(Bucket=name)
    return name


@pytest.fixture
def store(endpoint_url: str | None, bucket: str) -> Iterator[ObjectStore]:
    if endpoint_url is None:
        yield InMemoryObjectStore(ManualClock(1_790_000_000_000))
        return
    with closing(client_of("s3", endpoint_url)) as client:
        yield S3ObjectStore(client, bucket)


@pytest.fixture
def index(endpoint_url: str | None) -> Iterator[SegmentIndex]:
    if endpoint_url is None:
        yield InMemorySegmentIndex()
        return
    with closing(client_of("dynamodb", endpoint_url)) as client:
        yield DynamoDbSegmentIndex(Table(client, create_table(client, "SegmentsTable")), KEEP_S)


@pytest.fixture
def runs(endpoint_url: str | None) -> Iterator[RunCatalog]:
    if endpoint_url is None:
        yield InMemoryRunCatalog()
        return
    with closing(client_of("dynamodb", endpoint_url)) as client:
        yield DynamoDbRunCatalog(Table(client, create_table(client, "RunsTable")), KEEP_S)


@pytest.fixture(scope="session")
def dynamodb_of() -> Iterator[Callable[[str], Any]]:
    """One client for all tests of an emulator: creating one takes longer than most tests."""
    clients: dict[str, Any] = {}

    def client(endpoint_url: str) -> Any:
        if endpoint_url not in clients:
            clients[endpoint_url] = client_of("dynamodb", endpoint_url)
        return clients[endpoint_url]

    yield client
    for each in clients.values():
        each.close()


@pytest.fixture
def new_database(endpoint_url: str | None, dynamodb_of: Callable[[str], Any]) -> Callable[[], Database]:
    """Creates databases with fresh tables."""
    if endpoint_url is None:
        return InMemoryDatabase
    client = dynamodb_of(endpoint_url)
    return lambda: DynamoDbDatabase(client, create_file_tables(client))


@pytest.fixture
def database(new_database: Callable[[], Database]) -> Database:
    return new_database()


def create_file_tables(client: Any) -> dict[str, Schema]:
    """Fresh tables of files."""
    return {table: Schema(create_table(client, resource), *KEYS[table]) for table, resource in TABLES.items()}


@cache
def _resources() -> dict[str, Any]:
    resources: dict[str, Any] = yaml.load(_TEMPLATE.read_text(), _Template)["Resources"]
    return resources


def create_table(client: Any, resource: str) -> str:
    """A table exactly as in the deployed template."""
    properties = _resources()[resource]["Properties"]
    name = next(_names)
    wanted = {"AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "BillingMode"}
    client.create_table(TableName=name, **{key: value for key, value in properties.items() if key in wanted and value})
    return name
