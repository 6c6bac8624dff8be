# Copied from chalicelib/masking/__init__.py by docs.generate.
"""Masks secrets in lines and events before they are stored: known shapes, configured values and their markers (docs/masking.md)."""
