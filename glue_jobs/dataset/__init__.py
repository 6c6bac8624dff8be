"""The event dataset: Parquet files that any engine reads, and a ledger that says which of them are in it (docs/dataset.md)."""

from glue_jobs.dataset.contents import files

__all__ = ["files"]
