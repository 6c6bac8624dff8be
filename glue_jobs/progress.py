"""How far a long job is: a bar where somebody looks, a line every ten seconds where it goes into a log."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import Any

LOG_EVERY_S = 10.0


class Progress:
    """``show`` as often as you like. Where keys begin with hex digits, as the archive's do, the share that is done is known."""

    def __init__(self, name: str) -> None:
        self._name, self._started_s, self._logged_s = name, time.monotonic(), time.monotonic()
        self._bar: Any = None
        if sys.stderr.isatty():
            with suppress(ImportError):  # not among what Glue has
                self._bar = _bar()
                self._task = self._bar.add_task(name, total=None)

    def show(self, done: int, key: str) -> None:
        """``done`` objects up to ``key``."""
        share, now_s = _share(key), time.monotonic()
        if self._bar:
            self._bar.update(self._task, completed=done, total=done / share if share else None)
        elif now_s - self._logged_s >= LOG_EVERY_S:
            self._logged_s = now_s
            about = f", about {share:.0%}" if share else ""
            rate = done / max(now_s - self._started_s, 0.001)
            print(f"{self._name}: {done} objects{about}, {rate:.0f} a second, at {key}", file=sys.stderr)

    def end(self) -> None:
        """Leave the terminal as it was."""
        if self._bar:
            self._bar.stop()


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True))
    bar.start()
    return bar


def _share(key: str) -> float:
    """How much of a bucket lies before a key, if its keys begin with hex digits, evenly."""
    try:
        return int(key[:4], 16) / 0x10000
    except ValueError:
        return 0.0
