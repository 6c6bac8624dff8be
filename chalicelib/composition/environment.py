"""Ports on AWS: adapters with boto3 clients, built from the settings and environment variables of this process.

Imported on first use of the services: boto3 is most of a cold start, and neither packaging nor tests need it.
"""

from __future__ import annotations

import os
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from chalicelib.aws.clients import LONG_READ_TIMEOUT_S, make_client
from chalicelib.aws.clock import SystemClock
from chalicelib.aws.coordination import CoordinationAws, make_store
from chalicelib.aws.database import DynamoDbDatabase, Schema
from chalicelib.aws.dynamodb import Table
from chalicelib.aws.object_store import Encryption, S3ObjectStore
from chalicelib.aws.publisher import SnsPublisher
from chalicelib.aws.run_catalog import DynamoDbRunCatalog
from chalicelib.aws.secrets import process_client, read_named_secret, read_secret
from chalicelib.aws.segment_index import DynamoDbSegmentIndex
from chalicelib.aws.workers import LambdaWorkers
from chalicelib.catalog.file_state import OBJECTS
from chalicelib.catalog.files import FILES, LATEST
from chalicelib.catalog.listing import LISTING
from chalicelib.composition import SECONDS_OF_A_DAY, Ports, WorkSources
from chalicelib.coordination.settings import parse_settings
from chalicelib.events.index import EVENTS
from chalicelib.observability import CATALOG_REQUESTS, REPORTS_PUBLISHED, record
from chalicelib.pipelines.files.table import TABLE as PIPELINE_FILES
from chalicelib.pipelines.rows import PIPELINES
from chalicelib.ports import ObjectStore, Workers

if TYPE_CHECKING:
    from chalicelib.coordination.store import PartitionStore
    from chalicelib.pipelines.files.bucket_location import BucketLocation
    from chalicelib.settings import Settings

_THIS_MACHINE = frozenset({"127.0.0.1", "localhost", "::1"})
_SSE = {"AES_256": "AES256", "AWS_KMS": "aws:kms"}


def aws_ports(settings: Settings) -> Ports:
    """Build the ports on AWS from the settings of this process."""
    database, topics = make_client("dynamodb", region=None), make_client("sns", region=None)
    _count_requests(database, CATALOG_REQUESTS)
    _count_requests(topics, REPORTS_PUBLISHED)
    keep_s = settings.expiration_days * SECONDS_OF_A_DAY
    topic = settings.report_topic_arn
    return Ports(
        store=_s3_store(settings, settings.bucket_name),
        archive_store=_s3_store(settings, settings.archive_bucket_name),
        index=DynamoDbSegmentIndex(Table(database, settings.segments_table), keep_s),
        runs=DynamoDbRunCatalog(Table(database, settings.runs_table), keep_s),
        database=DynamoDbDatabase(database, _schemas(settings)),
        publisher=SnsPublisher(topics, topic) if topic else None,
        clock=SystemClock(),
        work_sources=_sharing(settings),
        workers=_workers(),
        keys=_keys,
        policy=partial(_policy_text, settings.policy_parameter) if settings.policy_parameter else None,
        is_emulated=_is_emulated(),
        secrets=read_named_secret,
        located_store=partial(_located_store, settings),
    )


def _is_emulated() -> bool:
    """Whether AWS is an emulator on this machine. A function on AWS cannot reach such an endpoint, regardless of its variables."""
    return urlsplit(os.environ.get("AWS_ENDPOINT_URL", "")).hostname in _THIS_MACHINE


def _keys(url: str) -> bytes:
    from chalicelib.access.download import download

    return download(url)


def _policy_text(parameter: str) -> str:
    return read_secret(process_client, "ssm", parameter, "")


def _sharing(settings: Settings) -> WorkSources:
    coordination = parse_settings(settings.source_coordination)

    @cache
    def store() -> PartitionStore:
        return make_store(coordination, CoordinationAws(SystemClock(), watch=partial(_count_requests, metric=CATALOG_REQUESTS)))

    return lambda source: (store(), coordination.source(source))


def _workers() -> Workers | None:
    """Workers of this Lambda function; None outside of Lambda."""
    name = os.environ.get("AWS_LAMBDA_FUNCTION_NAME")
    return LambdaWorkers(name) if name else None


def _count_requests(client: Any, metric: str) -> None:
    """Count each request of a client, retries included. Requests to S3 are counted by their latency metrics."""
    client.meta.events.register("before-send", lambda **_: record(metric, 1))


def _schemas(settings: Settings) -> dict[str, Any]:
    return {
        FILES: Schema(settings.files_table, "time_index_key", "range_key"),
        LATEST: Schema(settings.latest_table, "what_where_key"),
        LISTING: Schema(settings.listing_table, "partition", "at"),
        OBJECTS: Schema(settings.objects_table, "key"),
        EVENTS: Schema(settings.segments_table, "run", "at"),
        PIPELINE_FILES: Schema(settings.pipeline_files_table, "partition", "at"),
        PIPELINES: Schema(settings.pipelines_table, "key", "at"),
    }


def _located_store(settings: Settings, location: BucketLocation) -> ObjectStore:
    """The store of a bucket with a role or an owner. One request to STS an hour, before the first one to S3."""
    from chalicelib.aws.assumed_role import assumed_session, expect_owner

    role, bucket = location.role, location.bucket
    session = assumed_session(make_client("sts", region=settings.aws_region), role, bucket) if role else None

    def client(**more: Any) -> Any:
        return expect_owner(make_client("s3", **_s3_arguments(settings, is_own=not role), **more, session=session), location.owner)

    encryption = _encryption(settings) if not role else Encryption(None)
    return S3ObjectStore(client(), bucket, encryption, lambda: client(read_timeout_s=LONG_READ_TIMEOUT_S))


def _s3_store(settings: Settings, bucket: str) -> ObjectStore:
    """The store of a bucket. Region, endpoint and static credentials apply only to it: the catalog is always on AWS."""
    arguments = _s3_arguments(settings)
    return S3ObjectStore(
        make_client("s3", **arguments),
        bucket,
        _encryption(settings),
        long_timeout_client=lambda: make_client("s3", read_timeout_s=LONG_READ_TIMEOUT_S, **arguments),
    )


def _s3_arguments(settings: Settings, *, is_own: bool = True) -> dict[str, Any]:
    """Arguments of a client. ``is_own``: with the static credentials, if there are any."""
    arguments: dict[str, Any] = {"region": settings.aws_region, "endpoint_url": settings.aws_endpoint_url}
    if not is_own:
        return arguments
    secret, token = settings.aws_secret_access_key, settings.aws_session_token
    return arguments | {
        "aws_access_key_id": settings.aws_access_key_id,
        "aws_secret_access_key": secret.get_secret_value() if secret else None,
        "aws_session_token": token.get_secret_value() if token else None,
    }


def _encryption(settings: Settings) -> Encryption:
    return Encryption(_SSE[settings.sse_algorithm] if settings.enable_server_side_encryption else None, settings.kms_key_id)
