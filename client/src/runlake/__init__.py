"""Ship, follow and fetch the logs of pipeline runs that Runlake archives."""

from __future__ import annotations

from runlake.archive import Archive, Page
from runlake.errors import (
    AccessError,
    ApiError,
    IncompleteError,
    NotFoundError,
    RefusedError,
    RunClosedError,
    RunlakeError,
    SettingsError,
    UnavailableError,
)
from runlake.handler import RunlogHandler
from runlake.names import RunName
from runlake.runs import Run, run
from runlake.settings import Settings, load_settings
from runlake.shipper import Counts, Pace
from runlake.structured import ArchivedLoggerFactory, processor

__version__ = "0.1.0"

__all__ = [
    "AccessError",
    "ApiError",
    "Archive",
    "ArchivedLoggerFactory",
    "Counts",
    "IncompleteError",
    "NotFoundError",
    "Pace",
    "Page",
    "RefusedError",
    "Run",
    "RunClosedError",
    "RunName",
    "RunlakeError",
    "RunlogHandler",
    "Settings",
    "SettingsError",
    "UnavailableError",
    "__version__",
    "load_settings",
    "processor",
    "run",
]
