"""The OpenAPI document against the API in memory: generated requests of every operation, as an administrator and as a stranger.

``tests/integration/test_openapi_on_the_stack.py`` sends a sample of them through the gateway and the authorizer.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import requests
from requests.adapters import BaseAdapter
from urllib3 import HTTPResponse

import app
from tests.functional.gateway import STAGE, Answer, call, installed
from tests.issuer import EVERYTHING, JWT, Issuer, bearer
from tests.openapi_requests import FALLIBLE, INVALID, KNOWN, OPERATIONS, STRANGE, VALID, is_open, statuses_of
from tests.sampling import pick
from tests.world import World

BASE_URL = f"http://memory{STAGE}"
EXAMPLES = pick(2, 6, 100)
STRANGERS = pick(1, 4, 20)
_HOUR_S = 3600


class InMemory(BaseAdapter):
    """Sends requests to the API of this process, as API Gateway would."""

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:  # type: ignore[override]
        url = str(request.path_url).removeprefix(STAGE)
        headers = {str(name): str(value) for name, value in request.headers.items()}
        try:
            answer = call(str(request.method), url, _body(request), headers)
        except ValueError:  # no route has such a path: the gateway answers
            answer = Answer(404, '{"code": 404, "message": "no such path"}', {"Content-Type": "application/json"})
        return _response(request, answer)

    def close(self) -> None:
        pass


def _body(request: requests.PreparedRequest) -> str | bytes | None:
    body = request.body
    if body is None:
        return None
    raw = body if isinstance(body, bytes) else str(body).encode()
    media_type = str(request.headers.get("Content-Type", "")).partition(";")[0].strip().lower()
    return raw if media_type in app.app.api.binary_types else raw.decode("utf-8", "replace")


def _response(request: requests.PreparedRequest, answer: Answer) -> requests.Response:
    response = requests.Response()
    response.request, response.url, response.status_code = request, str(request.url), answer.status
    response.headers.update(answer.headers)
    content = answer.body.encode()
    response.raw = HTTPResponse(io.BytesIO(content), headers=answer.headers, status=answer.status, preload_content=False)
    response.raw.version = 11
    return response


def session(headers: Mapping[str, str]) -> requests.Session:
    made = requests.Session()
    made.mount("http://memory", InMemory())
    made.headers.update(headers)
    return made


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def api(issuer: Issuer) -> Iterator[None]:
    with installed(World(), keys=issuer.read, **JWT):
        yield


@pytest.fixture
def administrator(issuer: Issuer) -> Iterator[requests.Session]:
    token = issuer.granted("root", _HOUR_S, **EVERYTHING)
    with session(bearer(token) | {"X-Amz-Firehose-Access-Key": token}) as made:
        yield made


@pytest.mark.sampled(default=34)
@pytest.mark.usefixtures("api")
@pytest.mark.parametrize(("path", "method"), OPERATIONS, ids=lambda part: part)
def test_response_to_valid_requests_is_as_documented(administrator: requests.Session, path: str, method: str) -> None:
    statuses = statuses_of(KNOWN[path][method], VALID, EXAMPLES, BASE_URL, administrator, 1)
    assert not statuses & {401, 403}


@pytest.mark.behavior("Responses to invalid requests match the OpenAPI document.")
@pytest.mark.sampled(default=26)
@pytest.mark.usefixtures("api")
@pytest.mark.parametrize(("path", "method"), FALLIBLE, ids=lambda part: part)
def test_response_to_invalid_requests_is_as_documented(administrator: requests.Session, path: str, method: str) -> None:
    assert not statuses_of(KNOWN[path][method], INVALID, EXAMPLES, BASE_URL, administrator, 1) & {401, 403}


@pytest.mark.sampled(default=34)
@pytest.mark.usefixtures("api")
@pytest.mark.parametrize(("path", "method"), OPERATIONS, ids=lambda part: part)
def test_stranger_is_refused_unless_the_operation_is_open(path: str, method: str) -> None:
    operation = STRANGE[path][method]
    with session({}) as stranger:
        statuses = statuses_of(operation, VALID, STRANGERS, BASE_URL, stranger, 1)
    assert 401 not in statuses if is_open(operation) else statuses == {401}
