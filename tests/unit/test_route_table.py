"""The table of operations: its views, decoders and texts exist, and registration does not import them."""

from __future__ import annotations

import subprocess
import sys
from inspect import signature

import pytest

from chalicelib.routes import openapi
from chalicelib.routes.agent_requests import AgentRequest
from chalicelib.routes.allowance import Allowance
from chalicelib.routes.budgets import READ
from chalicelib.routes.operations import OPERATIONS, Decoder, Operation


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.id)
def test_each_row_names_a_view_and_its_texts(operation: Operation) -> None:
    assert callable(operation.import_view()) and operation.import_view().__doc__
    assert operation.id in openapi.RESOURCES[operation.document].operations


DECODERS = {decoder for each in OPERATIONS if each.agent for decoder in each.agent.decoders.values()}


@pytest.mark.parametrize("decoder", sorted(DECODERS, key=str), ids=lambda each: each.function)
def test_each_agent_names_decoders_and_what_they_take(decoder: Decoder) -> None:
    signature(decoder.import_function()).bind(*decoder.arguments)
    for name in decoder.arguments:
        first, _, rest = name.partition(".")
        assert hasattr(AgentRequest, first) and (not rest or hasattr(Allowance(READ, 0, 0), rest)), name


def test_each_operation_occurs_once() -> None:
    assert len({each.id for each in OPERATIONS}) == len({(each.method, each.path) for each in OPERATIONS}) == len(OPERATIONS)


def test_every_text_is_of_an_operation() -> None:
    texts = {(name, each) for name, resource in openapi.RESOURCES.items() for each in resource.operations}
    assert texts == {(each.document, each.id) for each in OPERATIONS}


def test_registration_does_not_import_views() -> None:
    """A starting function imports no module of a view."""
    code = "import app, sys; print(*sorted(name for name in sys.modules if name.startswith('chalicelib') or '.' not in name))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"chalicelib.routes.operations", "chalicelib.composition"} <= loaded
    heavy = {
        "pydantic",
        "boto3",
        "chalicelib.routes.logs",
        "chalicelib.events.event",
        "chalicelib.events.run_event_log",
        "chalicelib.archive",
        "chalicelib.pipelines",
    }
    assert not loaded & heavy
