"""Ship, follow and fetch the logs of pipeline runs that Runlake archives."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_MODULES = {
    "annotations": ("Annotation", "colour", "fold", "link"),
    "archive": ("Archive", "Page"),
    "eventwriter": ("EventWriter",),
    "files": ("FetchedFile", "Files", "PushedFile"),
    "handler": ("RunlogHandler",),
    "masking": ("Mask",),
    "names": ("RunName",),
    "runs": ("Run", "run"),
    "settings": ("Settings", "load_settings"),
    "shipper": ("Counts", "Pace"),
    "steps": ("Step",),
    "structured": ("ArchivedLoggerFactory", "processor"),
}
"""Names by module, except those of errors: a module is imported when one of its names is used, since the command needs few of them to start."""


def __getattr__(name: str) -> Any:
    module = next((module for module, names in _MODULES.items() if name in names), "errors")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
