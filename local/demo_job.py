"""One connector of the demo: a small batch job that profiles a table of orders and ships its log as OpenMetadata's connectors do.

It knows only Runlake's address: it sends batches as JSON over HTTP, echoes the cookie, and closes the run. It also writes the
logged and the acknowledged lines to files, for the demo's comparison.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import random
import statistics
import sys
import threading
import time
from contextlib import suppress
from http.cookiejar import CookieJar
from pathlib import Path
from queue import Empty, SimpleQueue
from urllib.request import HTTPCookieProcessor, Request, build_opener

BATCH_RECORDS = 500
BATCH_WAIT_S = 0.5
PATIENCE_S = 300
FORMAT = "[%(asctime)s] %(levelname)-8s {%(name)s:%(funcName)s:%(lineno)d} - %(message)s"


class Shipper(logging.Handler):
    """A logging handler that sends batches from its own thread, one at a time, and never blocks the job."""

    def __init__(self, url: str, acknowledged: Path) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(FORMAT))
        self._url, self._acknowledged = url, acknowledged
        self._opener = build_opener(HTTPCookieProcessor(CookieJar()))
        self._queue: SimpleQueue[str | None] = SimpleQueue()
        self._worker = threading.Thread(target=self._ship, daemon=True)
        self._worker.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record."""
        self._queue.put(self.format(record) + "\n")

    def finish(self, *, closes: bool) -> None:
        """Send the queued records, and close the run if ``closes``."""
        self._queue.put(None)
        self._worker.join()
        if closes:
            self._post("/close", {})

    def _ship(self) -> None:
        """Send a batch half a second after its first record."""
        ended = False
        while not ended:
            lines = [self._queue.get()]
            time.sleep(BATCH_WAIT_S)
            with suppress(Empty):
                while lines[-1] is not None and len(lines) < BATCH_RECORDS:
                    lines.append(self._queue.get_nowait())
            ended = lines[-1] is None
            if text := "".join(line for line in lines if line is not None):
                self._send(text)

    def _send(self, text: str) -> None:
        batch = {"logs": text, "connectorId": f"demo-{os.getpid()}", "timestamp": int(time.time() * 1000), "compressed": False}
        self._post("", batch | {"lineCount": text.count("\n")})
        with self._acknowledged.open("a") as file:
            file.write(text)

    def _post(self, suffix: str, body: object) -> None:
        request = Request(self._url + suffix, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with self._opener.open(request, timeout=PATIENCE_S) as answer:
            answer.read()


def profile(table: str, seconds: float, chance: random.Random) -> None:
    """The job: read a table of orders in chunks, log statistics, and fail on one bad row."""
    logger = logging.getLogger(f"profiler.{table}")
    logger.info("profiling table %s", table)
    end, chunk = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        rows = list(csv.DictReader(io.StringIO(_orders(chance, 400))))
        amounts = [float(row["amount"]) for row in rows]
        logger.info("chunk %d rows=%d mean=%.2f p95=%.2f", chunk, len(rows), statistics.fmean(amounts), sorted(amounts)[-20])
        for row in rows[:5]:
            logger.debug("order %s of %s: %s", row["id"], row["customer"], row["amount"])
        if chunk % 10 == 7:
            try:
                float("12,50")
            except ValueError:
                logger.exception("chunk %d: a row that cannot be read", chunk)
        chunk += 1
        time.sleep(chance.uniform(0.02, 0.12))
    logger.info("profiled table %s in %d chunks", table, chunk)


def _orders(chance: random.Random, count: int) -> str:
    rows = (f"{chance.getrandbits(32)},Ærø & Søn {chance.randrange(900)},{chance.lognormvariate(4, 1):.2f}\n" for _ in range(count))
    return "id,customer,amount\n" + "".join(rows)


def main() -> None:
    """Arguments: API address, FQN, run id, folder for the copies, name of this job, seconds, and whether to close at the end."""
    api_url, fqn, run_id, folder, name, seconds, closes = sys.argv[1:8]
    shipper = Shipper(f"{api_url}/v1/services/ingestionPipelines/logs/{fqn}/{run_id}", Path(folder) / f"{name}.acknowledged")
    copy = logging.FileHandler(Path(folder) / f"{name}.log")
    copy.setFormatter(logging.Formatter(FORMAT))
    logging.basicConfig(level=logging.DEBUG, handlers=[shipper, copy])
    profile(name, float(seconds), random.Random(name))
    shipper.finish(closes=closes == "closes")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):  # ^C also reaches the demo, which reports it
        main()
