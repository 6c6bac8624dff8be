"""Health, the OpenAPI document, and a page that renders it. Makes no requests to other services."""

from __future__ import annotations

from chalice.app import Response

from chalicelib import __version__, composition
from chalicelib.routes.api_request import ApiRequest
from chalicelib.routes.docs_page import page
from chalicelib.routes.openapi import document
from chalicelib.routes.paths import DOCS_PAGE
from chalicelib.routes.responses import json_response
from chalicelib.routes.service_models import Health


def health(_: ApiRequest) -> Response:
    """Whether this function runs and its settings are valid."""
    composition.services()
    return json_response(Health(version=__version__).model_dump())


def archive_health(_: ApiRequest) -> Response:
    """Health in the datalake's format."""
    composition.services()
    return json_response({})


def spec(request: ApiRequest) -> Response:
    """The OpenAPI document."""
    return json_response(document(request.prefix))


def openapi_document(request: ApiRequest) -> Response:
    """The OpenAPI document at the address for clients of ``/v1``."""
    return json_response(document(request.prefix))


def home(request: ApiRequest) -> Response:
    """Redirect from the base address to the documentation, which links the viewer."""
    return _redirect(f"{request.prefix}/docs/")


def docs(request: ApiRequest) -> Response:
    """Redirect to the page of the documentation. Browsers keep the fragment of the address."""
    return _redirect(f"{request.prefix}{DOCS_PAGE}")


def docs_page(_: ApiRequest) -> Response:
    """A page that renders the OpenAPI document."""
    return Response(page(), headers={"Content-Type": "text/html; charset=utf-8"})


def _redirect(location: str) -> Response:
    return json_response({"location": location}, 302, Location=location)
