"""The front of AWS before an API whose callers are IAM roles: it checks signatures as the rules of SigV4 are published, and answers as AWS does.

It shares no code with the client: the rules are those of "Create a signed AWS API request" in the User Guide of IAM.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from calendar import timegm
from collections.abc import Mapping
from dataclasses import dataclass, field

_CREDENTIAL = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/,]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, SignedHeaders=([^,]+), Signature=(\w{64})"
)
_VALID_S = 300
_FORBIDDEN = {
    "lambda": "Forbidden",
    "execute-api": "User: arn:aws:sts::111122223333:assumed-role/a/b is not authorized to perform: execute-api:Invoke on resource: x",
}


def percent(data: bytes) -> str:
    """URI encoding: every byte except unreserved characters, in upper case."""
    unreserved = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
    return "".join(chr(byte) if byte in unreserved else f"%{byte:02X}" for byte in data)


def decoded(text: str) -> bytes:
    """The bytes of a percent-encoded text. A plus is a plus."""
    return re.sub(rb"%([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), text.encode())


def canonical_path(path: str) -> str:
    """Without empty and relative segments, and each segment encoded as it was sent: twice, for it was sent encoded."""
    segments: list[str] = []
    for segment in path.split("/")[1:]:
        if segment == "..":
            segments[-1:] = []
        elif segment not in ("", "."):
            segments.append(percent(segment.encode()))
    is_folder = path.endswith("/") and bool(segments)
    return "/" + "/".join(segments) + ("/" if is_folder else "")


def canonical_query(query: str) -> str:
    """Encoded anew, and sorted by name, then value."""
    pairs = [each.split("=", 1) for each in query.split("&")] if query else []
    encoded = sorted([percent(decoded(word)) for word in (*pair, "")[:2]] for pair in pairs)
    return "&".join(map("=".join, encoded))


@dataclass
class Front:
    """``secrets`` and ``tokens`` by access key; ``expired`` and ``forbidden`` are access keys. ``accepted``: of each request that passed."""

    service: str = "lambda"
    region: str = "eu-central-1"
    secrets: dict[str, str] = field(default_factory=lambda: {"AKIDEXAMPLE": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"})
    tokens: dict[str, str] = field(default_factory=dict)
    expired: set[str] = field(default_factory=set)
    forbidden: set[str] = field(default_factory=set)
    accepted: list[str] = field(default_factory=list)

    def refusal(self, method: str, target: str, headers: Mapping[str, str], body: bytes, now_s: float | None = None) -> str:
        """AWS's message, or "" for a request that passes. ``target``: as in the request line; ``headers`` by lower-case names."""
        matched = _CREDENTIAL.fullmatch(headers.get("authorization", ""))
        if matched is None:
            return "Missing Authentication Token"
        key, day, region, service, names, signature = matched.groups()
        if (region, service) != (self.region, self.service):
            return f"Credential should be scoped to a valid region, not '{region}', or to correct service: '{self.service}'."
        if key not in self.secrets or headers.get("x-amz-security-token", "") != self.tokens.get(key, ""):
            return "The security token included in the request is invalid."
        stamp = headers.get("x-amz-date", "")
        if "host" not in names.split(";") or any(name.startswith("x-amz-") and name not in names.split(";") for name in headers):
            return "'Host' and all 'x-amz-*' headers must be signed."
        path, _, query = target.partition("?")
        lines = [f"{name}:{re.sub(' +', ' ', headers.get(name, '').strip())}" for name in names.split(";")]
        request = [method, canonical_path(path), canonical_query(query), *lines, "", names, hashlib.sha256(body).hexdigest()]
        scope = f"{day}/{region}/{service}/aws4_request"
        to_sign = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(chr(10).join(request).encode()).hexdigest()}"
        signing_key = ("AWS4" + self.secrets[key]).encode()
        for word in [day, region, service, "aws4_request"]:
            signing_key = hmac.digest(signing_key, word.encode(), "sha256")
        if hmac.digest(signing_key, to_sign.encode(), "sha256").hex() != signature or not stamp.startswith(day):
            return (
                "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key."
            )
        return self._refusal_of_caller(key, stamp, time.time() if now_s is None else now_s)

    def _refusal_of_caller(self, key: str, stamp: str, now_s: float) -> str:
        late_s = now_s - timegm(time.strptime(stamp, "%Y%m%dT%H%M%SZ"))
        if abs(late_s) > _VALID_S:
            now, limit = (time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(each)) for each in (now_s, now_s - _VALID_S))
            return (
                f"Signature expired: {stamp} is now earlier than {limit} ({now} - 5 min.)"
                if late_s > 0
                else (f"Signature not yet current: {stamp} is still later than {now} ({now} + 5 min.)")
            )
        if key in self.expired:
            return "The security token included in the request is expired"
        if key in self.forbidden:
            return _FORBIDDEN[self.service]
        self.accepted.append(key)
        return ""
