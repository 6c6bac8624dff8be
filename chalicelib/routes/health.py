"""Whether it is there, and what it can do: health, the OpenAPI document, and a page that shows it. None asks anybody else."""

from __future__ import annotations

from chalice.app import Request, Response

from chalicelib import __version__, composition
from chalicelib.routes.addresses import base_path, redirect_missing_slash
from chalicelib.routes.docs_page import page
from chalicelib.routes.openapi import document
from chalicelib.routes.responses import json_response


def health(_: Request) -> Response:
    """Whether this function can serve: it runs and its settings are good."""
    composition.services()
    return json_response({"status": "ok", "version": __version__})


@redirect_missing_slash
def archive_health(_: Request) -> Response:
    """The same, as the datalake answers it."""
    composition.services()
    return json_response({})


@redirect_missing_slash
def spec(request: Request) -> Response:
    """The OpenAPI document."""
    return json_response(document(base_path(request)))


def openapi_document(request: Request) -> Response:
    """The same document, where clients of ``/v1`` look for it."""
    return json_response(document(base_path(request)))


@redirect_missing_slash
def docs(_: Request) -> Response:
    """A page that shows the document."""
    return Response(page(), headers={"Content-Type": "text/html; charset=utf-8"})


def home(request: Request) -> Response:
    """The base address leads to the documents, which link the viewer."""
    location = f"{base_path(request)}/docs/"
    return json_response({"location": location}, 302, Location=location)
