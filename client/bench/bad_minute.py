"""A minute of a server that refuses, hangs, answers 500 and 503, cuts connections and recovers, while a program logs.

Prints whether every line arrived once and in order, and how long the program's logging calls took. ``--seed`` determines the faults.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import subprocess
import sys
import tempfile
import threading
import time

from client.tests.fake_server import FakeServer, fake_server
from runlake import RunlogHandler, Settings

_FAULTS = ("500", "503", "cut", "lost", "hang")


def serve(seed: int, seconds: float) -> None:
    """The server's process: failing and recovering for a minute, then up; prints the stored lines once stdin is closed."""
    chance = random.Random(seed)
    over = threading.Event()
    with fake_server() as fake:
        fake.fault = lambda method, path: "" if over.is_set() or chance.random() < 0.6 else chance.choice(_FAULTS)
        print(fake.url, flush=True)
        weather = threading.Thread(target=_come_and_go, args=(fake, random.Random(seed + 1), seconds, over))
        weather.start()
        sys.stdin.read()
        weather.join()
        print(json.dumps([line.decode() for line in fake.lines("p", "r")]))


def _come_and_go(fake: FakeServer, chance: random.Random, seconds: float, over: threading.Event) -> None:
    ends_s = time.monotonic() + seconds
    while time.monotonic() < ends_s:
        time.sleep(chance.uniform(1, 6))
        fake.down()
        time.sleep(chance.uniform(0.5, 5))
        fake.up()
    over.set()


def main() -> int:
    """Exit code 1 if a line is missing, duplicated or out of order, or the 99th percentile of the calls is 1 ms or more."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--per-second", type=int, default=2000)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.seed, given.seconds)
        return 0
    command = [sys.executable, "-m", "client.bench.bad_minute", "--serve", f"--seed={given.seed}", f"--seconds={given.seconds}"]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server,
        tempfile.TemporaryDirectory() as spool,
    ):
        assert server.stdout is not None
        settings = Settings(url=server.stdout.readline().strip(), spool_dir=spool, timeout_s=2, memory_bytes=256 * 1024)
        handler = RunlogHandler("p", "r", settings=settings)
        calls = _logged(handler, given.seconds, given.per_second)
        counts = handler.finish(120)
        stored = json.loads(server.communicate("")[0])
    in_order = [int(line.rsplit(" ", 1)[1]) for line in stored] == list(range(len(calls)))
    calls.sort()
    p50, p99, most = (calls[min(int(len(calls) * part), len(calls) - 1)] * 1000 for part in (0.5, 0.99, 1))
    print(f"seed {given.seed}: {len(calls)} lines in {given.seconds:.0f} s, each once and in order: {in_order}")
    print(f"requests {counts.requests}, failed {counts.failures}; lost {counts.lost_lines}, kept {counts.kept_lines}")
    print(f"a logging call: p50 {p50:.3f} ms, p99 {p99:.3f} ms, longest {most:.3f} ms")
    return 0 if in_order and p99 < 1 else 1


def _logged(handler: RunlogHandler, seconds: float, per_s: int) -> list[float]:
    """The duration of each call in seconds."""
    logger = logging.Logger("bench")
    logger.addHandler(handler)
    calls: list[float] = []
    started_s = time.perf_counter()
    while (now_s := time.perf_counter()) < started_s + seconds:
        behind = int((now_s - started_s) * per_s) - len(calls)
        for _ in range(behind):
            begun_s = time.perf_counter()
            logger.info("record %d", len(calls))
            calls.append(time.perf_counter() - begun_s)
        time.sleep(0.005)
    return calls


if __name__ == "__main__":
    sys.exit(main())
