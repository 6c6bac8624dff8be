"""Schemas of the OpenAPI document from the pydantic models that parse requests and serialize responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema

Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""A time in ISO 8601."""
Count = Annotated[int, Field(ge=0)]


class ResponseModel(BaseModel):
    """The JSON object of a response. All fields are always there."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_serialization_defaults_required=True)


class DocumentSchema(GenerateJsonSchema):
    """JSON schemas as the document has them: fields have no titles, which would repeat their names; ``type: [string, null]``; an enumeration
    without its type."""

    def field_title_should_be_set(self, schema: object) -> bool:
        """See pydantic."""
        return False

    def nullable_schema(self, schema: Any) -> JsonSchemaValue:
        """See pydantic."""
        inner = self.generate_inner(schema["schema"])
        if isinstance(inner.get("type"), str):
            return {**inner, "type": [inner["type"], "null"]}
        return self.get_union_of_schemas([inner, {"type": "null"}])

    def literal_schema(self, schema: Any) -> JsonSchemaValue:
        """See pydantic."""
        return {"enum": list(schema["expected"])}


def component_schemas(models: Mapping[str, type[ResponseModel]], examples: Mapping[str, list[Any]]) -> dict[str, dict[str, Any]]:
    """The schemas of models by component name. A model's docstring is its description."""
    names = {model.__name__: name for name, model in models.items()}
    inputs = [(model, "serialization") for model in models.values()]
    _, generated = models_json_schema(
        inputs,  # type: ignore[arg-type]
        schema_generator=DocumentSchema,
        ref_template="#/components/schemas/{model}",
    )
    found: dict[str, dict[str, Any]] = {}
    for model_name, schema in generated["$defs"].items():
        name = names[model_name]
        found[name] = {**_renamed(schema, names), "examples": examples[name]}
        found[name].pop("title", None)
        found[name].pop("additionalProperties", None)  # a later release may add fields to a response
    return {name: found[name] for name in models}


def _renamed(node: Any, names: Mapping[str, str]) -> Any:
    """A schema whose references have the names of components."""
    if isinstance(node, list):
        return [_renamed(each, names) for each in node]
    if not isinstance(node, dict):
        return node
    renamed = {key: _renamed(value, names) for key, value in node.items()}
    if isinstance(reference := node.get("$ref"), str):
        base, _, model = reference.rpartition("/")
        renamed["$ref"] = f"{base}/{names.get(model, model)}"
    return renamed
