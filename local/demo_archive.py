"""The demo's archive files: uploaded without AWS credentials, then found by time, as the latest, and together with logs of runs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from rich.table import Table

from local.state import PATIENCE_S, LocalError

DAY_MS = 86_400_000
_FILES = "/v0/archive/files"


def archive_table(stack: Mapping[str, Any], fqn: str) -> tuple[Table, bool]:
    """Search results for two files of a web server and the log of a run, and whether the files' contents equal the uploads."""
    now_ms = int(time.time() * 1000)
    bodies = {_upload(stack, body, now_ms - age_ms): body for age_ms, body in ((DAY_MS, b"GET / 200\n"), (0, b"GET /cart 500\n"))}
    records = list(_search(stack, f"nginx,{fqn.replace('.', '_')}", now_ms, len(bodies) + 1))
    table = Table("what", "where", "from", "bytes", "url")
    for record in records:
        metadata = record["metadata"]
        table.add_row(metadata["what"], metadata["where"], metadata["start_iso"], str(record["size"]), record["url"])
    files = [record for record in records if record["metadata"]["what"] == "nginx"]
    return table, all(_get_bytes(record["http_url"]) == bodies.get(record["metadata"]["id"]) for record in files)


def latest(stack: Mapping[str, Any]) -> dict[str, Any]:
    """The web server's latest file."""
    return _get(f"{stack['api_url']}/v0/archive/latest/nginx/web-1")


def _upload(stack: Mapping[str, Any], body: bytes, start_ms: int) -> str:
    announced = {
        "start": start_ms, "end": start_ms + 1000, "path": "/var/log/nginx/access.log", "what": "nginx", "where": "web-1", "work_id": None,
        "size": len(body), "hash": blake2b(body, digest_size=16).hexdigest(),
    }  # fmt: skip
    answer = urlopen(
        Request(stack["api_url"] + _FILES, json.dumps(announced).encode(), {"Content-Type": "application/json"}), timeout=PATIENCE_S
    )
    upload = json.load(answer)
    how = upload["upload"]
    urlopen(Request(how["url"], body, how["headers"], method=how["method"]), timeout=PATIENCE_S).close()
    file_id: str = upload["id"]
    return file_id


def _search(stack: Mapping[str, Any], whats: str, now_ms: int, count: int) -> Iterator[dict[str, Any]]:
    """Waits until S3 has notified the ingest function and it has catalogued the files."""
    query = urlencode({"what": whats, "start": now_ms - 2 * DAY_MS, "end": now_ms + DAY_MS})
    give_up = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up:
        records: list[dict[str, Any]] = _get(f"{stack['api_url']}{_FILES}/?{query}")["records"]
        if len(records) >= count:
            yield from records
            return
        time.sleep(0.2)
    raise LocalError(f"the files were not catalogued in time: query={query}")


def _get(url: str) -> dict[str, Any]:
    return dict(json.loads(_get_bytes(url)))


def _get_bytes(url: str) -> bytes:
    with urlopen(url, timeout=PATIENCE_S) as answer:
        body: bytes = answer.read()
    return body
