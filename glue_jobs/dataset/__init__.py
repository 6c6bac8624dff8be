"""The event dataset: Parquet files for any engine, and a ledger that lists the valid ones (docs/dataset.md)."""

from glue_jobs.dataset.contents import files

__all__ = ["files"]
