"""Counts of problems and requests in Spark's workers. A data source cannot return them to its caller; a job that plans its reads can."""

from __future__ import annotations

from collections import Counter

from pyspark import AccumulatorParam, SparkContext
from pyspark.accumulators import Accumulator

Tally = Accumulator[Counter[str]]


class _Counters(AccumulatorParam[Counter[str]]):
    def zero(self, value: Counter[str]) -> Counter[str]:
        return Counter()

    def addInPlace(self, value1: Counter[str], value2: Counter[str]) -> Counter[str]:
        value1.update(value2)
        return value1


def tally(context: SparkContext) -> Tally:
    """A counter for workers. A task that Spark repeats is counted again."""
    return context.accumulator(Counter(), _Counters())
