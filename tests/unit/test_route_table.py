"""The table of routes: its views exist, and registration does not import them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from chalicelib.routes.operations import ROUTES, Route


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.methods} {route.path}")
def test_each_view_is_where_the_table_says(route: Route) -> None:
    assert callable(route.view) and route.view.__module__.startswith("chalicelib.routes.")


def test_each_path_and_method_occurs_once() -> None:
    asked = [(method, route.path) for route in ROUTES for method in route.methods.split()]
    assert len(asked) == len(set(asked)) > 50


def test_registration_does_not_import_views() -> None:
    """A starting function imports no module of a view."""
    code = "import app, sys; print(*sorted(name for name in sys.modules if name.startswith('chalicelib') or '.' not in name))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"chalicelib.routes.operations", "chalicelib.composition"} <= loaded
    heavy = {
        "pydantic",
        "boto3",
        "chalicelib.routes.logs",
        "chalicelib.events.event",
        "chalicelib.events.run_event_log",
        "chalicelib.archive",
        "chalicelib.pipelines",
    }
    assert not loaded & heavy
