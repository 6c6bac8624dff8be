"""The operator's configuration of where events are browsed and forwarded: environment variables and a YAML document, validated together.

::

    browser: elasticsearch            # the log browser, by its name in the registry
    browsers:                         # options, by name
      elasticsearch: {url: "https://es.example.com:9200", index: logs}
    rules: []                         # the run of an agent's record (docs/agents.md)
    outputs: []                       # other systems that events are forwarded to, each with a name (docs/forwarding.md)
    locators:                         # the first whose pattern matches the FQN replaces the above; what it leaves out stays
      - {pattern: team.*, browser: runlog, outputs: []}

``RUNLAKE_LOG_BROWSER`` overrides ``browser``. JSON is valid YAML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from hashlib import blake2b
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from chalicelib.errors import InvalidConfigurationError
from chalicelib.runlog.choice import NAME, RUN_LOG, Choice

HIDDEN = "***"
_MAX_LOCATORS, _MAX_PATTERN_CHARS = 1000, 512
_VARIABLE = "RUNLAKE_EVENTS"
_OUTPUT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
_CREDENTIALS, _DIGEST_BYTES = ("headers", "headers_from"), 6
_SECRET = re.compile(
    r"secret|passw|passphrase|token|key|auth|credential|cookie|signature|bearer|session|^sig$|^pwd$", re.IGNORECASE
)
"""Names of options, headers and parameters with secret values. Matches too many names rather than too few: headers of other systems
vary."""
_HEADERS = re.compile(r"headers?(_from)?", re.IGNORECASE)
_WILDCARD = re.compile(r"\[[^\]]+\]|[?]|\{[^{}]*\}")
"""What matches or takes several texts in a pattern or a template, other than ``*``."""
_VISIBLE_HEADERS = frozenset({"accept", "accept-encoding", "content-encoding", "content-type", "host", "user-agent"})
_Options = dict[str, dict[str, JsonValue]]
_PluginName = Annotated[str, Field(pattern=NAME)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


class Locator(_Strict):
    """Chooses for the runs whose FQN matches ``pattern``, as in rules of masking. None: as without a locator. A pattern after ``!`` is
    refused: in a pipeline's selection of runs, to which locators are converted for outputs, it excludes."""

    pattern: str = Field(min_length=1, max_length=_MAX_PATTERN_CHARS, pattern=r"^[^!]")
    browser: _PluginName | None = None
    outputs: list[_PluginName] | None = None


class EventsConfiguration(_Strict):
    """The validated configuration; see the module."""

    browser: _PluginName = RUN_LOG
    browsers: _Options = {}
    rules: list[JsonValue] = []
    outputs: list[JsonValue] = []
    locators: Annotated[list[Locator], Field(max_length=_MAX_LOCATORS)] = []

    @model_validator(mode="after")
    def _has_outputs(self) -> EventsConfiguration:
        names = self._output_names
        if len(names) != len(set(names)):
            raise ValueError("two outputs have the same name")
        for locator in self.locators:
            if unknown := set(locator.outputs or ()) - set(names):
                raise ValueError(f"a locator names an output that is not configured known={','.join(names)} unknown={len(unknown)}")
        return self

    @cached_property
    def named_outputs(self) -> tuple[tuple[str, JsonValue], ...]:
        """Names of the outputs with their targets (``targets.configuration``). An output without a name is named by its kind
        and a digest of its address."""
        return tuple(map(_named, self.outputs))

    @property
    def _output_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.named_outputs)

    @property
    def browsers_named(self) -> frozenset[str]:
        """Browsers that a new run may get."""
        return frozenset({self.browser, *(each.browser for each in self.locators if each.browser)})

    @cached_property
    def browsers_in_use(self) -> frozenset[str]:
        """Browsers that a new run may get, and those with options, which earlier runs may have."""
        return self.browsers_named | self.browsers.keys()

    @cached_property
    def has_other_browsers(self) -> bool:
        """Whether a run may be browsed elsewhere than in the run log."""
        return self.browsers_in_use != {RUN_LOG}

    def choose(self, fqn: str) -> Choice:
        """The choice for a new run: of the first locator whose pattern matches. No request; time linear in the patterns."""
        locator = next((each for each in self.locators if fnmatchcase(fqn, each.pattern)), None)
        return self.choice_of(locator) if locator else Choice(browser=self.browser, outputs=self._output_names)

    def choice_of(self, locator: Locator) -> Choice:
        """The choice for runs that a locator matches."""
        outputs = self._output_names if locator.outputs is None else tuple(locator.outputs)
        return Choice(browser=locator.browser or self.browser, outputs=outputs, locator=locator.pattern)

    def patterns_of(self, output: str) -> Iterator[tuple[str, bool]]:
        """Which runs an output gets: pairs of a pattern and whether it includes or excludes the FQNs that match; the first pattern that
        matches an FQN counts. The last one is ``*``."""
        for each in self.locators:
            yield each.pattern, each.outputs is None or output in each.outputs
        yield "*", True

    def part_for(self, patterns: Sequence[str]) -> EventsConfiguration:
        """The part that concerns the FQNs that ``patterns`` match, in which only ``*`` is special: locators of which one is within the
        other, the outputs and options that these choose, those without a locator if it may be none of them, and rules whose FQNs are
        within a pattern."""
        if "*" in patterns:
            return self
        unsettled, locators = list(patterns), list[Locator]()
        for locator in self.locators:
            around = [each for each in unsettled if _contains(locator.pattern, each)]
            if around or any(_is_within(locator.pattern, each) for each in unsettled):
                locators.append(locator)
            unsettled = [each for each in unsettled if each not in around]
        chosen = [self.choice_of(each) for each in locators]
        chosen += [Choice(browser=self.browser, outputs=self._output_names)] if unsettled else []
        browsers, outputs = {each.browser for each in chosen}, {name for each in chosen for name in each.outputs or ()}
        return EventsConfiguration(
            browser=self.browser,
            browsers={name: options for name, options in self.browsers.items() if name in browsers},
            rules=[each for each in self.rules if any(_is_within(_fqn_of(each), pattern) for pattern in patterns)],
            outputs=[each for each, name in zip(self.outputs, self._output_names, strict=True) if name in outputs],
            locators=locators,
        )

    def redacted(self) -> dict[str, Any]:
        """The configuration without secrets, for all callers of the API."""
        return {name: redact(value) for name, value in self.model_dump().items()}


