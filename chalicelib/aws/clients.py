"""boto3 clients, set up once for short-lived functions: quick to fail, few retries, no checks that cost time and find nothing."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config

CONNECT_TIMEOUT_S = 1
READ_TIMEOUT_S = 5
"""Shorter than the connector's 10 s with one retry in it; a part copy has its own client with more."""
COPY_TIMEOUT_S = 120
MAX_ATTEMPTS = 3
POOL = 32


def make_client(
    service: str, *, region: str | None, endpoint_url: str | None = None, read_timeout_s: float = READ_TIMEOUT_S, **credentials: Any
) -> Any:
    """A client for threads to share. A custom endpoint means an S3-compatible store: addressed by path."""
    s3 = {"addressing_style": "path"} if endpoint_url else {}
    config = Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=read_timeout_s,
        retries={"mode": "standard", "max_attempts": MAX_ATTEMPTS},
        max_pool_connections=POOL,
        parameter_validation=False,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        tcp_keepalive=True,
        s3=s3,
        signature_version="s3v4" if service == "s3" else None,  # presigned links of older form are refused for KMS
    )
    return boto3.client(service, region_name=region, endpoint_url=endpoint_url, config=config, **credentials)
