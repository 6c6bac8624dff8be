"""Options for the JVMs of Spark that tests start, and for their Python processes.

Each JVM lives for seconds, so it compiles little and loads its classes from an archive. Spark puts its own archives first on the path of
each Python process: PySpark is compiled from ``pyspark.zip`` at each start, and each task reads the archives' directories again. Here
these processes import PySpark as installed.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

ARCHIVE = Path(sys.prefix, "spark-classes.jsa")
_SHORT_LIFE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SESSION = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.range(100).selectExpr("id % 7 AS k").groupBy("k").count().collect()
spark.stop()
"""
_CREATE_S = 300
_PYTHON = Path(sys.prefix, "spark-python")
_WITHOUT_ARCHIVES = r"""#!/bin/sh
PYTHONPATH=$(printf %s "$PYTHONPATH" | tr : '\n' | grep -v -e '[.]zip$' -e '[.]jar$' | paste -s -d : -)
export PYTHONPATH
exec "${0%/*}/bin/python" "$@"
"""


def use_installed_pyspark() -> None:
    """Set the Python of Spark for this process and its children, unless one is set."""
    if "PYSPARK_PYTHON" not in os.environ:
        draft = _PYTHON.with_suffix(f".{os.getpid()}")
        draft.write_text(_WITHOUT_ARCHIVES)
        draft.chmod(0o755)
        draft.replace(_PYTHON)
        os.environ["PYSPARK_PYTHON"] = str(_PYTHON)


def use_short_lived_jvms() -> None:
    """Set the options for this process and its children. Processor time of a small job: 17.0 s without them, 6.0 with.

    The archive is created once for a virtual environment, in about 16 s. A JVM that cannot use it ignores it.
    """
    if "JDK_JAVA_OPTIONS" in os.environ:
        return
    _create_archive()
    os.environ["JDK_JAVA_OPTIONS"] = f"{_SHORT_LIFE} -XX:SharedArchiveFile={ARCHIVE}"


def _create_archive() -> None:
    with open(f"{ARCHIVE}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if ARCHIVE.exists():
            return
        options = f"{_SHORT_LIFE} -XX:ArchiveClassesAtExit={ARCHIVE} -Xlog:cds=off -Xlog:cds+dynamic=off"
        environment = os.environ | {"JDK_JAVA_OPTIONS": options, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        subprocess.run([sys.executable, "-c", _SESSION], env=environment, capture_output=True, timeout=_CREATE_S, check=False)
