"""The OpenAPI document against the deployed stack: schemathesis asks each operation what the document allows, and what it does not.

Never a 5xx, never a status, type or header that is not told, and every answer is of its schema. ``RUNLAKE_EXAMPLES=200`` asks more often.
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
from hypothesis.errors import Unsatisfiable
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.generation.case import Case
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from chalicelib.routes import openapi
from tests.integration.stacks import Stack

EXAMPLES = int(os.environ.get("RUNLAKE_EXAMPLES", "10"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
SCHEMA = schemathesis.openapi.from_dict(openapi.document("http://127.0.0.1/api"))
OPERATIONS = [(path, method.upper()) for path, item in SCHEMA.raw_schema["paths"].items() for method in item]
MODES = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]
_TIMEOUT_S = 60


@pytest.fixture(scope="session")
def api_headers(stack: Stack) -> dict[str, str]:
    """What every request carries: the stack of the tests asks nobody who they are."""
    return {}


@pytest.fixture(scope="module")
def session(api_headers: dict[str, str]) -> Iterator[requests.Session]:
    """One connection for all requests."""
    with requests.Session() as session:
        session.headers.update(api_headers)
        yield session


def test_the_document_is_served_and_valid(stack: Stack, session: requests.Session) -> None:
    for path in ("/v1/openapi.json", "/spec/"):
        served = session.get(stack.api_url + path, timeout=_TIMEOUT_S).json()
        assert served == openapi.document(stack.api_url)
        assert [str(error) for error in OpenAPIV31SpecValidator(served).iter_errors()] == []


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize(("path", "method"), OPERATIONS, ids=lambda part: part)
def test_an_operation_is_as_it_is_told(
    stack: Stack, session: requests.Session, path: str, method: str, mode: GenerationMode
) -> None:
    operation = SCHEMA[path][method]
    if mode is GenerationMode.NEGATIVE and not (operation.body or any(True for _ in operation.iter_parameters())):
        pytest.skip("nothing to send that could be wrong")

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate], database=None)
    @given(st.data())
    def ask(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(generation_mode=mode))
        _hurry(case)
        case.call_and_validate(base_url=stack.api_url, session=session, checks=CHECKS, timeout=_TIMEOUT_S, allow_redirects=False)

    try:
        ask()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE
        pytest.skip("whatever is sent is allowed")


def _hurry(case: Case) -> None:
    """No page of an open run is waited for: what ``wait`` does has tests of its own."""
    query: Any = case.query
    if query and "wait" in query:
        query["wait"] = 0
