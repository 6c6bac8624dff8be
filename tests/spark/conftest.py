"""One Spark session and one bucket for all tests of this folder. Select them with ``-m spark``, exclude them with ``-m "not
spark"``."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from bench.spark_bucket import BucketServer
from bench.stored_runs import Bucket
from glue_jobs.datasource import RunlakeDataSource

PROJECT = Path(__file__).parents[2]
Read = Callable[..., DataFrame]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "spark: needs PySpark, and a Java 17 where it starts a session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = f"{Path(__file__).parent}/"
    for item in items:
        if str(item.path).startswith(folder):
            item.add_marker(pytest.mark.spark)
            for category in ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning"):
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{category}"))


@pytest.fixture(autouse=True, scope="module")
def collected() -> Iterator[None]:
    """Py4J leaves its sockets to the garbage collector. Collect them here, not during another module's test."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def server() -> Iterator[BucketServer]:
    running = BucketServer()
    yield running
    running.stop()


@pytest.fixture
def bucket(server: BucketServer) -> Bucket:
    """An empty bucket, with methods that fill it."""
    server.empty()
    return Bucket(server)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two threads and little memory. Workers find the project where the tests do."""
    os.environ["PYTHONPATH"] = str(PROJECT)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from Spark's start
        session = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.memory", "1g")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.python.filterPushdown.enabled", "true")
            .getOrCreate()
        )
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(RunlakeDataSource)
    yield session
    session.stop()


@pytest.fixture
def read(spark: SparkSession, bucket: Bucket) -> Read:
    """A DataFrame of the bucket's runs; options by name."""

    def dataframe(schema: str | None = None, **options: str) -> DataFrame:
        reader = spark.read.format("runlake").options(**{**bucket.options, **options})
        return (reader.schema(schema) if schema else reader).load()

    return dataframe
