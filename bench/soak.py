"""``make soak``: connectors write for minutes while their store fails and is killed; then every acknowledged line must be in the
log.

The stack is the one of ``make up``, with gateway and functions. Its store is a separate emulator of S3 (``soak_store``): a share of
its requests fails, and it is killed and restarted from disk. All processes are children of this one, on free ports, and end with
it.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import secrets
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from aiohttp import ClientError, ClientSession, TCPConnector
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from bench.figures import print_rows, save
from bench.measure import Measure
from bench.soak_connector import Connector
from bench.soak_store import FaultyAddress, Store
from local import control
from local.deploy import ARCHIVE_BUCKET, BUCKET
from local.emulator import CREDENTIALS, free_port

_LOGS = "/v1/services/ingestionPipelines/logs"
_A_RUN = 2  # connectors that share a run
_PAGE = 1000
_CODE = ("chalicelib/runlog", "chalicelib/aws/object_store.py", "chalicelib/routes/logs.py")
_TRIES = 40
_QUIET = dict.fromkeys(("PartialFlushIntervalMinutes", "CleanupIntervalMinutes", "PipelinesIntervalMinutes"), "1440")
console = Console()


@dataclass(frozen=True)
class Plan:
    """Parameters of the run."""

    connectors: int
    seconds: int
    share: float
    kills: int
    at_once: int
    seed: int


def main() -> int:
    """1 if an acknowledged line is lost, duplicated, changed or out of order."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--connectors", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=180)
    parser.add_argument("--faults", type=float, default=0.05, help="share of the store's requests that fail (default 0.05)")
    parser.add_argument("--kills", type=int, default=2, help="number of kills of the store (default 2)")
    parser.add_argument("--at-once", type=int, default=8, help="concurrent requests, and so workers of the function (default 8)")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    parser.add_argument(
        "--write", action="store_true", help="store the result in docs/figures.json; then run python -m docs.generate"
    )
    arguments = parser.parse_args()
    plan = Plan(arguments.connectors, arguments.seconds, arguments.faults, arguments.kills, arguments.at_once, arguments.seed)
    console.print(
        f"seed {plan.seed}: {plan.connectors} connectors for {plan.seconds} s, {plan.share:.0%} errors, {plan.kills} kills"
    )
    with tempfile.TemporaryDirectory(prefix="runlake-soak-") as folder:
        row = asyncio.run(_soak(plan, Path(folder)))
    if arguments.write:
        save([row], "soak", "soak", _CODE)
    return print_rows([row])


async def _soak(plan: Plan, folder: Path) -> Measure:
    store = await asyncio.to_thread(Store, folder)
    address, port = FaultyAddress(store.endpoint_url, 0.0, plan.seed), free_port()
    await address.start()
    try:
        store.make_buckets(BUCKET, ARCHIVE_BUCKET)
        stack = await asyncio.to_thread(control.up, port, _parameters(address), private=True)
        async with ClientSession(connector=TCPConnector(limit=0)) as session:
            return await _loaded(plan, store, address, session, stack["api_url"] + _LOGS)
    finally:
        await address.stop()
        store.stop()
        await asyncio.to_thread(control.down, port)


def _parameters(address: FaultyAddress) -> dict[str, str]:
    return _QUIET | {
        "AwsEndpointUrl": address.endpoint_url,
        "AwsAccessKeyId": CREDENTIALS["aws_access_key_id"],
        "AwsSecretAccessKey": CREDENTIALS["aws_secret_access_key"],
    }


async def _loaded(plan: Plan, store: Store, address: FaultyAddress, session: ClientSession, logs: str) -> Measure:
    chance = random.Random(plan.seed)
    connectors = [
        Connector(number, f"{logs}/soak.pipeline-{number // _A_RUN % 10}/run-{number // _A_RUN}", random.Random(chance.random()))
        for number in range(plan.connectors)
    ]
    turns, stop = asyncio.Semaphore(plan.at_once), asyncio.Event()
    address.share = plan.share
    work = [asyncio.create_task(each.work(session, turns, stop)) for each in connectors]
    halves = await _while_it_fails(plan, store, connectors)
    stop.set()
    await asyncio.gather(*work)
    address.share = 0.0
    wrong = await _verify(session, turns, connectors)
    console.print(_table(connectors, address, halves))
    for each in wrong[:20]:
        console.print(each, style="red")
    return _measure(plan, connectors, address, len(wrong))


