"""Measurements of the client."""
