"""Generates the pictures of docs/images: ``python -m tests.browser.screenshots [NAME …]``, all or those with these names: ``run``,
``steps``, ``processing``, ``output``, ``narrow``, ``start``, ``failed``. Check them before committing."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser import fake
from tests.browser.conftest import chromium
from tests.browser.fake import FakeHandler, FakePipeline, FakeRun, FakeServer, FakeStep
from tests.browser.fake_output import FakeFile, FakeLetter, FakeOutput
from tests.browser.test_start_page import run
from tests.functional.gateway import installed
from tests.world import World

IMAGES = Path(__file__).parents[2] / "docs" / "images"
_FQN, _RUN = "mysql_prod.metadata_ingestion", "2026-11-21T09-00-nightly"
_APART = 2111  # lines from one deadlock to the next
_TABLES = ("orders", "customers", "payments", "invoices", "shipments", "inventory", "sessions", "audit_events")
_PHASES = ("\x1b[36mprofiler\x1b[0m", "\x1b[35mlineage\x1b[0m", "\x1b[32msource\x1b[0m", "\x1b[34msink\x1b[0m")


def _is_error(number: int) -> bool:
    return number % _APART == 14 or (number // 62_500 % 13 == 6 and number % 9 == 4 and number % 2 == 0)


def wave(time: float) -> float:
    """The share of lines that exist at this share of the time, at a varying rate."""
    return time + 0.011 * math.sin(time * 19) + 0.006 * math.sin(time * 57)


def found(run: FakeRun, query: dict[str, str]) -> dict[str, Any]:
    """A search that does not generate all five million lines."""
    first, words = int(query.get("after") or 0), query["q"]
    numbers = [number for number in range(first - first % _APART + 14, run.total, _APART) if number >= first][:500]
    texts = {number: line(number) for number in numbers}
    matches = [
        {"line": number, "text": text, "spans": [[text.find(words), text.find(words) + len(words)]]}
        for number, text in texts.items()
    ]
    last = numbers[-1] + 1 if len(numbers) == 500 else run.total
    after = str(last) if last < run.total else None
    return {"matches": matches, "after": after, "scannedLines": last - first, "scannedBytes": 0, "total": run.total}


def line(number: int) -> str:
    """A typical line of a connector."""
    stamp = time.strftime("%H:%M:%S", time.gmtime(fake.START_MS // 1000 + number // 900)) + f",{number * 37 % 1000:03d}"
    table, phase = f"shop.{_TABLES[number * 7 % 8]}_{number % 41:02d}", _PHASES[number // 3 % 4]
    if _is_error(number):
        return f"{stamp} ERROR {phase} {table}: deadlock found when trying to get lock, attempt {number % 3 + 1} of 3"
    if number % 23 == 9:
        return f"{stamp} WARN  {phase} {table}: column \x1b[1m`note`\x1b[0m has no statistics, sampling \x1b[33m10 %\x1b[0m"
    if number % 5 == 2:
        return f"{stamp} DEBUG {phase} SELECT * FROM {table} WHERE id > {number * 1000} LIMIT 1000"
    return f"{stamp} INFO  {phase} {table}: {number * 3301 % 90_000:,} rows in \x1b[1m{number % 90 / 10 + 0.2:.1f} s\x1b[0m"


def runs() -> dict[str, list[FakeRun]]:
    """An archive at nine o'clock."""
    fake.START_MS = int(time.time() * 1000) - 5_600_000
    night = FakeRun(_RUN, count=5_000_000, text=line, line_ms=1, share=wave)
    others = [
        FakeRun(f"2026-11-{day}T09-00-nightly", count=4_000_000 + day * 31_007, text=line, line_ms=1) for day in range(20, 12, -1)
    ]
    others[3].end = "abandoned"
    live = FakeRun("backfill-7", [line(number) for number in range(40_000)], status="open", line_ms=139.9, share=wave)
    named = (
        "kafka_prod.events",
        "looker.dashboards",
        "postgres_hr.profiler",
        "redshift.usage",
        "s3_lake.storage",
        "snowflake.lineage",
    )
    small = {
        name: [
            FakeRun(
                f"run-{4 + index}",
                count=900 * (index + 2) ** 3,
                text=line,
                line_ms=(5_400_000 - index * 700_000) / (900 * (index + 2) ** 3),
            )
        ]
        for index, name in enumerate(named)
    }
    return {_FQN: [night, *others], "mysql_prod.backfill": [live], "shop.release": [release()], **small}


