"""A store from its settings. What speaks to AWS is handed in: see ``chalicelib.aws.coordination``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from chalicelib.coordination.memory import InMemoryPartitionStore
from chalicelib.coordination.partition import WorkSource
from chalicelib.coordination.schema import TTL_ATTRIBUTE, create_table_request

if TYPE_CHECKING:
    from chalicelib.coordination.settings import CoordinationSettings, DynamoDbSettings
    from chalicelib.coordination.store import PartitionStore


class Aws(Protocol):
    """What a store asks of AWS besides its items. ``chalicelib.aws.coordination.CoordinationAws`` is one."""

    def client(self, region: str, role_arn: str | None, external_id: str | None) -> Any:
        """A DynamoDB client, of a role that is assumed if one is given."""

    def prepare_table(self, client: Any, request: dict[str, Any], ttl_attribute: str | None, *, skip_creation: bool) -> None:
        """Make the table, or check it. Raises InvalidConfigurationError."""


def make_store(settings: CoordinationSettings, aws: Aws) -> PartitionStore:
    """The store that is configured. Nothing is asked of it before ``initialize``."""
    return _dynamodb(settings.store.dynamodb, aws) if settings.store.dynamodb else InMemoryPartitionStore()


def make_source(settings: CoordinationSettings, sub_pipeline: str) -> WorkSource:
    """The source that a sub-pipeline's coordinators share."""
    return WorkSource(sub_pipeline, settings.partition_prefix)


def _dynamodb(settings: DynamoDbSettings, aws: Aws) -> PartitionStore:
    from chalicelib.aws.dynamodb import Table
    from chalicelib.coordination.dynamodb import DynamoDbPartitionStore

    client = aws.client(settings.region, settings.sts_role_arn, settings.sts_external_id)
    request = create_table_request(settings.table_name, settings.capacity)
    ttl_attribute = TTL_ATTRIBUTE if settings.ttl else None

    def prepare() -> None:
        aws.prepare_table(client, request, ttl_attribute, skip_creation=settings.skip_table_creation)

    return DynamoDbPartitionStore(Table(client, settings.table_name), settings.item_ttl, prepare)
