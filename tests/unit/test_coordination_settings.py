"""Settings of source coordination: names of Data Prepper, and messages for wrong values."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest

from chalicelib.coordination import LeaseTerms
from chalicelib.coordination.metrics import METRIC_NAMES, Metric, Metrics, metric_name
from chalicelib.coordination.partition import Capacity, create_table_request, permissions
from chalicelib.coordination.settings import CoordinationSettings, DynamoDbSettings, parse_settings
from chalicelib.errors import InvalidConfigurationError

SEED = {
    "table_name": "DataPrepperSourceCoordinationStore",
    "region": "us-east-1",
    "sts_role_arn": "arn:aws:iam::123456789012:role/SourceCoordinationTableRole",
    "ttl": "P7D",
    "skip_table_creation": True,
}


def dynamodb(**settings: Any) -> DynamoDbSettings:
    found = parse_settings({"store": {"dynamodb": {"table_name": "table", "region": "eu-west-1", **settings}}}).store.dynamodb
    assert found
    return found


@pytest.mark.behavior("Data Prepper's `source_coordination` settings are accepted as they are.")
def test_the_seeds_example() -> None:
    found = parse_settings({"partition_prefix": "east", "store": {"dynamodb": SEED}})
    store = found.store.dynamodb
    assert store and found.partition_prefix == "east"
    assert store.ttl == timedelta(days=7) and store.item_ttl.ttl_s == 604_800 and not store.item_ttl.everything
    assert (store.skip_table_creation, store.sts_role_arn, store.sts_external_id) == (True, SEED["sts_role_arn"], None)


def test_defaults_are_the_seeds() -> None:
    store = dynamodb()
    assert (store.provisioned_read_capacity_units, store.provisioned_write_capacity_units) == (10, 10)
    assert (store.skip_table_creation, store.ttl, store.sts_role_arn, store.capacity) == (False, None, None, Capacity(10, 10))
    assert dynamodb(on_demand=True).capacity is None


@pytest.mark.parametrize("given", [None, {}, {"store": {}}, {"store": {"in_memory": None}}, {"store": {"in_memory": {}}}], ids=str)
def test_without_a_store_it_is_in_memory(given: dict[str, Any] | None) -> None:
    assert parse_settings(given).store.dynamodb is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P7D", timedelta(days=7)),
        ("PT10M", timedelta(minutes=10)),
        ("P1W", timedelta(weeks=1)),
        ("P1DT2H3M4.5S", timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
        ("PT36H", timedelta(hours=36)),
    ],
)
def test_durations(text: str, expected: timedelta) -> None:
    assert dynamodb(ttl=text).ttl == expected


@pytest.mark.parametrize(
    ("ttl", "told"),
    [
        ("P1M", "years and months have no fixed length"),
        ("P1Y", "years and months have no fixed length"),
        ("P1Y2M3DT4H", "years and months have no fixed length"),
        ("7 days", "an iso-8601 duration such as P7D"),
        ("1:00:00", "an iso-8601 duration such as P7D"),
        (604800, "an iso-8601 duration such as P7D"),
        ("p7d", "an iso-8601 duration such as P7D"),
        ("-P1D", "an iso-8601 duration such as P7D"),
        ("", "an iso-8601 duration such as P7D"),
        ("P", "valid timedelta"),
        ("P1D2H", "valid timedelta"),
        ("PT0S", "1 second to 36500 days"),
        ("PT0.5S", "1 second to 36500 days"),
        ("P99999D", "1 second to 36500 days"),
    ],
)
def test_invalid_durations(ttl: Any, told: str) -> None:
    with pytest.raises(InvalidConfigurationError) as caught:
        dynamodb(ttl=ttl)
    message = str(caught.value)
    assert told.lower() in message.lower() and "name=source_coordination.store.dynamodb.ttl" in message and repr(ttl) in message


@pytest.mark.parametrize(
    ("given", "name", "told"),
    [
        ({"stores": {}}, "stores", "extra"),
        ({"partition_prefix": "a|b"}, "partition_prefix", "pattern"),
        ({"store": {"redis": {}}}, "store.redis", "extra"),
        ({"store": {"in_memory": {}, "dynamodb": SEED}}, "store", "one store: in_memory or dynamodb"),
        ({"store": {"dynamodb": None}}, "store", "dynamodb needs table_name and region"),
        ({"store": {"dynamodb": {}}}, "store.dynamodb.table_name", "required"),
        ({"store": {"dynamodb": SEED | {"region": "Frankfurt"}}}, "store.dynamodb.region", "pattern"),
        ({"store": {"dynamodb": SEED | {"table_name": "a b"}}}, "store.dynamodb.table_name", "pattern"),
        ({"store": {"dynamodb": SEED | {"sts_role_arn": "role"}}}, "store.dynamodb.sts_role_arn", "pattern"),
        (
            {"store": {"dynamodb": SEED | {"sts_role_arn": None, "sts_external_id": "e-1"}}},
            "store.dynamodb",
            "needs sts_role_arn",
        ),
        ({"store": {"dynamodb": SEED | {"provisioned_read_capacity_units": 0}}}, "units", "greater than or equal to 1"),
        ({"store": {"dynamodb": SEED | {"on_demand": True, "provisioned_read_capacity_units": 5}}}, "store.dynamodb", "exclude"),
        ({"store": {"dynamodb": SEED | {"ttl": None, "ttl_everything": True}}}, "store.dynamodb", "ttl_everything needs ttl"),
        ({"store": {"dynamodb": SEED | {"skip_table_creation": "perhaps"}}}, "skip_table_creation", "boolean"),
    ],
)
def test_a_message_names_setting_and_what_is_allowed(given: dict[str, Any], name: str, told: str) -> None:
    with pytest.raises(InvalidConfigurationError) as caught:
        parse_settings(given)
    assert f"{name}" in str(caught.value) and told in str(caught.value), str(caught.value)


def test_one_message_has_all_wrong_settings() -> None:
    with pytest.raises(InvalidConfigurationError) as caught:
        parse_settings({"store": {"dynamodb": {"table_name": "x", "region": "y", "ttl": "soon"}}})
    assert all(f"store.dynamodb.{name}" in str(caught.value) for name in ("table_name", "region", "ttl"))


def test_every_setting_of_the_seed_is_there_and_described() -> None:
    names = {
        "table_name", "region", "sts_role_arn", "sts_external_id", "skip_table_creation", "provisioned_write_capacity_units",
        "provisioned_read_capacity_units", "ttl",
    }  # fmt: skip
    assert names | {"on_demand", "ttl_everything"} == set(DynamoDbSettings.model_fields)
    for model in (CoordinationSettings, DynamoDbSettings):
        assert all(field.description for field in model.model_fields.values())


def test_provisioned_capacity_applies_to_the_index_too() -> None:
    request = create_table_request("t", Capacity(3, 4))
    expected = {"ReadCapacityUnits": 3, "WriteCapacityUnits": 4}
    assert request["ProvisionedThroughput"] == request["GlobalSecondaryIndexes"][0]["ProvisionedThroughput"] == expected
    assert "ProvisionedThroughput" not in str(create_table_request("t", None))


# ---------------------------------------------------------------- metrics, permissions, terms, imports


def test_metrics_are_named_as_the_seed_names_them() -> None:
    assert set(METRIC_NAMES) == {
        "partitionsCreatedCount", "partitionsCompleted", "partitionsClosed", "partitionsAcquired", "noPartitionsAcquired",
        "partitionsGivenUp", "partitionCreationSupplierInvocations", "savePartitionProgressStateInvocationsSuccess",
        "partitionNotFoundErrors", "partitionNotOwnedErrors", "saveStatePartitionUpdateErrors", "closePartitionUpdateErrors",
        "completePartitionUpdateErrors",
    }  # fmt: skip
    assert metric_name("compaction", METRIC_NAMES[0]) == "compaction_source_coordinator_partitionsCreatedCount"
    recorded: list[tuple[str, float]] = []
    counted = Metrics("sweep", lambda name, value: recorded.append((name, value)))
    counted.count(Metric.ACQUIRED, 3)
    counted.count(Metric.CREATED, 0)
    assert recorded == [("sweep_source_coordinator_partitionsAcquired", 3)]


def test_permissions_are_data_preppers_and_delete() -> None:
    statement = permissions("eu-west-1", "123456789012", "t")
    assert statement == {
        "Sid": "ReadWriteSourceCoordinationDynamoStore",
        "Effect": "Allow",
        "Action": [
            "dynamodb:DescribeTimeToLive", "dynamodb:UpdateTimeToLive", "dynamodb:DescribeTable", "dynamodb:CreateTable",
            "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:DeleteItem", "dynamodb:Query",
        ],
        "Resource": [
            "arn:aws:dynamodb:eu-west-1:123456789012:table/t",
            "arn:aws:dynamodb:eu-west-1:123456789012:table/t/index/source-status",
        ],
    }  # fmt: skip


@pytest.mark.parametrize(("timeout_s", "margin_s"), [(600, 5), (50, 5), (40, 4), (3, 0.3)])
def test_the_margin_before_a_deadline(timeout_s: float, margin_s: float) -> None:
    assert LeaseTerms(timeout_s).margin_s == pytest.approx(margin_s)


@pytest.mark.parametrize(("timeout_s", "skew_s"), [(0, 5), (-1, 5), (600, -1), (float("nan"), 5)])
def test_invalid_lease_terms(timeout_s: float, skew_s: float) -> None:
    with pytest.raises(InvalidConfigurationError):
        LeaseTerms(timeout_s, skew_s)


def test_importing_it_is_cheap() -> None:
    """The package imports neither boto3 nor pydantic; only its settings and the DynamoDB store do."""
    heavy = ("boto3", "botocore", "pydantic", "chalice", "aws_lambda_powertools")
    code = f"import sys, chalicelib.coordination as c; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
