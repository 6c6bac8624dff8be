"""The Spark session of a job: Glue's own on Glue, elsewhere a local one on all cores."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from glue_jobs.datasource import RunlakeDataSource

_PROJECT = Path(__file__).parents[2]
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(32 * 1024**2), "MALLOC_TRIM_THRESHOLD_": str(64 * 1024**2)}
"""For the processes that parse: glibc keeps the memory of a block for the next one. By default it returns arrays of a MiB to the system
and gets them anew, page by page, which takes a quarter of the time of parsing."""
_ALWAYS = {
    **{f"spark.executorEnv.{name}": size for name, size in _MALLOC.items()},
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
}
_ELSEWHERE = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",  # the job shows its own
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "16",
}


@contextmanager
def spark_session(name: str, conf: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A session in which ``format("runlake")`` is registered. ``conf`` overrides this module's settings; ``SPARK_CONF_DIR`` and
    the like work as usual."""
    builder = SparkSession.builder.appName(f"runlake {name}")
    for key, value in ({**_ALWAYS, **(conf or {})} if is_on_glue() else {**_ELSEWHERE, **_ALWAYS, **(conf or {})}).items():
        builder = builder.config(key, value)
    if not is_on_glue():
        builder = builder.master(os.environ.get("SPARK_MASTER", "local[*,4]"))
        _set_environment_of_workers()
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN" if is_on_glue() else "ERROR")
    session.dataSource.register(RunlakeDataSource)
    try:
        yield session
    finally:
        session.stop()


def is_on_glue() -> bool:
    """Whether this process runs on AWS Glue."""
    return any(name.startswith("GLUE_") for name in os.environ)


def _set_environment_of_workers() -> None:
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(_PROJECT), *([inherited] if inherited else [])])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for name, size in _MALLOC.items():
        os.environ.setdefault(name, size)
