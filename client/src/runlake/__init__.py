"""Ship, follow and fetch the logs of pipeline runs that Runlake archives."""

from __future__ import annotations

from runlake.annotations import Annotation, colour, fold, link
from runlake.archive import Archive, Page
from runlake.errors import (
    AccessError,
    AddressError,
    ApiError,
    IncompleteError,
    NoAddressError,
    NotFoundError,
    RefusedError,
    RunClosedError,
    RunlakeError,
    SettingsError,
    TargetError,
    UnavailableError,
)
from runlake.eventwriter import EventWriter
from runlake.files import FetchedFile, Files, PushedFile
from runlake.handler import RunlogHandler
from runlake.masking import Mask
from runlake.names import RunName
from runlake.runs import Run, run
from runlake.settings import Settings, load_settings
from runlake.shipper import Counts, Pace
from runlake.steps import Step
from runlake.structured import ArchivedLoggerFactory, processor

__version__ = "0.1.0"

__all__ = [
    "AccessError",
    "AddressError",
    "Annotation",
    "ApiError",
    "Archive",
    "ArchivedLoggerFactory",
    "Counts",
    "EventWriter",
    "FetchedFile",
    "Files",
    "IncompleteError",
    "Mask",
    "NoAddressError",
    "NotFoundError",
    "Pace",
    "Page",
    "PushedFile",
    "RefusedError",
    "Run",
    "RunClosedError",
    "RunName",
    "RunlakeError",
    "RunlogHandler",
    "Settings",
    "SettingsError",
    "Step",
    "TargetError",
    "UnavailableError",
    "__version__",
    "colour",
    "fold",
    "link",
    "load_settings",
    "processor",
    "run",
]
