"""boto3 clients for short-lived functions: short timeouts, one retry, no redundant checks."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import NoRegionError

from chalicelib.aws.errors import note_unknown_outcome
from chalicelib.errors import InvalidConfigurationError

CONNECT_TIMEOUT_S = 1
READ_TIMEOUT_S = 4
MAX_ATTEMPTS = 2
"""The first attempt included: two timeouts and the pause between them take at most 9 of the 10 s that a connector waits."""
LONG_READ_TIMEOUT_S = 120
"""For requests that S3 processes for a long time: copying a part, completing an upload."""
MAX_CONNECTIONS = 32


def make_client(
    service: str,
    *,
    region: str | None,
    endpoint_url: str | None = None,
    read_timeout_s: float = READ_TIMEOUT_S,
    session: Any = None,
    **credentials: Any,
) -> Any:
    """A thread-safe client. ``session``: of boto3, with other credentials than the process's. A custom endpoint is an S3-compatible
    store, addressed by path. Raises InvalidConfigurationError without a region of the call or the process."""
    s3 = {"addressing_style": "path"} if endpoint_url else {}
    config = Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=read_timeout_s,
        retries={"mode": "standard", "total_max_attempts": MAX_ATTEMPTS},  # "max_attempts" would not count the first attempt
        max_pool_connections=MAX_CONNECTIONS,
        parameter_validation=False,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        tcp_keepalive=True,
        s3=s3,
        user_agent="runlake",  # botocore's default is built for each request, at a tenth of its cost
        signature_version="s3v4" if service == "s3" else None,  # S3 rejects older presigned links for KMS
    )
    try:
        client = (session or boto3).client(service, region_name=region, endpoint_url=endpoint_url, config=config, **credentials)
    except NoRegionError as error:
        raise InvalidConfigurationError(f"no region is set, set AWS_DEFAULT_REGION service={service}") from error
    client.meta.events.register(f"needs-retry.{client.meta.service_model.service_id.hyphenize()}", note_unknown_outcome)
    client.meta.events.register_last("before-call.s3", _send_at_once)
    return client


def _send_at_once(params: dict[str, Any], **_: Any) -> None:
    """Removes ``Expect: 100-continue``, which botocore sends to S3 before a body and which costs a round trip for each write. Before
    botocore 1.43.77, an empty body (a seal) also leaves the interim response in the connection, and the next request fails on it
    (botocore issue 3755)."""
    params["headers"].pop("Expect", None)
