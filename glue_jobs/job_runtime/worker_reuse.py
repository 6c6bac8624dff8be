"""Shortens the time between two tasks of a Python worker of Spark.

Before each task PySpark invalidates the caches of imports: Python 3.11 then reads the directory of a zip archive again for each package that
was imported from it, such as PySpark's own. After each task PySpark runs a full garbage collection. Together they take longer than to read
10 MB of a log.
"""

from __future__ import annotations

import gc
import sys
import zipimport
from functools import cache
from typing import Any
from zipimport import zipimporter

_directories: dict[str, Any] = getattr(zipimport, "_zip_directory_cache", {})
"""Of archives. Without an importer nothing else forgets them, and an archive that was replaced cannot be imported."""


def prepare_reuse() -> None:
    """To be called when a task has built its clients. Forgets importers of archives and the directories that they have read, which Python
    reads again for the next import. Exempts what the worker holds during its first task from later garbage collections: objects that are
    in cycles then are kept until the worker ends."""
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter):
            sys.path_importer_cache.pop(path, None)
            _directories.pop(importer.archive, None)
    _exempt_imports()


@cache
def _exempt_imports() -> None:
    gc.collect()
    gc.freeze()
