"""What ``rebuild_catalog`` is made of: rows compared with S3, and put right."""