def release() -> FakeRun:
    """A run of steps, one of which has failed."""
    run = FakeRun("release-42")
    told = [
        ("checkout", "Checkout", None, 0, 4.2, "succeeded"),
        ("build", "Build", None, 4, 171, "succeeded"),
        ("compile", "Compile", "build", 4, 140, "succeeded"),
        ("image", "Image", "build", 144, 31, "succeeded"),
        ("test", "Test", None, 175, 283, "failed"),
        ("unit", "Unit tests", "test", 175, 96, "succeeded"),
        ("integration", "Integration tests", "test", 271, 187, "failed"),
        ("orders", "orders-service", "integration", 271, 81, "succeeded"),
        ("payments", "payments-service", "integration", 271, 187, "failed"),
        ("report", "Report", None, 458, 3, "succeeded"),
    ]
    run.steps = [FakeStep(*each) for each in told]  # type: ignore[arg-type]
    for step, name, parent, after_s, took_s, _ in told:
        of = int(took_s / 3) + 3
        for at in range(of if parent or step != "build" else 0):
            stamp = time.strftime("%H:%M:%S", time.gmtime(fake.START_MS // 1000 + int(after_s) + at * 3))
            who = f"INFO  [{name.lower()}] \x1b[36m{step}\x1b[0m"
            run.say(f"{stamp} {who}: {at + 1} of {of} done in {at % 7 / 10 + 0.2:.1f} s", step)
        if step == "payments":
            _fail(run, step, time.strftime("%H:%M:%S", time.gmtime(fake.START_MS // 1000 + int(after_s + took_s))))
    run.line_ms = 461_000 / run.total
    rules = {"TimeoutError: no answer": "timeout", "ERROR [payments-service] test_refund": "error-record"}
    chosen = [(rule, at) for text, rule in rules.items() for at, line in enumerate(run.lines) if text in line]
    candidates = [{"line": at, "text": run.lines[at], "rule": rule, "score": 0.9} for rule, at in chosen]
    run.known = {"outcome": "failed", "exitCode": 1, "failedStep": "payments-service", "candidates": candidates}
    return run


def _fail(run: FakeRun, step: str, stamp: str) -> None:
    link = "https://ci.example.com/payments/tests/refund"
    text = f"{stamp} ERROR [payments-service] test_refund failed, see {link}"
    trace = "\n".join(
        f'  File "payments/{name}.py", line {40 + len(name)}, in {name}' for name in ("refund", "ledger", "connection")
    )
    note = {"kind": "link", "length": len(link), "href": link}
    run.say(f"{text}\n{trace}\nTimeoutError: no answer in 30 s", step, "ERROR", [(text.index(link), note), (0, {"kind": "fold"})])
    run.say(f"{stamp} WARN  [payments-service] 1 of 214 tests failed", step, "WARN")


def take_failed(browser: Browser, server: FakeServer) -> None:
    """The page of a failed run as it opens."""
    for name, width, height in (("light", 1280, 620), ("narrow", 390, 720)):
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light", timezone_id="UTC")
        page.goto(f"{server.url}?p=shop.release&r=release-42")
        page.locator(".row.cause").first.wait_for()
        page.wait_for_timeout(800)
        page.screenshot(path=IMAGES / f"viewer-failed-{name}.png")


def take_steps(page: Page, server: FakeServer, theme: str) -> None:
    page.goto(f"{server.url}?p=shop.release&r=release-42&s=payments#L66")
    page.locator('.step-pane [data-line="65"]').wait_for()
    page.wait_for_timeout(800)
    page.screenshot(path=IMAGES / f"viewer-steps-{theme}.png")


def processing() -> list[FakePipeline]:
    """Three pipelines, one of which has a disabled handler."""

    def iso(ago_s: float) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - ago_s))

    full = "ConnectionError: 10.0.4.17:9200 refused the connection"
    at = {"run": "mysql_prod.metadata_ingestion/2026-11-21T09-00-nightly", "line": 1_204_431}
    lost = FakeHandler("search", "disabled", full, iso(1_640), at, 101)
    return [
        FakePipeline("audit", "running", iso(8), 412, 2.4, 6, 8_123_456, handlers=[FakeHandler("files"), FakeHandler("mail")]),
        FakePipeline(
            "by-level",
            "running",
            iso(21),
            1_940_208,
            1_652.0,
            9,
            31_077_112,
            late=214,
            dead_letters=1,
            errors=101,
            last_error=full,
            handlers=[FakeHandler("files"), lost],
        ),
        FakePipeline("runlake", "disabled", iso(86_000), handlers=[FakeHandler("rolling")], replay_from=iso(259_200)),
    ]


def take_processing(page: Page, server: FakeServer, theme: str) -> None:
    page.goto(f"{server.url}?pipelines")
    page.locator("tbody").nth(2).wait_for()
    page.wait_for_timeout(300)
    page.screenshot(path=IMAGES / f"viewer-processing-{theme}.png", full_page=True)


def output() -> FakeOutput:
    """Files by level of one application, and letters of a handler whose target was unreachable."""
    now_ms = int(time.time() * 1000)

    def texts(level: str, count: int) -> list[tuple[int, str, str]]:
        return [
            (now_ms - 4_000_000 + at * 3_300, level, f"shop.{_TABLES[at % 8]}_{at % 41:02d}: {at * 3301 % 90_000:,} rows")
            for at in range(count)
        ]

    key = "pipeline-files/mysql_prod/ingest/{}~1795250000000.{}"
    files = [
        FakeFile(key.format(level, ending), texts(level, count), format_, is_complete, "mysql_prod.ingest")
        for level, count, format_, ending, is_complete in (
            ("ERROR", 41, "avro", "avro", True),
            ("INFO", 1_190, "jsonl+gzip", "jsonl.gz", False),
            ("WARNING", 212, "parquet", "parquet", True),
        )
    ]
    refused = "ConnectionError: 10.0.4.17:9200 refused the connection"
    letters = [
        FakeLetter(
            "by-level",
            "search",
            _FQN,
            _RUN,
            1_204_431 + at * 90,
            refused,
            now_ms - at * 41_000,
            texts("ERROR", 9)[at][2],
            {"rows": 3},
        )
        for at in range(4)
    ]
    return FakeOutput(files, letters)


def take_output(page: Page, server: FakeServer, theme: str) -> None:
    """Files of an application, the events in one of them, and a dead letter."""
    if theme == "dark":
        return
    of = "files&namespace=mysql_prod&app=ingest"
    letter = f"dead&pipeline=by-level&handler=search&fqn={_FQN}&run={_RUN}&line=1204431"
    for name, query, ready in (
        ("files", of, "tbody tr"),
        ("file", f"{of}&key={server.output.files[0].key}", "tbody tr"),
        ("letters", "dead&pipeline=by-level", "tbody td:last-child bdi"),
        ("letter", letter, ".letter-text"),
    ):
        page.goto(f"{server.url}?{query}")
        page.locator(ready).first.wait_for()
        page.wait_for_timeout(400)
        page.screenshot(path=IMAGES / f"viewer-{name}-light.png")


def take(page: Page, server: FakeServer, theme: str) -> None:
    page.goto(f"{server.url}?p={_FQN}&r={_RUN}#L2501550-L2501552")
    page.locator('[data-line="2501548"] .text:not(:empty)').wait_for()
    page.get_by_label("Search in this run").fill("deadlock")
    page.locator(".matches", has_text="of 2,369 lines").filter(has_not_text="%").wait_for()
    page.locator(".log").focus()
    page.wait_for_timeout(800)
    page.screenshot(path=IMAGES / f"viewer-run-{theme}.png")


def morning() -> dict[str, list[FakeRun]]:
    """Runs of the last night: what went wrong, and before it an uneventful week."""
    hour, day = 3600, 86_400
    took_s = {
        "mysql_prod.orders": 840,
        "kafka_prod.events": 95,
        "shop.release": 460,
        "looker.dashboards": 210,
        "s3_lake.storage": 1900,
    }
    before = {
        fqn: [
            run(
                f"nightly-{at}",
                "failed" if (at * 7 + len(fqn)) % 11 == 0 else "succeeded",
                at * day,
                length * (0.7 + (at * 37 % 13) / 20),
            )
            for at in range(1, 20)
        ]
        for fqn, length in took_s.items()
    }

    def why(line: int, text: str) -> dict[str, Any]:
        return {"line": line, "text": text, "rule": "last-error", "score": 0.3}

    refused = "psycopg2.OperationalError: connection to server at 10.0.4.17, port 5432 failed: Connection refused"
    deadlock = "ERROR shop.customers_14: deadlock found when trying to get lock; attempt 3 of 3, giving up"
    retried = [
        run(
            f"2026-11-21{'~' * (at > 1)}{at if at > 1 else ''}",
            "failed",
            4 * hour - at * 900,
            130,
            attempt=at,
            firstRunId="2026-11-21",
        )
        for at in (3, 2, 1)
    ]
    retried[0].known["explanation"] = why(1411, refused)
    return {
        "mysql_prod.orders": [
            run("2026-11-21T09-00", "failed", 240, 812, explanation=why(88_204, deadlock)),
            *before["mysql_prod.orders"],
        ],
        "kafka_prod.events": [run("backfill-7", "running", 4, 5600), *before["kafka_prod.events"]],
        "looker.dashboards": [*retried, *before["looker.dashboards"]],
        "s3_lake.storage": [run("2026-11-21", "lost", 7 * hour, 620), *before["s3_lake.storage"]],
        "shop.release": [run("release-42", "failed", 2 * hour, 458, failedStep="payments-service"), *before["shop.release"]],
        "redshift.usage": [run("usage-118", "silent", 2.2 * hour, 1200), run("usage-117", "succeeded", 26 * hour, 2400)],
    }


def take_start(browser: Browser) -> None:
    server = FakeServer(morning())
    server.start()
    for name, width, height in (("light", 1280, 780), ("dark", 1280, 780), ("narrow", 390, 720)):
        theme: Any = "light" if name == "light" else "dark"
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme, timezone_id="UTC")
        page.goto(server.url)
        page.locator(".sparkline").first.wait_for()
        page.wait_for_timeout(500)
        page.screenshot(path=IMAGES / f"viewer-start-{name}.png")
    server.stop()


def take_narrow(browser: Browser, server: FakeServer) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 720}, color_scheme="dark", timezone_id="UTC")
    page.goto(f"{server.url}?p=mysql_prod.backfill&r=backfill-7")
    page.get_by_role("button", name="Following").wait_for()
    page.wait_for_timeout(800)
    page.screenshot(path=IMAGES / "viewer-narrow.png")


def main(names: Sequence[str]) -> None:
    IMAGES.mkdir(exist_ok=True)
    chosen = set(names) or {"run", "steps", "processing", "output", "narrow", "start", "failed"}
    with installed(World()), sync_playwright() as playwright:
        server = FakeServer(runs())
        server.pipelines, server.output = processing(), output()
        server.start()
        fake._grep = found
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        for theme in ("light", "dark"):
            page = browser.new_page(
                viewport={"width": 1280, "height": 760}, color_scheme="dark" if theme == "dark" else "light", timezone_id="UTC"
            )
            for name, take_themed in (
                ("run", take),
                ("steps", take_steps),
                ("processing", take_processing),
                ("output", take_output),
            ):
                if name in chosen:
                    take_themed(page, server, theme)
        for name, take_pages in (("narrow", take_narrow), ("failed", take_failed)):
            if name in chosen:
                take_pages(browser, server)
        if "start" in chosen:
            take_start(browser)
        server.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
