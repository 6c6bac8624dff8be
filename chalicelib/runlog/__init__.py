"""The log of one run: numbered immutable segments, and the objects that hold their concatenation."""
