"""Reads secrets by name: an SSM parameter, or a secret of Secrets Manager."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from chalicelib.aws.clients import make_client
from chalicelib.aws.errors import translate_errors
from chalicelib.errors import StoreUnavailableError

if TYPE_CHECKING:
    from chalicelib.masking.rules import SecretName

_READ_TIMEOUT_S = 2
process_client = partial(make_client, region=None)
"""Makes a client with the region and the credentials of the process."""


def read_named_secret(name: SecretName) -> str:
    """A secret that a configuration names, as the process may read it. See ``read_secret``."""
    return read_secret(process_client, name.service, name.name, name.field)


def read_secret(make_client: Callable[..., Any], service: str, name: str, field: str) -> str:
    """The secret's text, or a field of its JSON object. One request. Raises UnavailableError without the text in its message."""
    client = make_client(service, read_timeout_s=_READ_TIMEOUT_S)
    try:
        with translate_errors(f"{service}:read", name, write=False):
            text = _parameter(client, name) if service == "ssm" else _secret(client, name)
    finally:
        client.close()
    return text if not field else _field(text, name, field)


def _parameter(client: Any, name: str) -> str:
    return str(client.get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"])


def _secret(client: Any, name: str) -> str:
    return str(client.get_secret_value(SecretId=name)["SecretString"])


def _field(text: str, name: str, field: str) -> str:
    try:
        return str(json.loads(text)[field])
    except (ValueError, LookupError, TypeError):
        raise StoreUnavailableError(f"a secret has no such field name={name} field={field}") from None
