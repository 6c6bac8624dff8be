"""``python -m bench.spark_files FOLDER``: store every file of a folder as a run, read it through Spark, and compare it byte for
byte.

Each file is stored twice, as a finalized log and as segments of random sizes, and read in tasks of 64 KiB. Prints the recognized
columns of each.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.spark_bucket import BucketServer, put_log
from chalicelib.lines.format_detection import detect_format
from glue_jobs.job_runtime.session import spark_session

_AT_MS = 1_795_230_000_000
_SAMPLE_BYTES = 32 * 1024


def main() -> int:
    """Exit code 1 if any byte differs."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_files", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=random.randrange(1000))
    arguments = parser.parse_args()
    if not arguments.folder.is_dir():
        parser.error(f"no such folder: {arguments.folder}")
    print(f"seed {arguments.seed}", file=sys.stderr)
    files = {path.name: path.read_bytes() for path in sorted(arguments.folder.iterdir()) if path.is_file()}
    server = BucketServer()
    try:
        _store(server, files, random.Random(arguments.seed))
        with spark_session("files", {"spark.driver.memory": "1g"}) as spark:
            frame = spark.read.format("runlake").options(bytesPerPartition="64k", **server.options).load()
            differing = _differing(frame, files)
            _print_rates(frame, files)
    finally:
        server.stop()
    print(f"{2 * len(files) - len(differing)} of {2 * len(files)} logs are their files, byte for byte", file=sys.stderr)
    for name in differing:
        print(f"DIFFERS: {name}", file=sys.stderr)
    return 1 if differing else 0


def _store(server: BucketServer, files: dict[str, bytes], chance: random.Random) -> None:
    for name, body in files.items():
        for run_id in ("finished", "segments"):
            segments = list(_cut(body, chance))
            put_log(server, name, run_id, segments, [_AT_MS] * len(segments), is_final=run_id == "finished")


def _cut(body: bytes, chance: random.Random) -> Iterator[bytes]:
    lines = re.findall(rb"[^\n]*\n|[^\n]+", body)
    while lines:
        count = chance.randint(1, 200)
        yield b"".join(lines[:count])
        lines = lines[count:]


def _differing(frame: DataFrame, files: dict[str, bytes]) -> list[str]:
    rows = sorted(frame.select("fqn", "run_id", "line", "raw").collect())
    logs: dict[tuple[str, str], bytearray] = {}
    for row in rows:
        logs.setdefault((row["fqn"], row["run_id"]), bytearray()).extend(row["raw"])
    wanted = [(name, run_id) for name in files for run_id in ("finished", "segments")]
    return [f"{name} as {run_id}" for name, run_id in wanted if bytes(logs.get((name, run_id), b"")) != files[name]]


def _print_rates(frame: DataFrame, files: dict[str, bytes]) -> None:
    counts = (
        frame.where(F.col("run_id") == "finished")
        .groupBy("fqn")
        .agg(F.count("*").alias("events"), *(F.count(name).alias(name) for name in ("timestamp", "level", "logger")))
    )
    print("| log | format | events | with a time | a level | a logger |\n|---|---|---|---|---|---|")
    for row in sorted(counts.collect()):
        format = detect_format(files[row["fqn"]][:_SAMPLE_BYTES].split(b"\n")[:-1]).name
        shares = " | ".join(f"{row[name] / row['events']:.2%}" for name in ("timestamp", "level", "logger"))
        print(f"| {row['fqn']} | `{format}` | {row['events']:,} | {shares} |")


if __name__ == "__main__":
    sys.exit(main())
