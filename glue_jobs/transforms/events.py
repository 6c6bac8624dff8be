"""Events as the dataset has them: with the pipeline's name in the datalake, and the partition that each belongs to."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, IntegerType, StringType, StructField, StructType

from glue_jobs.datasource.schema import EVENTS, schema_of

FIRST_DAY, END_DAY = "2000-01-01", "2100-01-01"
"""A stamp outside of these is a mistake, and no partition: what asks for all days would have to look at each."""
NAME_CHARS = 256
PARTITIONS = ("date", "what_bucket")
ORDER = ("what", "fqn", "timestamp", "run_id", "line")
"""Of rows within a file."""

ARRIVALS = StructType(
    [StructField("fqn", StringType(), False), StructField("run_id", StringType(), False), StructField("arrived", DateType(), False)]
)
"""The day when a run's log was first met: where events without a time belong."""

DATASET = StructType(
    [
        *schema_of(EVENTS).fields,
        StructField("what", StringType(), False),
        StructField("date", DateType(), False),
        StructField("what_bucket", IntegerType(), False),
    ]
)


def dataset_rows(events: DataFrame, arrivals: DataFrame, buckets: int) -> DataFrame:
    """Events (``schema_of(EVENTS)``) with ``what``, ``date`` (UTC, of the event; without a time that can be right, of its run's arrival)
    and ``what_bucket`` (0 to ``buckets`` - 1). Depends on nothing but an event and its run: not on what else is read with it."""
    names = schema_of(EVENTS).names
    own_date = _own_date(F.col("timestamp"))
    # Only an event without a date of its own looks for its run: the others have no key.
    keys = {f"arrived_{name}": F.when(own_date.isNull(), F.col(name)) for name in ("fqn", "run_id")}
    days = arrivals.select(*(F.col(name).alias(f"arrived_{name}") for name in ("fqn", "run_id")), "arrived")
    what = what_of(F.col("fqn"))
    return (
        events.withColumns(keys)
        .join(F.broadcast(days), list(keys), "left")
        .select(
            *names,
            what.alias("what"),
            F.coalesce(own_date, "arrived").alias("date"),
            bucket_of(what, buckets).alias("what_bucket"),
        )
    )


def what_of(fqn: Column) -> Column:
    """The name of a pipeline in the datalake, as ``chalicelib.ingestion.run_files.slug`` makes it."""
    letters = F.regexp_replace(F.lower(fqn), "[^a-z0-9_-]+", "_")
    name = F.substring(F.regexp_replace(letters, "^_+|_+$", ""), 1, NAME_CHARS)
    return F.when(name == "", "_").otherwise(name)


def bucket_of(what: Column, buckets: int) -> Column:
    """Of the first 16 bits of the name's MD5, for every engine has that: docs/dataset.md."""
    return F.pmod(F.conv(F.substring(F.md5(what), 1, 4), 16, 10).cast("int"), F.lit(buckets))


def _own_date(timestamp: Column) -> Column:
    date = F.to_date(timestamp)
    return F.when((date >= F.lit(FIRST_DAY).cast("date")) & (date < F.lit(END_DAY).cast("date")), date)
