"""The OpenAPI document against the deployed stack, which asks for tokens: schemathesis asks each operation what the document allows, and
what it does not, once as somebody who may do everything and once as a stranger.

Never a 5xx, never a status, type or header that is not told, every answer is of its schema, and a stranger is let in nowhere but where
the document says so. ``RUNLAKE_EXAMPLES=200`` asks more often.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import GenerationConfig, ProjectConfig, ProjectsConfig, SchemathesisConfig
from schemathesis.generation.case import Case
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from chalicelib.routes import openapi
from tests.integration.stacks import PATIENCE_S, Stack, stack_with_tokens
from tests.issuer import EVERYTHING, Issuer, bearer

EXAMPLES = int(os.environ.get("RUNLAKE_EXAMPLES", "10"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
KNOWN = schemathesis.openapi.from_dict(
    openapi.document("http://127.0.0.1/api"),
    config=SchemathesisConfig(
        projects=ProjectsConfig(default=ProjectConfig(generation=GenerationConfig(with_security_parameters=False)))
    ),
)
"""Its requests carry what their session does; those of ``STRANGE`` make credentials up, or have none."""
STRANGE = schemathesis.openapi.from_dict(openapi.document("http://127.0.0.1/api"))
OPERATIONS = [(path, method.upper()) for path, item in KNOWN.raw_schema["paths"].items() for method in item]
RIGHT, WRONG = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
FREE = "/v1/services/ingestionPipelines/logs/{fqn}/last/download"
"""It takes any name, and nothing besides."""
FALLIBLE = [
    (path, method)
    for path, method in OPERATIONS
    if path != FREE and (KNOWN[path][method].body or any(True for _ in KNOWN[path][method].iter_parameters()))
]
"""What takes something that can be wrong."""
STRANGERS = max(1, EXAMPLES // 5)
"""The emulator begins a new process for the authorizer after each token that it turned away."""
_HOUR_S = 3600


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def asking(issuer: Issuer) -> Iterator[Stack]:
    """A stack that asks for tokens."""
    with stack_with_tokens(issuer) as stack:
        yield stack


@pytest.fixture(scope="module")
def session(issuer: Issuer) -> Iterator[requests.Session]:
    """One connection for all requests of somebody who may do everything."""
    token = issuer.granted("root", _HOUR_S, **EVERYTHING)
    with requests.Session() as session:
        session.headers.update(bearer(token) | {"X-Amz-Firehose-Access-Key": token})
        yield session


def test_the_document_is_served_and_valid(asking: Stack) -> None:
    for path in ("/v1/openapi.json", "/spec/"):
        served = requests.get(asking.api_url + path, timeout=PATIENCE_S).json()
        assert served == openapi.document("/api")
        assert [str(error) for error in OpenAPIV31SpecValidator(served).iter_errors()] == []


@pytest.mark.parametrize(("path", "method"), OPERATIONS, ids=lambda part: part)
def test_an_operation_is_as_it_is_told(asking: Stack, session: requests.Session, path: str, method: str) -> None:
    statuses = _asked(KNOWN[path][method], RIGHT, EXAMPLES, asking, session)
    assert not statuses & {401, 403}, "who may do everything is refused nothing"


@pytest.mark.parametrize(("path", "method"), FALLIBLE, ids=lambda part: part)
def test_what_is_not_as_it_is_told_is_refused_as_it_is_told(
    asking: Stack, session: requests.Session, path: str, method: str
) -> None:
    assert not _asked(KNOWN[path][method], WRONG, EXAMPLES, asking, session) & {401, 403}


@pytest.mark.parametrize(("path", "method"), OPERATIONS, ids=lambda part: part)
def test_a_stranger_is_let_in_where_it_is_told(asking: Stack, path: str, method: str) -> None:
    operation = STRANGE[path][method]
    is_open = operation.definition.raw.get("security") == []
    with requests.Session() as stranger:
        statuses = _asked(operation, RIGHT, STRANGERS, asking, stranger)
    assert 401 not in statuses if is_open else statuses == {401}


def _asked(operation: Any, mode: GenerationMode, examples: int, asking: Stack, session: requests.Session) -> set[int]:
    """The statuses of what was answered, each as the document tells it."""
    statuses: set[int] = set()

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate], database=None)
    @given(st.data())
    def ask(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(generation_mode=mode))
        _hurry(case)
        answer = case.call(base_url=asking.api_url, session=session, timeout=PATIENCE_S, allow_redirects=False)
        case.validate_response(answer, checks=CHECKS)
        statuses.add(answer.status_code)

    ask()
    return statuses


def _hurry(case: Case) -> None:
    """Nothing is waited for: what ``wait`` does has tests of its own, and so has the stream, which waits unless it is told not to."""
    if "/stream/" in case.path:
        case.query = {**(case.query or {}), "wait": 0}
    query: Any = case.query
    if query and "wait" in query:
        query["wait"] = 0
