"""The runs that expire: explicit rows, and random ones compared with a plain model."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

import pytest
from chispa.dataframe_comparer import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from chalicelib.errors import InvalidInputError
from glue_jobs.transforms.retention import RUNS, expired
from glue_jobs.transforms.retention_rules import DAY_MS, Rules, read_rules

NOW_MS = 1_790_000_000_000
EXPIRED = StructType(
    [
        StructField("fqn", StringType(), False),
        StructField("run_id", StringType(), False),
        StructField("reason", StringType(), True),
        StructField("rule", IntegerType(), False),
        StructField("ended_ms", LongType(), False),
        StructField("bytes", LongType(), False),
        StructField("objects", LongType(), False),
        StructField("log_bytes", LongType(), False),
        StructField("tail", LongType(), False),
    ]
)


def run(fqn: str, run_id: str, age_days: float, size: int = 100, status: str = "finalized") -> Any:
    """A row of RUNS with this age of the newest object."""
    ended_ms = NOW_MS - int(age_days * DAY_MS)
    return fqn, run_id, status, ended_ms, size, 2, size, 1


def went(row: Any, reason: str, rule: int) -> Any:
    """The row of EXPIRED for a row of RUNS."""
    fqn, run_id, _, ended_ms, size, objects, log_bytes, tail = row
    return fqn, run_id, reason, rule, ended_ms, size, objects, log_bytes, tail


def frame(spark: SparkSession, rows: Sequence[Any]) -> DataFrame:
    return spark.createDataFrame(list(rows), RUNS)


def check(spark: SparkSession, rules: Rules, rows: Sequence[Any], wanted: Sequence[Any]) -> None:
    found = expired(frame(spark, rows), rules, NOW_MS)
    assert_df_equality(
        found, spark.createDataFrame(list(wanted), EXPIRED), ignore_row_order=True, ignore_nullable=True, ignore_column_order=False
    )


@pytest.mark.behavior("Retention rules limit age, number and size of the runs of a pattern.")
def test_by_age_number_and_size_each_for_itself(spark: SparkSession) -> None:
    rules = read_rules(
        '{"rules": [{"fqn": "old.*", "keep_days": 10}, {"fqn": "many.*", "keep_runs": 2}, {"fqn": "big.*", "keep_bytes": 250}]}'
    )
    rows = [
        run("old.p", "a", 10), run("old.p", "b", 10.01),
        run("many.p", "a", 2), run("many.p", "b", 3), run("many.p", "c", 4), run("many.q", "a", 9),
        run("big.p", "a", 2), run("big.p", "b", 3), run("big.p", "c", 4), run("big.p", "d", 5, size=1), run("big.q", "a", 2, size=999),
    ]  # fmt: skip
    gone = [went(rows[1], "age", 0), went(rows[4], "count", 1), went(rows[8], "size", 2), went(rows[9], "size", 2)]
    check(spark, rules, rows, gone)


def test_the_first_limit_that_is_broken_is_the_reason(spark: SparkSession) -> None:
    rules = read_rules('{"default": {"keep_days": 5, "keep_runs": 1, "keep_bytes": 1}}')
    rows = [run("p", "a", 2), run("p", "b", 3), run("p", "c", 6)]
    check(spark, rules, rows, [went(rows[1], "count", -1), went(rows[2], "age", -1)])


def test_the_first_rule_that_is_like_the_name_is_the_rule_and_without_one_nothing_goes(spark: SparkSession) -> None:
    rules = read_rules(
        '{"rules": [{"fqn": "a.keep", "keep_all": true}, {"fqn": "a.*", "keep_days": 3}, {"fqn": "?.b(c", "keep_days": 3}]}'
    )
    rows = [
        run("a.keep", "r", 99),
        run("a.other", "r", 99),
        run("A.other", "r", 99),
        run("x.b(c", "r", 99),
        run("xa.other", "r", 99),
    ]
    check(spark, rules, rows, [went(rows[1], "age", 1), went(rows[3], "age", 2)])


def test_a_pattern_is_of_the_whole_name_and_its_other_letters_stand_for_themselves(spark: SparkSession) -> None:
    rules = read_rules('{"rules": [{"fqn": "a.b*c", "keep_days": 3}]}')
    rows = [run(name, "r", 99) for name in ("a.bc", "a.b/ü \n$c", "axbc", "a.bcd", "xa.bc", "a.bc\n")]
    check(spark, rules, rows, [went(row, "age", 0) for row in rows[:2]])


def test_open_runs_stay_and_count_among_the_newest(spark: SparkSession) -> None:
    rules = read_rules('{"default": {"keep_runs": 2, "keep_bytes": 1000000}}')
    rows = [run("p", "a", 2, status="open"), run("p", "b", 3), run("p", "c", 4, status="open"), run("p", "d", 5)]
    check(spark, rules, rows, [went(rows[3], "count", -1)])


@pytest.mark.behavior("Retention deletes no run that is younger than the grace period.")
def test_nothing_younger_than_the_grace_period_goes_whatever_the_rules_say(spark: SparkSession) -> None:
    rules = read_rules('{"default": {"keep_runs": 1, "keep_days": 0.01}, "grace_days": 2}')
    rows = [run("p", str(number), age) for number, age in enumerate((0, 1, 1.9999, 2, 2.5))]
    check(spark, rules, rows, [went(row, "age", -1) for row in rows[3:]])


def test_runs_of_one_second_have_an_order_too(spark: SparkSession) -> None:
    rules = read_rules('{"default": {"keep_runs": 1}}')
    rows = [run("p", "a", 3), run("p", "c", 3), run("p", "b", 3)]
    check(spark, rules, rows, [went(rows[0], "count", -1), went(rows[2], "count", -1)])


def model(rows: Sequence[Any], rules: Rules) -> set[tuple[str, str, str]]:
    """The same result, computed without DataFrames."""
    gone = set()
    for row in rows:
        fqn, run_id, status, ended_ms, *_ = row
        keep = rules.default
        for rule in reversed(rules.rules):
            pattern = "".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in rule.fqn)
            keep = rule if re.fullmatch(pattern, fqn, re.DOTALL) else keep
        if keep is None or status == "open" or NOW_MS - ended_ms < rules.grace_days * DAY_MS:
            continue
        newer = [other for other in rows if other[0] == fqn and (other[3], other[1]) > (ended_ms, run_id)]
        if keep.keep_days is not None and NOW_MS - ended_ms > keep.keep_days * DAY_MS:
            gone.add((fqn, run_id, "age"))
        elif keep.keep_runs is not None and len(newer) >= keep.keep_runs:
            gone.add((fqn, run_id, "count"))
        elif keep.keep_bytes is not None and newer and sum(other[4] for other in newer) + row[4] > keep.keep_bytes:
            gone.add((fqn, run_id, "size"))
    return gone


@pytest.mark.parametrize("seed", range(4))
def test_random_runs_and_rules_as_the_model_has_it(spark: SparkSession, seed: int) -> None:
    chance = random.Random(seed)
    print(f"seed={seed}")

    def keep() -> dict[str, Any]:
        limits = {"keep_days": chance.randint(1, 30), "keep_runs": chance.randint(1, 8), "keep_bytes": chance.randint(1, 900)}
        return dict(chance.sample(sorted(limits.items()), chance.randint(1, 3))) if chance.random() < 0.9 else {"keep_all": True}

    patterns = ["a.*", "*.b", "?.c", "a.b", "*", "b.c*"]
    rules = Rules.model_validate(
        {
            "rules": [{"fqn": pattern, **keep()} for pattern in chance.sample(patterns, chance.randint(0, 4))],
            "default": keep() if chance.random() < 0.7 else None,
            "grace_days": chance.choice([0.5, 1, 5]),
        }
    )
    names = [f"{one}.{other}" for one in "abc" for other in ("b", "c", "cc")]
    rows = [
        run(chance.choice(names), f"{number:03}", chance.randint(0, 80) / 2, chance.randint(0, 300), chance.choice(["finalized"] * 4 + ["open"]))
        for number in range(300)
    ]  # fmt: skip
    found = expired(frame(spark, rows), rules, NOW_MS).collect()
    wanted = model(rows, rules)
    assert len(found) == len({(row.fqn, row.run_id) for row in found})
    assert {(row.fqn, row.run_id, row.reason) for row in found} == wanted


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "rules: Invalid JSON"),
        ('{"grace_days": 0.01}', "grace_days: Input should be greater than or equal to 0.0138"),
        ('{"default": {}}', "default: Value error, give keep_days, keep_runs or keep_bytes, or keep_all alone"),
        ('{"default": {"keep_all": true, "keep_runs": 1}}', "or keep_all alone"),
        ('{"rules": [{"fqn": "", "keep_runs": 1}]}', "rules.0.fqn: String should have at least 1 character"),
        ('{"rules": [{"fqn": "a", "keep_runs": 0}]}', "rules.0.keep_runs: Input should be greater than or equal to 1, not 0"),
        ('{"rules": [{"fqn": "a", "keep_day": 1}]}', "rules.0.keep_day: Extra inputs are not permitted"),
        ('{"rules": [{"keep_days": 1}]}', "rules.0.fqn: Field required"),
        ('{"default": {"keep_days": 0}}', "default.keep_days: Input should be greater than 0"),
        ('{"default": {"keep_bytes": "10GB"}}', "default.keep_bytes: Input should be a valid integer"),
    ],
)
def test_invalid_rules_name_their_field(text: str, told: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        read_rules(text)
    assert told in str(raised.value)
