"""The configured store of source coordination: clients of an assumed role, a table that is created or checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import boto3
import botocore.session
from botocore.credentials import (
    AssumeRoleCredentialFetcher,
    CredentialProvider,
    CredentialResolver,
    DeferredRefreshableCredentials,
)
from botocore.exceptions import ClientError

from chalicelib.aws.clients import make_client
from chalicelib.aws.dynamodb import Table
from chalicelib.aws.errors import note_unknown_outcome, translate_errors
from chalicelib.coordination.memory import InMemoryPartitionStore
from chalicelib.coordination.partition import TTL_ATTRIBUTE, create_table_request
from chalicelib.errors import InvalidConfigurationError, OutcomeUnknownError, StoreUnavailableError
from chalicelib.ports import Clock

if TYPE_CHECKING:
    from chalicelib.coordination.settings import CoordinationSettings, DynamoDbSettings
    from chalicelib.coordination.store import PartitionStore

SESSION_NAME = "runlake-source-coordination"
POLL_S = 1.0
MAX_POLLS = 120
_TTL_IN_FORCE = ("ENABLED", "ENABLING")


class CoordinationAws:
    """Clients and tables of DynamoDB. ``endpoint_url`` and ``credentials`` are for emulators; AWS needs neither. ``watch`` is called with
    each new client."""

    def __init__(
        self, clock: Clock, endpoint_url: str | None = None, *, watch: Callable[[Any], None] = lambda _: None, **credentials: Any
    ) -> None:
        self._clock, self._endpoint_url, self._watch, self._credentials = clock, endpoint_url, watch, credentials

    def client(self, region: str, role_arn: str | None, external_id: str | None) -> Any:
        """A DynamoDB client. Credentials of a role are fetched with the first request and refreshed before they expire. Raises
        InvalidConfigurationError when there are no credentials to assume it."""
        own = make_client("dynamodb", region=region, endpoint_url=self._endpoint_url, **self._credentials)
        if role_arn is None:
            self._watch(own)
            return own
        session = boto3.Session(botocore_session=self._session_of(region, role_arn, external_id))
        client = session.client("dynamodb", region_name=region, endpoint_url=self._endpoint_url, config=own.meta.config)
        client.meta.events.register("needs-retry.dynamodb", note_unknown_outcome)
        self._watch(client)
        return client

    def prepare_table(self, client: Any, request: Mapping[str, Any], ttl_attribute: str | None, *, skip_creation: bool) -> None:
        """Create the table of this ``create_table`` request and enable its time to live where missing; with ``skip_creation`` only check
        that time to live is enabled. Raises InvalidConfigurationError."""
        name = request["TableName"]
        if not skip_creation:
            self._make_table(client, request)
        if ttl_attribute and not _has_ttl(client, name, ttl_attribute):
            if skip_creation:
                raise InvalidConfigurationError(
                    f"the setting ttl requires TTL enabled on the table table={name} attribute={ttl_attribute}"
                )
            _enable_ttl(client, name, ttl_attribute)

    def _session_of(self, region: str, role_arn: str, external_id: str | None) -> Any:
        own = boto3.Session(region_name=region, **self._credentials).get_credentials()
        if own is None:
            raise InvalidConfigurationError(f"no credentials to assume the role sts_role_arn={role_arn}")
        fetcher = AssumeRoleCredentialFetcher(
            client_creator=partial(_sts, region, self._endpoint_url),
            source_credentials=own,
            role_arn=role_arn,
            extra_args={"RoleSessionName": SESSION_NAME} | ({"ExternalId": external_id} if external_id else {}),
        )
        session = botocore.session.get_session()
        session.register_component("credential_provider", CredentialResolver([_AssumedRole(fetcher)]))
        return session

    def _make_table(self, client: Any, request: Mapping[str, Any]) -> None:
        table = _describe(client, request["TableName"])
        if table is None:
            _create(client, request)
        for poll in range(MAX_POLLS):
            if table is not None and table["TableStatus"] not in ("CREATING", "DELETING"):
                _check_layout(table, request)
                return
            self._clock.sleep(POLL_S if poll else 0)
            table = _describe(client, request["TableName"])
        raise StoreUnavailableError(f"the table is not ready after {MAX_POLLS * POLL_S:.0f} s table={request['TableName']}")


def make_store(settings: CoordinationSettings, aws: CoordinationAws) -> PartitionStore:
    """The configured store. It sends no request before ``initialize``."""
    return _dynamodb(settings.store.dynamodb, aws) if settings.store.dynamodb else InMemoryPartitionStore()


def _dynamodb(settings: DynamoDbSettings, aws: CoordinationAws) -> PartitionStore:
    from chalicelib.aws.partition_store import DynamoDbPartitionStore

    client = aws.client(settings.region, settings.sts_role_arn, settings.sts_external_id)
    request = create_table_request(settings.table_name, settings.capacity)
    ttl_attribute = TTL_ATTRIBUTE if settings.ttl else None

    def prepare() -> None:
        aws.prepare_table(client, request, ttl_attribute, skip_creation=settings.skip_table_creation)

    return DynamoDbPartitionStore(Table(client, settings.table_name), settings.item_ttl, prepare)


class _AssumedRole(CredentialProvider):  # type: ignore[misc]
    METHOD = CANONICAL_NAME = "assumed-role"

    def __init__(self, fetcher: AssumeRoleCredentialFetcher) -> None:
        super().__init__()
        self._fetcher = fetcher

    def load(self) -> DeferredRefreshableCredentials:
        return DeferredRefreshableCredentials(refresh_using=self._fetcher.fetch_credentials, method=self.METHOD)


def _sts(region: str, endpoint_url: str | None, service: str, **keys: Any) -> Any:
    """Called by botocore for the client that assumes the role."""
    return boto3.client(service, region_name=region, endpoint_url=endpoint_url, **keys)


def _describe(client: Any, name: str) -> dict[str, Any] | None:
    with translate_errors("describe_table", name, write=False):
        try:
            table: dict[str, Any] = client.describe_table(TableName=name)["Table"]
        except ClientError as error:
            if _code(error) != "ResourceNotFoundException":
                raise
            return None
    return table


def _create(client: Any, request: Mapping[str, Any]) -> None:
    try:
        with translate_errors("create_table", request["TableName"], write=True):
            client.create_table(**request)
    except OutcomeUnknownError:
        pass  # the caller waits for the table
    except StoreUnavailableError as error:
        cause = error.__cause__
        if not (isinstance(cause, ClientError) and _code(cause) == "ResourceInUseException"):  # another node was faster
            raise


def _check_layout(table: Mapping[str, Any], request: Mapping[str, Any]) -> None:
    def layout(of: Mapping[str, Any]) -> tuple[Any, Any]:
        indexes = {index["IndexName"]: index["KeySchema"] for index in of.get("GlobalSecondaryIndexes", ())}
        return of["KeySchema"], {name: indexes.get(name) for name in index_names}

    index_names = [index["IndexName"] for index in request["GlobalSecondaryIndexes"]]
    if layout(table) != layout(request):
        raise InvalidConfigurationError(
            f"the keys or the index of the table differ from the expected ones table={request['TableName']}"
        )


def _has_ttl(client: Any, name: str, attribute: str) -> bool:
    with translate_errors("describe_time_to_live", name, write=False):
        ttl = client.describe_time_to_live(TableName=name).get("TimeToLiveDescription", {})
    return ttl.get("TimeToLiveStatus") in _TTL_IN_FORCE and ttl.get("AttributeName") == attribute


def _enable_ttl(client: Any, name: str, attribute: str) -> None:
    specification = {"Enabled": True, "AttributeName": attribute}
    try:
        with translate_errors("update_time_to_live", name, write=True):
            client.update_time_to_live(TableName=name, TimeToLiveSpecification=specification)
    except StoreUnavailableError as error:
        if _has_ttl(client, name, attribute):  # another node was faster
            return
        if isinstance(error.__cause__, ClientError) and _code(error.__cause__) == "ValidationException":
            raise InvalidConfigurationError(f"ttl cannot be enabled on the table table={name} attribute={attribute}") from error
        raise


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
