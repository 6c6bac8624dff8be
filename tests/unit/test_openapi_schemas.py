"""Schemas from models: components, parts of them, and bodies of requests."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import TypedDict

from chalicelib.routes.schemas import (
    Count,
    DocumentSchema,
    IncompleteDocumentError,
    RequestModel,
    ResponseModel,
    component_schemas,
    one_of,
    request_schema,
)


class Leaf(ResponseModel):
    """A leaf."""

    kind: Literal["leaf"] = "leaf"


class Branch(ResponseModel):
    """A branch."""

    leaves: list[Leaf]
    last: Annotated[Leaf | None, Field(description="The last leaf.")]
    count: Count = 0


class Grafted(RequestModel):
    """A request."""

    name: Annotated[str, Field(alias="as")]
    note: str | SkipJsonSchema[None] = None


LEAF = {"type": "object", "required": ["kind"], "properties": {"kind": {"const": "leaf"}}}


def branch(leaf: dict[str, Any]) -> dict[str, Any]:
    last = {"anyOf": [leaf, {"type": "null"}], "description": "The last leaf."}
    count = {"type": "integer", "minimum": 0}
    return {
        "description": "A branch.",
        "type": "object",
        "required": ["leaves", "last", "count"],
        "properties": {"leaves": {"type": "array", "items": leaf}, "last": last, "count": count},
        "examples": [1],
    }


def test_model_without_a_component_is_part_of_the_schema() -> None:
    assert component_schemas({"B": Branch}, {"B": [1]}) == {"B": branch(LEAF)}


class Bare(TypedDict):
    name: str


@pytest.mark.parametrize(("examples", "lacking"), [({}, "an example"), ({"B": [{}]}, "a docstring")])
def test_what_a_model_lacks_is_named(examples: dict[str, list[Any]], lacking: str) -> None:
    with pytest.raises(IncompleteDocumentError, match=f"^schema B: add {lacking} for Bare$"):
        component_schemas({"B": Bare}, examples)


def test_component_is_referred_to_by_its_name() -> None:
    leaf = {"description": "A leaf.", "examples": [2], **LEAF}
    schemas = component_schemas({"B": Branch, "L": Leaf}, {"B": [1], "L": [2]})
    assert schemas == {"B": branch({"$ref": "#/components/schemas/L"}), "L": leaf}


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (str | None, {"type": ["string", "null"]}),
        (Literal["a", "b"], {"enum": ["a", "b"]}),
        (Annotated[str, one_of(["a", "b"])] | None, {"enum": ["a", "b", None]}),
        (Literal["a"] | None, {"anyOf": [{"const": "a"}, {"type": "null"}]}),
        (tuple[int, int], {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
    ],
)
def test_schema_of_a_type(annotation: Any, expected: dict[str, Any]) -> None:
    assert TypeAdapter(annotation).json_schema(schema_generator=DocumentSchema) == expected


class Pruned(RequestModel):
    """A request with defaults."""

    height: int = 5
    name: str | None = None
    note: str = ""


def test_only_defaults_of_requests_that_say_something_are_shown() -> None:
    assert component_schemas({"P": Pruned}, {"P": [1]}, "validation")["P"]["properties"] == {
        "height": {"type": "integer", "default": 5},
        "name": {"type": ["string", "null"]},
        "note": {"type": "string"},
    }


def test_schema_of_a_body_has_no_null() -> None:
    assert request_schema(Grafted) == {
        "type": "object",
        "required": ["as"],
        "properties": {"as": {"type": "string"}, "note": {"type": "string"}},
        "additionalProperties": False,
    }


def test_body_with_another_field_is_refused() -> None:
    assert Grafted.model_validate({"as": "x", "note": None}).note is None
    with pytest.raises(ValidationError):
        Grafted.model_validate({"as": "x", "other": 1})
