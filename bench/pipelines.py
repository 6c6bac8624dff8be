"""``python -m bench.pipelines``: cost of a processing pipeline relative to plain ``logging``.

Logs are generated while they are read, so that memory is the pipeline's own. Speed is processor time, the best of several rounds.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import yaml

from chalicelib.lines.events import events
from chalicelib.lines.format_detection import detect_format
from chalicelib.lines.levels import LOGGING_NUMBERS
from chalicelib.pipelines.allowed_modules import AllowedModules
from chalicelib.pipelines.configuration import PipelineFile, parse_pipeline_file
from chalicelib.pipelines.run_discovery import KnownRun
from chalicelib.pipelines.worker import Worker, WorkerDependencies
from chalicelib.ports import Run
from chalicelib.runlog.log_end import LogEnd
from chalicelib.runlog.reader import LogRange
from tests.support.clock import ManualClock
from tests.support.database import InMemoryDatabase
from tests.support.object_store import InMemoryObjectStore

START_MS = 1_790_000_000_000
LINE_BYTES = 120
ROUNDS = 3
_MIB = 1024 * 1024
_LEVELS = ("INFO", "DEBUG", "INFO", "WARNING")


@dataclass(slots=True)
class SyntheticRuns:
    """Runs whose lines are generated on reading: ``lines`` of each, ``per_s`` of them a second, with ``loggers`` logger names."""

    runs: int
    lines: int
    per_s: int
    loggers: int = 100
    final: bool = True

    def line(self, number: int) -> bytes:
        """A line; all have the same length."""
        at_ms = START_MS + number * 1000 // self.per_s
        stamp = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        head = f"{stamp},{at_ms % 1000:03d} {_LEVELS[number % 4]:<8} app.module{number % self.loggers:07d} - line {number} "
        return head.ljust(LINE_BYTES - 1, ".").encode() + b"\n"

    def read_range(self, run: Run, start: int, length: int) -> LogRange:
        """As ``Reader`` has it."""
        size = self.lines * LINE_BYTES
        first, last = start // LINE_BYTES, min(self.lines, -(-(start + length) // LINE_BYTES))
        body = b"".join(map(self.line, range(first, last)))[start - first * LINE_BYTES :][:length]
        return LogRange(body, LogEnd(1, self.lines, size, seal="closed" if self.final else "", appended_ms=START_MS))

    def live(self) -> list[KnownRun]:
        """See ``RunDiscovery``."""
        size = self.lines * LINE_BYTES
        return [KnownRun(Run(f"svc.pipe{number}", "r"), size, self.lines, self.final, START_MS) for number in range(self.runs)]

    def all(self, since_ms: int) -> Iterator[KnownRun]:
        """See ``RunDiscovery``."""
        return iter(self.live())


def worker(
    logs: SyntheticRuns, handler: dict[str, object], clock: ManualClock, database: InMemoryDatabase, buffer_bytes: int
) -> Worker:
    """A worker over synthetic logs."""
    config = {"version": 1, "handlers": {"h": handler}, "root": {"level": "DEBUG", "handlers": ["h"]}}
    file: PipelineFile = parse_pipeline_file(yaml.safe_dump({"logging": config}), "bench", modules=AllowedModules((__name__,)))
    parts = WorkerDependencies(
        logs, logs, InMemoryObjectStore(clock), database, clock, 86_400, buffer_bytes, lambda message, **_: print(message)
    )
    made = Worker(file, parts, lambda: None, "bench")
    made.start()
    return made


def pipeline_cpu_s(logs: SyntheticRuns, handler: dict[str, object]) -> float:
    """Processor seconds from reading to a checkpoint behind the last event; includes the generation of lines."""
    made = worker(logs, handler, ManualClock(START_MS + 10**9), InMemoryDatabase(), 64 * _MIB)
    started_s = process_time()
    while made.processed < logs.runs * logs.lines:
        made.step()
    made.stop()
    return process_time() - started_s


def generation_cpu_s(logs: SyntheticRuns) -> float:
    """Processor seconds for generating the lines."""
    started_s = process_time()
    for known in logs.live():
        for start in range(0, known.bytes, _MIB):
            logs.read_range(known.run, start, _MIB)
    return process_time() - started_s


def logging_cpu_s(logs: SyntheticRuns, handler: logging.Handler) -> tuple[float, float]:
    """Processor seconds of plain ``logging`` for the same events: of the calls, and of parsing the lines to events."""
    root = logging.RootLogger(logging.DEBUG)
    manager = logging.Manager(root)
    root.addHandler(handler)
    numbers = LOGGING_NUMBERS
    calls = lifting = 0.0
    for known in logs.live():
        for start in range(0, known.lines, 10_000):
            raw = [logs.line(number)[:-1] for number in range(start, min(start + 10_000, known.lines))]
            started_s = process_time()
            parsed_events = list(events(enumerate(raw), detect_format(raw[:1000])))
            lifting += process_time() - started_s
            started_s = process_time()
            for event in parsed_events:
                each = event.parsed
                manager.getLogger(each.logger or "root").log(numbers[each.level or "INFO"], each.message)
            calls += process_time() - started_s
    handler.close()
    return calls, lifting


def minimum(measure: Callable[[], float]) -> float:
    """The minimum of several rounds."""
    return min(measure() for _ in range(ROUNDS))


def speed(count: int) -> None:
    """Events a second, with a null handler and with a file."""
    logs = SyntheticRuns(runs=4, lines=count // 4, per_s=1000)
    made_s = minimum(lambda: generation_cpu_s(logs))
    print(f"{'handler':8} {'pipeline':>12} {'calls alone':>12} {'with lifting':>13} {'of calls':>9} {'of both':>8}")
    with TemporaryDirectory() as folder:
        layout = logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")
        plain: dict[str, Callable[[], logging.Handler]] = {
            "null": logging.NullHandler,
            "file": lambda: _formatted(logging.FileHandler(Path(folder) / "plain.log", "w"), layout),
        }
        handlers: dict[str, dict[str, object]] = {
            "null": {"class": "logging.NullHandler"},
            "file": {"()": f"{__name__}.file_handler", "path": str(Path(folder) / "ours.log")},
        }
        for name in plain:
            ours_s = minimum(partial(pipeline_cpu_s, logs, handlers[name])) - made_s
            pairs = [logging_cpu_s(logs, plain[name]()) for _ in range(ROUNDS)]
            calls_s, both_s = min(calls for calls, _ in pairs), min(map(sum, pairs))
            rates = [count / seconds for seconds in (ours_s, calls_s, both_s)]
            print(
                f"{name:8} {rates[0]:10.0f}/s {rates[1]:10.0f}/s {rates[2]:11.0f}/s {calls_s / ours_s:9.2f} {both_s / ours_s:8.2f}"
            )


def _formatted(handler: logging.Handler, layout: logging.Formatter) -> logging.Handler:
    handler.setFormatter(layout)
    return handler


def file_handler(path: str) -> logging.Handler:
    """The handler that plain logging uses."""
    layout = logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")
    return _formatted(logging.FileHandler(path, "w"), layout)


def memory(per_s: int, runs: int, loggers: int, seconds: int) -> None:
    """Runs in its own process: peak memory while this many events a second arrive from running runs."""
    clock = ManualClock(START_MS)
    logs = SyntheticRuns(runs, 0, max(1, per_s // runs), loggers, final=False)
    made = worker(logs, {"class": "logging.NullHandler"}, clock, InMemoryDatabase(), 16 * _MIB)
    idle = _most_kib()
    for second in range(1, seconds + 1):
        logs.lines = second * logs.per_s
        clock.advance(1)
        while made.step():
            pass
    peak = _most_kib()
    told = {
        "idle_mib": round(idle / 1024, 1),
        "peak_mib": round(peak / 1024, 1),
        "events": made.processed,
        "late": made.buffer.late,
    }
    print(json.dumps(told | {"routes": made.context.cached_routes}))


def _most_kib() -> int:
    """Peak memory of this process. ``ru_maxrss`` would include that of its parent."""
    (told,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(told.split()[1])


def memories() -> None:
    """Memory at 1× and 10× the rate, and with very many runs and names."""
    for title, *given in (
        ("2,000 events/s", 2000, 10, 100, 60),
        ("20,000 events/s", 20_000, 10, 100, 60),
        ("10,000 runs", 10_000, 10_000, 100, 20),
        ("1,000,000 logger names", 20_000, 10, 1_000_000, 60),
    ):
        command = [sys.executable, "-m", "bench.pipelines", "--memory", *map(str, given)]
        print(f"{title:24} {subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()}")


def requests(count: int) -> None:
    """Requests to the table for a million events of running runs, 1,000 a second."""
    clock, database = ManualClock(START_MS), InMemoryDatabase()
    logs = SyntheticRuns(20, 0, 50, final=False)
    made = worker(logs, {"class": "logging.NullHandler"}, clock, database, 64 * _MIB)
    database.calls.clear()
    while made.processed < count:
        logs.lines += logs.per_s
        clock.advance(1)
        made.step()
    made.stop()
    a_million = {name: round(calls * 1e6 / made.processed) for name, calls in database.calls.items()}
    print(
        f"requests for a million events: {sum(a_million.values())} {a_million}, {database.written_bytes * 1e6 / made.processed / 1e6:.1f} MB"
    )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.pipelines", description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--memory", nargs=4, type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory:
        memory(*arguments.memory)
        return
    speed(arguments.events)
    memories()
    requests(arguments.events)


if __name__ == "__main__":
    main()
