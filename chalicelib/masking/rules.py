"""The operator's masking rules: pipelines, shapes and configured values (``RUNLAKE_MASKING``)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pydantic import BaseModel, ConfigDict, Field, SecretStr, TypeAdapter, ValidationError, field_validator

from chalicelib.errors import InvalidConfigurationError
from chalicelib.masking.shapes import SHAPES, TOKENS

MIN_VALUE_BYTES = 4
_NAME = re.compile(r"(ssm|secretsmanager):[A-Za-z0-9/_.+=@:-]{1,2048}(#[A-Za-z0-9_.-]{1,255})?")


class MaskingRule(BaseModel):
    """``fqn`` is a pattern (``*``, ``?``, ``[…]``) for the whole name. Default of ``shapes``: all; ``without``: shapes or tokens of vendors that
    no rule masks in these pipelines. ``retired``: masks nothing; its values only serve to recognize batches that it masked before."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fqn: str = Field("*", min_length=1, max_length=1024)
    shapes: tuple[str, ...] = SHAPES
    without: tuple[str, ...] = ()
    values: tuple[SecretStr, ...] = ()
    values_from: tuple[str, ...] = ()
    retired: bool = False

    @field_validator("shapes", "without")
    @classmethod
    def _are_known(cls, shapes: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := sorted({*shapes} - {*SHAPES, *TOKENS}):
            raise ValueError(f"unknown shapes: {', '.join(unknown)}; known: {', '.join(SHAPES)}, and tokens such as {TOKENS[0]}")
        return shapes

    @field_validator("values")
    @classmethod
    def _are_long(cls, values: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if any(not value_lines(value.get_secret_value()) for value in values):
            raise ValueError(f"a value must have a line of at least {MIN_VALUE_BYTES} bytes")
        return values

    @field_validator("values_from")
    @classmethod
    def _are_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            SecretName.parse(name)
        return names

    def applies_to(self, fqn: str) -> bool:
        """Whether this rule masks the logs of a pipeline."""
        return fnmatchcase(fqn, self.fqn)


@dataclass(frozen=True, slots=True)
class SecretName:
    """``ssm:/path/of/parameter`` or ``secretsmanager:name``, followed by ``#field`` if the secret is a JSON object."""

    text: str

    @classmethod
    def parse(cls, text: str) -> SecretName:
        """Raises ValueError."""
        if not _NAME.fullmatch(text):
            raise ValueError(
                "a reference to a value must be ssm:name or secretsmanager:name, followed by #field if it is a json object"
            )
        return cls(text)

    @property
    def service(self) -> str:
        """ssm or secretsmanager."""
        return self.text.partition(":")[0]

    @property
    def name(self) -> str:
        """Name or ARN of the parameter or secret."""
        return self.text.partition(":")[2].partition("#")[0]

    @property
    def field(self) -> str:
        """Field of a JSON object; empty for the complete text."""
        return self.text.partition("#")[2]


OFF = "off"
"""The setting that masks nothing."""
DEFAULT_RULE = MaskingRule()
"""For pipelines that no rule matches."""
_RULES = TypeAdapter(tuple[MaskingRule, ...])


def parse_rules(text: str) -> tuple[MaskingRule, ...]:
    """Parses the setting; empty: no rules. Raises InvalidConfigurationError with a message that contains no value."""
    if text == OFF:
        return (MaskingRule(shapes=()),)
    if not text:
        return ()
    try:
        return _RULES.validate_json(text)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, wrong["loc"]))
        problem = wrong["msg"].removeprefix("Value error, ")
        raise InvalidConfigurationError(
            f"invalid setting, {problem[:1].lower()}{problem[1:]}; allowed: off, or a JSON list of rules as in docs/masking.md"
            f" variable=RUNLAKE_MASKING field={where}"
        ) from None


def value_lines(value: str) -> tuple[bytes, ...]:
    """The parts of a value that are searched for: its stripped lines, without those that are too short to be specific."""
    return tuple(line for line in (each.strip() for each in value.encode().split(b"\n")) if len(line) >= MIN_VALUE_BYTES)