def _measure(plan: Plan, connectors: list[Connector], address: FaultyAddress, wrong: int) -> Measure:
    answers = sum((each.answers for each in connectors), Counter())
    injected = ", ".join(f"{count} {kind}" for kind, count in sorted(address.injected.items()))
    figures = (
        f"{wrong} of {sum(len(each.acknowledged) for each in connectors):,} acknowledged lines in {answers['200'] - answers['opened']:,} "
        f"batches; injected: {injected}; {answers['repeats']} batches repeated, {answers['met again']} stored by an earlier try, "
        f"{answers['given up']} given up"
    )
    what = f"{plan.connectors} connectors for {plan.seconds} s, {plan.share:.0%} errors, {plan.kills} kills, seed {plan.seed}"
    return Measure(f"acknowledged lines lost, twice, changed or out of order: {what}", "0", figures, wrong == 0)


async def _while_it_fails(plan: Plan, store: Store, connectors: list[Connector]) -> int:
    """Kill the store at even intervals during the load. Returns the number of half-written objects."""
    due = [plan.seconds * (number + 1) / (plan.kills + 1) for number in range(plan.kills)]
    halves, started_s = 0, time.monotonic()
    columns = (TextColumn("{task.fields[said]}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("load", total=plan.seconds, said="")
        while (elapsed_s := time.monotonic() - started_s) < plan.seconds:
            if due and elapsed_s >= due[0]:
                due.pop(0)
                halves += await asyncio.to_thread(store.kill_and_restart)
                progress.console.print(
                    f"{elapsed_s:.0f} s: the store was killed and restarted after {time.monotonic() - started_s - elapsed_s:.1f} s"
                )
            lines = sum(len(each.acknowledged) for each in connectors)
            progress.update(bar, completed=elapsed_s, said=f"{lines:,} lines acknowledged")
            await asyncio.sleep(0.5)
    return halves


async def _verify(session: ClientSession, turns: asyncio.Semaphore, connectors: list[Connector]) -> list[str]:
    """Close every run, read it page by page and compare."""

    async def judge(url: str, writers: list[Connector]) -> list[str]:
        async with turns:
            await _get_json(session, "POST", f"{url}/close")
            lines = await _all_lines(session, url)
        unknown = len(lines) - sum(line.startswith(f"connector {each.number:03d} ") for line in lines for each in writers)
        return [found for each in writers for found in each.violations(lines)] + (
            [f"{url}: {unknown} lines of nobody"] if unknown else []
        )

    runs: dict[str, list[Connector]] = {}
    for each in connectors:
        runs.setdefault(each.url, []).append(each)
    found = await asyncio.gather(*(judge(url, writers) for url, writers in runs.items()))
    return [line for lines in found for line in lines]


async def _all_lines(session: ClientSession, url: str) -> list[str]:
    lines: list[str] = []
    after: str | None = "0"
    while after is not None:
        page = await _get_json(session, "GET", f"{url}?limit={_PAGE}&after={after}")
        lines += page["logs"].split("\n") if page["logs"] else []
        after = page["after"]
    return lines


async def _get_json(session: ClientSession, method: str, url: str) -> dict[str, str]:
    """Repeat the request until a 200; returns the body."""
    for _ in range(_TRIES):
        try:
            async with session.request(method, url) as answer:
                if answer.status == 200:
                    document: dict[str, str] = await answer.json()
                    return document
        except ClientError:
            pass
        await asyncio.sleep(0.5)
    raise TimeoutError(f"no good answer in {_TRIES} tries: {method} {url}")


def _table(connectors: list[Connector], address: FaultyAddress, halves: int) -> Table:
    answers = sum((each.answers for each in connectors), Counter())
    rows = {
        "lines acknowledged": sum(len(each.acknowledged) for each in connectors),
        "lines sent": sum(each.sent for each in connectors),
        "batches acknowledged": answers["200"] - answers["opened"],
        "of them met again, stored by an earlier try": answers["met again"],
        "repeats": answers["repeats"],
        "batches given up after four tries": answers["given up"],
        **{f"answers: {kind}": count for kind, count in sorted(answers.items()) if kind.isdigit() or kind == "no answer"},
        "requests to the store, under load": address.requests,
        **{f"injected: {kind}": count for kind, count in sorted(address.injected.items())},
        "half objects that the kills left": halves,
    }
    table = Table("what", "how many")
    for name, count in rows.items():
        table.add_row(name, f"{count:,}")
    return table


if __name__ == "__main__":
    sys.exit(main())
