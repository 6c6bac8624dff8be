"""``make bench``: measure the functions on a private emulator and print the rows; ``--write`` stores them for docs/performance.md."""

from __future__ import annotations

import contextlib
import io
import sys

from bench.bench_world import bench_world
from bench.command import measure_all, parse_selection, parser_of
from bench.measure import Measure, Measurement
from bench.measures import ALL


def main() -> int:
    """Exit code 1 if a goal was missed or a measurement failed."""
    by_name = {measurement.name: measurement for measurement in ALL}
    arguments = parse_selection(parser_of("bench", __doc__, list(by_name)), list(by_name))
    rows = sys.stdout
    with contextlib.redirect_stdout(io.StringIO()), bench_world() as function:

        def run(measurement: Measurement, small: bool) -> list[Measure]:
            return measurement.run(function, **(measurement.small if small else {}))

        selected = [by_name[name] for name in arguments.names]
        return measure_all(selected, run, "functions", write=arguments.write, small=arguments.small, out=rows)


if __name__ == "__main__":
    sys.exit(main())
