"""Requests and responses of the API of agents: typed dictionaries, because a decoder checks each item of a request by itself."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from chalicelib.routes.schemas import Count

MAX_LISTED_ERRORS = 100
"""Rejected items that a response lists."""
MAX_ERROR_CHARS = 8192
"""Of a response to Firehose."""


class RejectedItem(TypedDict):
    """A rejected item of a request."""

    index: Count
    code: Annotated[int, WithJsonSchema({"enum": [400, 403, 409, 410]})]
    message: str


class StoredItems(TypedDict):
    """Number of stored items, and the first hundred rejected ones with reasons."""

    accepted: Count
    refused: Count
    errors: Annotated[list[RejectedItem], Field(max_length=MAX_LISTED_ERRORS)]


class FirehoseRecord(TypedDict, total=False):
    """A record of a delivery. One without data is rejected by itself."""

    data: str


class FirehoseDelivery(TypedDict):
    """A delivery of AWS Data Firehose to an HTTP endpoint."""

    requestId: str
    timestamp: NotRequired[int]
    records: list[FirehoseRecord]


class FirehoseResponse(TypedDict):
    """Response in the format of Firehose; `errorMessage` if an item was rejected."""

    requestId: str
    timestamp: int
    errorMessage: NotRequired[Annotated[str, Field(max_length=MAX_ERROR_CHARS)]]


class OtlpPartialSuccess(TypedDict, total=False):
    """The rejected records of an OTLP request."""

    rejectedLogRecords: str
    errorMessage: str


class OtlpResponse(TypedDict, total=False):
    """An ExportLogsServiceResponse; empty if all records were stored."""

    partialSuccess: OtlpPartialSuccess


class BulkResponse(TypedDict):
    """An item for each action, in order. Items with an `error` were not stored; those with `status` 429 can be retried."""

    took: Count
    errors: bool
    items: list[dict[str, Any]]


class ElasticsearchInfo(TypedDict, total=False):
    """Server information for clients of Elasticsearch and OpenSearch."""

    name: str
    cluster_name: str
    cluster_uuid: str
    version: dict[str, str | bool]
    tagline: str
    license: dict[str, str]
    status: str
    timed_out: bool
    number_of_nodes: int
