"""The rows of the dataset: events with their pipeline's name in the datalake, and their partition."""

from __future__ import annotations

from pyspark.sql.types import DateType, DoubleType, IntegerType, LongType, StringType, StructField, StructType

from glue_jobs.datasource.schema import EVENTS, schema_of

FIRST_DAY, END_DAY = "2000-01-01", "2100-01-01"
"""A timestamp outside of these days is wrong and makes no partition: a query of all days would list each of them."""
PARTITIONS = ("date", "what_bucket")
ORDER = ("what", "fqn", "timestamp", "run_id", "line")
"""Sort order of rows in a file."""

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

DATASET = StructType(
    [
        *(StructField(each.name, each.dataType, each.nullable or each.name == "raw") for each in schema_of(EVENTS).fields),
        StructField("what", StringType(), False),
        *CAUSE.fields,
        StructField("raw_head", StringType()),
        StructField("date", DateType(), False),
        StructField("what_bucket", IntegerType(), False),
    ]
)
"""``raw_head``: the event's text before its message. Where the text is this, the message and a newline, ``raw`` is null."""
