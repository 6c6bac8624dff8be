"""HTTP for targets of events, by urllib3, which boto3 brings along."""

from __future__ import annotations

from collections.abc import Mapping

import urllib3
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

from chalicelib.errors import OutcomeUnknownError, TargetUnavailableError
from chalicelib.events.targets.transport import Answer

_NEVER_SENT = (ConnectTimeoutError, NewConnectionError, ProxyError, SSLError, MaxRetryError, LocationParseError, LocationValueError)
CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 30.0


class Urllib3Transport:
    """``targets.transport.Transport`` with connections that are kept. Certificates are checked; redirects are not followed: they would
    carry events, and credentials, to wherever an answer says."""

    def __init__(self, connect_timeout_s: float = CONNECT_TIMEOUT_S, read_timeout_s: float = READ_TIMEOUT_S) -> None:
        timeout = urllib3.Timeout(connect=connect_timeout_s, read=read_timeout_s)
        self._pool = urllib3.PoolManager(timeout=timeout, retries=False, maxsize=2)

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """See the port."""
        try:
            found = self._pool.request("POST", url, body=body, headers=dict(headers), redirect=False)
        except _NEVER_SENT as error:
            raise TargetUnavailableError(f"request was not sent host={_host(url)} error={type(error).__name__}") from None
        except (HTTPError, OSError) as error:
            raise OutcomeUnknownError(f"answer was lost host={_host(url)} error={type(error).__name__}") from None
        return Answer(found.status, found.data, {name.lower(): value for name, value in found.headers.items()})

    def close(self) -> None:
        """See the port."""
        self._pool.clear()


def _host(url: str) -> str:
    """An address without what may be secret in it."""
    return str(urllib3.util.parse_url(url).host)
