"""What a dataset has, for readers that cannot have a publication come between."""

from __future__ import annotations

from glue_jobs.dataset.destination import destination
from glue_jobs.dataset.ledger import Ledger
from glue_jobs.dataset.publication import Publisher


def files(uri: str) -> list[str]:
    """The addresses of a dataset's files as one commit has left them, for ``spark.read.option("basePath", f"{uri}/data").parquet(*…)``
    or DuckDB's ``read_parquet([…], hive_partitioning = true)``. Needs read access only. A rewrite may remove some of them later: ask
    again when one is not found. Some requests: a GET for each entry since the last checkpoint (16), and a LIST."""
    dataset = destination(uri)
    visible = Publisher(dataset, Ledger(dataset)).visible()
    return [f"{dataset.uri}/{path}" for path in sorted(visible.files)]
