"""Schemas of the OpenAPI document from the pydantic models that parse requests and serialize responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, TypeAdapter, WithJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import CoreSchema

from chalicelib.ports import ARRIVAL, LINES

Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""A time in ISO 8601."""
Uri = Annotated[str, Field(json_schema_extra={"format": "uri"})]
Count = Annotated[int, Field(ge=0)]
Cursor = Annotated[str | None, Field(description="Cursor of the next page; null on the last page.")]

Clock = Annotated[
    str,
    WithJsonSchema({
        "enum": [LINES, ARRIVAL],
        "description": "`lines`: timestamps in the lines (without a zone, in that of the run, or else in UTC); `arrival`: time of storage.",
    }),
]  # fmt: skip
"""Times that were compared or counted."""

_COMPONENTS = "#/components/schemas/"
_OF_MODELS = ("title", "description", "additionalProperties")
"""Members that a model's schema loses when it is inlined in another one."""
_EMPTY: tuple[object, ...] = (None, "", [], {})


def reference(name: str, kind: str = "schemas") -> dict[str, str]:
    """A reference to a component of the document."""
    return {"$ref": f"#/components/{kind}/{name}"}


class IncompleteDocumentError(ValueError):
    """A table or a docstring that the document is generated from lacks something: a defect of the code. The message says what to add."""


def one_of(values: Sequence[str]) -> WithJsonSchema:
    """The schema of a text that is one of ``values``."""
    return WithJsonSchema({"enum": list(values)})


@dataclass(frozen=True, slots=True)
class DescribedBy:
    """Annotates a dictionary that has the schema of a model."""

    model: type[BaseModel]

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(self.model)


class ResponseModel(BaseModel):
    """The JSON object of a response; all fields are always present. For stored values, which may be damaged, use a ``TypedDict``: only mypy checks
    it, so that they are returned unchanged, and without the cost of validation."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", serialize_by_alias=True, json_schema_serialization_defaults_required=True
    )


class RequestModel(BaseModel):
    """The JSON object of a request. Unknown fields are rejected."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class DocumentSchema(GenerateJsonSchema):
    """JSON schemas as the document has them: ``type: [string, null]``; an enumeration or constant without its type; elements of a list that has
    a fixed length as ``items``. Without titles of fields, which would repeat their names; without defaults in responses, and without null and
    empty ones in requests."""

    def field_title_should_be_set(self, schema: object) -> bool:
        """See pydantic."""
        return False

    def default_schema(self, schema: Any) -> JsonSchemaValue:
        """See pydantic."""
        generated = super().default_schema(schema)
        if self.mode == "serialization" or generated.get("default") in _EMPTY:
            generated.pop("default", None)
        return generated

    def nullable_schema(self, schema: Any) -> JsonSchemaValue:
        """See pydantic."""
        inner = self.generate_inner(schema["schema"])
        if isinstance(inner.get("type"), str):
            return {**inner, "type": [inner["type"], "null"]}
        if "enum" in inner:
            return {**inner, "enum": [*inner["enum"], None]}
        return self.get_union_of_schemas([inner, {"type": "null"}])

    def literal_schema(self, schema: Any) -> JsonSchemaValue:
        """See pydantic."""
        values = list(schema["expected"])
        return {"enum": values} if len(values) > 1 else {"const": values[0]}

    def tuple_schema(self, schema: Any) -> JsonSchemaValue:
        """See pydantic."""
        generated = super().tuple_schema(schema)
        if "prefixItems" not in generated:
            return generated
        first, *others = generated.pop("prefixItems")
        assert all(each == first for each in others), "elements of different types"
        return generated | {"items": first}


def component_schemas(
    models: Mapping[str, Any], examples: Mapping[str, list[Any]], mode: JsonSchemaMode = "serialization"
) -> dict[str, dict[str, Any]]:
    """The schemas of models and typed dictionaries by component name; ``mode`` "validation" for those of requests. A docstring is the
    description. A referenced model that is no component is inlined, without its docstring. Raises IncompleteDocumentError."""
    names = {model.__name__: name for name, model in models.items()}
    _, generated = TypeAdapter.json_schemas(
        [(name, mode, TypeAdapter(model)) for name, model in models.items()],
        schema_generator=DocumentSchema,
        ref_template=_COMPONENTS + "{model}",
    )
    definitions = generated["$defs"]
    found: dict[str, dict[str, Any]] = {}
    for model_name, name in names.items():
        if name not in examples or "description" not in definitions[model_name]:
            lacking = "a docstring" if name in examples else "an example"
            raise IncompleteDocumentError(f"schema {name}: add {lacking} for {model_name}")
        found[name] = {**_resolved(definitions[model_name], names, definitions), "examples": examples[name]}
        found[name]["description"] = " ".join(found[name]["description"].split())
        found[name].pop("title", None)
        if mode == "serialization":
            found[name].pop("additionalProperties", None)  # a later release may add fields to a response
    return found


def request_schema(model: type[RequestModel]) -> dict[str, Any]:
    """The schema of a body, as part of an operation."""
    schema = model.model_json_schema(schema_generator=DocumentSchema)
    return {key: value for key, value in schema.items() if key not in ("title", "description")}


def _resolved(node: Any, names: Mapping[str, str], definitions: Mapping[str, Any]) -> Any:
    """A schema that refers to components by name, and in which all other models are inlined."""
    if isinstance(node, list):
        return [_resolved(each, names, definitions) for each in node]
    if isinstance(node, str) and node.startswith(_COMPONENTS):
        return _COMPONENTS + names[node.removeprefix(_COMPONENTS)]
    if not isinstance(node, dict):
        return node
    model = str(node.get("$ref", "")).removeprefix(_COMPONENTS)
    if model and model not in names:
        included = {key: value for key, value in definitions[model].items() if key not in _OF_MODELS}
        return _resolved(included, names, definitions) | {key: value for key, value in node.items() if key != "$ref"}
    return {key: _resolved(value, names, definitions) for key, value in node.items()}
