"""Removal of runs from everything that stores something of them."""
