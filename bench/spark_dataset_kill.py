"""``build_dataset`` killed at random moments by a seed: its driver, Spark's JVM, or a Python worker; then restarted.

Between the jobs, runs grow, end, and are reopened. After each successful job the dataset is compared with plain lists.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import psutil

from bench.spark_bucket import BucketServer
from bench.spark_dataset_world import BUCKETS, World, by_glob, by_ledger

AFTER = "after its end"
VICTIMS = ("driver", "everything", "worker")
_PROJECT = Path(__file__).parents[1]
_LIMIT_S = 300


class KilledDatasetJobs:
    """One dataset whose jobs are killed repeatedly."""

    def __init__(self, server: BucketServer, destination: Path, seed: int, *, live: bool = False) -> None:
        self.outcomes: Counter[str] = Counter()
        self._server, self._destination, self._live = server, destination, live
        self._random = Random(seed)
        self._world = World(server, seed, live=live)
        self._undisturbed_s = 10.0
        self._stderr = destination.with_name(f"{destination.name}.stderr")

    @property
    def killed(self) -> int:
        """Number of jobs killed while they ran."""
        return sum(count for name, count in self.outcomes.items() if not name.endswith(AFTER))

    def round(self) -> None:
        """Change runs, kill, maybe change again, restart, compare. Raises AssertionError if a row is missing or duplicated."""
        self._world.change()
        victim = self._random.choice(VICTIMS)
        job = self._started()
        moment = self._kill(job, victim)
        if self._random.random() < 0.5:
            self._world.change(2, reopening=False)
        started_s = time.monotonic()
        again = self._started()
        assert again.wait(_LIMIT_S) == 0, self._stderr.read_text()[-4000:]
        self._undisturbed_s = time.monotonic() - started_s
        _end(job)
        self._world.read()
        self.outcomes[f"{victim} {moment}"] += 1
        self.check()

    def check(self) -> None:
        """Compare the files and the ledger with the expected rows."""
        expected, lying, told = self._world.expected, by_glob(self._destination), by_ledger(self._destination)
        for name, found in (("lies there", lying), ("the ledger tells", told)):
            missing, extra = expected - found, found - expected
            assert not missing and not extra, f"{name}: missing={list(missing)[:3]} extra={list(extra)[:3]}"
        assert not list((self._destination / "_staging").iterdir()), "staging is left"

    @property
    def rows(self) -> int:
        """Current number of rows."""
        return self._world.expected.total()

    def _started(self) -> subprocess.Popen[bytes]:
        work = {"options": self._server.options, "destination": str(self._destination), "live": self._live}
        command = [sys.executable, "-m", "bench.spark_dataset_kill", "--job", json.dumps(work)]
        environment = os.environ | {"SPARK_MASTER": "local[2]"}
        with self._stderr.open("w") as said:
            return subprocess.Popen(
                command, cwd=_PROJECT, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=said
            )

    def _kill(self, job: subprocess.Popen[bytes], victim: str) -> str:
        """Kill at a random moment, which it returns."""
        moments: dict[str, Callable[[], bool]] = {
            "at some time": lambda: True,
            "when it was planned": self._appears("_ledger/*.plan"),
            "when files were staged": self._appears("_staging/*/files/**/*.parquet"),
            "when it was committed": self._appears("_ledger/*.json"),
            "when files were published": self._appears("data/**/*.parquet"),
        }
        name = self._random.choice(list(moments))
        delay_s = self._random.uniform(0, 0.8 * self._undisturbed_s if name == "at some time" else 0.2)
        give_up_s = time.monotonic() + _LIMIT_S
        while job.poll() is None and not moments[name]() and time.monotonic() < give_up_s:
            time.sleep(0.005)
        with suppress(subprocess.TimeoutExpired):
            job.wait(delay_s)
        return name if self._shoot(job, victim) else AFTER

    def _shoot(self, job: subprocess.Popen[bytes], victim: str) -> bool:
        while job.poll() is None:
            targets = self._targets(job, victim)
            for target in targets:
                with suppress(psutil.NoSuchProcess):
                    target.kill()
            if targets:
                job.wait(_LIMIT_S)  # do not wait for the JVM of a dead driver, which may run for a while
                return True
            time.sleep(0.01)  # no worker yet
        return False

    def _targets(self, job: subprocess.Popen[bytes], victim: str) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            driver = psutil.Process(job.pid)
            below = driver.children(recursive=True)
            if victim == "driver":
                return [driver]
            if victim == "everything":
                return [driver, *below]
            daemons = [each for each in below if "pyspark.daemon" in " ".join(each.cmdline())]
            workers = [each for each in daemons if each.parent() in daemons]
            return [self._random.choice(workers)] if workers else []
        return []

    def _appears(self, pattern: str) -> Callable[[], bool]:
        known = set(self._destination.glob(pattern))
        return lambda: not known.issuperset(self._destination.glob(pattern))


def _end(job: subprocess.Popen[bytes]) -> None:
    """End the remaining processes of a job whose driver was killed."""
    with suppress(ProcessLookupError):
        os.killpg(job.pid, signal.SIGKILL)


def work(arguments_json: str) -> None:
    """Run the job without tables."""
    from glue_jobs.build_dataset import NAME, run
    from glue_jobs.dataset.building import DatasetSpec
    from glue_jobs.dataset.destination import destination
    from glue_jobs.dataset.entries import Layout
    from glue_jobs.dataset.small_files import Sizes
    from glue_jobs.dataset.writing import SESSION
    from glue_jobs.datasource.offsets import fingerprint
    from glue_jobs.datasource.options import parse_options
    from glue_jobs.job_runtime.session import spark_session

    arguments = json.loads(arguments_json)
    options = parse_options(arguments["options"])
    wanted = DatasetSpec(options, Layout(BUCKETS, "UTC", fingerprint(options)), Sizes(most_files=3), arguments["live"])
    with spark_session(NAME, {**SESSION, "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "3"}) as session:
        run(session, wanted, destination(arguments["destination"]))


def kills(count: int, seed: int, *, live: bool = False) -> tuple[Counter[str], int]:
    """Kill this many jobs over one dataset. Returns (kills by moment and victim, rows at the end)."""
    server = BucketServer(f"killed-{seed}")
    folder = Path(tempfile.mkdtemp(prefix="runlake-dataset-"))
    try:
        killing = KilledDatasetJobs(server, folder / "dataset", seed, live=live)
        while killing.killed < count:
            killing.round()
            print(f"{killing.killed} killed: {dict(killing.outcomes)}, {killing.rows} rows", file=sys.stderr)
        return killing.outcomes, killing.rows
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.spark_dataset_kill", description=__doc__)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--live", action="store_true")
    arguments = parser.parse_args()
    if arguments.job:
        work(arguments.job)
    else:
        print(*kills(arguments.kills, arguments.seed, live=arguments.live))
