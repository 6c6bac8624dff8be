"""SigV4 signatures of requests to OpenSearch, verified by the steps of the specification."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
from botocore.credentials import Credentials, ReadOnlyCredentials

from chalicelib.aws.http import SignedTransport, signed
from chalicelib.errors import InvalidConfigurationError
from chalicelib.events.browsers.elasticsearch import ElasticsearchBrowser
from chalicelib.events.targets.elasticsearch import ElasticsearchTarget
from chalicelib.events.targets.transport import Answer
from tests.support.clock import ManualClock
from tests.unit.test_event_targets import LOGGABLE, events_of
from tests.vendors import Searchable

SECRET = "wJalrXUtnFEMI/K7MDENG"


class Guard:
    """Passes a request to the vendor if its signature is valid."""

    def __init__(self) -> None:
        self.bulk = Searchable()
        self.tokens: list[str | None] = []

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        given = {name.lower(): value for name, value in headers.items()} | {"host": urlsplit(url).netloc}
        self.tokens.append(given.get("x-amz-security-token"))
        found = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=AKID/(\d{8})/eu-west-1/(es|aoss)/aws4_request, SignedHeaders=([a-z0-9;-]+), Signature=(\w{64})",
            given["authorization"],
        )
        assert found and given["x-amz-content-sha256"] == hashlib.sha256(body).hexdigest()
        day, service, names, signature = found.groups()
        assert {"host", "x-amz-date", "x-amz-content-sha256"} <= set(names.split(";"))
        parts = urlsplit(url)
        query = "&".join(f"{quote(key, safe='-_.~')}={quote(value, safe='-_.~')}" for key, value in sorted(parse_qsl(parts.query)))
        lines = "".join(f"{name}:{given[name].strip()}\n" for name in names.split(";"))
        canonical = "\n".join(["POST", parts.path, query, lines, names, given["x-amz-content-sha256"]])
        scope = f"{day}/eu-west-1/{service}/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", given["x-amz-date"], scope, hashlib.sha256(canonical.encode()).hexdigest()])
        key = f"AWS4{SECRET}".encode()
        for each in (day, "eu-west-1", service, "aws4_request"):
            key = hmac.digest(key, each.encode(), "sha256")
        if not hmac.compare_digest(hmac.digest(key, text.encode(), "sha256").hex(), signature):
            return Answer(403, b"the signature does not match")
        return self.bulk.handle(url, headers, body)

    def close(self) -> None: ...


@pytest.mark.parametrize("service", ["es", "aoss"])
def test_signature_is_valid(service: str) -> None:
    guard = Guard()
    transport = SignedTransport(guard, Credentials("AKID", SECRET, "session"), "eu-west-1", service)
    target = ElasticsearchTarget(transport, "https://search.eu-west-1.es.amazonaws.com", "logs")
    assert target.send(LOGGABLE, events_of(3)) == () and len(guard.bulk.documents) == 3
    browser = ElasticsearchBrowser(transport, "https://search.eu-west-1.es.amazonaws.com", "logs", LOGGABLE, ManualClock(0), 0)
    assert [event.id for event in browser.events()] == [0, 1, 2]
    assert guard.tokens == ["session"] * 3
    target.close()


def test_credentials_that_are_renewed_are_used() -> None:
    class Renewed:
        issued = 0

        def get_frozen_credentials(self) -> ReadOnlyCredentials:
            self.issued += 1
            return ReadOnlyCredentials("AKID", SECRET, f"token-{self.issued}", None)

    guard = Guard()
    target = ElasticsearchTarget(SignedTransport(guard, Renewed(), "eu-west-1", "es"), "https://search", "logs")
    for _ in range(2):
        target.send(LOGGABLE, events_of(1))
    assert guard.tokens == ["token-1", "token-2"]


def test_missing_credentials_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/none")
    with pytest.raises(InvalidConfigurationError, match="cannot be signed"):
        signed(Guard(), "eu-west-1", "es")
