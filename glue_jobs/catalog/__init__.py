"""Parts of the job ``rebuild_catalog``: compares rows with S3 and repairs them."""
