"""What holds for all tests: Hypothesis asserts no time, for the machine may have other work; files that take minutes begin first."""

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("untimed", settings(), deadline=None)
settings.load_profile("untimed")

_TESTS = Path(__file__).parent / "tests"
_LONG = (_TESTS / "spark", _TESTS / "integration", _TESTS / "browser")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One that would begin last would be waited for by the other workers. Sorting is stable: a file's order is kept."""
    items.sort(key=lambda item: not any(folder in item.path.parents for folder in _LONG))
