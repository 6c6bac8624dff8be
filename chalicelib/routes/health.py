"""``GET /v1/health``: the function runs and its settings are good. Asks nobody else."""

from __future__ import annotations

from chalice.app import Blueprint, Request, Response

from chalicelib import __version__, composition
from chalicelib.routes.answers import answering, json_answer

blueprint = Blueprint(__name__)


@blueprint.route("/v1/health", methods=["GET"])
@answering
def health(_: Request) -> Response:
    """Whether this function can serve."""
    composition.services()
    return json_answer({"status": "ok", "version": __version__})
