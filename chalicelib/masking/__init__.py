"""Secrets are masked before a line is stored: which shapes are known, where they apply, what stands in their place (docs/masking.md)."""
