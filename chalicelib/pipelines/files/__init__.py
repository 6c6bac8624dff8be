"""Files that pipelines write on S3: grouped by application, rolled, listed by rows, read together, let go and mended (docs/pipeline-files.md)."""