def _contains(pattern: str, other: str) -> bool:
    """Whether a locator's pattern matches each FQN that ``other`` matches, in which only ``*`` is special."""
    return fnmatchcase(other, pattern) and ("*" not in other or not _WILDCARD.search(pattern))


def _is_within(pattern: str, other: str) -> bool:
    """Whether each FQN that a locator's pattern or a rule's template matches is one that ``other`` matches."""
    literal = other.replace("[", "[[]").replace("?", "[?]")
    return fnmatchcase(_WILDCARD.sub("*", pattern), literal)


def _fqn_of(rule: JsonValue) -> str:
    fqn = rule.get("fqn") if isinstance(rule, dict) else None
    return fqn if isinstance(fqn, str) else "*"


def _named(output: JsonValue) -> tuple[str, JsonValue]:
    if not isinstance(output, dict):
        return "output", output  # refused by the target's own check
    target = {key: value for key, value in output.items() if key != "name"}
    name = output.get("name", _default_name(target))
    if not isinstance(name, str) or not _OUTPUT_NAME.fullmatch(name):
        raise ValueError("an output is named by 1 to 80 letters, digits, dots, dashes and underscores")
    return name, target


def _default_name(target: Mapping[str, JsonValue]) -> str:
    """The kind and a digest of the address: another order of outputs, or other headers, change nothing."""
    address = {key: value for key, value in target.items() if key not in _CREDENTIALS}
    packed = json.dumps(address, sort_keys=True).encode()
    return f"{target.get('kind')}-{blake2b(packed, digest_size=_DIGEST_BYTES).hexdigest()}"


def parse_configuration(document: str, browser: str | None = None) -> EventsConfiguration:
    """Parse the settings. Raises InvalidConfigurationError, whose message has the field and no value."""
    document_values = _parsed(document) if document.strip() else {}
    chosen = {"browser": browser} if browser else {}
    try:
        return EventsConfiguration.model_validate(document_values | chosen)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, wrong["loc"]))
        raise InvalidConfigurationError(f"invalid setting, {wrong['msg'].lower()} variable={_VARIABLE} field={where}") from None


def redact(value: JsonValue, name: str = "") -> JsonValue:
    """A part of a configuration without secrets and names of secrets: values of secret names, and of URLs all but the scheme, host and
    names of parameters."""
    if isinstance(value, Mapping):
        if _HEADERS.fullmatch(name):
            return {key: each if key.lower() in _VISIBLE_HEADERS else HIDDEN for key, each in value.items()}
        return {key: redact(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [redact(each, name) for each in value]
    if value is not None and not isinstance(value, bool) and _SECRET.search(name):
        return HIDDEN
    return _without_secrets(value) if isinstance(value, str) else value


def _without_secrets(text: str) -> str:
    """A URL without user, password, path and parameter values: the path of a webhook contains its token."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return HIDDEN if "://" in text else text
    if not parts.netloc:
        return text
    host = parts.netloc.rpartition("@")
    query = "&".join(f"{each.partition('=')[0]}={HIDDEN}" if "=" in each else HIDDEN for each in parts.query.split("&") if each)
    path = f"/{HIDDEN}" if parts.path.strip("/") else parts.path
    fragment = HIDDEN if parts.fragment else ""
    netloc = f"{HIDDEN}@{host[2]}" if host[1] else parts.netloc
    return parts._replace(netloc=netloc, path=path, query=query, fragment=fragment).geturl()


def _parsed(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text) if text.lstrip().startswith("{") else _yaml(text)
    except ValueError as error:
        raise InvalidConfigurationError(f"invalid setting, not a document of yaml or json variable={_VARIABLE}") from error
    if not isinstance(document, dict):
        raise InvalidConfigurationError(f"invalid setting, the document is no mapping variable={_VARIABLE}")
    return document


def _yaml(text: str) -> Any:
    import yaml  # imported only if needed: it slows a cold start

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:  # its message quotes the document
        raise ValueError("not yaml") from None
