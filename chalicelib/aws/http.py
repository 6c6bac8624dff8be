"""HTTP transport for targets of events, with urllib3, which boto3 depends on."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import boto3
import urllib3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationParseError,
    LocationValueError,
    MaxRetryError,
    NewConnectionError,
    ProxyError,
    SSLError,
)

from chalicelib.errors import InvalidConfigurationError, OutcomeUnknownError, TargetUnavailableError
from chalicelib.events.targets.transport import Answer, Transport

_CHUNK_BYTES = 256 * 1024
_NEVER_SENT = (ConnectTimeoutError, NewConnectionError, ProxyError, SSLError, MaxRetryError, LocationParseError, LocationValueError)
CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 30.0
MAX_RESPONSE_BYTES = 32 * 1024 * 1024
"""Several times the largest event of a target: a response that exceeds it is never one event's."""


class Urllib3Transport:
    """``targets.transport.Transport`` with a connection pool. Memory: ``MAX_RESPONSE_BYTES``. Verifies certificates. Does not
    follow redirects, which would send events and credentials to another host."""

    def __init__(self, connect_timeout_s: float = CONNECT_TIMEOUT_S, read_timeout_s: float = READ_TIMEOUT_S) -> None:
        timeout = urllib3.Timeout(connect=connect_timeout_s, read=read_timeout_s)
        self._pool = urllib3.PoolManager(timeout=timeout, retries=False, maxsize=2)

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """See the port."""
        try:
            request = self._pool.request
            response = request("POST", url, body=body, headers=dict(headers), redirect=False, preload_content=False)
            data = _read(response)
        except _NEVER_SENT as error:
            raise TargetUnavailableError(f"request was not sent host={_host(url)} error={type(error).__name__}") from None
        except (HTTPError, OSError) as error:
            raise OutcomeUnknownError(f"response was lost host={_host(url)} error={type(error).__name__}") from None
        lowered = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status, data or b"", lowered, is_too_long=data is None)

    def close(self) -> None:
        """See the port."""
        self._pool.clear()


class SignedTransport:
    """Signs requests with SigV4: ``service`` is ``es`` for an OpenSearch Service domain, ``aoss`` for a serverless collection.

    ``credentials`` are botocore's, read for each request since they may be renewed while a run is forwarded.
    """

    def __init__(self, inner: Transport, credentials: Any, region: str, service: str) -> None:
        self._inner, self._credentials, self._region, self._service = inner, credentials, region, service

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """See the port."""
        signed = {**headers, "X-Amz-Content-SHA256": sha256(body).hexdigest()}
        request = AWSRequest("POST", url, signed, body)
        SigV4Auth(self._credentials.get_frozen_credentials(), self._service, self._region).add_auth(request)
        return self._inner.post(url, dict(request.headers.items()), body)

    def close(self) -> None:
        """See the port."""
        self._inner.close()


def signed(inner: Transport, region: str | None, service: str) -> SignedTransport:
    """A transport that signs with the process's credentials. Raises InvalidConfigurationError if credentials or the region are
    missing."""
    session = boto3.Session(region_name=region)
    credentials = session.get_credentials()
    if credentials is None or session.region_name is None:
        raise InvalidConfigurationError(f"requests cannot be signed, credentials or region are missing service={service}")
    return SignedTransport(inner, credentials, session.region_name, service)


def _read(response: urllib3.BaseHTTPResponse) -> bytes | None:
    """The body, unpacked; None if it exceeds the limit: the connection is closed without reading the rest."""
    data = bytearray()
    for chunk in response.stream(_CHUNK_BYTES):
        data += chunk
        if len(data) > MAX_RESPONSE_BYTES:
            response.close()
            return None
    response.release_conn()
    return bytes(data)


def _host(url: str) -> str:
    """The host of a URL; other parts may be secret."""
    return str(urllib3.util.parse_url(url).host)
