"""The table of operations: its views, decoders and texts exist, and registration does not import them."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from importlib import import_module
from inspect import signature
from types import ModuleType

import pytest

from chalicelib.routes.agent_requests import AgentRequest
from chalicelib.routes.allowance import Allowance
from chalicelib.routes.budgets import READ
from chalicelib.routes.operations import OPERATIONS, Decoder, Operation

EVERY_ROW = pytest.mark.sampled(default=1000, fast=1000)


@pytest.fixture
def openapi() -> ModuleType:
    """Imported by a test: a mistake in a table of the document breaks its import, and must not hide the other tests."""
    return import_module("chalicelib.routes.openapi")


@EVERY_ROW
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.id)
def test_each_row_names_a_view(operation: Operation) -> None:
    assert callable(operation.import_view()) and operation.import_view().__doc__


def test_each_row_has_its_texts(openapi: ModuleType) -> None:
    assert all(openapi._operation(each)["summary"] for each in OPERATIONS)


DECODERS = {decoder for each in OPERATIONS if each.agent for decoder in each.agent.decoders.values()}


@EVERY_ROW
@pytest.mark.parametrize("decoder", sorted(DECODERS, key=str), ids=lambda each: each.function)
def test_each_agent_names_decoders_and_what_they_take(decoder: Decoder) -> None:
    signature(decoder.import_function()).bind(*decoder.arguments)
    for name in decoder.arguments:
        first, _, rest = name.partition(".")
        assert hasattr(AgentRequest, first) and (not rest or hasattr(Allowance(READ, 0, 0), rest)), name


def test_each_operation_occurs_once() -> None:
    names = Counter(name for each in OPERATIONS for name in (each.id, f"{each.method} {each.path}"))
    repeated = [name for name, count in names.items() if count > 1]
    assert not repeated, f"several rows have {', '.join(repeated)}"


def test_every_decoder_is_fuzzed() -> None:
    from tests.fuzz.targets import AGENTS  # imports every decoder: a mistake in one must not hide the other tests

    lacking = sorted({each.function for each in DECODERS} - AGENTS.keys())
    assert not lacking, f"add {', '.join(lacking)} to AGENTS in tests/fuzz/targets.py"


def test_every_text_is_of_an_operation(openapi: ModuleType) -> None:
    texts = {(name, each) for name, resource in openapi.RESOURCES.items() for each in resource.operations}
    assert texts - {(each.document, each.id) for each in OPERATIONS} == set()


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
