"""``runlake.run``: a block of code is a run."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
import structlog

import runlake
from client.tests.fake_server import FakeServer
from runlake import ArchivedLoggerFactory, Settings

_SRC = Path(__file__).parents[1] / "src"


def test_a_block_is_a_run(server: FakeServer, settings: Settings) -> None:
    logger = logging.Logger("app")
    with runlake.run("p", "r", logger=logger, settings=settings) as run:
        logger.info("logged")
        run.write("written")
        run.write("two\nlines\n")
    lines = server.lines("p", "r")
    assert lines[0].endswith(b"INFO app: logged") and lines[1:] == [b"written", b"two", b"lines"]
    assert server.runs["p", "r"].closed
    assert logger.handlers == []


def test_ids_are_made_up(settings: Settings) -> None:
    with runlake.run("p", settings=settings) as one, runlake.run("p", settings=settings) as two:
        assert one.name.run_id != two.name.run_id


def test_an_exception_is_archived_and_goes_on(server: FakeServer, settings: Settings) -> None:
    with pytest.raises(ZeroDivisionError), runlake.run("p", "r", logger=None, settings=settings):
        _ = 1 / 0
    text = b"\n".join(server.lines("p", "r"))
    assert b" ERROR runlake: the run ended by an exception\nTraceback" in text
    assert text.endswith(b"ZeroDivisionError: division by zero")
    assert server.runs["p", "r"].closed


def test_prints_are_captured_and_printed(server: FakeServer, settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    with runlake.run("p", "r", logger=None, settings=settings) as run:
        with run.capture_prints(stderr=True):
            print("one", "two")
            print("err", file=sys.stderr)
            print("begun", end="")
            other = threading.Thread(target=lambda: print("whole"))
            other.start()
            other.join()
            print(" and ended")
            print("last", end="")
        print("outside")
    assert server.lines("p", "r") == [b"one two", b"err", b"whole", b"begun and ended", b"last"]
    assert capsys.readouterr().out == "one two\nbegunwhole\n and ended\nlastoutside\n"


def test_structlog_by_a_processor(server: FakeServer, settings: Settings) -> None:
    with runlake.run("p", "r", logger=None, settings=settings) as run:
        rendered: list[str] = []
        processors = [
            runlake.processor(run.handler),
            structlog.processors.KeyValueRenderer(),
            lambda *a: rendered.append(a[2]) or "",
        ]
        structlog.wrap_logger(structlog.ReturnLogger(), processors=processors).warning("hello", path=Path("x"), n=1)
    (line,) = server.lines("p", "r")
    assert json.loads(line) == {"level": "warning", "event": "hello", "path": repr(Path("x")), "n": 1}
    assert "event='hello'" in rendered[0]


def test_structlog_by_a_factory(server: FakeServer, settings: Settings) -> None:
    with runlake.run("p", "r", logger=None, settings=settings) as run:
        logger = structlog.wrap_logger(ArchivedLoggerFactory(run.handler)(), processors=[structlog.processors.JSONRenderer()])
        logger.info("hello", n=1)
    assert server.lines("p", "r") == [b'{"n": 1, "event": "hello"}']


def _in_child(number: int) -> None:
    logging.getLogger("forked").warning("child %d", number)


def test_after_a_fork_each_process_ships_its_own_lines(server: FakeServer, settings: Settings) -> None:
    logger = logging.getLogger("forked")
    with runlake.run("p", "r", logger=logger, settings=settings), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, which this tests
        logger.warning("parent before")
        children = [multiprocessing.get_context("fork").Process(target=_in_child, args=(number,)) for number in range(3)]
        for child in children:
            child.start()
        for child in children:
            child.join()
        logger.warning("parent after")
    said = sorted(line.decode().split(": ")[1] for line in server.lines("p", "r"))
    assert said == ["child 0", "child 1", "child 2", "parent after", "parent before"]
    assert [child.exitcode for child in children] == [0, 0, 0]
    assert server.runs["p", "r"].closed


def test_forked_process_imports_nothing_that_its_parent_could_be_importing(server: FakeServer, tmp_path: Path) -> None:
    """The child would wait forever for the lock of the module."""
    code = (
        "import os, runlake, sys\nhandler = runlake.RunlogHandler('p', 'r')\nif pid := os.fork(): sys.exit(os.waitpid(pid, 0)[1])\n"
    )
    code += "before = set(sys.modules)\nhandler.write('of the child')\nhandler.close()\nprint(sorted(set(sys.modules) - before))\n"
    environ = {**os.environ, "PYTHONPATH": str(_SRC), "RUNLAKE_URL": server.url, "RUNLAKE_SPOOL_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environ, check=True, capture_output=True, timeout=60)
    assert (done.stdout, server.lines("p", "r")) == (b"[]\n", [b"of the child"])


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)", "1 / 0", "import signal; signal.raise_signal(signal.SIGINT)"])
def test_an_exit_ships_what_is_left(end: str, server: FakeServer, tmp_path: Path) -> None:
    code = "import logging, runlake\nlogging.getLogger().addHandler(runlake.RunlogHandler('p', 'r', close_run=True))\n"
    code += f"for n in range(2000): logging.warning('record %d', n)\n{end}\n"
    environ = {**os.environ, "PYTHONPATH": str(_SRC), "RUNLAKE_URL": server.url, "RUNLAKE_SPOOL_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-W", "error", "-c", code], env=environ, check=False, capture_output=True, timeout=60)
    assert [int(line.split()[-1]) for line in server.lines("p", "r")] == list(range(2000))
    assert server.runs["p", "r"].closed


def test_records_of_two_runs_go_to_the_run_of_their_thread(server: FakeServer, settings: Settings) -> None:
    """A thread without a run belongs to the oldest one; a run on another logger is not affected."""
    logger, entered = logging.Logger("app"), threading.Barrier(3)

    def work(run_id: str) -> None:
        with runlake.run("p", run_id, logger=logger, settings=settings):
            entered.wait(30)
            logger.info("of %s", run_id)
            worker = threading.Thread(target=logger.info, args=("of a worker",))
            worker.start()
            worker.join()
            with runlake.run("p", f"within {run_id}", logger=logger, settings=settings):
                pass
            logger.info("of %s again", run_id)
            entered.wait(30)

    with (
        runlake.run("p", "oldest", logger=logger, settings=settings),
        runlake.run("p", "other", logger="of others", settings=settings),
    ):
        threads = [threading.Thread(target=work, args=(run_id,)) for run_id in ("one", "two")]
        for thread in threads:
            thread.start()
        entered.wait(30)
        logger.info("of oldest")
        logging.getLogger("of others").warning("of other")
        entered.wait(30)
        for thread in threads:
            thread.join()
        logger.info("of oldest again")
    found = {
        run_id: sorted(line.rpartition(b": ")[2] for line in server.lines("p", run_id))
        for run_id in ("one", "two", "oldest", "other")
    }
    assert found == {
        "one": [b"of one", b"of one again"],
        "two": [b"of two", b"of two again"],
        "oldest": [b"of a worker", b"of a worker", b"of oldest", b"of oldest again"],
        "other": [b"of other"],
    }
