"""The table as Data Prepper makes it: what ``create_table`` is given, and which attribute ends an item's life."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chalicelib.coordination.codec import COMBINATION, EXPIRATION, INDEX, KEY, PRIORITY, SOURCE

TTL_ATTRIBUTE = EXPIRATION
DEFAULT_CAPACITY_UNITS = 10


@dataclass(frozen=True, slots=True)
class Capacity:
    """What is provisioned, for the table and again for its index; None in the place of this: on demand."""

    read_units: int = DEFAULT_CAPACITY_UNITS
    write_units: int = DEFAULT_CAPACITY_UNITS


def create_table_request(name: str, capacity: Capacity | None) -> dict[str, Any]:
    """The arguments of ``create_table``."""
    provisioned = (
        {"ProvisionedThroughput": {"ReadCapacityUnits": capacity.read_units, "WriteCapacityUnits": capacity.write_units}}
        if capacity
        else {}
    )
    return {
        "TableName": name,
        "AttributeDefinitions": [{"AttributeName": each, "AttributeType": "S"} for each in (SOURCE, KEY, COMBINATION, PRIORITY)],
        "KeySchema": _keys(SOURCE, KEY),
        "GlobalSecondaryIndexes": [
            {
                "IndexName": INDEX,
                "KeySchema": _keys(COMBINATION, PRIORITY),
                "Projection": {"ProjectionType": "ALL"},
                **provisioned,
            }
        ],
        "BillingMode": "PROVISIONED" if capacity else "PAY_PER_REQUEST",
        **provisioned,
    }


def _keys(hash_: str, range_: str) -> list[dict[str, str]]:
    return [{"AttributeName": hash_, "KeyType": "HASH"}, {"AttributeName": range_, "KeyType": "RANGE"}]
