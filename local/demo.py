"""``make demo``: jobs that log to the local stack, from an empty stack to finalized logs, compared byte for byte.

Six jobs log at once, two of them to one run, and one is killed without a close. The demo follows the log while it grows, the
scheduled functions compact and finalize it, and the demo prints the stored objects and their cost on AWS.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode
from urllib.request import urlopen

from rich.console import Console
from rich.live import Live
from rich.table import Table

from local import control
from local.billing import Billing, RecordingPosition
from local.demo_archive import archive_table, latest
from local.deploy import client
from local.emulator import free_port
from local.prices import PRICES, Units, dollars
from local.recording import metering, set_ahead
from local.state import INTERRUPTED, PATIENCE_S, LocalError

JOB_S = 14.0
KILL_AFTER_S = 7.0
USAGE = "usage.jsonl"
KILL_AFTER_BYTES = 20_000
AHEAD_S = 62  # the demo's stack seals a run that was idle for a minute
_LOGS = "/v1/services/ingestionPipelines/logs"
_TICK = {"version": "0", "id": "demo", "detail-type": "Scheduled Event", "source": "aws.events", "account": "0", "region": "local"}
console = Console(width=None if sys.stdout.isatty() else 130)


@dataclass
class Job:
    """One connector process and the run that it writes."""

    name: str
    fqn: str
    run_id: str
    closes: bool = True
    process: subprocess.Popen[bytes] | None = None


@dataclass
class Demo:
    """A stack, its jobs, and the folder with the jobs' own copies of their lines."""

    stack: dict[str, Any]
    folder: Path
    jobs: list[Job] = field(default_factory=list)

    @property
    def usage(self) -> Path:
        """File with what AWS would bill for the functions."""
        return self.folder / USAGE

    @property
    def runs(self) -> list[tuple[str, str]]:
        """The distinct runs."""
        return list(dict.fromkeys((job.fqn, job.run_id) for job in self.jobs))

    def aws(self, service: str) -> Any:
        """A client of the stack's AWS."""
        return client(service, self.stack["aws_endpoint_url"])

    def get(self, path: str, **query: object) -> dict[str, Any]:
        """GET from the API."""
        with urlopen(f"{self.stack['api_url']}{_LOGS}/{path}?{urlencode(query)}", timeout=PATIENCE_S) as answer:
            return dict(json.load(answer))

    def invoke(self, function: str) -> dict[str, int]:
        """Invoke a scheduled function now, as EventBridge does every few minutes."""
        event = json.dumps(_TICK | {"time": "2026-01-01T00:00:00Z", "resources": [], "detail": {}})
        answer = self.aws("lambda").invoke(FunctionName=self.stack["functions"][function], Payload=event)
        return dict(json.load(answer["Payload"]))


