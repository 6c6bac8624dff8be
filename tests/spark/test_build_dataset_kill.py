"""``build_dataset`` as a process that is killed. With more kills: ``python -m bench.spark_dataset --kills 20 --seed N``."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.spark_bucket import BucketServer
from bench.spark_dataset_kill import KilledDatasetJobs


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [3])
def test_the_same_rows_after_two_kills(server: BucketServer, tmp_path: Path, seed: int) -> None:
    killing = KilledDatasetJobs(server, tmp_path / "dataset", seed)
    for _ in range(2):
        killing.round()
    assert killing.rows > 0, f"seed={seed}"
