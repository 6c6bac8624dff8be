"""``runlake forward``: its checks before anything is sent; tests/integration/test_forwarding_over_http.py forwards."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from client.tests.fake_server import FakeServer
from client.tests.test_commands import call

RUN = ("nightly.orders", "run-2")
TARGET = {"kind": "logstash", "url": "http://127.0.0.1:9/"}


@pytest.fixture
def filled(server: FakeServer) -> FakeServer:
    server.add(*RUN, b"line 1\n", close=True)
    return server


@pytest.mark.parametrize(
    ("arguments", "target", "problem"),
    [
        (("nightly.orders", "nosuch"), TARGET, "no such"),
        (("nightly.orders", "nosuch", "--follow"), TARGET, "no such"),
        (RUN, {"kind": "otlp", "url": "ftp://h"}, "field=otlp.url"),
        ((*RUN, "--target", "{tmp}/none"), TARGET, "cannot be read: file={tmp}/none"),
        ((*RUN, "--position", "{tmp}"), TARGET, "cannot be read: file={tmp}"),
        ((*RUN, "--position", "{tmp}/target.json"), TARGET, "not a position"),
    ],
)
def test_nothing_is_sent_after_a_mistake(
    filled: FakeServer, tmp_path: Path, arguments: tuple[str, ...], target: Any, problem: str
) -> None:
    (tmp_path / "target.json").write_text(json.dumps(target))
    typed = [each.replace("{tmp}", str(tmp_path)) for each in arguments]
    result = call(filled, "forward", "--target", str(tmp_path / "target.json"), *typed)
    assert result.exit_code == 2 and problem.replace("{tmp}", str(tmp_path)) in result.output, result.output
    assert "next: " in result.output and "taken" not in result.output


def test_extra_that_is_not_installed_is_named(filled: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "runlake_forwarding", None)
    result = call(filled, "forward", *RUN, "--target", str(tmp_path))
    assert result.exit_code == 2 and "pip install 'runlake-client[forward]'" in result.output
