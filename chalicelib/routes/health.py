"""Health, the OpenAPI document, and a page that renders it. Makes no requests to other services."""

from __future__ import annotations

from chalice.app import Request, Response

from chalicelib import __version__, composition
from chalicelib.routes.addresses import base_path, redirect_missing_slash
from chalicelib.routes.docs_page import page
from chalicelib.routes.openapi import document
from chalicelib.routes.responses import json_response


def health(_: Request) -> Response:
    """Whether this function runs and its settings are valid."""
    composition.services()
    return json_response({"status": "ok", "version": __version__})


@redirect_missing_slash
def archive_health(_: Request) -> Response:
    """Health in the datalake's format."""
    composition.services()
    return json_response({})


@redirect_missing_slash
def spec(request: Request) -> Response:
    """The OpenAPI document."""
    return json_response(document(base_path(request)))


def openapi_document(request: Request) -> Response:
    """The OpenAPI document at the address for clients of ``/v1``."""
    return json_response(document(base_path(request)))


@redirect_missing_slash
def docs(_: Request) -> Response:
    """A page that renders the OpenAPI document."""
    return Response(page(), headers={"Content-Type": "text/html; charset=utf-8"})


def home(request: Request) -> Response:
    """Redirect from the base address to the documentation, which links the viewer."""
    location = f"{base_path(request)}/docs/"
    return json_response({"location": location}, 302, Location=location)
