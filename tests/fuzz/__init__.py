"""Fuzzing of decoders: ``make fuzz``. Interesting inputs are stored in ``corpus`` and replayed by the tests."""
