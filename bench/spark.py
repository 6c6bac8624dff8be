"""``make bench-spark``: measurements of the Spark jobs; ``--write`` stores them for docs/performance.md.

Each measurement runs in its own process: no two share a Spark session, its memory or its warm code.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from dataclasses import asdict
from functools import partial

from bench.command import measure_all, parse_selection, parser_of
from bench.measure import Measure, Measurement

_SOURCE = ("glue_jobs/datasource", "glue_jobs/columnar", "glue_jobs/job_runtime", "chalicelib/lines")
_JOBS = ("glue_jobs/job_runtime", "glue_jobs/transforms")
_MIB = 1024**2


def _measurement(name: str, code: tuple[str, ...], **small: object) -> Measurement:
    return Measurement(name, partial(_measured_here, name), code, small)


def _measured_here(name: str, **sizes: object) -> list[Measure]:
    """``bench.NAME.measure(**sizes)``, imported only in the measurement's process."""
    rows: list[Measure] = importlib.import_module(f"bench.{name}").measure(**sizes)
    return rows


ALL = (
    _measurement("spark_planning", _SOURCE, runs=20, segments=10),
    _measurement("spark_reads", _SOURCE, size=4 * _MIB, rounds=1),
    _measurement("spark_dataset", (*_SOURCE, *_JOBS, "glue_jobs/dataset", "glue_jobs/build_dataset.py"), size=4 * _MIB, rounds=1),
    _measurement(
        "spark_compaction",
        (*_JOBS, "glue_jobs/compaction", "glue_jobs/bulk_compact.py", "chalicelib/runlog"),
        runs=20,
        rounds=1,
    ),
    _measurement("spark_upkeep", (*_JOBS, "glue_jobs/catalog", "glue_jobs/expiration", "chalicelib/catalog"), runs=10, files=10),
    _measurement("spark_pipelines", (*_JOBS, "glue_jobs/pipelines", "chalicelib/pipelines"), runs=2, lines=200, rounds=1),
)


def main() -> int:
    """Exit code 1 if a goal was missed or a measurement failed."""
    by_name = {measurement.name: measurement for measurement in ALL}
    parser = parser_of("bench.spark", __doc__, list(by_name))
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    arguments = parse_selection(parser, list(by_name))
    selected = [by_name[name] for name in arguments.names]
    if arguments.alone:
        sizes = selected[0].small if arguments.small else {}
        print(json.dumps([asdict(row) for row in selected[0].run(**sizes)]))
        return 0
    return measure_all(selected, _in_a_process, "spark", write=arguments.write, small=arguments.small)


def _in_a_process(measurement: Measurement, small: bool) -> list[Measure]:
    command = [sys.executable, "-m", "bench.spark", measurement.name, "--alone", *(["--small"] if small else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [Measure(**row) for row in json.loads(done.stdout.splitlines()[-1])]


if __name__ == "__main__":
    sys.exit(main())
