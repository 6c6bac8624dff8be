"""Headers of every response, and the origins that pages may reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.gateway import call, get, installed, post
from tests.issuer import JWT, Issuer, bearer
from tests.support.clock import ManualClock
from tests.support.object_store import InMemoryObjectStore
from tests.world import START_MS, World


class Linked(InMemoryObjectStore):
    """A store whose presigned links have a given origin."""

    def __init__(self, origin: str) -> None:
        super().__init__(ManualClock(START_MS))
        self._origin = origin

    def presign_get(self, key: str, **_: Any) -> str:
        return f"{self._origin}/{key}?X-Amz-Signature=0"


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(autouse=True)
def world(issuer: Issuer) -> Iterator[World]:
    stores = {"store": Linked("https://logs.s3.eu-west-1.amazonaws.com"), "archive_store": Linked("https://files.s3.amazonaws.com")}
    with installed(World(), keys=issuer.read, **stores, **JWT) as made:
        yield made


def test_answers_with_logs_are_never_stored_by_browsers_or_proxies(issuer: Issuer) -> None:
    token = bearer(issuer.granted(logs_read=["*"], logs_write=["*"]))
    assert post("svc.a/r", '"secret line"', token).status == 200
    for answer in (get("svc.a/r", headers=token), get("svc.a/r/download", headers=token), get("svc.a/r")):
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("page", ["/v1/ui/", "/docs/static/index.html"])
def test_pages_use_no_devices_and_are_not_framed(page: str) -> None:
    answer = call("GET", page)
    assert answer.status == 200
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"].split("; ")
    assert {"camera=()", "geolocation=()", "microphone=()"} <= set(answer.headers["Permissions-Policy"].split(", "))


def test_viewer_reaches_the_api_and_the_two_buckets_and_nothing_else() -> None:
    directives = dict(part.strip().split(" ", 1) for part in call("GET", "/v1/ui/").headers["Content-Security-Policy"].split(";"))
    reached = ["'self'", "https://logs.s3.eu-west-1.amazonaws.com", "https://files.s3.amazonaws.com"]
    assert directives["connect-src"].split(" ") == reached
