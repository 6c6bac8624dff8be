"""Processing pipelines over the archive: any ``logging.Handler``, configured by a file (CDAP's log framework; docs/pipelines.md)."""
