"""Baseline of bulk compaction: a minimal loop over boto3, without leases, checks or a catalog.

``python -m bench.spark_compaction_baseline THREADS COUNT``: writes logs.txt of ``uniform_runs`` with one LIST, a GET for each segment and
one PUT, and prints the seconds.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import boto3
from botocore.config import Config

from bench.spark_compaction_archive import BUCKET, uniform_runs
from chalicelib.ports import Run


def main() -> None:
    threads, count = map(int, sys.argv[1:])
    s3 = boto3.client("s3", config=Config(max_pool_connections=threads))

    def compact(run: Run) -> None:
        prefix = f"pipeline-logs/{run.fqn}/{run.run_id}/"
        listed = s3.list_objects_v2(Bucket=BUCKET, Prefix=f"{prefix}segments/")["Contents"]
        bodies = [s3.get_object(Bucket=BUCKET, Key=found["Key"])["Body"].read() for found in listed if found["Size"]]
        s3.put_object(Bucket=BUCKET, Key=f"{prefix}logs.txt", Body=b"".join(bodies))

    runs = [each.run for each in uniform_runs(count, 1, 1)]
    started_s = time.monotonic()
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(compact, runs):
            pass
    print(time.monotonic() - started_s, flush=True)


if __name__ == "__main__":
    main()
