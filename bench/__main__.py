"""``python -m bench [NAME …]``: measure, print the table, and with ``--write`` keep it in docs/performance.md."""

from __future__ import annotations

import contextlib
import io
import sys

from bench.bench_world import bench_world
from bench.command import chosen, measured, parser_of
from bench.measure import Measure
from bench.measures import ALL


def main() -> int:
    """Exit code 1 when a figure was missed."""
    measures = {measure.__name__: measure for measure in ALL}
    given = chosen(parser_of("bench", __doc__, list(measures)), list(measures))
    with bench_world() as function:

        def quietly(name: str) -> list[Measure]:
            with contextlib.redirect_stdout(io.StringIO()):  # the function's own logs and metrics
                return list(measures[name](function))

        return measured(given.names, quietly, "measured", write=given.write)


if __name__ == "__main__":
    sys.exit(main())
