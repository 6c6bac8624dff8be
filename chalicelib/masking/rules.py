"""What an operator decides about masking: for which pipelines, which shapes, and values of their own (``RUNLAKE_MASKING``)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pydantic import BaseModel, ConfigDict, Field, SecretStr, TypeAdapter, ValidationError, field_validator

from chalicelib.errors import InvalidConfigurationError
from chalicelib.masking.shapes import SHAPES

MIN_VALUE_BYTES = 4
_NAME = re.compile(r"(ssm|secretsmanager):[A-Za-z0-9/_.+=@:-]{1,2048}(#[A-Za-z0-9_.-]{1,255})?")


class Rule(BaseModel):
    """One entry: ``fqn`` is a pattern (``*``, ``?``, ``[…]``) over the whole name; without ``shapes`` it means all."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fqn: str = Field("*", min_length=1, max_length=1024)
    shapes: tuple[str, ...] = tuple(SHAPES)
    values: tuple[SecretStr, ...] = ()
    values_from: tuple[str, ...] = ()

    @field_validator("shapes")
    @classmethod
    def _are_known(cls, shapes: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := sorted(set(shapes) - set(SHAPES)):
            raise ValueError(f"unknown shapes: {', '.join(unknown)}; known: {', '.join(SHAPES)}")
        return shapes

    @field_validator("values")
    @classmethod
    def _are_long(cls, values: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if any(not value_lines(value.get_secret_value()) for value in values):
            raise ValueError(f"a value has {MIN_VALUE_BYTES} bytes or more in a line")
        return values

    @field_validator("values_from")
    @classmethod
    def _are_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            SecretName.parse(name)
        return names

    def is_for(self, fqn: str) -> bool:
        """Whether a pipeline's logs are masked by this rule."""
        return fnmatchcase(fqn, self.fqn)


@dataclass(frozen=True, slots=True)
class SecretName:
    """``ssm:/path/of/parameter`` or ``secretsmanager:name``; ``#field`` of a secret that is a JSON object."""

    text: str

    @classmethod
    def parse(cls, text: str) -> SecretName:
        """Raises ValueError."""
        if not _NAME.fullmatch(text):
            raise ValueError("a value's place is ssm:name or secretsmanager:name, #field behind it where it is a json object")
        return cls(text)

    @property
    def service(self) -> str:
        """ssm or secretsmanager."""
        return self.text.partition(":")[0]

    @property
    def name(self) -> str:
        """The parameter's or the secret's own name, or its ARN."""
        return self.text.partition(":")[2].partition("#")[0]

    @property
    def field(self) -> str:
        """Of a JSON object; empty: the whole text."""
        return self.text.partition("#")[2]


_RULES = TypeAdapter(tuple[Rule, ...])


def parsed_text(text: str) -> tuple[Rule, ...]:
    """The rules of a setting. Raises InvalidConfigurationError, without any value in its message."""
    try:
        return _RULES.validate_json(text)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, wrong["loc"]))
        raise InvalidConfigurationError(f"invalid setting, {wrong['msg'].lower()} variable=RUNLAKE_MASKING field={where}") from None


def value_lines(value: str) -> tuple[bytes, ...]:
    """What is looked for of a value: its lines, those that are long enough not to be found everywhere."""
    return tuple(line for line in (each.strip() for each in value.encode().split(b"\n")) if len(line) >= MIN_VALUE_BYTES)
