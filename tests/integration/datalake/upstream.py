"""The datalake's own tests of its API against a local stack: ``python -m tests.integration.datalake.upstream --upstream CHECKOUT``.

``CHECKOUT`` is what ``git clone`` takes: the folder or the address of planetlabs/datalake. Its tests (``api/tests``) are copied to a temporary
folder, nothing of them is kept. ``RUNLAKE_STACK`` names a running stack; without it one is started. Exit code 1 if a test fails that is not in
``DIFFERENCES``, or if one that is there passes.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from local.terminal import show
from tests import session
from tests.integration.datalake import upstream_fixtures
from tests.integration.stacks import shared_stack
from tests.prerequisites import DATALAKE, require

TESTS = "api/tests"
DIFFERENCES = {
    "test_archive_querier.py::test_query_latest_just_latest_table[http-latest]": "the files began years ago, and lookback, which the datalake "
    "ignores if it reads its table of latest files, excludes them",
}
"""Tests that fail on purpose, with the reason: see docs/datalake.md."""
_CONFTEST = f"from {upstream_fixtures.__name__} import *\n"
_QUIET = [
    "-q",
    "--no-header",
    "--tb=short",
    "--import-mode=prepend",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:schemathesis",
    "-p",
    "no:anyio",
]


@dataclass
class Results:
    """A plugin of pytest that collects the outcomes of tests by their ids."""

    failed: set[str] = field(default_factory=set)
    ran: set[str] = field(default_factory=set)
    left_out: Counter[str] = field(default_factory=Counter)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for the setup, the call and the teardown of each test."""
        self.ran.add(report.nodeid)
        if report.failed or report.skipped:
            self.failed.add(report.nodeid)

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Called with the tests that are not run."""
        self.left_out.update(upstream_fixtures.not_http(item.nodeid) or "deselected" for item in items)

    @property
    def unexpected(self) -> set[str]:
        """Tests whose outcome is not the documented one."""
        return (self.failed ^ DIFFERENCES.keys()) & self.ran

    def summary(self) -> str:
        """The numbers, and a line for each test that does not pass or is not run."""
        lines = [f"{len(self.ran - self.failed)} of {len(self.ran)} tests of the datalake's API pass"]
        lines += [f"not passed: {each}: {DIFFERENCES.get(each, 'UNEXPECTED')}" for each in sorted(self.failed)]
        lines += [f"passed although documented as different: {each}" for each in sorted(self.unexpected - self.failed)]
        lines += [f"not run: {count} tests: {reason}" for reason, count in sorted(self.left_out.items())]
        return "\n".join(lines)


def copy_tests(upstream: str, folder: Path) -> str:
    """Copy the tests of a checkout into ``folder``, without their fixtures. Returns the commit."""
    with tempfile.TemporaryDirectory() as clone:
        depth = [] if Path(upstream).is_dir() else ["--depth=1"]
        subprocess.run(["git", "clone", "--quiet", *depth, "--", upstream, clone], check=True)
        commit = subprocess.run(
            ["git", "-C", clone, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
        ).stdout.strip()
        shutil.copytree(Path(clone) / TESTS, folder, dirs_exist_ok=True)
    (folder / "conftest.py").write_text(_CONFTEST)
    (folder / "pytest.ini").write_text("[pytest]\n")
    return commit


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.integration.datalake.upstream", description="the datalake's tests of its API"
    )
    parser.add_argument("--upstream", required=True, metavar="CHECKOUT", help="folder or address of planetlabs/datalake")
    given, options = parser.parse_known_args(arguments)
    require(DATALAKE)
    results = Results()
    with tempfile.TemporaryDirectory() as folder, session.shared, shared_stack() as stack:
        commit = copy_tests(given.upstream, Path(folder))
        upstream_fixtures.use(stack)
        code = pytest.main([*_QUIET, *options, f"--rootdir={folder}", f"--config-file={folder}/pytest.ini", folder], [results])
    show(f"planetlabs/datalake at {commit[:12]}\n{results.summary()}")
    is_complete = code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and bool(results.ran)
    return 1 if results.unexpected or not is_complete else 0


if __name__ == "__main__":
    sys.exit(main())
