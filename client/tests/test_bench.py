"""A small run of the benchmark of ``exec``: its sink answers as the archive does."""

from __future__ import annotations

import pytest

from client.bench import big_output


@pytest.mark.parametrize("options", [[], ["--away"]], ids=["up", "away"])
def test_benchmark_of_exec_archives_all_bytes(
    options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["big_output", "--gib", "0.002", *options])
    monkeypatch.setenv("PYTHONPATH", "client/src")
    assert big_output.main() == 0
    assert "whole: True" in capsys.readouterr().out
