"""Reading of secrets by name, against moto."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import boto3
import pytest
from moto import mock_aws

from chalicelib.aws.clients import make_client
from chalicelib.aws.secrets import read_secret
from chalicelib.errors import StoreUnavailableError

pytestmark = pytest.mark.slow  # it starts a server

CLIENT = partial(make_client, region="us-east-1", aws_access_key_id="test", aws_secret_access_key="test")
SETUP = {"region_name": "us-east-1", "aws_access_key_id": "test", "aws_secret_access_key": "test"}


@pytest.fixture(autouse=True)
def stored_secrets() -> Iterator[None]:
    with mock_aws():
        boto3.client("ssm", **SETUP).put_parameter(Name="/sales/password", Value="hunter2", Type="SecureString")
        boto3.client("secretsmanager", **SETUP).create_secret(Name="prod/db", SecretString='{"user": "me", "password": "hunter3"}')
        yield


def test_a_parameter_is_decrypted() -> None:
    assert read_secret(CLIENT, "ssm", "/sales/password", "") == "hunter2"


def test_a_secret_as_it_is_and_a_field_of_it() -> None:
    assert read_secret(CLIENT, "secretsmanager", "prod/db", "password") == "hunter3"
    assert read_secret(CLIENT, "secretsmanager", "prod/db", "") == '{"user": "me", "password": "hunter3"}'


@pytest.mark.parametrize(
    ("service", "name", "field"),
    [
        ("ssm", "/none", ""),
        ("secretsmanager", "none", ""),
        ("secretsmanager", "prod/db", "none"),
        ("ssm", "/sales/password", "field"),
    ],
)
def test_unreadable_secret_raises_without_revealing_it(service: str, name: str, field: str) -> None:
    with pytest.raises(StoreUnavailableError) as caught:
        read_secret(CLIENT, service, name, field)
    assert "hunter" not in str(caught.value)
