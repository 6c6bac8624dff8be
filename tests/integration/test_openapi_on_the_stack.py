"""The OpenAPI document against the deployed stack, which requires tokens: generated requests of a sample of operations pass the
gateway and the authorizer. ``tests/functional/test_openapi_requests.py`` covers all operations in memory.

``RUNLAKE_EXAMPLES=200`` sends more requests of each operation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import requests
from openapi_spec_validator import OpenAPIV31SpecValidator

from chalicelib.routes import openapi
from tests.integration.stacks import PATIENCE_S, Stack, stack_with_tokens
from tests.issuer import EVERYTHING, Issuer, bearer
from tests.openapi_requests import FALLIBLE, INVALID, KNOWN, OPERATIONS, STRANGE, VALID, is_open, statuses_of

EXAMPLES = int(os.environ.get("RUNLAKE_EXAMPLES", "10"))
STRANGERS = max(1, EXAMPLES // 5)
"""The emulator starts a new authorizer process after each rejected token."""
_HOUR_S = 3600


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def asking(issuer: Issuer) -> Iterator[Stack]:
    """A stack that requires tokens."""
    with stack_with_tokens(issuer) as stack:
        yield stack


@pytest.fixture(scope="module")
def session(issuer: Issuer) -> Iterator[requests.Session]:
    """One connection for all requests of an administrator."""
    token = issuer.granted("root", _HOUR_S, **EVERYTHING)
    with requests.Session() as session:
        session.headers.update(bearer(token) | {"X-Amz-Firehose-Access-Key": token})
        yield session


def test_the_document_is_served_and_valid(asking: Stack) -> None:
    for path in ("/v1/openapi.json", "/spec/"):
        served = requests.get(asking.api_url + path, timeout=PATIENCE_S).json()
        assert served == openapi.document("/api")
        assert [str(error) for error in OpenAPIV31SpecValidator(served).iter_errors()] == []


@pytest.mark.sampled(default=8)
@pytest.mark.parametrize(("path", "method"), OPERATIONS, ids=lambda part: part)
def test_response_to_valid_requests_is_as_documented(asking: Stack, session: requests.Session, path: str, method: str) -> None:
    statuses = statuses_of(KNOWN[path][method], VALID, EXAMPLES, asking.api_url, session, PATIENCE_S)
    assert not statuses & {401, 403}


@pytest.mark.sampled(default=8)
@pytest.mark.parametrize(("path", "method"), FALLIBLE, ids=lambda part: part)
def test_response_to_invalid_requests_is_as_documented(asking: Stack, session: requests.Session, path: str, method: str) -> None:
    assert not statuses_of(KNOWN[path][method], INVALID, EXAMPLES, asking.api_url, session, PATIENCE_S) & {401, 403}


@pytest.mark.sampled(default=6)
@pytest.mark.parametrize(("path", "method"), OPERATIONS, ids=lambda part: part)
def test_stranger_is_refused_unless_the_operation_is_open(asking: Stack, path: str, method: str) -> None:
    operation = STRANGE[path][method]
    with requests.Session() as stranger:
        statuses = statuses_of(operation, VALID, STRANGERS, asking.api_url, stranger, PATIENCE_S)
    assert 401 not in statuses if is_open(operation) else statuses == {401}
