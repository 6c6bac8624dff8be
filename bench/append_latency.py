"""Latency of a warm append as deployed, relative to a conditional PUT of the same bytes by the same S3 client; and the processor time of a
warm append behind the function URL, relative to one behind the gateway. All alternate in one process.

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
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import boto3

from bench.bench_world import BUCKET, Context, Function, append_event, cookie_of, lambda_variables, signed_append_event
from bench.measure import Measure
from bench.workload import LINE

if TYPE_CHECKING:
    from chalicelib.composition import Services

GOAL = 1.3
_BATCH = LINE * 40
_TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
_ROLE, _POLICY = "arn:aws:sts::000000000000:assumed-role/etl/job-1", "/runlake/bench/policy"
_Times = dict[str, float]


def append_latency(function: Function, count: int = 1500) -> list[Measure]:
    """Sampled by X-Ray."""
    times = _in_a_function(function.token, count)
    ratio = times["append_ms"] / times["put_ms"]
    return [
        Measure(
            f"warm append as deployed, {len(_BATCH):,} bytes, traced, over a conditional put_object by the same client, p50",
            f"at most {GOAL}",
            f"{ratio:.2f} ({times['append_ms']:.2f} ms over {times['put_ms']:.2f} ms)",
            ratio <= GOAL,
        ),
        Measure(
            "processor time of a warm append signed with a role, at the function URL, over one with a token at the API, p50",
            "at most 1",
            f"{times['url_cpu_ms'] / times['api_cpu_ms']:.2f} ({times['url_cpu_ms']:.2f} ms over {times['api_cpu_ms']:.2f} ms)",
            times["url_cpu_ms"] <= times["api_cpu_ms"],
        ),
    ]


def _in_a_function(token: str, count: int) -> _Times:
    command = [sys.executable, "-m", "bench.append_latency", str(count)]
    with lambda_variables("app.app") as variables:
        environment = os.environ | variables | {"_X_AMZN_TRACE_ID": _TRACE, "BENCH_TOKEN": token}
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
    of_api = composition.services()
    of_url = _services_of_the_url()
    client = of_api.store._inner._client  # type: ignore[attr-defined]
    function = Function(app, None, None, None, token=os.environ["BENCH_TOKEN"])
    body = _BATCH.encode()
    spent: dict[str, list[float]] = {"append": [], "put": [], "api_cpu": [], "url_cpu": []}
    cookie: str | None = None
    url_cookie: str | None = None
    for number in range(count + 1):  # the first is cold
        composition.install(of_api)
        event = append_event("svc.bench/time", _BATCH, cookie)
        with _timed(spent["append"]), _timed(spent["api_cpu"], time.thread_time):
            answer = app.app(function.authorized(event), Context())
        cookie = cookie_of(answer)
        with _timed(spent["put"]):
            client.put_object(Bucket=BUCKET, Key=f"bare/{os.getpid()}/{number:010d}", Body=body, IfNoneMatch="*")
        composition.install(of_url)
        event = signed_append_event("svc.bench/url", _BATCH, _ROLE, url_cookie)
        with _timed(spent["url_cpu"], time.thread_time):
            answer = app.job_api(event, Context())
        url_cookie = str(answer["cookies"][0]).partition(";")[0]
    return {f"{name}_ms": statistics.median(values[1:]) * 1000 for name, values in spent.items()}


def _services_of_the_url() -> Services:
    """Those of the second function: it takes signatures alone, and the policy grants."""
    from chalicelib import composition

    policy = json.dumps({"principals": {_ROLE.rpartition("/")[0]: {"logs:write": ["*"]}}})
    boto3.client("ssm").put_parameter(Name=_POLICY, Value=policy, Type="String", Overwrite=True)
    os.environ.update(RUNLAKE_AUTH="iam", RUNLAKE_POLICY_PARAMETER=_POLICY)
    composition.install(None)
    return composition.services()


@contextlib.contextmanager
def _timed(seconds: list[float], clock: Callable[[], float] = time.perf_counter) -> Iterator[None]:
    started_s = clock()
    yield
    seconds.append(clock() - started_s)


if __name__ == "__main__":
    with contextlib.redirect_stdout(io.StringIO()):  # the function's own logs and metrics
        measured = _main(int(sys.argv[1]))
    print(json.dumps(measured))
