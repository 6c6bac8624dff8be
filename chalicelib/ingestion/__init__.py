"""Ingestion: turns S3 notifications into catalog rows and reports."""
