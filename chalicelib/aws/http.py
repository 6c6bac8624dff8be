"""HTTP transport for targets of events, with urllib3, which boto3 depends on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from time import monotonic
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
from urllib3.util import Url

from chalicelib.errors import InvalidConfigurationError, OutcomeUnknownError, TargetUnavailableError
from chalicelib.events.targets.transport import Answer, Transport, without_credentials

_NEVER_SENT = (ConnectTimeoutError, NewConnectionError, ProxyError, SSLError, MaxRetryError, LocationParseError, LocationValueError)
CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 30.0
MAX_RESPONSE_BYTES = 32 * 1024 * 1024
"""Several times the largest event of a target: a response that exceeds it is never one event's."""
_PIECE_BYTES = 64 * 1024
_FIRST_ERROR = 300
_IPV4_WITHIN_IPV6 = ip_network("64:ff9b::/96")
_METADATA_IPV6 = ip_network("fd00:ec2::/32")
"""Of instances' metadata and of other local services of AWS; among addresses that are private, not link-local."""


def origin_of(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of a URL, as a request with ``Urllib3Transport`` has them. Raises ValueError."""
    try:
        parsed: Url = urllib3.util.parse_url(url)
    except LocationParseError as error:
        raise ValueError("not a URL") from error
    scheme, host = (parsed.scheme or "").lower(), (parsed.host or "").lower().rstrip(".")
    return scheme, host, parsed.port or (443 if scheme == "https" else 80)


def is_local(address: str) -> bool:
    """Whether an address is this machine, or one that only its own network segment reaches, such as that of instances' metadata. Private
    networks are not: search domains are in them."""
    parsed: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    if isinstance(parsed, IPv6Address):
        if parsed in _METADATA_IPV6:
            return True
        mapped = IPv4Address(int(parsed) & 0xFFFFFFFF) if parsed in _IPV4_WITHIN_IPV6 else parsed.ipv4_mapped
        parsed = mapped or parsed
    return parsed.is_loopback or parsed.is_link_local or parsed.is_multicast or parsed.is_unspecified


class _RemoteConnection(urllib3.connection.HTTPConnection):
    """Sends nothing to a local address. The connected peer is checked, not the name: a second lookup may return another address."""

    def _new_conn(self) -> Any:
        sock = super()._new_conn()
        if is_local(sock.getpeername()[0]):
            sock.close()
            raise NewConnectionError(self, "a local address")
        return sock


class _RemoteHttpsConnection(_RemoteConnection, urllib3.connection.HTTPSConnection):
    """The same, by TLS."""


class _RemotePool(urllib3.HTTPConnectionPool):
    ConnectionCls = _RemoteConnection


class _RemoteHttpsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _RemoteHttpsConnection


class Urllib3Transport:
    """``targets.transport.Transport`` with a connection pool. Memory: ``MAX_RESPONSE_BYTES``. Verifies certificates. Does not
    follow redirects, which would send events and credentials to another host. A response is read for ``read_timeout_s`` after its
    head, however slowly it comes. Messages, and the bodies of errors, have no credentials. ``remote_only``: see ``is_local``."""

    def __init__(
        self,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        read_timeout_s: float = READ_TIMEOUT_S,
        monotonic_s: Callable[[], float] = monotonic,
        *,
        remote_only: bool = False,
    ) -> None:
        self._read_timeout_s, self._monotonic_s = read_timeout_s, monotonic_s
        timeout = urllib3.Timeout(connect=connect_timeout_s, read=read_timeout_s)
        self._pool = urllib3.PoolManager(timeout=timeout, retries=False, maxsize=2)
        if remote_only:
            self._pool.pool_classes_by_scheme = {"http": _RemotePool, "https": _RemoteHttpsPool}

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """See the port."""
        try:
            response = self._pool.request("POST", url, body=body, headers=dict(headers), redirect=False, preload_content=False)
            data = self._read(response, url)
        except _NEVER_SENT as error:
            raise TargetUnavailableError(f"request was not sent host={_host(url)} error={type(error).__name__}") from None
        except (HTTPError, OSError) as error:
            raise OutcomeUnknownError(f"response was lost host={_host(url)} error={type(error).__name__}") from None
        except ValueError:  # its message quotes the header
            raise TargetUnavailableError(f"request was not sent, a header has an invalid character host={_host(url)}") from None
        if data is not None and response.status >= _FIRST_ERROR:
            data = without_credentials(data, url, headers)
        lowered = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status, data or b"", lowered, is_too_long=data is None)

    def _read(self, response: Any, url: str) -> bytes | None:
        """The body of a response; None if it exceeds the limit: the rest is not read. Raises OutcomeUnknownError, and the errors of
        urllib3."""
        end_s, body = self._monotonic_s() + self._read_timeout_s, bytearray()
        read = getattr(response, "read1", response.read)  # urllib3 1 has no ``read1``
        while piece := read(_PIECE_BYTES):
            body += piece
            if self._monotonic_s() > end_s:
                response.close()
                raise OutcomeUnknownError(f"response was too slow host={_host(url)} bytes={len(body)}")
            if len(body) > MAX_RESPONSE_BYTES:
                response.close()
                return None
        response.release_conn()
        return bytes(body)

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


def _host(url: str) -> str:
    """The host of a URL; other parts may be secret."""
    return str(urllib3.util.parse_url(url).host)
