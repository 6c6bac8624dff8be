"""Finds the run of an agent's record by rules, tried in order; the first that yields both pipeline and run id decides.

A rule is one of the objects of ``rules`` in ``RUNLAKE_EVENTS``. ``fqn`` and ``run_id`` are templates over the fields of a record;
``from`` and ``as`` parse a text::

    {"fqn": "{service.name}", "run_id": "{attributes.job.id|header.X-Job}"}          the first that exists
    {"from": "tag", "as": "runlake.{fqn}.{run_id}"}                                  the run id is the text after the last dot
    {"from": "log_group", "as": "/jobs/{fqn}", "run_id": "{log_stream}"}             both
    {"fqn": "hosts.{record.host}", "run_id": "{day}"}                                one run a day

Names: ``header.NAME``; ``tag``, ``index``, ``id``, ``log_group``, ``log_stream``; ``day`` and ``hour`` of the event (UTC); a field
of ``record``, ``attributes``, ``resource``, ``scope`` or ``common``; or a bare field, searched in these in this order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from chalicelib.errors import InvalidConfigurationError, InvalidEventError, InvalidNameError
from chalicelib.events.codecs.items import Decoded
from chalicelib.events.fields import MISSING, at
from chalicelib.ports import Run
from chalicelib.runlog.layout import checked_run

FQN, RUN_ID = "fqn", "run_id"
HEADER = "header"
TEXTS = ("tag", "index", "id", "log_group", "log_stream")
FIELDS = ("record", "attributes", "resource", "scope", "common")
"""The order in which a bare name is searched."""
_TIMES = {"day": "%Y-%m-%d", "hour": "%Y-%m-%dT%H"}
MAX_NAME_CHARS = 512
_MAX_RULES = 50
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_LITERAL = re.compile(r"[^{}]*")

_FQN_NAMES = "runlake.fqn|header.X-Runlake-Fqn|cicd.pipeline.name|service.name|runlake_fqn"
_RUN_NAMES = "runlake.run_id|header.X-Runlake-Run-Id|cicd.pipeline.run.id|runlake_run_id|run_id"
DEFAULT: Sequence[Any] = (
    {"fqn": f"{{{_FQN_NAMES}}}", "run_id": f"{{{_RUN_NAMES}}}"},
    {"from": "tag", "as": "runlake.{fqn}.{run_id}"},
    {"from": "index", "as": "runlake-{fqn}-{run_id}"},
    {"from": "log_stream", "as": "runlake/{fqn}/{run_id}"},
)
"""The rules if none are configured."""


def _checked_template(text: str) -> str:
    for name in _PLACEHOLDER.findall(text):
        if not all(part.strip() for part in name.split("|")):
            raise ValueError("a placeholder must contain a name, such as {service.name}")
    if not _LITERAL.fullmatch(_PLACEHOLDER.sub("", text)):
        raise ValueError("braces are allowed only around names")
    return text


class Rule(BaseModel):
    """One rule. Immutable; see the module."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    fqn: str | None = Field(None, min_length=1, max_length=1000)
    run_id: str | None = Field(None, min_length=1, max_length=1000)
    source: str | None = Field(None, min_length=1, max_length=200, alias="from")
    pattern: str | None = Field(None, min_length=1, max_length=1000, alias="as")

    @model_validator(mode="after")
    def _holds(self) -> Self:
        for template in (self.fqn, self.run_id):
            if template is not None:
                _checked_template(template)
        if (self.source is None) != (self.pattern is None):
            raise ValueError("a rule with from needs as, and a rule with as needs from")
        names = _PLACEHOLDER.findall(_checked_template(self.pattern)) if self.pattern else []
        if self.pattern and (not names or len(set(names)) < len(names) or not set(names) <= {FQN, RUN_ID}):
            raise ValueError("as must contain {fqn}, {run_id} or both, each once")
        named = {*names, *(name for name in (FQN, RUN_ID) if getattr(self, name) is not None)}
        if named != {FQN, RUN_ID}:
            raise ValueError("a rule must define both fqn and run_id")
        return self


