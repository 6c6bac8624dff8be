"""Commands of this machine end in one line: interrupted, or told something that cannot work."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from bench import lines as bench_lines
from bench import spark_files
from glue_jobs.job_runtime.interruption import run_interruptible
from local import __main__ as local_commands
from local import control, demo, jobs, serve, state
from local.terminal import show

PROJECT = Path(__file__).parents[2]


def interrupted(*_: object, **__: object) -> Any:
    raise KeyboardInterrupt


# Stopping


def test_interrupted_command_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(control, "up", interrupted)
    assert local_commands.main(["up"]) == 130
    assert capsys.readouterr() == ("", "runlake: stopped\n")


def test_interrupted_demo_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(control, "up", interrupted)
    monkeypatch.setattr("sys.argv", ["demo", "--port", "4999"])
    assert demo.main() == 130
    assert capsys.readouterr().err == "runlake: stopped\n"


class FakeEmulator:
    """Is told to stop at a moment of its life, and again while it is being stopped."""

    endpoint_url = ""
    moment = ""

    def __init__(self, *_: object) -> None:
        self.stops = 0
        started.append(self)
        self._reach("starting")

    def wait_until_healthy(self) -> None:
        self._reach("waiting")

    def stop(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        self.stops += 1

    def _reach(self, moment: str) -> None:
        if moment == self.moment:
            os.kill(os.getpid(), signal.SIGTERM)


started: list[FakeEmulator] = []


@pytest.fixture
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("moment", ["starting", "waiting", "deploying"])
def test_stack_that_is_stopped_before_it_serves_leaves_no_emulator(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, handlers: None, moment: str
) -> None:
    """SIGTERM, as ``make down`` and an interrupted ``make up`` send it."""

    def deploy(*_: object) -> dict[str, Any]:
        if moment == "deploying":
            os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("not interrupted")

    started.clear()
    monkeypatch.setattr(state, "ROOT", tmp_path)
    monkeypatch.setattr(serve, "_listen", lambda _: nullcontext())
    monkeypatch.setattr(serve, "Emulator", FakeEmulator)
    monkeypatch.setattr(serve, "choose_port", lambda port: port)
    monkeypatch.setattr(FakeEmulator, "moment", moment)
    monkeypatch.setattr(serve, "deploy", deploy)
    with pytest.raises(KeyboardInterrupt):
        serve.serve(4999, {}, private=True)
    assert [emulator.stops for emulator in started] == [1]
    assert state.StackFolder(4999).running_pid() is None


class FakeJob:
    """A process that does not end at once."""

    def __init__(self, *waits: BaseException | int) -> None:
        self.waits, self.kills = list(waits), 0

    def __enter__(self) -> FakeJob:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self, timeout: float | None = None) -> int:
        answer = self.waits.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def kill(self) -> None:
        self.kills += 1


@pytest.mark.parametrize(
    ("waits", "kills"),
    [
        ((KeyboardInterrupt(), 130), 0),
        ((KeyboardInterrupt(), KeyboardInterrupt()), 1),
        ((KeyboardInterrupt(), subprocess.TimeoutExpired("job", 1)), 1),
    ],
)
def test_interrupted_job_is_waited_for(monkeypatch: pytest.MonkeyPatch, waits: Any, kills: int) -> None:
    job = FakeJob(*waits)
    names = ("stack_name", "aws_endpoint_url", "region", "aws_access_key_id", "aws_secret_access_key")
    monkeypatch.setattr(jobs, "read_stack_description", lambda _: dict.fromkeys(names, "x"))
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: job)
    assert jobs.run_job("backfill", 4566, []) == 130
    assert (job.waits, job.kills) == ([], kills)


def test_interrupted_job_says_that_it_can_be_run_again(capsys: pytest.CaptureFixture[str]) -> None:
    root, printed = logging.getLogger(), StringIO()
    handler, before = logging.StreamHandler(printed), list(root.filters)
    root.addHandler(handler)

    def main() -> int:
        try:
            interrupted()
        except KeyboardInterrupt:
            logging.exception("KeyboardInterrupt while sending command.")  # as py4j does
            raise
        return 0

    try:
        assert run_interruptible("backfill", main) == 130
        assert run_interruptible("backfill", lambda: 2) == 2
    finally:
        root.removeHandler(handler)
        root.filters[:] = before
    assert (capsys.readouterr().err, printed.getvalue()) == ("backfill: stopped, run it again\n", "")


@pytest.mark.parametrize(
    "path",
    [path for path in sorted((PROJECT / "glue_jobs").glob("*.py")) if "def main(" in path.read_text()],
    ids=lambda path: path.stem,
)
def test_each_job_can_be_interrupted(path: Path) -> None:
    assert path.read_text().endswith('if __name__ == "__main__":\n    sys.exit(run_interruptible(NAME, main))\n')


# What cannot work


@pytest.mark.parametrize("port", ["0", "65536", "80000", "-1", "web", "²"])
def test_port_outside_of_the_range_is_refused(capsys: pytest.CaptureFixture[str], port: str) -> None:
    with pytest.raises(SystemExit) as caught:
        local_commands.main(["up", f"--port={port}"])
    assert caught.value.code == 2
    assert f"a port must be a number from 1 to 65535: {port}\n" in capsys.readouterr().err


@pytest.mark.parametrize("main", [bench_lines.main, spark_files.main], ids=["lines", "spark_files"])
def test_measured_log_that_is_missing_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], main: Any
) -> None:
    monkeypatch.setattr("sys.argv", ["x", "/no/such/log"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2 and "/no/such/log" in capsys.readouterr().err


def test_line_is_printed_by_one_write() -> None:
    """Threads print at the same time."""

    writes: list[str] = []

    class Output(StringIO):
        def write(self, text: str) -> int:
            writes.append(text)
            return len(text)

    show("one", file=Output())
    assert [text for text in writes if text] == ["one\n"]


def test_up_prints_the_addresses_of_the_api_and_of_the_viewer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    description = {"api_url": "http://127.0.0.1:4566/api", "aws_endpoint_url": "http://127.0.0.1:4567"}
    monkeypatch.setattr(control, "up", lambda *_, **__: description)
    assert local_commands.main(["up"]) == 0
    printed = capsys.readouterr().out
    assert "up at http://127.0.0.1:4566/api," in printed
    assert "in a browser: http://127.0.0.1:4566/api/v1/ui/\n" in printed
