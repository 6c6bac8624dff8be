"""A local stack for tests."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from local import control, deploy
from local.emulator import free_port
from local.recording import set_ahead
from local.state import PATIENCE_S
from tests import session
from tests.issuer import AUDIENCE, ISSUER, Issuer, serve_document

REUSED = "RUNLAKE_STACK"
"""Environment variable: path of the stack.json of a running stack."""
COMMAND_S = 1800
"""Timeout of a command."""


@dataclass(frozen=True, slots=True)
class Stack:
    """``description``: content of ``stack.json``."""

    description: Mapping[str, Any]

    @property
    def api_url(self) -> str:
        """URL of the API without a trailing slash."""
        url: str = self.description["api_url"]
        return url

    def __getitem__(self, name: str) -> Any:
        return self.description[name]

    def client(self, service: str) -> Any:
        """A boto3 client of the stack's AWS. Close it, or the socket warns."""
        return deploy.client(service, self.description["aws_endpoint_url"])

    def set_ahead(self, function: str, seconds: int) -> None:
        """Set how far the clock of a function is ahead from now on, on a stack that was started with ``recording``."""
        with closing(self.client("lambda")) as functions:
            set_ahead(functions, self["functions"][function], seconds)


def eventually(ask: Callable[[], Any], holds: Callable[[Any], Any] = bool, *, what: str = "") -> Any:
    """Wait for a response that satisfies the condition: notifications, schedules and the catalog are asynchronous."""
    give_up = time.monotonic() + PATIENCE_S
    while not holds(answer := ask()):
        assert time.monotonic() < give_up, f"gave up waiting for {what or answer}"
        time.sleep(0.2)
    return answer


@contextmanager
def running_stack(port: int = 0, **parameters: str) -> Iterator[Stack]:
    """A private stack for the duration of the block, on this port and free ones."""
    port = port or free_port()
    try:
        yield Stack(control.up(port, parameters, private=True))
    finally:
        control.down(port)


@contextmanager
def stack_with_tokens(issuer: Issuer, **parameters: str) -> Iterator[Stack]:
    """A private stack that trusts this issuer."""
    with (
        serve_document(issuer) as keys_url,
        running_stack(Auth="jwt", JwtIssuer=ISSUER, JwtAudience=AUDIENCE, JwtJwksUrl=keys_url, **parameters) as stack,
    ):
        yield stack


@contextmanager
def shared_stack() -> Iterator[Stack]:
    """The stack that ``RUNLAKE_STACK`` names, otherwise one that runs until the session of this process ends."""
    if path := os.environ.get(REUSED):
        yield Stack(json.loads(Path(path).read_text()))
    else:
        yield _of_this_session()


@cache
def _of_this_session() -> Stack:
    return session.shared.enter_context(running_stack())
