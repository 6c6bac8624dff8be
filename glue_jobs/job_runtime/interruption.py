"""Stops a job on ^C with one line of output. Every job can be run again after a stop."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

INTERRUPTED = 130
"""Exit code, as in shells."""


def run_interruptible(name: str, main: Callable[[], int]) -> int:
    """The exit code of ``main``; on an interrupt 130, with a line that says to run the job again."""
    logging.getLogger().addFilter(_is_no_interruption)
    try:
        return main()
    except KeyboardInterrupt:
        print(f"{name}: stopped, run it again", file=sys.stderr, flush=True)
        return INTERRUPTED


def _is_no_interruption(record: logging.LogRecord) -> bool:
    """Drops py4j's records of interrupted requests, which have a stack trace each."""
    kind = record.exc_info[0] if record.exc_info else None
    return not (kind and issubclass(kind, KeyboardInterrupt))
