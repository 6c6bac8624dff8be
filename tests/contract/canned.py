"""Canned HTTP responses: a test chooses what a client receives, and no request leaves the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse

from chalicelib.aws.clients import make_client
from local.emulator import CREDENTIALS, REGION

NOWHERE = "http://127.0.0.1:1"


class Raw(BytesIO):
    """A body as botocore reads it from urllib3. ``error``: what reading it ends with."""

    def __init__(self, body: bytes, error: Exception | None = None) -> None:
        super().__init__(body)
        self._error = error

    def read(self, size: int | None = -1, **_: Any) -> bytes:
        if self._error:
            raise self._error
        return super().read(-1 if size is None else size)

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()


def answer(status: int, body: bytes = b"", headers: dict[str, str] | None = None, error: Exception | None = None) -> AWSResponse:
    """One HTTP answer."""
    return AWSResponse(NOWHERE, status, {"Content-Length": str(len(body)), **(headers or {})}, Raw(body, error))


def s3_error(status: int, code: str) -> AWSResponse:
    """S3's error response in XML; without a code, a response to HEAD, which has no body."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>m</Message></Error>" if code else ""
    return answer(status, body.encode(), {"Content-Type": "application/xml"})


class Network:
    """Returns the answers in order, then the last one for ever; raises those that are exceptions. Records the requests."""

    def __init__(self, client: Any, *answers: AWSResponse | Exception) -> None:
        self.requests: list[Any] = []
        self._answers = list(answers)
        client.meta.events.register("before-send", self._next)

    def _next(self, request: Any, **_: Any) -> AWSResponse:
        self.requests.append(request)
        found = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(found, Exception):
            raise found
        return found

    def header(self, name: str) -> str | None:
        """A header of the last request."""
        value = self.requests[-1].headers.get(name)
        return value.decode() if isinstance(value, bytes) else value


@contextmanager
def cut_off(service: str, *answers: AWSResponse | Exception) -> Iterator[tuple[Any, Network]]:
    """A client configured as in a function, on such a network. It does not wait between attempts."""
    with (
        pytest.MonkeyPatch.context() as patch,
        closing(make_client(service, region=REGION, endpoint_url=NOWHERE, **CREDENTIALS)) as client,
    ):
        patch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=lambda _: None))
        yield client, Network(client, *answers)
