"""More files than a page holds."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tests.integration.datalake.client import Datalake, file_id

COUNT = 210
FIRST_MS = 1514764800000  # 2018-01-01
HOUR_MS = 3_600_000
INTERVAL = {"start": "2018-01-01", "end": "2018-01-15"}


def test_each_of_210_files_is_listed_once_in_order_across_pages(
    datalake: Datalake, what: str, where: str, work_id: str, tmp_path: Path
) -> None:
    """Every third one spans midnight, every two have one start, and they arrive in no order."""
    files = [described(number, tmp_path, what=what, where=where, work_id=work_id) for number in range(COUNT)]
    random.Random(210).shuffle(files)
    urls = datalake.call("push_many", files=files)
    pushed = {file_id(url): each["start"] for url, each in zip(urls, files, strict=True)}
    in_order = sorted(pushed, key=lambda each: (pushed[each], each))
    datalake.listed(COUNT, what=what, work_id=work_id)
    datalake.listed(COUNT, what=what, **INTERVAL)
    for query in (INTERVAL, {"work_id": work_id}, {"where": where, **INTERVAL}):
        records = datalake.call("list_records", what=what, **query)
        assert [record["metadata"]["id"] for record in records] == in_order, query
    assert [file_id(line) for line in datalake.listing(what, **INTERVAL)] == in_order


def described(number: int, folder: Path, **metadata: str) -> dict[str, Any]:
    path = folder / f"{number}.log"
    path.write_text(f"file {number}\n")
    start = FIRST_MS + number // 2 * 3 * HOUR_MS
    end = start + (30 if number % 3 == 0 else 1) * HOUR_MS
    return {"filename": str(path), "start": start, "end": end, **metadata}
