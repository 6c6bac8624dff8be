"""The files of a dataset at one commit, for readers that must not see a publication in progress."""

from __future__ import annotations

from glue_jobs.dataset.destination import destination
from glue_jobs.dataset.ledger import Ledger
from glue_jobs.dataset.publication import Publisher


def files(uri: str) -> list[str]:
    """URIs of a dataset's files at one commit, for ``spark.read.option("basePath", f"{uri}/data").parquet(*…)`` or DuckDB's
    ``read_parquet([…], hive_partitioning = true)``. Needs read access only. A later rewrite may remove some of them: if one is
    not found, call this again. Requests: a GET for each entry since the last checkpoint (at most 16), and a LIST."""
    dataset = destination(uri)
    visible = Publisher(dataset, Ledger(dataset)).visible()
    return [f"{dataset.uri}/{path}" for path in sorted(visible.files)]
