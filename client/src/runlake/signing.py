"""Signatures of requests with AWS credentials (SigV4), for callers that are IAM roles.

The credentials are those that botocore finds on this machine: variables, web identity, SSO, profiles, container, instance; botocore renews them
before they expire. It is an extra, and imported by the first request that is signed. Its signer is not used: it signs with this machine's clock,
and cannot be given the time of AWS's.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from runlake.errors import AccessError, RunlakeError, SettingsError, UnavailableError, advise

IAM = "iam"
"""The setting ``auth`` for signed requests."""
_ALGORITHM = "AWS4-HMAC-SHA256"
_FUNCTION_URL, _REST_API = "lambda", "execute-api"
_HOST = re.compile(r"(?:^|\.)(lambda-url|execute-api)\.([a-z0-9-]+)\.")
_PUBLIC_FUNCTION_URL = re.compile(r"\.lambda-url\.[a-z0-9-]+\.on\.aws$")
_UNRESERVED = "-_.~"


@dataclass(frozen=True)
class Keys:
    """Credentials at one time. ``source``: where botocore found them, as ``env`` or ``iam-role``."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)
    source: str = ""


def is_function_url(url: str) -> bool:
    """Whether an address is a function URL of Lambda. Runlake's accept signed requests only."""
    return bool(_PUBLIC_FUNCTION_URL.search(_host_of(url)))