_RULES: TypeAdapter[list[Rule]] = TypeAdapter(Annotated[list[Rule], Field(max_length=_MAX_RULES, min_length=1)])


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A rule with its compiled pattern."""

    rule: Rule
    pattern: re.Pattern[str] | None

    @classmethod
    def of(cls, rule: Rule) -> _Compiled:
        return cls(rule, _regex(rule.pattern) if rule.pattern else None)

    def names(self, known: _Known) -> tuple[str, str] | None:
        found: dict[str, str] = {}
        if self.pattern and self.rule.source:
            text = known.text(self.rule.source)
            match = self.pattern.fullmatch(text) if text else None
            if match is None:
                return None
            found = match.groupdict()
        fqn, run_id = found.get(FQN) or known.filled(self.rule.fqn), found.get(RUN_ID) or known.filled(self.rule.run_id)
        return (fqn, run_id) if fqn and run_id else None


@dataclass(frozen=True, slots=True)
class _Known:
    """The values of one record for templates. ``headers``: names in lower case."""

    sources: Mapping[str, Any]
    headers: Mapping[str, str]
    timestamp_ms: int | None

    def filled(self, template: str | None) -> str | None:
        """A template with its placeholders replaced; None if one has no value."""
        if template is None:
            return None
        missing = False

        def fill(placeholder: re.Match[str]) -> str:
            nonlocal missing
            text = self.text(placeholder[1])
            missing = missing or text is None
            return text or ""

        text = _PLACEHOLDER.sub(fill, template)
        return None if missing else text

    def text(self, names: str) -> str | None:
        """The first existing value of names separated by bars."""
        return next((text for name in names.split("|") if (text := _as_name(self._value(name.strip()))) is not None), None)

    def _value(self, name: str) -> Any:
        source, _, path = name.partition(".")
        if source == HEADER:
            return self.headers.get(path.lower(), MISSING)
        if name in _TIMES:
            return (
                MISSING
                if self.timestamp_ms is None
                else datetime.fromtimestamp(self.timestamp_ms / 1000, UTC).strftime(_TIMES[name])
            )
        if name in TEXTS and name in self.sources:
            return self.sources[name]
        if source in FIELDS and (found := at(self.sources.get(source), path)) is not MISSING:
            return found
        return next((found for each in FIELDS if (found := at(self.sources.get(each), name)) is not MISSING), MISSING)


class Router:
    """Finds the runs of records. Built from the setting; stateless."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(map(_Compiled.of, rules))

    @classmethod
    def of(cls, rules: Sequence[Any]) -> Router:
        """From the ``rules`` of a configuration; DEFAULT if empty. Raises InvalidConfigurationError."""
        try:
            return cls(_RULES.validate_python(list(rules or DEFAULT)))
        except ValidationError as error:
            wrong = error.errors(include_url=False, include_input=False, include_context=False)[0]
            place = ".".join(("rules", *map(str, wrong["loc"])))
            raise InvalidConfigurationError(
                f"invalid setting, {wrong['msg'].lower()} variable=RUNLAKE_EVENTS field={place}"
            ) from None

    def run_of(self, item: Decoded, headers: Mapping[str, str]) -> Run:
        """The run of a record. ``headers``: names in lower case. Raises InvalidEventError if no rule matches, or the names are
        invalid."""
        known = _Known(item.sources, headers, item.event.timestamp)
        for rule in self._rules:
            if names := rule.names(known):
                try:
                    return checked_run(*names)
                except InvalidNameError as error:
                    raise InvalidEventError(f"the record's run has a name that cannot be stored: {error}") from error
        raise InvalidEventError("no rule matches the record: send runlake.fqn and runlake.run_id, or set rules in RUNLAKE_EVENTS")


def _as_name(value: Any) -> str | None:
    """A text or an integer as a name; None for other values."""
    if isinstance(value, bool):
        return None
    text = value if isinstance(value, str) else str(value) if isinstance(value, int) else ""
    return text if 0 < len(text) <= MAX_NAME_CHARS else None


def _regex(pattern: str) -> re.Pattern[str]:
    """The FQN matches greedily: the run id begins after the last separator."""
    parts = _PLACEHOLDER.split(pattern)  # literals and names in turn
    return re.compile("".join(f"(?P<{part}>.+)" if number % 2 else re.escape(part) for number, part in enumerate(parts)), re.DOTALL)
