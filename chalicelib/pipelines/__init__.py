"""Log pipelines: deliver events of archived runs to any ``logging.Handler``, configured by a file (CDAP's log framework;
docs/pipelines.md).
"""
