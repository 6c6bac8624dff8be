"""Every route of the API: its path, its methods and its view. ``app.py`` registers them.

A view's module and its dependencies are imported on the first request, so a starting function loads only the modules that it uses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

from chalice.app import Chalice, Request, Response

from chalicelib.routes import event_paths, paths
from chalicelib.routes.paths import (
    AGENTS,
    ARCHIVE,
    CATALOG,
    CATALOG_ROUTES,
    COORDINATION,
    COORDINATION_ROUTES,
    ELASTICSEARCH,
    PIPELINE_FILES,
    PIPELINES,
    RECENT_RUNS,
)
from chalicelib.routes.responses import View, with_error_envelope

BINARY_TYPES = [
    f"application/{each}" for each in ("gzip", "msgpack", "octet-stream", "x-gzip", "x-msgpack", "x-ndjson", "x-protobuf")
]
"""Request bodies that the gateway must pass as bytes. No response has one of these types, so Chalice never requires an ``Accept`` header."""


def _agents() -> ModuleType:
    from chalicelib.routes import agents

    return agents


def _archive() -> ModuleType:
    from chalicelib.routes import archive

    return archive


def _catalog() -> ModuleType:
    from chalicelib.routes import catalog

    return catalog


def _configuration() -> ModuleType:
    from chalicelib.routes import configuration

    return configuration


def _coordination() -> ModuleType:
    from chalicelib.routes import coordination

    return coordination


def _elasticsearch() -> ModuleType:
    from chalicelib.routes import elasticsearch

    return elasticsearch


def _events() -> ModuleType:
    from chalicelib.routes import events

    return events


def _health() -> ModuleType:
    from chalicelib.routes import health

    return health


def _logs() -> ModuleType:
    from chalicelib.routes import logs

    return logs


def _pipeline_files() -> ModuleType:
    from chalicelib.routes import pipeline_files

    return pipeline_files


def _pipelines() -> ModuleType:
    from chalicelib.routes import pipelines

    return pipelines


def _viewer() -> ModuleType:
    from chalicelib.routes import viewer

    return viewer


@dataclass(frozen=True, slots=True)
class Route:
    """A route. ``methods``: separated by spaces; the view is the function ``name`` of the module that ``module`` imports."""

    methods: str
    path: str
    module: Callable[[], ModuleType]
    name: str

    @property
    def view(self) -> View:
        """The view."""
        view: View = getattr(self.module(), self.name)
        return view


ROUTES = (
    Route("GET", "/v1/health", _health, "health"),
    Route("GET", "/health", _health, "archive_health"),
    Route("GET", "/spec", _health, "spec"),
    Route("GET", "/v1/openapi.json", _health, "openapi_document"),
    Route("GET", "/docs", _health, "docs"),
    Route("GET", "/", _health, "home"),
    *(Route("GET POST", path, _logs, "logs") for path in paths.ROUTES),
    *(
        Route("GET POST PUT" if path in event_paths.PUT_ROUTES else "GET POST", path, _events, "events")
        for path in event_paths.ROUTES
    ),
    Route("GET", "/v1/configuration", _configuration, "configuration"),
    Route("GET", RECENT_RUNS, _catalog, "recent_runs"),
    Route("GET", CATALOG, _catalog, "pipelines"),
    *(Route("GET", path, _catalog, "pipeline") for path in CATALOG_ROUTES),
    Route("GET", ARCHIVE, _archive, "archive"),
    Route("GET", "/v0/environment", _archive, "environment"),
    Route("GET", f"{ARCHIVE}/files", _archive, "list_files"),
    Route("POST", f"{ARCHIVE}/files", _archive, "begin_upload"),
    Route("DELETE", f"{ARCHIVE}/files/{{file_id}}", _archive, "delete_file"),
    Route("GET", f"{ARCHIVE}/files/{{file_id}}/metadata", _archive, "get_metadata"),
    Route("PATCH", f"{ARCHIVE}/files/{{file_id}}/metadata", _archive, "change_metadata"),
    Route("GET", f"{ARCHIVE}/files/{{file_id}}/data", _archive, "get_contents"),
    Route("GET", f"{ARCHIVE}/latest/{{what}}/{{where}}", _archive, "latest"),
    Route("GET", f"{ARCHIVE}/latest/{{what}}/{{where}}/data", _archive, "latest_contents"),
    Route("GET", f"{COORDINATION}/{{source}}", _coordination, "partitions"),
    *(Route("POST", path, _coordination, "change") for path in COORDINATION_ROUTES),
    Route("GET", PIPELINE_FILES, _pipeline_files, "events"),
    Route("DELETE", PIPELINE_FILES, _pipeline_files, "delete"),
    Route("GET", f"{PIPELINE_FILES}/repair", _pipeline_files, "findings"),
    Route("POST", f"{PIPELINE_FILES}/repair", _pipeline_files, "repair"),
    Route("GET", PIPELINES, _pipelines, "pipelines"),
    Route("POST", f"{PIPELINES}/{{name}}/enable", _pipelines, "enable"),
    Route("POST", f"{PIPELINES}/{{name}}/disable", _pipelines, "disable"),
    Route("POST", f"{PIPELINES}/{{name}}/replay", _pipelines, "replay"),
    Route("GET", "/v1/ui", _viewer, "page"),
    Route("GET", "/v1/ui/config", _viewer, "config"),
    Route("GET", "/v1/ui/{file}", _viewer, "file"),
    Route("POST", f"{AGENTS}/fluent", _agents, "fluent_records"),
    Route("POST", f"{AGENTS}/logstash", _agents, "logstash_events"),
    Route("POST", f"{AGENTS}/syslog", _agents, "syslog_messages"),
    Route("POST", f"{AGENTS}/firehose", _agents, "firehose_delivery"),
    Route("POST", f"{AGENTS}/otlp/v1/logs", _agents, "otlp_logs"),
    Route("GET HEAD", ELASTICSEARCH, _elasticsearch, "root"),
    Route("GET", f"{ELASTICSEARCH}/_license", _elasticsearch, "license"),
    Route("GET", f"{ELASTICSEARCH}/_cluster/health", _elasticsearch, "cluster_health"),
    Route("POST PUT", f"{ELASTICSEARCH}/_bulk", _elasticsearch, "bulk_of_any"),
    Route("POST PUT", f"{ELASTICSEARCH}/{{index}}/_bulk", _elasticsearch, "bulk_of_index"),
)


def register(app: Chalice) -> None:
    """Register all routes. Each accepts any content type; views validate it."""
    app.api.binary_types = BINARY_TYPES
    for route in ROUTES:
        app.route(route.path, methods=route.methods.split(), content_types=["*/*"])(with_error_envelope(_lazy_view(route)))


def _lazy_view(route: Route) -> View:
    def view(request: Request) -> Response:
        return route.view(request)

    view.__name__ = route.name
    return view
