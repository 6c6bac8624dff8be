"""How far a long job is: a bar where somebody looks, a line every ten seconds where it goes into a log."""

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

    def show_share(self, done: int, known: int, unit: str) -> None:
        """``done`` of ``known`` units."""
        now_s = time.monotonic()
        if self._bar:
            self._bar.update(self._task, completed=done, total=known or None)
        elif now_s - self._logged_s >= LOG_EVERY_S:
            self._logged_s = now_s
            print(f"{self._name}: {done} of {known} {unit}, {now_s - self._started_s:.0f} s", file=sys.stderr)

    def end(self) -> None:
        """Leave the terminal as it was."""
        if self._bar:
            self._bar.stop()


@contextmanager
def task_progress(session: SparkSession, name: str) -> Iterator[None]:
    """Shows how many of Spark's tasks are done, while the block runs."""
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
    """(done, known) of the stages that run now."""
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
    """How much of a bucket lies before a key, if its keys begin with hex digits, evenly."""
    try:
        return int(key[:4], 16) / 0x10000
    except ValueError:
        return 0.0
