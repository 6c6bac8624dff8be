"""Files that pipelines write on S3: grouped by application, rolled, indexed by rows, read as one stream, expired and repaired
(docs/pipeline-files.md).
"""
