"""Merges files with Spark: reads, sorts and writes their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from glue_jobs.dataset.entries import DATA, STAGING, DataFile
from glue_jobs.dataset.files import Files
from glue_jobs.dataset.partition_files import LONG_TEXTS, PAGE_ROWS
from glue_jobs.dataset.publication import OUTPUT
from glue_jobs.transforms.dataset_files import merge_bins
from glue_jobs.transforms.events import DATASET, PARTITIONS

SESSION: Mapping[str, str] = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # the default, INT96, has no statistics
}
"""Spark settings that writing depends on."""
PARQUET: Mapping[str, str] = {
    "compression": "zstd",
    # A query of one pipeline and one hour reads only matching pages, or row groups if the engine ignores the page index.
    "parquet.block.size": str(8 * 1024 * 1024),
    "parquet.page.row.count.limit": str(PAGE_ROWS),
    "parquet.statistics.truncate.length": "64",
    **{f"parquet.enable.dictionary#{name}": "false" for name in LONG_TEXTS},
}


def stage(rows: DataFrame, files: Files, attempt: str) -> None:
    """Write rows (``DATASET``) to an attempt's staging folder."""
    selected = rows.select(*DATASET.names)
    folder = f"{files.uri}/{STAGING}{attempt}/{OUTPUT}"
    selected.write.partitionBy(*PARTITIONS).options(**PARQUET).parquet(folder)


def rows_of_bins(session: SparkSession, files: Files, bins: Sequence[Sequence[DataFile]]) -> DataFrame:
    """The rows of published files, each bin in one task, sorted."""
    uris = [f"{files.uri}/{file.path}" for each in bins for file in each]
    read = session.read.schema(DATASET).option("basePath", f"{files.uri}/{DATA}").parquet(*uris)
    numbers = [(file.path.rpartition("/")[2], number) for number, each in enumerate(bins) for file in each]
    table = session.createDataFrame(numbers, "file string, bin int")
    return merge_bins(read.withColumn("file", F.col("_metadata.file_name")), table, len(bins))
