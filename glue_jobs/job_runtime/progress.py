"""Progress of a long job: a bar on a terminal, otherwise a log line every ten seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG_EVERY_S = 10.0
_LOOK_EVERY_S = 0.5


class Progress:
    """Shows progress; ``show`` may be called at any rate. If keys begin with hex digits, as the archive's do, it also shows the
    share done."""

    def __init__(self, name: str) -> None:
        self._name, self._started_s, self._logged_s = name, time.monotonic(), time.monotonic()
        self._bar: Any = None
        if sys.stderr.isatty():
            with suppress(ImportError):  # Glue does not have rich
                self._bar = _bar()
                self._task = self._bar.add_task(name, total=None)

    def show(self, done: int, key: str) -> None:
        """Show ``done`` objects, the last of them ``key``."""
        share, now_s = _share(key), time.monotonic()
        if self._bar:
            self._bar.update(self._task, completed=done, total=done / share if share else None)
        elif now_s - self._logged_s >= LOG_EVERY_S:
            self._logged_s = now_s
            about = f", about {share:.0%}" if share else ""
            rate = done / max(now_s - self._started_s, 0.001)
            print(f"{self._name}: {done} objects{about}, {rate:.0f} a second, at {key}", file=sys.stderr)

    def show_share(self, done: int, known: int, unit: str) -> None:
        """Show ``done`` of ``known`` units."""
        now_s = time.monotonic()
        if self._bar:
            self._bar.update(self._task, completed=done, total=known or None)
        elif now_s - self._logged_s >= LOG_EVERY_S:
            self._logged_s = now_s
            print(f"{self._name}: {done} of {known} {unit}, {now_s - self._started_s:.0f} s", file=sys.stderr)

    def end(self) -> None:
        """Restore the terminal."""
        if self._bar:
            self._bar.stop()


@contextmanager
def task_progress(session: SparkSession, name: str) -> Iterator[None]:
    """Show how many of Spark's tasks are done while the block runs."""
    ended = Event()
    watcher = Thread(target=_watch, args=(session, name, ended), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _watch(session: SparkSession, name: str, ended: Event) -> None:
    progress = Progress(name)
    try:
        while not ended.wait(_LOOK_EVERY_S):
            done, known = _tasks(session)
            progress.show_share(done, known, "tasks")
    finally:
        progress.end()


def _tasks(session: SparkSession) -> tuple[int, int]:
    """(done, known) tasks of the active stages."""
    tracker = session.sparkContext.statusTracker()
    stages = [info for number in tracker.getActiveStageIds() if (info := tracker.getStageInfo(number))]
    return sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True))
    bar.start()
    return bar


def _share(key: str) -> float:
    """The share of a bucket before a key, if its keys begin with evenly distributed hex digits; otherwise 0."""
    try:
        return int(key[:4], 16) / 0x10000
    except ValueError:
        return 0.0
