"""Requests that schemathesis generates from the OpenAPI document, valid and invalid, against any server of the API.

No response is a 5xx or has an undocumented status, type or header, and each matches its schema.
"""

from __future__ import annotations

from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
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
"""Its requests carry the credentials of their session; those of ``STRANGE`` have made-up credentials, or none."""
STRANGE = schemathesis.openapi.from_dict(openapi.document("http://127.0.0.1/api"))
OPERATIONS = [(path, method.upper()) for path, item in KNOWN.raw_schema["paths"].items() for method in item]
VALID, INVALID = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
_FREE = "/v1/services/ingestionPipelines/logs/{fqn}/last/download"
"""Accepts any name, and has no other input."""
FALLIBLE = [
    (path, method)
    for path, method in OPERATIONS
    if path != _FREE and (KNOWN[path][method].body or any(True for _ in KNOWN[path][method].iter_parameters()))
]
"""Operations with an input that can be invalid."""


def statuses_of(
    operation: Any, mode: GenerationMode, examples: int, base_url: str, session: requests.Session, timeout_s: float
) -> set[int]:
    """The statuses of responses to generated requests; each response is checked against the document."""
    statuses: set[int] = set()

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate], database=None)
    @given(st.data())
    def send(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(generation_mode=mode))
        assume(_is_of_its_path(case))
        _do_not_wait(case)
        response = case.call(base_url=base_url, session=session, timeout=timeout_s, allow_redirects=False)
        case.validate_response(response, checks=CHECKS)
        statuses.add(response.status_code)

    send()
    return statuses


def is_open(operation: Any) -> bool:
    """Whether an operation is public in the document."""
    return bool(operation.definition.raw.get("security") == [])


def _is_of_its_path(case: Case) -> bool:
    """Schemathesis does not encode lists in paths: with a ``?`` or ``#`` in one, the request has a different, shorter path."""
    lists = [value for value in (case.path_parameters or {}).values() if isinstance(value, list | dict)]
    return not any({"?", "#"} & set(str(value)) for value in lists)


def _do_not_wait(case: Case) -> None:
    """Disable waiting: ``wait`` and the stream, which waits by default, have separate tests."""
    if "/stream/" in case.path:
        case.query = {**(case.query or {}), "wait": 0}
    query: Any = case.query
    if query and "wait" in query:
        query["wait"] = 0