def scope_of(url: str) -> tuple[str, str]:
    """Region and service of the signatures for an address; the region is "" if the address does not name it, as a domain of one's own."""
    matched = _HOST.search(_host_of(url))
    if matched is None:
        return "", _REST_API
    return matched[2], _FUNCTION_URL if matched[1] == "lambda-url" else _REST_API


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def signature_headers(
    method: str, target: str, headers: Mapping[str, str], body: bytes, *, keys: Keys, scope: tuple[str, str], now_s: float
) -> dict[str, str]:
    """The headers that sign a request. ``target``: path and query as they are sent; ``headers``: those to sign, by lower-case names, with ``host``;
    ``scope``: region and service; ``now_s``: seconds since 1970, which AWS compares with its clock."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_s))
    added = {"x-amz-date": stamp, **({"x-amz-security-token": keys.session_token} if keys.session_token else {})}
    signed = sorted({**headers, **added}.items())
    names = ";".join(name for name, _ in signed)
    lines = "".join(f"{name}:{' '.join(value.split())}\n" for name, value in signed)
    path, _, query = target.partition("?")
    parts = (method, _canonical_path(path), _canonical_query(query), lines, names, hashlib.sha256(body).hexdigest())
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    words = (stamp[:8], *scope, "aws4_request")
    key = b"AWS4" + keys.secret_key.encode()
    for word in words:
        key = _hmac(key, word)
    signature = _hmac(key, "\n".join((_ALGORITHM, stamp, "/".join(words), digest))).hex()
    credential = "/".join((keys.access_key, *words))
    return {**added, "authorization": f"{_ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}"}


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def _canonical_path(path: str) -> str:
    """Percent-encodes what is already encoded: all services except S3 encode twice."""
    return quote(re.sub("/{2,}", "/", path), safe="/" + _UNRESERVED)


def _canonical_query(query: str) -> str:
    """Names and values decoded, encoded as AWS does, and sorted. A plus is itself: a blank must be sent as %20."""
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    encoded = sorted((_encoded(name), _encoded(value)) for name, _, value in pairs)
    return "&".join(f"{name}={value}" for name, value in encoded)


def _encoded(text: str) -> str:
    return quote(unquote(text, errors="surrogateescape"), safe=_UNRESERVED, errors="surrogateescape")


class Signer:
    """Signs the requests to one address, with this process's credentials. Thread-safe."""

    def __init__(self, url: str, clock_s: Callable[[], float] = time.time) -> None:
        self._region, self._service = scope_of(url)
        self._clock_s, self._offset_s = clock_s, 0.0
        self._used: Keys | None = None

    def headers(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        """As ``signature_headers``. Raises SettingsError (no credentials, no region, no botocore), UnavailableError (their source is away)."""
        chain = _chain_of_process()
        self._used = keys = chain.keys()
        region = self._region or chain.region()
        if not region:
            raise SettingsError(
                "requests to this address are signed for a region, and none is set",
                next_step="set AWS_REGION, or a region in the profile of AWS",
            )
        now_s = self._clock_s() + self._offset_s
        return signature_headers(method, target, headers, body, keys=keys, scope=(region, self._service), now_s=now_s)

    def is_renewed(self, message: str, date_s: float | None) -> bool:
        """Whether a refused request can succeed if it is signed again: after the reading of new credentials, or of AWS's time, ``date_s``, which
        this machine's clock is then corrected by. Raises as ``headers``."""
        if message.startswith(_CLOCK):
            if date_s is None:
                return False
            self._offset_s = date_s - self._clock_s()
            return True
        if not message.startswith(_EXPIRED) or self._used is None:
            return False
        return _chain_of_process().newer_keys(self._used) != self._used

    def refusal(self, status: int, message: str) -> AccessError:
        """The error for a refused request, by AWS or by the archive, with what to do about it."""
        source = self._used.source if self._used else ""
        for text, problem, following in _REFUSALS[self._service]:
            if message.startswith(text):
                renewal = _RENEWALS.get(source, "renew them where they are from")
                return AccessError(
                    status, f"{problem}: {_line(message)} credentials={source}", next_step=following.format(renewal=renewal)
                )
        following = f"ask the operator to grant the scope to this role in the policy; {_WHOSE}"
        return AccessError(status, message, next_step=following)


_CLOCK = ("Signature expired", "Signature not yet current")
_EXPIRED = "The security token included in the request is expired"
_WHOSE = "`aws sts get-caller-identity` shows whose credentials these are"
_RENEWALS = {
    "env": "start the program again with new variables, or give it a role in place of them",
    "sso": "run `aws sso login`",
    "login": "run `aws login`",
    "shared-credentials-file": "renew them in ~/.aws/credentials",
}
"""How to get new credentials, by their source."""
_OF_AWS = (
    (_CLOCK, "this machine's clock is wrong", "set the clock, as by NTP"),
    (_EXPIRED, "the AWS credentials have expired", "{renewal}"),
    ("The security token included in the request is invalid", "AWS does not know the credentials", f"check them: {_WHOSE}"),
    (
        "The request signature we calculated does not match",
        "AWS refuses the signature",
        "correct AWS_SECRET_ACCESS_KEY, or the proxy in between that changes requests",
    ),
    ("Credential should be scoped to", "AWS refuses the signature", "correct AWS_REGION, or the url"),
)
_REFUSALS = {
    _FUNCTION_URL: (
        *_OF_AWS,
        (
            "Forbidden",
            "AWS does not let these credentials call the function URL",
            f"allow the role lambda:InvokeFunctionUrl and lambda:InvokeFunction on the function; {_WHOSE}",
        ),
    ),
    _REST_API: (
        *_OF_AWS,
        ("User: ", "AWS does not let these credentials call the API", "allow the role execute-api:Invoke on the API"),
    ),
}
"""The beginnings of AWS's answers by service, each with the problem and the next step. Other answers are the archive's."""


_BOUNDS: dict[str, Any] = {"connect_timeout": 5, "read_timeout": 20, "retries": {"total_max_attempts": 2}}
"""Of requests to STS and IAM Identity Center: with botocore's own, one that gets no answer takes five minutes."""
_SERVER_ERROR = 500


class _Chain:
    """The credentials of a process: read once, and again after AWS refused them as expired."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._session: Any = None
        self._credentials: Any = None
        self._keys: Keys | None = None

    def keys(self) -> Keys:
        """Credentials that hold now. Raises SettingsError, UnavailableError."""
        with self._lock:
            credentials = self._credentials or self._read()
        try:
            frozen = credentials.get_frozen_credentials()  # botocore renews them
        except Exception as error:
            raise _unreadable(error) from error
        self._keys = Keys(frozen.access_key, frozen.secret_key, frozen.token or "", str(credentials.method or ""))
        return self._keys

    def newer_keys(self, refused: Keys) -> Keys:
        """Credentials after these were refused as expired: read again, unless another thread did so. Raises SettingsError, UnavailableError."""
        with self._lock:
            if self._keys == refused:
                self._credentials = None
        return self.keys()

    def region(self) -> str:
        """The region of the environment, or of the profile; "" if none is set."""
        return os.environ.get("AWS_REGION") or str(self._session.get_config_variable("region") or "")

    def _read(self) -> Any:
        import_for_requests()
        from botocore.config import Config
        from botocore.session import Session

        try:
            self._session = Session()
            self._session.set_default_client_config(Config(**_BOUNDS))
            self._credentials = self._session.get_credentials()
        except Exception as error:
            raise _unreadable(error) from error
        if self._credentials is None:
            raise SettingsError(
                "requests to this address are signed, and there are no AWS credentials",
                next_step="give the job a role, or run `aws sso login` and set AWS_PROFILE",
            )
        return self._credentials


def import_for_requests() -> None:
    """Import botocore, as before a fork. Raises SettingsError if it is not installed."""
    try:
        import botocore.session  # noqa: F401
    except ImportError as error:
        raise SettingsError(
            f"requests to this address are signed with AWS credentials, which needs botocore: {error}",
            next_step="run `pip install 'runlake-client[aws]'`",
        ) from error


_chains: dict[int, _Chain] = {}
"""By process: locks of a parent are not usable in its forked children."""


def _chain_of_process() -> _Chain:
    return _chains.setdefault(os.getpid(), _Chain())


def _unreadable(error: Exception) -> RunlakeError:
    """For any error of botocore: one line, and the next step."""
    import botocore.exceptions as errors

    message = f"the AWS credentials cannot be read: {_line(str(error)) or type(error).__name__}"
    if (
        isinstance(error, (errors.HTTPClientError, errors.ConnectionError))
        or _status_of(error) >= _SERVER_ERROR
        or "Throttl" in message
    ):
        away = UnavailableError(message)
        advise(away, "repeat it, or check the way to where they are from: STS, IAM Identity Center, or the host's metadata")
        return away
    if type(error).__name__.startswith(("SSO", "UnauthorizedSSO", "TokenRetrieval", "Login")):
        return SettingsError(message, next_step="run `aws sso login`, or `aws login`, for the profile of AWS")
    if isinstance(error, errors.ProfileNotFound):
        return SettingsError(message, next_step="correct AWS_PROFILE, or add the profile to ~/.aws/config")
    return SettingsError(message, next_step=f"check them: {_WHOSE}")


def _status_of(error: Exception) -> int:
    """Of the response of STS or IAM Identity Center; 0 for another error."""
    return int(getattr(error, "response", {}).get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _line(text: str) -> str:
    return " ".join(text.split())
