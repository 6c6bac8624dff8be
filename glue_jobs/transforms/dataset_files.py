"""Layout of rows in files: which rows share a file, and their order."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from glue_jobs.transforms.events import ORDER, PARTITIONS


def merge_bins(rows: DataFrame, bins: DataFrame, count: int) -> DataFrame:
    """Sorted rows, one task for each bin of files. ``rows`` has ``file``; ``bins`` has ``file`` and ``bin`` (0 to ``count`` - 1)."""
    with_bin = rows.join(F.broadcast(bins), "file")
    return with_bin.repartitionById(count, F.col("bin")).drop("file", "bin").sortWithinPartitions(*PARTITIONS, *ORDER)
