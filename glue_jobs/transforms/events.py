"""Events as stored in the dataset: with the pipeline's name in the datalake, and the event's partition."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DateType, DoubleType, IntegerType, LongType, StringType, StructField, StructType

from chalicelib.catalog.runs import EXPLAINED_OUTCOMES
from glue_jobs.datasource.schema import EVENTS, schema_of

FIRST_DAY, END_DAY = "2000-01-01", "2100-01-01"
"""A timestamp outside of these days is wrong and makes no partition: a query of all days would list each of them."""
NAME_CHARS = 256
PARTITIONS = ("date", "what_bucket")
ORDER = ("what", "fqn", "timestamp", "run_id", "line")
"""Sort order of rows in a file."""

ARRIVALS = StructType(
    [StructField("fqn", StringType(), False), StructField("run_id", StringType(), False), StructField("arrived", DateType(), False)]
)
"""The day on which a run's log was first read: the partition of its events without a time."""

CAUSE = StructType(
    [
        StructField("cause_rank", IntegerType()),
        StructField("cause_line", LongType()),
        StructField("cause_rule", StringType()),
        StructField("cause_family", StringType()),
        StructField("cause_score", DoubleType()),
    ]
)
"""A line that may explain why its run failed; null in all other events. ``cause_rank``: from 1, the best one."""

CAUSES = StructType(
    [
        StructField("fqn", StringType(), False),
        StructField("run_id", StringType(), False),
        StructField("causes", ArrayType(CAUSE), False),
    ]
)
"""The explanation of a run, the best line first."""

DATASET = StructType(
    [
        *schema_of(EVENTS).fields,
        StructField("what", StringType(), False),
        *CAUSE.fields,
        StructField("date", DateType(), False),
        StructField("what_bucket", IntegerType(), False),
    ]
)


def dataset_rows(events: DataFrame, arrivals: DataFrame, causes: DataFrame, buckets: int) -> DataFrame:
    """Events (``schema_of(EVENTS)``) with ``what``, the best of its run's ``causes`` that is one of its lines, ``date`` (UTC; the arrival of
    its run if an event has no plausible time) and ``what_bucket`` (0 to ``buckets`` - 1). A row depends on its event and run only, not on
    the rest of a read."""
    names = schema_of(EVENTS).names
    own_date = _own_date(F.col("timestamp"))
    joined = _joined(events, arrivals, own_date.isNull())
    joined = _joined(joined, causes, F.col("outcome").isin(*EXPLAINED_OUTCOMES)).withColumn("cause", _cause())
    what = what_of(F.col("fqn"))
    return joined.select(
        *names,
        what.alias("what"),
        "cause.*",
        F.coalesce(own_date, "arrived").alias("date"),
        bucket_of(what, buckets).alias("what_bucket"),
    )


def _joined(events: DataFrame, runs: DataFrame, condition: Column) -> DataFrame:
    """Events with their run's values if the condition is true: the keys of all other events are null."""
    keys = {f"of_{name}": F.when(condition, F.col(name)) for name in ("fqn", "run_id")}
    renamed = runs.withColumnsRenamed({name: f"of_{name}" for name in ("fqn", "run_id")})
    return events.withColumns(keys).join(F.broadcast(renamed), list(keys), "left").drop(*keys)


def _cause() -> Column:
    text = F.col("raw").cast("string")
    newlines = F.octet_length(text) - F.octet_length(F.replace(text, F.lit("\n"), F.lit("")))
    end_line = F.col("line") + newlines + F.when(F.endswith(text, F.lit("\n")), 0).otherwise(1)
    inside = F.filter("causes", lambda cause: (cause.cause_line >= F.col("line")) & (cause.cause_line < end_line))
    return F.get(inside, 0)


def what_of(fqn: Column) -> Column:
    """The name of a pipeline in the datalake, the same as ``chalicelib.ingestion.run_files.slug``."""
    letters = F.regexp_replace(F.lower(fqn), "[^a-z0-9_-]+", "_")
    name = F.substring(F.regexp_replace(letters, "^_+|_+$", ""), 1, NAME_CHARS)
    return F.when(name == "", "_").otherwise(name)


def bucket_of(what: Column, buckets: int) -> Column:
    """From the first 16 bits of the name's MD5, which every engine can compute: docs/dataset.md."""
    return F.pmod(F.conv(F.substring(F.md5(what), 1, 4), 16, 10).cast("int"), F.lit(buckets))


def _own_date(timestamp: Column) -> Column:
    date = F.to_date(timestamp)
    return F.when((date >= F.lit(FIRST_DAY).cast("date")) & (date < F.lit(END_DAY).cast("date")), date)
