"""A custom handler: counts events by application and level, and writes the counts on flush."""

from __future__ import annotations

import json
import logging
from collections import Counter
from pathlib import Path


class CountingHandler(logging.Handler):
    """``path``: the JSON file for the counts."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path, self._counts = Path(path), Counter[str]()

    def emit(self, record: logging.LogRecord) -> None:
        """Count one event. ``runlake_app`` is on every record."""
        self._counts[f"{record.runlake_app} {record.levelname}"] += 1  # type: ignore[attr-defined]

    def flush(self) -> None:
        """Called after every batch, also an empty one, and before each checkpoint."""
        if self._counts:  # of this worker: the one before has written its own
            self._path.write_text(json.dumps(dict(sorted(self._counts.items()))))
