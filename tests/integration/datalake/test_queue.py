"""The client's queue: files wait in a folder until an uploader pushes them."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.integration.datalake.client import Datalake, fingerprint, options, wait_for
from tests.integration.stacks import PATIENCE_S

LINES = b"a line that repeats itself\n" * 1000
INTERVAL = {"start": "2019-06-01T10:00:00Z", "end": "2019-06-01T11:00:00Z"}
DAY = {"start": "2019-06-01", "end": "2019-06-02"}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "job.log"
    path.write_bytes(LINES)
    return path


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    folder = tmp_path / "queue"
    folder.mkdir()
    return folder


@contextmanager
def uploader(datalake: Datalake, queue: Path) -> Iterator[list[str]]:
    """An uploader that watches for files; yields, once it has ended, the lines that its callback printed."""
    process = datalake.start("upload", queue_dir=str(queue))
    printed: list[str] = []
    try:
        wait_for(lambda: watches(process.pid) or None, "the uploader watches its folder")
        yield printed
    finally:
        process.terminate()
        printed += process.communicate(timeout=PATIENCE_S)[0].split()


def watches(pid: int) -> bool:
    """Whether the process has an inotify watch; some of its open files may be closed before they are read."""
    with suppress(FileNotFoundError):
        return any("inotify wd:" in each.read_text() for each in Path(f"/proc/{pid}/fdinfo").iterdir())
    return False


@pytest.mark.behavior("The datalake client's queue and uploader work.")
def test_files_that_wait_are_pushed_plain_or_compressed_and_leave_the_queue(
    datalake: Datalake, what: str, where: str, log: Path, queue: Path
) -> None:
    plain = ["--where", where, "--what", what, *options(**INTERVAL)]
    packed = ["--where", where, "--what", f"{what}-gz", *options(**INTERVAL)]
    settings = {"DATALAKE_QUEUE_DIR": str(queue)}
    assert datalake.run("enqueue", *plain, log, **settings) == f"Enqueued {log}\n"
    assert datalake.run("enqueue", "--compress", *packed, log, **settings) == f"Enqueued {log}\n"
    assert len(list(queue.iterdir())) == 2
    said = datalake.run("uploader", "--timeout", "0.2", **settings)
    assert list(queue.iterdir()) == []
    [record] = datalake.listed(what=what, **DAY)
    [packed_record] = datalake.listed(what=f"{what}-gz", **DAY)
    assert set(re.findall(r" to (s3://\S+)", said)) == {record["url"], packed_record["url"]}
    assert record["metadata"]["path"] == packed_record["metadata"]["path"] == str(log)
    assert datalake.attempt("cat", record["url"], record["http_url"]).output == (LINES + b"\n") * 2
    archived = datalake.attempt("cat", packed_record["url"]).output.removesuffix(b"\n")
    assert gzip.decompress(archived) == LINES
    assert (packed_record["size"], packed_record["metadata"]["hash"]) == (len(archived), fingerprint(archived))
    assert datalake.attempt("cat", packed_record["http_url"]).output == LINES + b"\n"


def test_an_uploader_that_runs_sees_new_files(datalake: Datalake, what: str, where: str, log: Path, queue: Path) -> None:
    with uploader(datalake, queue) as printed:
        for number in range(3):
            datalake.run("enqueue", *options(what=what, where=f"{where}-{number}", **INTERVAL), log, DATALAKE_QUEUE_DIR=str(queue))
        records = datalake.listed(3, what=what, **DAY)
    assert [record["metadata"]["hash"] for record in records] == [fingerprint(LINES)] * 3
    assert sorted(Path(line).name for line in printed) == sorted(f"{record['metadata']['id']}.tar" for record in records)
    assert list(queue.iterdir()) == []
