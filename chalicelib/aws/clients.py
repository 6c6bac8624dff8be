"""boto3 clients, set up once for short-lived functions: quick to fail, one retry, no checks that cost time and find nothing."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config

from chalicelib.aws.errors import note_doubt

CONNECT_TIMEOUT_S = 1
READ_TIMEOUT_S = 4
ATTEMPTS = 2
"""In all: two answers that never come, and the pause between them, take at most 9 of the 10 s that a connector waits."""
PATIENT_READ_TIMEOUT_S = 120
"""For work that S3 does itself while the client waits: copying a part, completing an upload."""
POOL = 32


def make_client(
    service: str, *, region: str | None, endpoint_url: str | None = None, read_timeout_s: float = READ_TIMEOUT_S, **credentials: Any
) -> Any:
    """A client for threads to share. A custom endpoint means an S3-compatible store: addressed by path."""
    s3 = {"addressing_style": "path"} if endpoint_url else {}
    config = Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=read_timeout_s,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},  # "max_attempts" would count without the first
        max_pool_connections=POOL,
        parameter_validation=False,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        tcp_keepalive=True,
        s3=s3,
        user_agent="runlake",  # one of its own is made anew for each request, at a tenth of a request's cost
        signature_version="s3v4" if service == "s3" else None,  # presigned links of older form are refused for KMS
    )
    client = boto3.client(service, region_name=region, endpoint_url=endpoint_url, config=config, **credentials)
    client.meta.events.register(f"needs-retry.{client.meta.service_model.service_id.hyphenize()}", note_doubt)
    client.meta.events.register_last("before-call.s3", _send_at_once)
    return client


def _send_at_once(params: dict[str, Any], **_: Any) -> None:
    """botocore asks S3 for a "100 Continue" before it sends a body: one more round trip for each write. And where botocore is older
    than 1.43.77, an empty body (a seal) leaves that answer in the connection, and the next request trips over it (its issue 3755)."""
    params["headers"].pop("Expect", None)