def main() -> int:
    """Exit code 1 if a stored log differs from the logged lines."""
    parser = argparse.ArgumentParser(prog="python -m local.demo", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="port of the stack (default: a free port)")
    parser.add_argument("--keep", action="store_true", help="leave the stack up at the end")
    arguments = parser.parse_args()
    started_s = time.monotonic()
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            patch.dict(os.environ, metering(Path(folder) / USAGE)),
            _stack(arguments.port or free_port(), keep=arguments.keep) as stack,
        ):
            exact = _show(Demo(stack, Path(folder)))
    except LocalError as error:
        print(f"runlake: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("runlake: stopped", file=sys.stderr)
        return INTERRUPTED
    console.print(f"\n[bold]Done in {time.monotonic() - started_s:.0f} s.[/bold]")
    return 0 if exact else 1


@contextmanager
def _stack(port: int, *, keep: bool) -> Iterator[dict[str, Any]]:
    _title("1. The stack", "the template for AWS, deployed to an emulator on this machine")
    started_s = time.monotonic()
    stack = control.up(port, {"StreamTimeoutMinutes": "1"}, private=not keep)
    console.print(f"up in {time.monotonic() - started_s:.1f} s at {stack['api_url']}")
    try:
        yield stack
    finally:
        if not keep:
            control.down(port)


def _show(demo: Demo) -> bool:
    reports = _subscribe(demo)
    _run_jobs(demo)
    _end_logs(demo)
    exact = _verify(demo)
    _show_objects(demo)
    _show_catalog(demo)
    _show_report(demo, reports)
    _show_page(demo)
    exact &= _show_archive(demo)
    _show_bill(demo)
    return exact


def _run_jobs(demo: Demo) -> None:
    _title("2. Jobs write logs", "six processes; 'orders' and 'orders-late' share one run; 'returns' is killed without a close")
    shared = str(uuid.uuid4())
    demo.jobs = [
        Job("customers", "shop.customers.profiler", str(uuid.uuid4())),
        Job("orders", "shop.orders.profiler", shared, closes=False),
        Job("orders-late", "shop.orders.profiler", shared, closes=False),
        Job("payments", "shop.payments.profiler", str(uuid.uuid4())),
        Job("stock", "shop.stock.profiler", str(uuid.uuid4())),
        Job("returns", "shop.returns.profiler", str(uuid.uuid4())),
    ]
    for job in demo.jobs:
        command = [sys.executable, "-m", "local.demo_job", demo.stack["api_url"], job.fqn, job.run_id, str(demo.folder), job.name]
        seconds = JOB_S if job.name != "returns" else 10 * JOB_S
        job.process = subprocess.Popen([*command, str(seconds), "closes" if job.closes else "leaves"])
    try:
        _watch(demo)
    finally:
        for job in demo.jobs:
            if job.process:
                job.process.kill()


def _watch(demo: Demo) -> None:
    """Follow the growing logs: lines of each run and the newest line, read over the API."""
    started_s, killed, compacted = time.monotonic(), False, False
    with Live(console=console, refresh_per_second=4, transient=False) as live:
        while any(job.process and job.process.poll() is None for job in demo.jobs):
            elapsed_s = time.monotonic() - started_s
            if not killed and elapsed_s > KILL_AFTER_S and _acknowledged_bytes(demo, "returns") > KILL_AFTER_BYTES:
                _job(demo, "returns").kill()
                killed = True
            if not compacted and elapsed_s > KILL_AFTER_S + 2:
                demo.invoke("compact")
                compacted = True
            live.update(_growth(demo, elapsed_s))
    for job in demo.jobs:
        assert job.process
        if job.process.wait() != 0 and job.name != "returns":
            raise LocalError(f"a job of the demo failed: name={job.name}")


def _acknowledged_bytes(demo: Demo, name: str) -> int:
    path = demo.folder / f"{name}.acknowledged"
    return path.stat().st_size if path.exists() else 0


def _growth(demo: Demo, elapsed_s: float) -> Table:
    table = Table("run of", "lines", "newest line", title=f"after {elapsed_s:.0f} s", title_justify="left")
    for fqn, run_id in demo.runs:
        page = demo.get(f"{fqn}/{run_id}", tail=1)
        table.add_row(fqn, str(page["total"]), page["logs"].partition("- ")[2][:60])
    return table


def _job(demo: Demo, name: str) -> subprocess.Popen[bytes]:
    job = next(job for job in demo.jobs if job.name == name)
    assert job.process
    return job.process


def _end_logs(demo: Demo) -> None:
    _title(
        "3. Ends",
        "five jobs close their runs; the sweep, its clock a minute ahead, finalizes the killed one as idle: by default after a day",
    )
    fqn, run_id = next((job.fqn, job.run_id) for job in demo.jobs if not job.closes)
    with urlopen(f"{demo.stack['api_url']}{_LOGS}/{fqn}/{run_id}/close", data=b"", timeout=PATIENCE_S) as answer:
        console.print(f"close of {fqn}: {json.load(answer)['message']}")
    set_ahead(demo.aws("lambda"), demo.stack["functions"]["sweep"], AHEAD_S)
    console.print(f"sweep: {demo.invoke('sweep')}   compact: {demo.invoke('compact')}")


def _verify(demo: Demo) -> bool:
    """Compare each log with the files that its jobs wrote."""
    _title("4. Exact?", "each log compared with its jobs' own copies")
    table = Table("run of", "lines", "bytes", "compared with", "result")
    exact = True
    for fqn, run_id in demo.runs:
        log = _object(demo, fqn, run_id, "logs.txt")
        names = [job.name for job in demo.jobs if job.run_id == run_id]
        fine = _is_exact(demo, log, names)
        exact &= fine
        against = (
            "the lines acknowledged before the kill" if names == ["returns"] else " and ".join(f"{name}.log" for name in names)
        )
        table.add_row(
            fqn, str(log.count(b"\n")), str(len(log)), against, "[green]the same[/green]" if fine else "[red]DIFFERS[/red]"
        )
    console.print(table)
    return exact


def _is_exact(demo: Demo, log: bytes, names: list[str]) -> bool:
    copies = {name: (demo.folder / f"{name}.log").read_bytes() for name in names}
    if names == ["returns"]:
        acknowledged = (demo.folder / "returns.acknowledged").read_bytes()
        return log.startswith(acknowledged) and copies["returns"].startswith(log)
    if len(names) == 1:
        return log == copies[names[0]]
    # Two writers: all lines of both, in the order of each writer.
    lines = log.splitlines(keepends=True)
    return all(_is_subsequence(copy.splitlines(keepends=True), lines) for copy in copies.values()) and len(lines) == sum(
        copy.count(b"\n") for copy in copies.values()
    )


def _is_subsequence(part: list[bytes], lines: list[bytes]) -> bool:
    rest = iter(lines)
    return all(line in rest for line in part)


def _show_objects(demo: Demo) -> None:
    _title("5. On S3", f"bucket {demo.stack['bucket']}; segments are deleted 20 minutes after logs.txt is written, except the last")
    table = Table("key", "bytes", "class")
    found = demo.aws("s3").list_objects_v2(Bucket=demo.stack["bucket"])["Contents"]
    for fqn, run_id in demo.runs:
        mine = [each for each in found if f"/{fqn}/{run_id}/" in each["Key"]]
        segments = [each for each in mine if "/segments/" in each["Key"]]
        for each in mine:
            if each not in segments:
                table.add_row(each["Key"], str(each["Size"]), each.get("StorageClass", "STANDARD"))
        table.add_row(f"  … {len(segments)} segments", str(sum(each["Size"] for each in segments)), "STANDARD")
    console.print(table)


def _show_catalog(demo: Demo) -> None:
    _title("6. Catalog", f"table {demo.stack['runs_table']}")
    table = Table("fqn", "lines", "segments", "ended by", "logs.txt", "epoch")
    for fqn, run_id in demo.runs:
        key = {"fqn": {"S": fqn}, "run_id": {"S": run_id}}
        row = demo.aws("dynamodb").get_item(TableName=demo.stack["runs_table"], Key=key)["Item"]
        final = "whole" if int(row["final_segments"]["N"]) >= int(row["segments"]["N"]) else "behind"
        table.add_row(fqn, row["lines"]["N"], row["segments"]["N"], row["seal"]["S"], final, row["epoch"]["N"])
    console.print(table)
    newest = demo.get(demo.runs[0][0], limit=1)
    console.print(f"GET logs/{demo.runs[0][0]}: {newest}")


def _subscribe(demo: Demo) -> str:
    queue: str = demo.aws("sqs").create_queue(QueueName="demo-reports")["QueueUrl"]
    arn = demo.aws("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    demo.aws("sns").subscribe(TopicArn=demo.stack["report_topic_arn"], Protocol="sqs", Endpoint=arn)
    return queue


def _show_report(demo: Demo, queue: str) -> None:
    _title("7. A report", "the message to subscribers of the topic about a finalized log")
    give_up = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up:
        for message in (
            demo.aws("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=1).get("Messages", [])
        ):
            report = json.loads(json.loads(message["Body"])["Message"])
            demo.aws("sqs").delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
            if any(record["url"].endswith("/logs.txt") for record in report["records"]):
                console.print_json(json.dumps(report))
                return
    raise LocalError("no report of a finalized log arrived")


def _show_page(demo: Demo) -> None:
    fqn, run_id = demo.runs[0]
    _title("8. A page", f"GET logs/{fqn}/{run_id}?after=10&limit=3")
    page = demo.get(f"{fqn}/{run_id}", after=10, limit=3)
    console.print(page.pop("logs"), markup=False, highlight=False)
    console.print(page)


def _show_archive(demo: Demo) -> bool:
    fqn = demo.runs[0][0]
    _title(
        "9. Archive",
        "two files uploaded over HTTP and the log of a run, in one search; 'datalake list' lists them too",
    )
    table, exact = archive_table(demo.stack, fqn)
    console.print(table)
    console.print(f"GET latest/nginx/web-1: {latest(demo.stack)['url']}")
    return exact


def _show_bill(demo: Demo) -> None:
    _title("10. Cost on AWS", "AWS's charges for the functions' calls, at list prices (us-east-1)")
    units = sum(Billing(demo.stack, demo.usage).units_since(RecordingPosition()).values(), Units())
    table = Table("what", "count", "dollars for a million", "dollars")
    for name, price in PRICES.items():
        table.add_row(name, f"{units[name]:,.0f}", f"{price:g}", f"{dollars({name: units[name]}):.6f}")
    table.add_row("in all", "", "", f"{dollars(units):.6f}", style="bold")
    console.print(table)


def _object(demo: Demo, fqn: str, run_id: str, name: str) -> bytes:
    body: bytes = demo.aws("s3").get_object(Bucket=demo.stack["bucket"], Key=f"pipeline-logs/{fqn}/{run_id}/{name}")["Body"].read()
    return body


def _title(title: str, about: str) -> None:
    console.print(f"\n[bold]{title}[/bold]  [dim]{about}[/dim]")


if __name__ == "__main__":
    sys.exit(main())
