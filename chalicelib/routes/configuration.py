"""The configuration of log browsers and outputs, for operators: selected and installed ones, and what a new run gets. Secrets are hidden,
and what concerns only pipelines that the principal does not administer."""

from __future__ import annotations

from chalice.app import Response

from chalicelib.access.grants import Scope
from chalicelib.routes import gate
from chalicelib.routes.api_request import ApiRequest
from chalicelib.routes.events_models import RedactedConfiguration
from chalicelib.routes.pipelines import resource_of
from chalicelib.routes.responses import json_response
from chalicelib.runlog.layout import checked_fqn


def configuration(request: ApiRequest) -> Response:
    """The configuration; with ``fqn`` also what a new run of that pipeline gets."""
    gate.require_any_scope("configuration", Scope.ADMIN)
    fqn = request.query.get("fqn")
    if fqn is not None:
        gate.require_scope(Scope.ADMIN, checked_fqn(fqn))
    patterns = [each for each in gate.principal().grants[Scope.ADMIN].patterns if not each.startswith(resource_of(""))]
    document = RedactedConfiguration.model_validate({"chosen": None} | request.services.events.registry.describe(fqn, patterns))
    return json_response(document.model_dump())
