"""Runs as a Spark data source: ``spark.dataSource.register(RunlakeDataSource)``, then ``spark.read.format("runlake")``.

Executors import this package, and modules of ``chalicelib`` that need only the standard library and boto3: ship both with
``--extra-py-files``. Usage: docs/spark.md. Design: decision 0014.
"""

from glue_jobs.datasource.source import RunlakeDataSource

__all__ = ["RunlakeDataSource"]
