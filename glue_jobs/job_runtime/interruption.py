"""A job that is stopped by ^C says so in one line: whatever it was doing may be done again."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

INTERRUPTED = 130
"""Exit code, as shells have it."""


def run_interruptible(name: str, main: Callable[[], int]) -> int:
    """What ``main`` answers; where it is interrupted, 130 and a line that tells what to do."""
    logging.getLogger().addFilter(_is_no_interruption)
    try:
        return main()
    except KeyboardInterrupt:
        print(f"{name}: stopped, run it again", file=sys.stderr, flush=True)
        return INTERRUPTED


def _is_no_interruption(record: logging.LogRecord) -> bool:
    """py4j logs each request that is interrupted, with its stack."""
    kind = record.exc_info[0] if record.exc_info else None
    return not (kind and issubclass(kind, KeyboardInterrupt))
