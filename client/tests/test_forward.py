"""``runlake forward``: its checks before anything is sent; tests/integration/test_forwarding_over_http.py forwards."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import runlake_forwarding
from client.tests.fake_server import FakeServer
from client.tests.test_commands import call
from runlake.commands import forward
from runlake.names import RunName

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
        (RUN, {"kind": "cloudwatch", "group": "/g"}, "set AWS_DEFAULT_REGION"),
        (RUN, TARGET | {"headers_from": {"Authorization": "ssm:/es"}}, "set AWS_DEFAULT_REGION"),
        ((*RUN, "--target", "{tmp}/none"), TARGET, "cannot be read: file={tmp}/none"),
        ((*RUN, "--position", "{tmp}"), TARGET, "cannot be read: file={tmp}"),
        ((*RUN, "--position", "{tmp}/target.json"), TARGET, "not a position"),
        ((*RUN, "--position", "{tmp}/run-1"), TARGET, "of another run or target file={tmp}/run-1"),
        ((*RUN, "--position", "{tmp}/run-2"), TARGET | {"url": "http://127.0.0.1:8/"}, "of another run or target file={tmp}/run-2"),
        ((*RUN, "--position", "{tmp}/run-2"), ["not", "a target"], "should be an object"),
    ],
)
def test_nothing_is_sent_after_a_mistake(
    filled: FakeServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    target: Any,
    problem: str,
) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    (tmp_path / "target.json").write_text(json.dumps(target))
    for run_id in ("run-1", "run-2"):
        forward._Progress(tmp_path / run_id, RunName(RUN[0], run_id), json.dumps(TARGET)).save("1:")
    typed = [each.replace("{tmp}", str(tmp_path)) for each in arguments]
    result = call(filled, "forward", "--target", str(tmp_path / "target.json"), *typed)
    assert result.exit_code == 2 and problem.replace("{tmp}", str(tmp_path)) in result.output, result.output
    assert "next: " in result.output and "taken" not in result.output


def test_extra_that_is_not_installed_is_named(filled: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "runlake_forwarding", None)
    result = call(filled, "forward", *RUN, "--target", str(tmp_path))
    assert result.exit_code == 2 and "pip install ./forwarding './client[forward]'" in result.output


@pytest.mark.parametrize(
    ("stored", "target", "taken"),
    [
        (None, TARGET, None),
        ("1:\n{owner}\n", TARGET | {"headers": {"Authorization": "new"}}, "1:"),
    ],
)
def test_position_continues(tmp_path: Path, stored: str | None, target: Any, taken: str | None) -> None:
    run, path = RunName(*RUN), tmp_path / "position"
    forward._Progress(path, run, json.dumps(TARGET)).save("0:")
    owner = path.read_text().split("\n")[1]
    path.write_text((stored or "").replace("{owner}", owner))
    assert forward._Progress(path, run, json.dumps(target)).position == taken


@pytest.mark.parametrize(("more", "advice"), [((), "use --position"), (("--position", "{tmp}/p"), "the same --position")])
def test_interrupt_says_how_to_continue(
    filled: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], advice: str
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runlake_forwarding, "forward_run", interrupted)
    (tmp_path / "target.json").write_text(json.dumps(TARGET))
    typed = [each.replace("{tmp}", str(tmp_path)) for each in more]
    result = call(filled, "forward", "--target", str(tmp_path / "target.json"), *RUN, *typed)
    assert result.exit_code == 130 and "interrupted\nnext: " in result.output and advice in result.output
