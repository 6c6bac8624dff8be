"""How events are written and browsed here, for operators: what is chosen and what is installed. Secrets are hidden."""

from __future__ import annotations

from chalice.app import Request, Response

from chalicelib import composition
from chalicelib.access.grants import Scope
from chalicelib.routes import gate
from chalicelib.routes.answers import json_answer


def configuration(_: Request) -> Response:
    """What is chosen."""
    gate.permit_some("configuration", Scope.ADMIN)
    return json_answer(composition.services().events.registry.shown())
