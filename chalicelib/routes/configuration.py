"""The configuration of logging methods and log browsers, for operators: selected and installed ones. Secrets are hidden."""

from __future__ import annotations

from chalice.app import Response

from chalicelib import composition
from chalicelib.access.grants import Scope
from chalicelib.routes import gate
from chalicelib.routes.api_request import ApiRequest
from chalicelib.routes.events_models import RedactedConfiguration
from chalicelib.routes.responses import json_response


def configuration(_: ApiRequest) -> Response:
    """The configuration."""
    gate.require_any_scope("configuration", Scope.ADMIN)
    document = RedactedConfiguration.model_validate(composition.services().events.registry.describe())
    return json_response(document.model_dump())
