"""Runs to expire, with reasons: from a DataFrame of all runs."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructField, StructType

from glue_jobs.transforms.retention_rules import DAY_MS, Keep, Rules

FINALIZED, OPEN = "finalized", "open"
AGE, COUNT, SIZE = "age", "count", "size"
DEFAULT_RULE = -1

RUNS = StructType(
    [
        StructField("fqn", StringType(), False),
        StructField("run_id", StringType(), False),
        StructField("status", StringType(), False),
        StructField("ended_ms", LongType(), False),
        StructField("bytes", LongType(), False),
        StructField("objects", LongType(), False),
        StructField("log_bytes", LongType(), False),
        StructField("tail", LongType(), False),
    ]
)
"""One row for each run, from the bucket's listing. ``status``: finalized, or open (compaction still has work). ``ended_ms``: time
of the last write to the log, by S3's clock. ``bytes`` of all objects; ``log_bytes`` of logs.txt, and ``tail`` the highest segment
number: -1 if there is none."""

EXPIRED = ("fqn", "run_id", "reason", "rule", "ended_ms", "bytes", "objects", "log_bytes", "tail")
_RULES = StructType(
    [
        StructField("rule", IntegerType(), False),
        StructField("keep_days", DoubleType(), True),
        StructField("keep_runs", LongType(), True),
        StructField("keep_bytes", LongType(), True),
    ]
)


def expired(runs: DataFrame, rules: Rules, now_ms: int) -> DataFrame:
    """The runs to expire: columns EXPIRED, ``reason`` age, count or size (the first that applies), ``rule`` by its index,
    DEFAULT_RULE for the default. Running runs count among the newest and never expire."""
    newest_first = Window.partitionBy("fqn").orderBy(F.desc("ended_ms"), F.desc("run_id"))
    ranked = (
        runs.select(*RUNS.fieldNames())
        .withColumn("place", F.row_number().over(newest_first))
        .withColumn("bytes_up_to", F.sum("bytes").over(newest_first.rowsBetween(Window.unboundedPreceding, Window.currentRow)))
        .withColumn("rule", _rule_of(F.col("fqn"), rules))
    )
    judged = ranked.join(F.broadcast(_limits(runs, rules)), "rule", "left").withColumn("reason", _reason(rules, now_ms))
    return judged.where(F.col("reason").isNotNull()).select(*EXPIRED)


def _rule_of(fqn: Column, rules: Rules) -> Column:
    """The first rule whose pattern matches."""
    chosen = [F.when(fqn.rlike(rule.expression), F.lit(number)) for number, rule in enumerate(rules.rules)]
    return F.coalesce(*chosen, F.lit(DEFAULT_RULE))


def _limits(runs: DataFrame, rules: Rules) -> DataFrame:
    keeps: dict[int, Keep] = dict(enumerate(rules.rules)) | ({DEFAULT_RULE: rules.default} if rules.default else {})
    rows = [(number, keep.keep_days, keep.keep_runs, keep.keep_bytes) for number, keep in keeps.items()]
    return runs.sparkSession.createDataFrame(rows, _RULES)


def _reason(rules: Rules, now_ms: int) -> Column:
    may_go = (F.col("status") == FINALIZED) & (F.col("ended_ms") <= now_ms - rules.grace_ms)
    is_too_old = F.col("ended_ms") < now_ms - F.col("keep_days") * DAY_MS
    is_one_too_many = F.col("place") > F.col("keep_runs")
    does_not_fit = (F.col("place") > 1) & (F.col("bytes_up_to") > F.col("keep_bytes"))
    return F.when(may_go & is_too_old, AGE).when(may_go & is_one_too_many, COUNT).when(may_go & does_not_fit, SIZE)
