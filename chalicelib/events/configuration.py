"""The operator's configuration of how events are written and browsed: environment variables and a YAML document, validated together.

::

    method: runlog                    # the logging method, by its name in the registry
    browser: runlog                   # the log browser
    methods:                          # options, by name
      files: {directory: /var/log/runs}
    browsers: {}
    rules: []                         # the run of an agent's record (docs/agents.md)
    outputs: []                       # other systems that events are forwarded to (docs/forwarding.md)

``RUNLAKE_LOGGING_METHOD`` and ``RUNLAKE_LOG_BROWSER`` override the document. JSON is valid YAML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from chalicelib.errors import InvalidConfigurationError

RUN_LOG, FILES = "runlog", "files"
HIDDEN = "***"
_VARIABLE = "RUNLAKE_EVENTS"
_SECRET = re.compile(
    r"secret|passw|passphrase|token|key|auth|credential|cookie|signature|bearer|session|^sig$|^pwd$", re.IGNORECASE
)
"""Names of options, headers and parameters with secret values. Matches too many names rather than too few: headers of other systems
vary."""
_HEADERS = re.compile(r"headers?", re.IGNORECASE)
_VISIBLE_HEADERS = frozenset({"accept", "accept-encoding", "content-encoding", "content-type", "host", "user-agent"})
_Options = dict[str, dict[str, JsonValue]]


class EventsConfiguration(BaseModel):
    """The validated configuration; see the module."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    method: str = Field(RUN_LOG, pattern=r"^[A-Za-z0-9_.-]{1,100}$")
    browser: str = Field(RUN_LOG, pattern=r"^[A-Za-z0-9_.-]{1,100}$")
    methods: _Options = {}
    browsers: _Options = {}
    rules: list[JsonValue] = []
    outputs: list[JsonValue] = []

    def redacted(self) -> dict[str, Any]:
        """The configuration without secrets, for all callers of the API."""
        return {name: redact(value) for name, value in self.model_dump().items()}


def parse_configuration(document: str, method: str | None = None, browser: str | None = None) -> EventsConfiguration:
    """Parse the settings. Raises InvalidConfigurationError, whose message has the field and no value."""
    document_values = _parsed(document) if document.strip() else {}
    chosen = {name: value for name, value in (("method", method), ("browser", browser)) if value}
    try:
        return EventsConfiguration.model_validate(document_values | chosen)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, wrong["loc"]))
        raise InvalidConfigurationError(f"invalid setting, {wrong['msg'].lower()} variable={_VARIABLE} field={where}") from None


def redact(value: JsonValue, name: str = "") -> JsonValue:
    """A part of a configuration without secrets: values of secret names, and passwords in URLs."""
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
    """A URL without user, password and parameter values."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return HIDDEN if "://" in text else text
    if not parts.netloc:
        return text
    host = parts.netloc.rpartition("@")
    query = "&".join(f"{each.partition('=')[0]}={HIDDEN}" if "=" in each else HIDDEN for each in parts.query.split("&") if each)
    fragment = HIDDEN if parts.fragment else ""
    return parts._replace(netloc=f"{HIDDEN}@{host[2]}" if host[1] else parts.netloc, query=query, fragment=fragment).geturl()


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
    except yaml.YAMLError as error:
        raise ValueError("not yaml") from error
