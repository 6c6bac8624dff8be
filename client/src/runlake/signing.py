"""Signatures of requests with AWS credentials (SigV4), for callers that are IAM roles.

botocore's signer is not used: it signs by this machine's clock, and cannot be given that of AWS.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from urllib.parse import quote, unquote, urlsplit

from runlake.credentials import WHOSE, Keys, chain_of_process, one_line
from runlake.errors import AccessError, SettingsError

IAM = "iam"
"""The setting ``auth`` for signed requests."""
_ALGORITHM = "AWS4-HMAC-SHA256"
_FUNCTION_URL, _REST_API = "lambda", "execute-api"
_HOST = re.compile(r"(?:^|\.)(lambda-url|execute-api)\.([a-z0-9-]+)\.")
_REGION = re.compile("[A-Za-z0-9-]+")
_PUBLIC_FUNCTION_URL = re.compile(r"\.lambda-url\.[a-z0-9-]+\.on\.aws$")
_LOCAL = ("127.0.0.1", "::1", "localhost")
_UNRESERVED = "-_.~"


def is_function_url(url: str) -> bool:
    """Whether an address is a function URL of Lambda. Runlake's accept signed requests only."""
    return bool(_PUBLIC_FUNCTION_URL.search(_host_of(url)))


def is_signed(auth: str, url: str) -> bool:
    """Whether requests to an address are signed, with this setting ``auth``."""
    return auth == IAM or (not auth and is_function_url(url))


def scope_of(url: str) -> tuple[str, str]:
    """Region and service of the signatures for an address. The region is "" if the address does not name it: a domain of one's own, which only an
    API can have; or one of this machine, which is the function URL of a local stack."""
    host = _host_of(url)
    matched = _HOST.search(host)
    if matched is None:
        return "", _FUNCTION_URL if host in _LOCAL else _REST_API
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
    import hashlib

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
    import hmac

    return hmac.new(key, text.encode(), "sha256").digest()


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

    def headers(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        """As ``signature_headers``. Raises SettingsError (no credentials, no region, no botocore), UnavailableError (their source is away)."""
        chain = chain_of_process()
        keys = chain.keys()
        region = self._region or chain.region()
        if not region:
            raise SettingsError(
                "requests to this address are signed for a region, and none is set",
                next_step="set AWS_REGION, or a region in the profile of AWS",
            )
        if not _REGION.fullmatch(region):
            raise SettingsError(f"the region of AWS has invalid characters region={region!r}", next_step="correct AWS_REGION")
        now_s = self._clock_s() + self._offset_s
        return signature_headers(method, target, headers, body, keys=keys, scope=(region, self._service), now_s=now_s)

    def is_renewed(self, headers: Mapping[str, str], message: str, date_s: float | None) -> bool:
        """Whether a refused request, which had these headers, can succeed if it is signed again: after the reading of new credentials, or of AWS's
        time, ``date_s``, which this machine's clock is then corrected by. Raises as ``headers``."""
        if message.startswith(_CLOCK):
            if date_s is None:
                return False
            self._offset_s = date_s - self._clock_s()
            return True
        if not message.startswith(_EXPIRED):
            return False
        refused = headers["authorization"].partition("Credential=")[2].partition("/")[0]
        return chain_of_process().newer_keys(refused).access_key != refused

    def refusal(self, status: int, message: str) -> AccessError | None:
        """The error for a request that AWS refused, with what to do about it; None if the message is not one of AWS."""
        source = chain_of_process().source
        for text, problem, following in _REFUSALS[self._service]:
            if f"{message}.".startswith(text):
                renewal = _RENEWALS.get(source, "renew them where they are from")
                return AccessError(
                    status, f"{problem}: {one_line(message)} credentials={source}", next_step=following.format(renewal=renewal)
                )
        return None


_CLOCK = ("Signature expired", "Signature not yet current")
_EXPIRED = "The security token included in the request is expired"
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
    ("The security token included in the request is invalid", "AWS does not know the credentials", f"check them: {WHOSE}"),
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
            "Forbidden.",
            "AWS does not let these credentials call the function URL",
            f"attach the policy of the stack's output JobUrlPolicyArn to the role; {WHOSE}",
        ),
    ),
    _REST_API: (
        *_OF_AWS,
        ("User: ", "AWS does not let these credentials call the API", "allow the role execute-api:Invoke on the API"),
    ),
}
"""The beginnings of AWS's answers by service, each with the problem and the next step."""
GRANT = f"ask the operator to grant the scope to this role in the policy; {WHOSE}"
"""The next step after a refusal by the archive."""
