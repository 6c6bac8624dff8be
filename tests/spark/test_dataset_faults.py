"""A job that is stopped at any call of its destination and started again produces the same files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chalicelib.errors import InvalidConfigurationError, UnavailableError
from glue_jobs.dataset.committing import Change, CommitConflictError, Committer
from glue_jobs.dataset.contents import files as contents
from glue_jobs.dataset.entries import APPEND, DATA, STAGING, Layout
from glue_jobs.dataset.files import LocalFiles
from glue_jobs.dataset.ledger import CHECKPOINT_EVERY, FOLDER, Ledger
from glue_jobs.dataset.publication import Publisher
from tests.faults.interception import AFTER, BEFORE, Crash, Intercepted, StopAt
from tests.spark.dataset_store import LAYOUT, Job, MemoryFiles, by_glob, by_ledger, numbers_of

SOURCE = [((f"2026-11-{20 + n % 2}", n % 2), n) for n in range(12)]
"""Two partitions."""
STEPS = (4, 8, 12)
"""So much of it is there when the job runs: it appends, then appends and puts together, and again."""


def run_all(files: Any) -> None:
    for there in STEPS:
        Job(files, SOURCE[:there]).run()


def run_stopped(files: Any, number: int, moment: str, how: str) -> bool:
    """Whether the job was stopped; a stopped job is started again, as by hand."""
    stop = StopAt(number, moment, how)
    for there in STEPS:
        try:
            Job(Intercepted(files, stop), SOURCE[:there]).run()
        except (Crash, UnavailableError):
            Job(files, SOURCE[:there]).run()
    return stop.fired


def shape(files: Any) -> dict[str, int]:
    """Folders of data with their number of files. File names are not compared: they contain entry numbers, which may differ."""
    found: dict[str, int] = {}
    for each in files.list(DATA):
        folder = each.name.rpartition("/")[0]
        found[folder] = found.get(folder, 0) + 1
    return found


@pytest.mark.behavior("A build of the dataset that is stopped at any call has each row once.")
@pytest.mark.sampled(default=2)
@pytest.mark.parametrize(
    ("kind", "moment", "how"),
    [("memory", BEFORE, "error"), ("memory", AFTER, "error"), ("memory", AFTER, "crash"), ("folder", BEFORE, "crash")],
)
def test_stopped_at_every_call(tmp_path: Path, kind: str, moment: str, how: str) -> None:
    made = iter(range(10_000))

    def make_files() -> Any:
        return MemoryFiles() if kind == "memory" else LocalFiles(tmp_path / str(next(made)))

    whole = make_files()
    run_all(whole)
    expected = dict.fromkeys(SOURCE, 1)
    assert by_glob(whole) == expected and len(list(whole.list(DATA))) == 2
    number = 0
    while run_stopped(files := make_files(), number, moment, how):
        assert by_glob(files) == by_ledger(files) == expected, f"stopped at call {number}"
        assert {each.name for each in files.list(DATA)} == set(Ledger(files).head().state.files), f"stopped at call {number}"
        assert not list(files.list(STAGING)), f"stopped at call {number}"
        assert shape(files) == shape(whole), f"stopped at call {number}"
        number += 1
    assert number > 60


def test_what_readers_of_the_ledger_see_at_every_call() -> None:
    """Before each call of the job, readers see no partial entry and no duplicate row."""
    files = MemoryFiles()
    seen: set[int] = set()

    def look(_: str, call: Any) -> Any:
        visible = Publisher(files, Ledger(files)).visible()
        assert all(path in files.bodies for path in visible.files), visible.number
        rows = [n for path in visible.files for n in numbers_of(files.read(path))]
        assert sorted(rows) == [n for _, n in SOURCE[: len(rows)]] and len(rows) in (0, *STEPS)
        seen.add(visible.number)
        return call()

    for there in STEPS:
        Job(Intercepted(files, look), SOURCE[:there]).run()
    assert seen == set(range(Ledger(files).head().state.number + 1))


def test_another_job_at_any_moment() -> None:
    """One job stops before its n-th call, another one does all the work, then the first continues."""
    overtaken = [run_overtaken(slow_call) for slow_call in range(45)]
    assert {True, False} <= set(overtaken)


def run_overtaken(slow_call: int) -> bool:
    """Whether the other job committed first."""
    files, source = MemoryFiles(), SOURCE[:4]
    Job(files, source).run()
    source += SOURCE[4:8]
    calls = iter(range(10_000))

    def gate(_: str, call: Any) -> Any:
        if next(calls) == slow_call:
            Job(files, source).run()
            source.extend(SOURCE[8:])
            Job(files, source).run()
        return call()

    is_overtaken = False
    try:
        Job(Intercepted(files, gate), source).run()
    except CommitConflictError:
        is_overtaken = True
    Job(files, source).run()
    assert by_glob(files) == by_ledger(files) == dict.fromkeys(source, 1), f"overtaken at call {slow_call}"
    assert not list(files.list(STAGING)), f"overtaken at call {slow_call}"
    return is_overtaken


def test_an_answer_that_was_lost_is_no_other_job() -> None:
    """S3 has the entry; boto3 repeats the request and gets the error that the entry exists."""

    class Deaf(MemoryFiles):
        def create(self, name: str, body: bytes) -> bool:
            super().create(name, body)
            return False

    files = Deaf()
    run_all(files)
    assert by_glob(files) == by_ledger(files) == dict.fromkeys(SOURCE, 1)


def test_an_attempt_that_may_be_somebodys_stays_until_its_number_is_taken() -> None:
    files = MemoryFiles()
    files.put(f"{STAGING}0000000001-other/files/date=2026-11-20/what_bucket=0/part-0.zstd.parquet", b"half")
    committer = Committer(files, LAYOUT)
    assert committer.settled().number == 0 and len(list(files.list(STAGING))) == 1
    Job(files, SOURCE[:4]).run()
    Job(files, SOURCE[:4]).run()
    assert not list(files.list(STAGING))


def test_settings_of_a_dataset_stay() -> None:
    files = MemoryFiles()
    Job(files, SOURCE[:4]).run()
    with pytest.raises(InvalidConfigurationError, match="buckets=2 given=3, zone='UTC' given='Europe/Berlin'"):
        Committer(files, Layout(3, "Europe/Berlin", "these")).settled()


@pytest.mark.parametrize("version", [1, 3, None])
def test_ledger_of_another_version_is_refused(version: int | None) -> None:
    files = MemoryFiles()
    for there in range(1, CHECKPOINT_EVERY + 2):
        Job(files, [(("2026-11-20", 0), n) for n in range(there)]).append()
    written = [name for name in files.bodies if name.startswith(FOLDER) and name.endswith(".json")]
    assert len(written) == CHECKPOINT_EVERY + 2 and all(b'{"v":2,' in files.read(name) for name in written)
    for name in written:
        files.put(name, files.read(name).replace(b'{"v":2,', b'{"v":%s,' % json.dumps(version).encode()))
    with pytest.raises(InvalidConfigurationError, match="unsupported ledger version expected=2"):
        Committer(files, LAYOUT).settled()


def test_a_checkpoint_saves_reading_all_entries() -> None:
    """Before each call of the jobs the ledger can be read: a job that is killed there has a successor."""
    files = MemoryFiles()
    source = [(("2026-11-20", 0), n) for n in range(40)]

    def look(_: str, call: Any) -> Any:
        assert Ledger(files).head().state.number in (there - 1, there)
        return call()

    for there in range(1, 41):
        Job(Intercepted(files, look), source[:there]).append()
    reads: list[str] = []

    def note(operation: str, call: Any) -> Any:
        reads.append(operation)
        return call()

    head = Ledger(Intercepted(files, note)).head()
    assert head.state.number == 40 and len(head.state.files) == 40 and by_ledger(files) == dict.fromkeys(source, 1)
    assert reads == ["read"] * (1 + 1 + 8 + 1), "the hint, the checkpoint of 32, 8 entries, and one that isn't there"


def test_an_entry_without_files_moves_the_offset() -> None:
    files = MemoryFiles()
    committer = Committer(files, LAYOUT)
    entry = committer.commit(committer.settled(), Change(APPEND, {"n": 5}), None)
    assert entry.counts == {"files": 0, "rows": 0, "bytes_out": 0} and committer.settled().offset == {"n": 5}


def test_the_list_of_files_is_for_engines(tmp_path: Path) -> None:
    run_all(LocalFiles(tmp_path))
    found = contents(str(tmp_path))
    assert found == contents(f"file://{tmp_path}") == sorted(f"file://{path}" for path in (tmp_path / "data").rglob("*.parquet"))
