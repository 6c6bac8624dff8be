"""Latency of a warm append as deployed, relative to a conditional PUT of the same bytes by the same S3 client, alternating in one
process.

As deployed: a token is verified, the batch is masked with all shapes, X-Ray traces the invocation, logs and metrics are written.
``python -m bench.append_latency COUNT`` is that process; the measurement gives it a function's environment.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from bench.bench_world import BUCKET, Context, Function, append_event, cookie_of, lambda_variables
from bench.measure import Measure, reported
from bench.workload import LINE

GOAL = 1.3
_BATCH = LINE * 40
_TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled={}"
_Times = dict[str, float]


def append_latency(function: Function, count: int = 1500) -> list[Measure]:
    """Traced and not traced: by default X-Ray samples one request a second and 5 % of the rest."""
    sampled, unsampled = (_in_a_function(function.token, count, traced) for traced in (True, False))
    ratio = sampled["append_ms"] / sampled["conditional_put_ms"]
    size = len(_BATCH)
    return [
        Measure(
            f"warm append as deployed, {size:,} bytes, traced, over a conditional put_object by the same client, p50",
            f"at most {GOAL}",
            _compared(sampled, "conditional_put_ms"),
            ratio <= GOAL,
        ),
        reported("the same, not sampled by X-Ray", _compared(unsampled, "conditional_put_ms")),
        reported("the same over an unconditional put_object by the same client", _compared(sampled, "put_ms")),
        reported("the same over an unconditional put_object by a default boto3 client", _compared(sampled, "default_put_ms")),
        reported("processor time of a warm append as deployed, traced; not sampled", f"{_cpu(sampled)}; {_cpu(unsampled)}"),
    ]


def _compared(times: _Times, baseline: str) -> str:
    return f"{times['append_ms'] / times[baseline]:.2f} ({times['append_ms']:.2f} ms over {times[baseline]:.2f} ms)"


def _cpu(times: _Times) -> str:
    return f"{times['append_cpu_ms']:.2f} ms, the conditional PUT's {times['conditional_put_cpu_ms']:.2f} ms"


def _in_a_function(token: str, count: int, traced: bool) -> _Times:
    command = [sys.executable, "-m", "bench.append_latency", str(count)]
    with lambda_variables("app.app") as variables:
        environment = os.environ | variables | {"_X_AMZN_TRACE_ID": _TRACE.format(int(traced)), "BENCH_TOKEN": token}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the function failed: {done.stderr[-3000:]}")
    times: _Times = json.loads(done.stdout.splitlines()[-1])
    return times


def _main(count: int) -> _Times:
    import app
    from chalicelib import composition
    from chalicelib.observability import trace_recorder

    assert trace_recorder() is not None, "as deployed, an append is traced"
    client = composition.services().store._inner._client  # type: ignore[attr-defined]
    function = Function(app, None, None, None, token=os.environ["BENCH_TOKEN"])
    body = _BATCH.encode()
    spent: dict[str, list[float]] = {name: [] for name in (*_PUTS, "append")}
    cpu: dict[str, list[float]] = {"append": [], "conditional_put": []}
    cookie = function.append(append_event("svc.bench/time", _BATCH))
    default = _default_client()
    for number in range(count):
        event = append_event("svc.bench/time", _BATCH, cookie)
        with _timed(spent["append"], cpu["append"]):
            answer = app.app(function.authorized(event), Context())
        cookie = cookie_of(answer)
        for name, options in _PUTS.items():
            with _timed(spent[name], cpu.get(name, [])):
                (default if name == "default_put" else client).put_object(
                    Bucket=BUCKET, Key=f"bare/{os.getpid()}/{name}/{number:010d}", Body=body, **options
                )
    times = {f"{name}_ms": statistics.median(values) * 1000 for name, values in spent.items()}
    return times | {f"{name}_cpu_ms": statistics.median(values) * 1000 for name, values in cpu.items()}


_PUTS: dict[str, dict[str, str]] = {"conditional_put": {"IfNoneMatch": "*"}, "put": {}, "default_put": {}}


def _default_client() -> Any:
    import boto3

    return boto3.client("s3")


@contextlib.contextmanager
def _timed(seconds: list[float], cpu_seconds: list[float]) -> Iterator[None]:
    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    yield
    seconds.append(time.perf_counter() - started_s)
    cpu_seconds.append(time.process_time() - started_cpu_s)


if __name__ == "__main__":
    with contextlib.redirect_stdout(io.StringIO()):  # the function's own logs and metrics
        measured = _main(int(sys.argv[1]))
    print(json.dumps(measured))
