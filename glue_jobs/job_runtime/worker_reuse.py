"""Keeps the time between two tasks of a Python worker of Spark short.

Before each task PySpark invalidates the caches of imports: Python 3.11 then reads the directory of a zip archive again for each package that
was imported from it, such as PySpark's own. After each task PySpark collects garbage among all that was ever imported. Together they take
longer than reading 10 MB of a log.
"""

from __future__ import annotations

import gc
import sys
from functools import cache
from zipimport import zipimporter


def begin_task() -> None:
    """To be called when a task has its clients: forgets importers of archives, which Python makes anew for the next import, and exempts
    what the worker has imported and built for its first task from collections."""
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter):
            sys.path_importer_cache.pop(path, None)
    _exempt_imports()


@cache
def _exempt_imports() -> None:
    gc.freeze()
