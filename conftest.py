"""What holds for all tests: Hypothesis asserts no time, for the machine may have other work."""

from hypothesis import settings

settings.register_profile("untimed", settings(), deadline=None)
settings.load_profile("untimed")
