"""The front of AWS before an API whose callers are IAM roles: it checks signatures, and answers as AWS does.

It shares no code with the client: the rules are those of the local function URL (``local.signatures``).
"""

from __future__ import annotations

import time
from calendar import timegm
from collections.abc import Mapping
from dataclasses import dataclass, field

from local.signatures import SentRequest, Signature, SignatureError, signature_of

_VALID_S = 300
_FORBIDDEN = {
    "lambda": "Forbidden",
    "execute-api": "User: arn:aws:sts::111122223333:assumed-role/a/b is not authorized to perform: execute-api:Invoke on resource: x",
}


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
        try:
            signature = Signature.parse(headers)
        except SignatureError as error:
            return str(error)
        key, region, service, names = signature.access_key, signature.region, signature.service, signature.signed_headers.split(";")
        if (region, service) != (self.region, self.service):
            return f"Credential should be scoped to a valid region, not '{region}', or to correct service: '{self.service}'."
        if key not in self.secrets or headers.get("x-amz-security-token", "") != self.tokens.get(key, ""):
            return "The security token included in the request is invalid."
        if "host" not in names or any(name.startswith("x-amz-") and name not in names for name in headers):
            return "'Host' and all 'x-amz-*' headers must be signed."
        path, _, query = target.partition("?")
        try:
            expected = signature_of(SentRequest(method, path, query, headers, body), signature, self.secrets[key])
        except SignatureError as error:
            return str(error)
        if signature.value != expected or not signature.at.startswith(signature.date):
            return (
                "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key."
            )
        return self._refusal_of_caller(key, signature.at, time.time() if now_s is None else now_s)

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
