"""Decoders fed with anything: ``make fuzz``. What was interesting is kept in ``corpus`` and replayed by the tests."""
