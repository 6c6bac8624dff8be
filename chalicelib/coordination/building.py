"""A store from its settings. What speaks to AWS is handed in: see ``chalicelib.aws.coordination``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from chalicelib.coordination.memory import InMemoryStore
from chalicelib.coordination.partition import Source
from chalicelib.coordination.schema import TTL_ATTRIBUTE, table_request

if TYPE_CHECKING:
    from chalicelib.coordination.settings import CoordinationSettings, DynamoDbSettings
    from chalicelib.coordination.store import Store


class Aws(Protocol):
    """What a store asks of AWS besides its items. ``chalicelib.aws.coordination.CoordinationAws`` is one."""

    def client(self, region: str, role_arn: str | None, external_id: str | None) -> Any:
        """A DynamoDB client, of a role that is assumed if one is given."""

    def prepare_table(self, client: Any, request: dict[str, Any], ttl_attribute: str | None, *, skip_creation: bool) -> None:
        """Make the table, or check it. Raises InvalidConfigurationError."""


def make_store(settings: CoordinationSettings, aws: Aws) -> Store:
    """The store that is configured. Nothing is asked of it before ``initialize``."""
    return _dynamodb(settings.store.dynamodb, aws) if settings.store.dynamodb else InMemoryStore()


def make_source(settings: CoordinationSettings, sub_pipeline: str) -> Source:
    """The source that a sub-pipeline's coordinators share."""
    return Source(sub_pipeline, settings.partition_prefix)


def _dynamodb(settings: DynamoDbSettings, aws: Aws) -> Store:
    from chalicelib.aws.dynamodb import Table
    from chalicelib.coordination.dynamodb import DynamoDbStore

    client = aws.client(settings.region, settings.sts_role_arn, settings.sts_external_id)
    request = table_request(settings.table_name, settings.capacity)
    ttl_attribute = TTL_ATTRIBUTE if settings.ttl else None

    def prepare() -> None:
        aws.prepare_table(client, request, ttl_attribute, skip_creation=settings.skip_table_creation)

    return DynamoDbStore(Table(client, settings.table_name), settings.retention, prepare)
