"""``python -m tests.functional.budget_table``: time, memory and response size of the largest request that each operation with a body allows."""

from __future__ import annotations

import io
import time
import tracemalloc
from contextlib import redirect_stdout

from chalicelib.routes.answers import envelope_bytes
from tests.functional.budget_requests import MSGPACK, SAMPLES, Sample, padded
from tests.functional.gateway import LOGS, Answer, Context, call, installed
from tests.world import World

MIB = 1024 * 1024


def main() -> None:
    """Prints a table in Markdown."""
    print("| operation | request | items | CPU s | peak MiB | response bytes | status |\n|---|---|---|---|---|---|---|")
    for sample in (*SAMPLES.values(), MSGPACK):
        body, items = _largest(sample)
        seconds = _sent(sample, body)[1]
        tracemalloc.start()
        answer = _sent(sample, body)[0]
        memory = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        name = f"`{' '.join(sample.operation)}` {sample.content_type}"
        sizes = f"{seconds:.1f} | {memory / MIB:.0f} | {envelope_bytes(answer.body):,}"
        print(f"| {name} | {len(body):,} | {items or '-'} | {sizes} | {answer.status} |", flush=True)


def _largest(sample: Sample) -> tuple[bytes, int]:
    if sample.items:
        return sample.items(sample.budget.items.limit), sample.budget.items.limit
    if sample.url.startswith(LOGS):
        return b'"' + b"x" * (sample.budget.body_bytes - 2) + b'"', 0
    return padded({"name": "n"} if "steps" in sample.url else {"count": 0}, sample.budget.body_bytes), 0


def _sent(sample: Sample, body: bytes) -> tuple[Answer, float]:
    with redirect_stdout(io.StringIO()), installed(World()):
        begun_s = time.process_time()
        answer = call(sample.operation[0], sample.url, body, sample.headers(), Context(600_000))
        return answer, time.process_time() - begun_s


if __name__ == "__main__":
    main()
