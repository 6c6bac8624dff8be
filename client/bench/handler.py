"""Records a second and CPU per record: RunlogHandler, logging.FileHandler, and a handler that POSTs each record.

The last one does what OpenMetadata's connectors do by their contract when records come slowly: one request with JSON for each record; here
from its own thread. The archive is a sink in another process, whose CPU is not counted. ``--json`` prints figures for a table.
"""

from __future__ import annotations

import argparse
import json
import logging
import queue
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from client.bench.sink import facts_of, running_sink
from runlake import RunlogHandler, Settings
from runlake.handler import FORMAT

_MESSAGE = "loaded table %d of warehouse.public in %d ms"


class PostingHandler(logging.Handler):
    """One POST for each record, sequentially, from a thread."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url, self._position = url, "0"
        self._records: queue.Queue[str | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        self._records.put(self.format(record) + "\n")

    def close(self) -> None:
        self._records.put(None)
        self._thread.join()
        super().close()

    def _work(self) -> None:
        with httpx.Client() as client:
            while (line := self._records.get()) is not None:
                headers = {"Content-Type": "application/json", "Cookie": f"PIPELINE_SESSION={self._position}"}
                answer = client.post(
                    f"{self._url}/v1/services/ingestionPipelines/logs/p/r", content=json.dumps(line), headers=headers
                )
                self._position = answer.json()["position"]


@dataclass(frozen=True)
class Figures:
    """The figures of one handler. ``call``: the duration of a logging call; ``stored``: until the last record is stored."""

    handler: str
    pace: str
    records: int
    calls_per_s: int
    stored_per_s: int
    call_p50_us: float
    call_p99_us: float
    cpu_us_per_record: float
    requests: int


def measured(name: str, handler: logging.Handler, records: int, per_s: int, requests: Callable[[], int]) -> Figures:
    """Log this many records, ``per_s`` a second (0: without pauses), and close."""
    handler.setFormatter(logging.Formatter(FORMAT))
    logger = logging.Logger("bench")
    logger.addHandler(handler)
    calls: list[float] = []
    cpu_s, started_s = time.process_time(), time.perf_counter()
    for number in range(records):
        if per_s:
            time.sleep(max(started_s + number / per_s - time.perf_counter(), 0))
        begun_s = time.perf_counter()
        logger.info(_MESSAGE, number, number % 100)
        calls.append(time.perf_counter() - begun_s)
    called_s = time.perf_counter() - started_s
    handler.close()
    stored_s, cpu_s = time.perf_counter() - started_s, time.process_time() - cpu_s
    calls.sort()
    return Figures(
        handler=name,
        pace=f"{per_s}/s" if per_s else "burst",
        records=records,
        calls_per_s=round(records / called_s),
        stored_per_s=round(records / stored_s),
        call_p50_us=round(calls[len(calls) // 2] * 1e6, 1),
        call_p99_us=round(calls[len(calls) * 99 // 100] * 1e6, 1),
        cpu_us_per_record=round(cpu_s / records * 1e6, 1),
        requests=requests(),
    )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000, help="of a burst; a fiftieth of it where each is a request")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    with running_sink() as url, tempfile.TemporaryDirectory() as folder:
        settings = Settings(url=url, spool_dir=folder, exit_s=600)

        def requests() -> int:
            return int(facts_of(url)["requests"])

        for records, slow_records, per_s in ((arguments.records, arguments.records // 50, 0), (1000, 1000, 200)):
            file = logging.FileHandler(Path(folder) / "log")
            rows.append(measured("logging.FileHandler", file, records, per_s, lambda: 0))
            rows.append(measured("RunlogHandler", RunlogHandler("p", "r", settings=settings), records, per_s, requests))
            events = RunlogHandler("p", "r", events=True, settings=settings)
            rows.append(measured("RunlogHandler, events", events, records, per_s, requests))
            masking = RunlogHandler("p", "r", secrets=[f"s3cret/{number}+value" for number in range(10)], settings=settings)
            rows.append(measured("RunlogHandler, 10 secrets", masking, records, per_s, requests))
            rows.append(measured("one POST a record", PostingHandler(url), slow_records, per_s, requests))
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows]))
        return
    heads = list(asdict(rows[0]))
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for row in rows:
        print("| " + " | ".join(str(value) for value in asdict(row).values()) + " |")


if __name__ == "__main__":
    main()
