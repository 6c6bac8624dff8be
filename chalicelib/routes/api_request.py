"""One request of the API, as views take it. The adapter of a gateway builds it: ``chalice_adapter``."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from chalice.app import Response

from chalicelib import composition
from chalicelib.composition import Services
from chalicelib.ports import Run
from chalicelib.routes.budgets import READ, Budget
from chalicelib.routes.operations import Operation, OperationMatch
from chalicelib.routes.paths import decode_name
from chalicelib.runlog.layout import checked_run


@dataclass(frozen=True)
class ApiRequest:
    """One request. ``match``: None if no operation has its method and path. ``prefix``: the part of the address before the API's own path,
    which names the stage or belongs to a custom domain, without a trailing slash; ``path``: the rest, as sent. ``headers``: names in any
    case. ``query_values``: all values of each parameter. ``event``: the gateway's event, of which only ``body`` and ``isBase64Encoded`` are
    read. ``identity``: what the gateway says of the client. ``context``: Lambda's."""

    method: str
    prefix: str
    path: str
    match: OperationMatch | None
    headers: Mapping[str, str]
    query_values: Mapping[str, Sequence[str]]
    event: Mapping[str, Any]
    identity: Mapping[str, Any]
    domain: str
    context: Any

    @property
    def operation(self) -> Operation | None:
        """The matched operation."""
        return self.match.operation if self.match else None

    @property
    def label(self) -> str:
        """The operation in audit lines and logs: method and path of the document, nothing that a client chose."""
        return f"{self.method} {self.match.operation.path}" if self.match else f"{self.method} of no operation"

    @property
    def budget(self) -> Budget:
        """Limits of the operation."""
        return self.match.operation.budget if self.match else READ

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The decoded names in the path, by placeholder. Raises InvalidNameError."""
        return {name: decode_name(value) for name, value in self.match.names.items()} if self.match else {}

    def lossy_name(self, placeholder: str) -> str:
        """A decoded name with U+FFFD in place of invalid UTF-8, for views whose errors must not repeat a name: nothing stored has such a name."""
        return unquote(self.match.names[placeholder], errors="replace") if self.match else ""

    @property
    def full_path(self) -> str:
        """The path as the client sent it, with the prefix."""
        return f"{self.prefix}{self.path}"

    @cached_property
    def run(self) -> Run:
        """The run in the path. Raises InvalidNameError."""
        return checked_run(self.names["fqn"], self.names["runId"])

    @cached_property
    def query(self) -> Mapping[str, str]:
        """The last value of each query parameter."""
        return {name: values[-1] for name, values in self.query_values.items() if values}

    def query_joining(self, *names: str) -> Mapping[str, str]:
        """``query``, but with all values of these list parameters, separated by commas: clients send ``a=1,2`` or ``a=1&a=2``."""
        return {**self.query, **{name: ",".join(self.query_values[name]) for name in names if name in self.query}}

    @property
    def body(self) -> str | bytes:
        """The body as the client sent it; text if the gateway passes it as text. Raises ValueError: invalid base64."""
        body: str | bytes = self.event.get("body") or ""
        return base64.b64decode(body) if self.event.get("isBase64Encoded") else body

    @property
    def services(self) -> Services:
        """The services of this process."""
        return composition.services()


View = Callable[[ApiRequest], Response]
