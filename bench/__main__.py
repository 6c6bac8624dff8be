"""``python -m bench [NAME …]``: measure, print the table, and with ``--write`` keep it in docs/performance.md."""

from __future__ import annotations

import argparse
import contextlib
import io
import platform
import sys
import time
from pathlib import Path

from bench.bench_world import bench_world
from bench.measure import Measure
from bench.measures import ALL

_PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
_BEGIN, _END = "<!-- measured: begin -->", "<!-- measured: end -->"


def table(rows: list[Measure]) -> str:
    """The rows as Markdown."""
    lines = ["| what | reach | measured | |", "|---|---|---|---|"]
    lines += [f"| {row.what} | {row.reach} | {row.measured} | {'reached' if row.reached else '**missed**'} |" for row in rows]
    return "\n".join(lines)


def main() -> int:
    """Exit code 1 when a figure was missed."""
    names = [measure.__name__ for measure in ALL]
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones; all by default: {', '.join(names)}")
    parser.add_argument("--write", action="store_true", help=f"keep the table in {_PAGE.name}")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(names):
        parser.error(f"no such measurement: {', '.join(sorted(unknown))}")
    rows: list[Measure] = []
    with bench_world() as function:
        for measure in ALL:
            if not arguments.names or measure.__name__ in arguments.names:
                started_s = time.perf_counter()
                with contextlib.redirect_stdout(io.StringIO()):  # the function's own logs and metrics
                    rows += measure(function)
                print(f"{measure.__name__}: {time.perf_counter() - started_s:.0f} s", file=sys.stderr)
    print(table(rows))
    if arguments.write:
        _keep(rows)
    return 0 if all(row.reached for row in rows) else 1


def _keep(rows: list[Measure]) -> None:
    """What was measured now takes the place of the same rows; the others stay as they were."""
    page = _PAGE.read_text()
    head, rest = page.split(_BEGIN)
    kept, tail = rest.split(_END)
    lines = {_name(line): line for text in (kept, table(rows)) for line in text.splitlines() if line.startswith("|")}
    text = "\n".join(lines.values())
    machine = f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, {platform.machine()}"
    _PAGE.write_text(f"{head}{_BEGIN}\nMeasured on {machine}, one process, emulator on the same machine.\n\n{text}\n{_END}{tail}")


def _name(line: str) -> str:
    return line.split("|")[1].strip()


if __name__ == "__main__":
    sys.exit(main())
