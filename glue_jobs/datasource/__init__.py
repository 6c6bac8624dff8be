"""Runs as a data source of Spark: ``spark.dataSource.register(RunlakeDataSource)``, then ``spark.read.format("runlake")``.

Executors import this package, and of ``chalicelib`` what stands on the standard library and boto3 alone: ship both by ``--extra-py-files``.
How to use it: docs/spark.md. Why it is as it is: decision 0014.
"""

from glue_jobs.datasource.source import RunlakeDataSource

__all__ = ["RunlakeDataSource"]
