"""The table of source coordination: created or checked, under an assumed role, with a time to live if one is set."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import pytest

from chalicelib.aws.coordination import MAX_POLLS, CoordinationAws, make_store
from chalicelib.aws.dynamodb import Table
from chalicelib.aws.partition_store import DynamoDbPartitionStore
from chalicelib.coordination import (
    InMemoryPartitionStore,
    SourceCoordinator,
    StoreUnavailableError,
    WorkSource,
)
from chalicelib.coordination.partition import Capacity, create_table_request, new_partition
from chalicelib.coordination.settings import parse_settings
from chalicelib.errors import InvalidConfigurationError
from local.emulator import CREDENTIALS, REGION
from tests.contract.canned import answer, cut_off
from tests.contract.conftest import MINISTACK, MOTO
from tests.support.clock import ManualClock

_names = (f"coordination-table-{number}" for number in itertools.count())
ROLE = "arn:aws:iam::123456789012:role/coordination"


@pytest.fixture(params=[MOTO, MINISTACK])
def endpoint(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def client(endpoint: str, dynamodb_of: Callable[[str], Any]) -> Any:
    return dynamodb_of(endpoint)


def initialized(endpoint: str, table: str, **settings: Any) -> SourceCoordinator:
    """An initialized node with a table of these settings."""
    given = {"store": {"dynamodb": {"table_name": table, "region": REGION, **settings}}}
    store = make_store(parse_settings(given), CoordinationAws(ManualClock(), endpoint, **CREDENTIALS))
    node = SourceCoordinator(store, WorkSource("s3"), ManualClock(1_790_000_000_000), lambda name, value: None)
    node.initialize()
    return node


def test_table_is_created_as_data_prepper_does(endpoint: str, client: Any) -> None:
    table = next(_names)
    initialized(endpoint, table)
    made = client.describe_table(TableName=table)["Table"]
    assert made["KeySchema"] == [
        {"AttributeName": "sourceIdentifier", "KeyType": "HASH"},
        {"AttributeName": "sourcePartitionKey", "KeyType": "RANGE"},
    ]
    (index,) = made["GlobalSecondaryIndexes"]
    assert index["IndexName"] == "source-status" and index["Projection"] == {"ProjectionType": "ALL"}
    assert [key["AttributeName"] for key in index["KeySchema"]] == ["sourceStatusCombinationKey", "partitionPriority"]
    for capacity in (made["ProvisionedThroughput"], index["ProvisionedThroughput"]):
        assert (capacity["ReadCapacityUnits"], capacity["WriteCapacityUnits"]) == (10, 10)
    assert client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]["TimeToLiveStatus"] == "DISABLED"


def test_capacity_of_the_settings(endpoint: str, client: Any) -> None:
    table = next(_names)
    initialized(endpoint, table, provisioned_read_capacity_units=3, provisioned_write_capacity_units=4)
    capacity = client.describe_table(TableName=table)["Table"]["ProvisionedThroughput"]
    assert (capacity["ReadCapacityUnits"], capacity["WriteCapacityUnits"]) == (3, 4)
    table = next(_names)
    initialized(endpoint, table, on_demand=True)
    assert client.describe_table(TableName=table)["Table"]["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"


def test_existing_table_is_used(endpoint: str, client: Any) -> None:
    table = next(_names)
    initialized(endpoint, table).create_partitions(["k"])
    assert initialized(endpoint, table).next_partition()
    assert initialized(endpoint, table, skip_table_creation=True).next_partition() is None


def test_table_with_another_layout_is_an_error(endpoint: str, client: Any) -> None:
    table = next(_names)
    keys = {
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    }
    client.create_table(TableName=table, BillingMode="PAY_PER_REQUEST", **keys)
    with pytest.raises(InvalidConfigurationError, match="the keys or the index of the table differ"):
        initialized(endpoint, table)


def test_missing_table_is_not_created_with_skip_table_creation(endpoint: str, client: Any) -> None:
    table = next(_names)
    with pytest.raises(StoreUnavailableError):
        initialized(endpoint, table, skip_table_creation=True)
    assert table not in client.list_tables()["TableNames"]


def test_ttl_is_enabled_with_the_table(endpoint: str, client: Any) -> None:
    table = next(_names)
    for _ in range(2):
        initialized(endpoint, table, ttl="P7D")
        found = client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
        assert found == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expirationTime"}
    initialized(endpoint, table, ttl="P7D", skip_table_creation=True)


def test_disabled_ttl_is_an_error_with_skip_table_creation(endpoint: str, client: Any) -> None:
    table = next(_names)
    initialized(endpoint, table)
    with pytest.raises(InvalidConfigurationError, match="the setting ttl requires TTL"):
        initialized(endpoint, table, ttl="P7D", skip_table_creation=True)
    client.update_time_to_live(TableName=table, TimeToLiveSpecification={"Enabled": True, "AttributeName": "other"})
    with pytest.raises(InvalidConfigurationError, match="attribute=expirationTime"):
        initialized(endpoint, table, ttl="P7D", skip_table_creation=True)


def test_a_role_is_assumed(endpoint: str, client: Any, dynamodb_of: Any) -> None:
    table = next(_names)
    node = initialized(endpoint, table, sts_role_arn=ROLE, sts_external_id="e-1")
    assert node.create_partitions(["k"]) == ["k"] and node.next_partition()
    used = node._store._table._client  # type: ignore[attr-defined]
    keys = used._request_signer._credentials.get_frozen_credentials()
    assert keys.access_key.startswith("ASIA") and keys.token, "not the node's own"


def test_requests_of_an_assumed_role() -> None:
    expires = "2099-01-01T00:00:00Z"
    body = (
        "<AssumeRoleResponse xmlns='https://sts.amazonaws.com/doc/2011-06-15/'><AssumeRoleResult><Credentials><AccessKeyId>ASIA1</AccessKeyId>"
        f"<SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>{expires}</Expiration></Credentials>"
        "</AssumeRoleResult></AssumeRoleResponse>"
    )
    asked = []
    with cut_off("sts", answer(200, body.encode(), {"Content-Type": "text/xml"})) as (sts, network):
        aws = CoordinationAws(ManualClock(), **CREDENTIALS)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("chalicelib.aws.coordination._sts", lambda region, endpoint, service, **keys: asked.append(keys) or sts)
            used = aws.client("eu-west-1", ROLE, "e-1")
            assert network.requests == [], "nothing before it is needed"
            assert used._request_signer._credentials.get_frozen_credentials().access_key == "ASIA1"
        sent = parse_qs(
            network.requests[0].body if isinstance(network.requests[0].body, str) else network.requests[0].body.decode()
        )
        assert (sent["RoleArn"], sent["ExternalId"]) == ([ROLE], ["e-1"])
        assert asked[0]["aws_access_key_id"] == CREDENTIALS["aws_access_key_id"]
        used.close()


def test_role_needs_credentials_to_assume_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("boto3.Session.get_credentials", lambda self: None)
    with pytest.raises(InvalidConfigurationError, match="no credentials to assume the role"):
        CoordinationAws(ManualClock()).client("eu-west-1", ROLE, None)


# ---------------------------------------------------------------- responses that emulators do not produce


def described(status: str) -> Any:
    request = create_table_request("t", None)
    table = {"TableStatus": status, "KeySchema": request["KeySchema"]}
    indexes = [{"IndexName": "source-status", "KeySchema": request["GlobalSecondaryIndexes"][0]["KeySchema"]}]
    return _json({"Table": table | {"GlobalSecondaryIndexes": indexes}})


def refused(code: str) -> Any:
    return answer(400, json.dumps({"__type": f"x#{code}", "message": "m"}).encode(), {"Content-Type": "application/x-amz-json-1.0"})


def _json(body: dict[str, Any]) -> Any:
    return answer(200, json.dumps(body).encode(), {"Content-Type": "application/x-amz-json-1.0"})


def prepared(*answers: Any, ttl: str | None = None, skip: bool = False) -> tuple[list[str], ManualClock]:
    clock = ManualClock()
    with cut_off("dynamodb", *answers) as (client, network):
        try:
            CoordinationAws(clock).prepare_table(client, create_table_request("t", Capacity()), ttl, skip_creation=skip)
        finally:
            asked = [request.headers["X-Amz-Target"].decode().rpartition(".")[2] for request in network.requests]
    return asked, clock


def test_table_that_is_being_created_is_awaited() -> None:
    making, ready = described("CREATING"), described("ACTIVE")
    asked, clock = prepared(refused("ResourceNotFoundException"), _json({}), making, described("CREATING"), ready)
    assert asked == ["DescribeTable", "CreateTable", "DescribeTable", "DescribeTable", "DescribeTable"]
    assert clock.monotonic_s() == 2


def test_another_node_creates_the_table_at_the_same_time() -> None:
    asked, _ = prepared(refused("ResourceNotFoundException"), refused("ResourceInUseException"), described("ACTIVE"))
    assert asked == ["DescribeTable", "CreateTable", "DescribeTable"]


def test_table_that_never_gets_ready_is_an_error() -> None:
    for answers in (
        (described("CREATING"),),
        (refused("ResourceNotFoundException"), _json({}), refused("ResourceNotFoundException")),
    ):
        with pytest.raises(StoreUnavailableError, match=f"not ready after {MAX_POLLS}"):
            prepared(*answers)


def test_table_that_may_not_be_created_is_an_error() -> None:
    with pytest.raises(StoreUnavailableError, match="AccessDenied"):
        prepared(refused("ResourceNotFoundException"), refused("AccessDeniedException"))


def test_another_node_enables_ttl_at_the_same_time() -> None:
    off, on = ({"TimeToLiveDescription": {"TimeToLiveStatus": status, "AttributeName": "e"}} for status in ("DISABLED", "ENABLING"))
    asked, _ = prepared(described("ACTIVE"), _json(off), refused("ValidationException"), _json(on), ttl="e")
    assert asked == ["DescribeTable", "DescribeTimeToLive", "UpdateTimeToLive", "DescribeTimeToLive"]
    with pytest.raises(InvalidConfigurationError, match="cannot be enabled"):
        prepared(described("ACTIVE"), _json(off), refused("ValidationException"), _json(off), ttl="e")


def test_failed_condition_without_an_item_reads_it() -> None:
    """Without the old item in the response, the item is read."""
    partition = new_partition("s|PARTITION", "k", 0)
    with cut_off("dynamodb", refused("ConditionalCheckFailedException"), _json({})) as (client, network):
        found = DynamoDbPartitionStore(Table(client, "t")).replace(partition, partition.released(0))
    assert found is not None and found.current is None and len(network.requests) == 2


def test_without_settings_the_store_is_in_memory() -> None:
    settings = parse_settings(None)
    assert isinstance(make_store(settings, CoordinationAws(ManualClock())), InMemoryPartitionStore)
    assert parse_settings({"partition_prefix": "b"}).source("sweep").partitions == "b|sweep|PARTITION"
