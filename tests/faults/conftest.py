"""Fixtures of the tests that stop operations at their store calls."""

from __future__ import annotations

import pytest


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3's smallest part of an upload is 5 KiB instead of 5 MiB, so that a log of some KiB is compacted as a large one is."""
    for name in ("chalicelib.runlog.multipart_plan.MIN_PART_BYTES", "tests.support.object_store.MIN_PART_BYTES"):
        monkeypatch.setattr(name, 5 * 1024)
    monkeypatch.setattr("chalicelib.runlog.multipart_plan.GATHER_BYTES", 8 * 1024)
