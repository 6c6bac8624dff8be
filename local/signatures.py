"""AWS Signature Version 4, checked as a service checks it: from the request as it was sent, the secret of its access key and the clock. Only
the standard library: a client's signer is compared with it.

The path is encoded once more than it was sent, after ``.`` and ``..`` are resolved, as all services but S3 do.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, unquote

ALGORITHM = "AWS4-HMAC-SHA256"
TOLERANCE = timedelta(minutes=5)
"""Between the time of a signature and the clock."""
_END = "aws4_request"
_DATE = "%Y%m%dT%H%M%SZ"
_UNRESERVED = "-_.~"


class SignatureError(Exception):
    """A request that is not signed as it must be. ``kind``: AWS's name of the error."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request as it was sent. ``headers``: by names in lower case, several values joined by commas."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Signature:
    """The parts of an ``Authorization`` header, and the request's date."""

    access_key: str
    date: str
    region: str
    service: str
    signed_headers: str
    value: str
    at: str

    @classmethod
    def parse(cls, headers: Mapping[str, str]) -> Signature:
        """Raises SignatureError."""
        algorithm, _, rest = headers.get("authorization", "").partition(" ")
        fields = dict(part.strip().partition("=")[::2] for part in rest.split(","))
        scope = fields.get("Credential", "").split("/")
        if algorithm != ALGORITHM or fields.keys() != {"Credential", "SignedHeaders", "Signature"} or scope[4:] != [_END]:
            raise SignatureError("MissingAuthenticationTokenException", "Missing Authentication Token")
        access_key, date, region, service, _ = scope
        return cls(access_key, date, region, service, fields["SignedHeaders"], fields["Signature"], headers.get("x-amz-date", ""))

    def check(self, request: SentRequest, secret: str, region: str, service: str, now: datetime) -> None:
        """Raises SignatureError unless the request was signed with the secret, for this service and within the tolerance."""
        if (self.region, self.service) != (region, service):
            raise SignatureError("InvalidSignatureException", f"Credential should be scoped to {region}/{service}.")
        self._check_time(now)
        self._check_signed_headers(request.headers)
        if not hmac.compare_digest(signature_of(request, self, secret).encode(), _bytes(self.value)):
            raise SignatureError(
                "InvalidSignatureException", "The request signature we calculated does not match the signature you provided."
            )

    def _check_time(self, now: datetime) -> None:
        try:
            at = datetime.strptime(self.at, _DATE).replace(tzinfo=UTC)
        except ValueError:
            raise SignatureError("IncompleteSignatureException", "Date must be in X-Amz-Date.") from None
        if self.at[:8] != self.date:
            raise SignatureError("InvalidSignatureException", "Date in Credential scope does not match X-Amz-Date.")
        if not now - TOLERANCE <= at <= now + TOLERANCE:
            state = "expired" if at < now else "not yet current"
            raise SignatureError("InvalidSignatureException", f"Signature {state}: {self.at} is not within 5 min. of {now:{_DATE}}")

    def _check_signed_headers(self, headers: Mapping[str, str]) -> None:
        signed = self.signed_headers.split(";")
        needed = {"host", *(name for name in headers if name.startswith("x-amz-"))}
        if needed - set(signed) or set(signed) - set(headers) or signed != sorted(set(signed)):
            raise SignatureError("InvalidSignatureException", "Host and each X-Amz- header must be a SignedHeader.")


def signature_of(request: SentRequest, signature: Signature, secret: str) -> str:
    """The signature that a request should have, in hexadecimal. Raises SignatureError: the body has another hash than the header says."""
    scope = f"{signature.date}/{signature.region}/{signature.service}/{_END}"
    digest = hashlib.sha256(_bytes(canonical_request(request, signature.signed_headers))).hexdigest()
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    text = "\n".join([ALGORITHM, signature.at, scope, digest])
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def canonical_request(request: SentRequest, signed_headers: str) -> str:
    """The text whose hash is signed. Raises SignatureError."""
    body_hash = hashlib.sha256(request.body).hexdigest()
    if request.headers.get("x-amz-content-sha256", body_hash) != body_hash:
        raise SignatureError("InvalidSignatureException", "The body does not have the hash of X-Amz-Content-Sha256.")
    headers = [f"{name}:{' '.join(request.headers.get(name, '').split())}" for name in signed_headers.split(";")]
    return "\n".join([request.method, _path(request.path), _query(request.query), *headers, "", signed_headers, body_hash])


def _path(sent: str) -> str:
    segments: list[str] = []
    for segment in sent.split("/"):
        if segment == "..":
            segments[-1:] = []
        elif segment not in ("", "."):
            segments.append(segment)
    slash = "/" if segments and sent.endswith("/") else ""
    return quote(f"/{'/'.join(segments)}{slash}", safe=f"/{_UNRESERVED}", errors="surrogateescape")


def _query(sent: str) -> str:
    pairs = [part.partition("=")[::2] for part in sent.split("&") if part]
    return "&".join(f"{name}={value}" for name, value in sorted((_encoded(name), _encoded(value)) for name, value in pairs))


def _encoded(text: str) -> str:
    return quote(unquote(text, errors="surrogateescape"), safe=_UNRESERVED, errors="surrogateescape")


def _bytes(text: str) -> bytes:
    """As it was sent: a server reads bytes that are not UTF-8 as lone surrogates."""
    return text.encode(errors="surrogateescape")
