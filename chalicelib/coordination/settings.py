"""The settings ``source_coordination`` with Data Prepper's names. ``on_demand``, ``ttl_everything`` and the default region are additions.

All are validated at start: one message has each wrong setting, its value and the allowed ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from chalicelib.coordination.partition import DEFAULT_CAPACITY_UNITS, Capacity, ItemTtl, WorkSource
from chalicelib.errors import InvalidConfigurationError

ROOT = "source_coordination"
_CALENDAR = re.compile(r"P[^T]*[YM]")
_MAX_TTL = timedelta(days=36_500)
_UNITS = ("provisioned_read_capacity_units", "provisioned_write_capacity_units")


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class InMemorySettings(_Settings):
    """The store of a single process; it has no settings."""


class DynamoDbSettings(_Settings):
    """The table that worker processes share."""

    table_name: str = Field(description="Name of the DynamoDB table.", pattern=r"^[A-Za-z0-9_.-]{3,255}$")
    region: str = Field(description="The table's region.", pattern=r"^[a-z]{2}(-[a-z]+)+-\d$")
    sts_role_arn: str | None = Field(
        None,
        description="The role that may use the table. Default: the function's own.",
        pattern=r"^arn:[a-z-]+:iam::\d{12}:role/.+$",
    )
    sts_external_id: str | None = Field(
        None,
        description="The external ID with which the role is assumed.",
        min_length=2,
        max_length=1224,
        pattern=r"^[A-Za-z0-9_+=,.@:/\\-]+$",
    )
    skip_table_creation: bool = Field(False, description="The table exists already.")
    provisioned_read_capacity_units: int = Field(
        DEFAULT_CAPACITY_UNITS, description="Provisioned read capacity units of the table and of its index.", ge=1
    )
    provisioned_write_capacity_units: int = Field(
        DEFAULT_CAPACITY_UNITS, description="Provisioned write capacity units of the table and of its index.", ge=1
    )
    on_demand: bool = Field(False, description="Bill the table by request instead.")
    ttl: timedelta | None = Field(
        None, description="Time to live of completed partitions after their last change, an ISO-8601 duration. Default: for ever."
    )
    ttl_everything: bool = Field(False, description="Apply ttl to partitions of every status, as Data Prepper does.")

    @field_validator("ttl", mode="before")
    @classmethod
    def _is_iso(cls, value: Any) -> Any:
        if value is None or isinstance(value, timedelta):
            return value
        if not isinstance(value, str) or not value.startswith("P"):
            raise ValueError("must be an ISO-8601 duration such as P7D or PT12H")
        if _CALENDAR.match(value):
            raise ValueError("years and months have no fixed length: give days, such as P30D")
        return value

    @field_validator("ttl")
    @classmethod
    def _is_a_time_ahead(cls, value: timedelta | None) -> timedelta | None:
        if value is not None and not timedelta(seconds=1) <= value <= _MAX_TTL:
            raise ValueError("must be 1 second to 36500 days")
        return value

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.sts_external_id and not self.sts_role_arn:
            raise ValueError("sts_external_id needs sts_role_arn")
        if self.on_demand and self.model_fields_set.intersection(_UNITS):
            raise ValueError("on_demand and provisioned capacity exclude each other")
        if self.ttl_everything and self.ttl is None:
            raise ValueError("ttl_everything needs ttl")
        return self

    @property
    def capacity(self) -> Capacity | None:
        """The provisioned capacity; None: on demand."""
        return None if self.on_demand else Capacity(self.provisioned_read_capacity_units, self.provisioned_write_capacity_units)

    @property
    def item_ttl(self) -> ItemTtl:
        """The time to live of items."""
        return ItemTtl(int(self.ttl.total_seconds()) if self.ttl else None, self.ttl_everything)


class StoreSettings(_Settings):
    """One of two stores. ``in_memory`` is the default, for a single node only."""

    in_memory: InMemorySettings | None = Field(None, description="In-memory store, for one process.")
    dynamodb: DynamoDbSettings | None = Field(None, description="DynamoDB store, for any number of workers.")

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if len(self.model_fields_set) > 1:
            raise ValueError("one store: in_memory or dynamodb")
        if "dynamodb" in self.model_fields_set and self.dynamodb is None:
            raise ValueError("dynamodb needs table_name and region")
        return self


class CoordinationSettings(_Settings):
    """All settings below ``source_coordination``."""

    partition_prefix: str = Field(
        "", description="Prefix of source names; separates clusters that share a store.", max_length=255, pattern=r"^[^|]*$"
    )
    store: StoreSettings = Field(default_factory=StoreSettings, description="The store of partitions.")

    def source(self, sub_pipeline: str) -> WorkSource:
        """The source of a sub-pipeline, which its coordinators share."""
        return WorkSource(sub_pipeline, self.partition_prefix)


def parse_settings(document: Mapping[str, Any] | None) -> CoordinationSettings:
    """The settings below ``source_coordination`` of a YAML or JSON document; None or empty: in memory. Raises
    InvalidConfigurationError."""
    try:
        return CoordinationSettings.model_validate(document or {})
    except ValidationError as error:
        raise InvalidConfigurationError("; ".join(map(_message, error.errors(include_url=False)))) from None


def _message(error: ErrorDetails) -> str:
    name = ".".join([ROOT, *map(str, error["loc"])])
    message = error["msg"].removeprefix("Value error, ")
    value = "" if isinstance(error["input"], Mapping) else f" value={error['input']!r}"
    return f"invalid setting: {message[:1].lower()}{message[1:]} name={name}{value}"
