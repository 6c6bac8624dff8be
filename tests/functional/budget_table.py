"""``python -m tests.functional.budget_table``: time, memory and response size of the largest requests that each operation allows.

CPU time is also in units of the calibration loop of ``tests.fuzz.costs``, which takes some 10 ms, so tables of different or busy machines
can be compared.
"""

from __future__ import annotations

import io
import time
import tracemalloc
from contextlib import redirect_stdout

from chalicelib.response_size import envelope_bytes
from tests.functional.gateway import Answer
from tests.functional.largest_requests import LARGEST, MIB, Largest
from tests.fuzz.costs import unit_s


def main() -> None:
    """Print a table in Markdown."""
    print(
        "| operation | largest in | request bytes | CPU ms | CPU units | peak MiB | response bytes | status |\n|---|---|---|---|---|---|---|---|"
    )
    for largest in LARGEST:
        unit = unit_s()
        answer, cpu_s = _timed(largest)
        peak_bytes = _peak_bytes(largest)
        request_bytes = len(largest.sample.url) + len(largest.body or b"")
        costs = f"{cpu_s * 1000:,.0f} | {cpu_s / unit:,.1f} | {peak_bytes / MIB:.1f}"
        name = f"`{' '.join(largest.sample.operation)}` | {largest.note or '-'}"
        print(f"| {name} | {request_bytes:,} | {costs} | {envelope_bytes(answer.body):,} | {answer.status} |", flush=True)


def _timed(largest: Largest) -> tuple[Answer, float]:
    with redirect_stdout(io.StringIO()), largest.ready() as send:
        begun_s = time.process_time()
        answer = send()
        return answer, time.process_time() - begun_s


def _peak_bytes(largest: Largest) -> int:
    """Peak memory that Python allocated during the request, without the request itself."""
    with redirect_stdout(io.StringIO()), largest.ready() as send:
        tracemalloc.start()
        try:
            send()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


if __name__ == "__main__":
    main()
