"""The log of one run: numbered, immutable segments, and the artifacts that concatenate them."""
