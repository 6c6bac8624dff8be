"""Pipelines' files: keys, rolling, formats, rows, memory; one test for each behaviour of the contract."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
import tracemalloc
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chalicelib.deadline import Deadline
from chalicelib.errors import (
    InvalidConfigurationError,
    LeaseError,
    PreconditionFailedError,
    StoreUnavailableError,
)
from chalicelib.pipelines.files.appendable_object import FileGroup
from chalicelib.pipelines.files.bucket_location import BucketLocation
from chalicelib.pipelines.files.deletion import Deletion
from chalicelib.pipelines.files.generations import Generations
from chalicelib.pipelines.files.handler import RollingS3Handler
from chalicelib.pipelines.files.key_layout import DAY_MS, LAST_MS, FileContext, element, is_file_of, prefix_of
from chalicelib.pipelines.files.output_sets import OutputSet, list_output_sets, put_output_set
from chalicelib.pipelines.files.path_template import FIELDS, is_templated_key
from chalicelib.pipelines.files.reading import FileEventQuery
from chalicelib.pipelines.files.rows import CLOSED, OPEN
from chalicelib.pipelines.files.service import PipelineFiles
from chalicelib.pipelines.ports import CommitsWithCheckpoint, HandlerContext, TakesContext
from chalicelib.ports import Key, Put
from tests.faults.interception import Intercepted
from tests.files_harness import START_MS, FilesHarness, Worker, commit, put, record_of, run_writer

DAY = "2026-09-21"


def test_a_handler_is_one_of_the_frameworks() -> None:
    handler = FilesHarness().handler()
    assert isinstance(handler, logging.Handler) and isinstance(handler, TakesContext) and isinstance(handler, CommitsWithCheckpoint)


def test_the_key_names_base_namespace_day_application_program_and_number() -> None:
    site = FilesHarness()
    handler = site.handler(base="audit/files", format="text")
    put(site, handler, 1, fqn="svc.my flow", program="a/b:c")
    assert site.objects("") == [f"audit/files/svc/{DAY}/my%20flow/a%2Fb%3Ac/00000000.log"]


def test_the_day_is_the_events_own() -> None:
    site = FilesHarness()
    handler = site.handler()
    for number, days in enumerate((0, 1, 0)):
        handler.handle(record_of(number, time_ms=START_MS + days * DAY_MS + number))
    commit(site, handler)
    assert [row.contents.events for row in site.rows()] == [2, 1]
    assert [key.split("/")[2] for key in site.objects()] == [DAY, "2026-09-22"]


def test_applications_have_files_of_their_own() -> None:
    site = FilesHarness()
    handler = site.handler()
    for number in range(6):
        handler.handle(record_of(number, fqn=f"svc.flow{number % 2}", program=f"p{number % 3}"))
    commit(site, handler)
    assert len(site.objects()) == 6 and site.lines() == Counter(range(6))


def test_a_number_that_is_taken_is_passed_over_and_nothing_is_listed() -> None:
    site = FilesHarness()
    for number in range(3):
        site.store.put(f"files/svc/{DAY}/flow/main/{number:08d}.jsonl", b"another's", _options())
    lists = site.store.calls["list"]
    run_writer(site, 1)
    assert site.rows()[0].sequence == 3 and site.store.calls["list"] == lists
    assert site.store.get(f"files/svc/{DAY}/flow/main/00000000.jsonl").body == b"another's"


def _options() -> Any:
    from chalicelib.ports import PutOptions

    return PutOptions()


def test_a_file_becomes_readable_when_its_row_is_committed() -> None:
    site = FilesHarness()
    handler = site.handler()
    handler.handle(record_of(1))
    handler.flush()
    writes = handler.pending_writes()
    assert site.objects() and not site.lines()
    site.database.transact(writes)
    assert site.lines() == Counter([1])


def test_a_file_grows_from_checkpoint_to_checkpoint() -> None:
    site = FilesHarness()
    handler = site.handler()
    for number in range(5):
        put(site, handler, number)
    (row,) = site.rows()
    assert (row.contents.events, row.state, len(site.objects())) == (5, OPEN, 1)
    assert site.store.head(row.object_key).size == row.contents.size


def test_the_next_process_goes_on_with_the_file() -> None:
    site = FilesHarness()
    for number in range(4):
        run_writer(site, number)
        site.clock.advance(60)
    assert len(site.objects()) == 1 and site.lines() == Counter(range(4))


def test_another_handler_has_its_own_files() -> None:
    site = FilesHarness()
    run_writer(site, 1)
    run_writer(site, 2, base="other")
    run_writer(site, 3, extension="audit")
    assert [key.rsplit("/")[-1] for key in site.objects("")] == ["00000000.audit", "00000000.jsonl", "00000000.jsonl"]


def test_it_rolls_by_size() -> None:
    site = FilesHarness()
    handler = site.handler(max_bytes=1000)
    put(site, handler, *range(50))
    sizes = [row.contents.size for row in site.rows()]
    assert len(sizes) > 4 and all(size < 1200 for size in sizes) and site.lines() == Counter(range(50))
    assert [row.sequence for row in sorted(site.rows(), key=lambda row: row.sequence)] == list(range(len(sizes)))


def test_it_rolls_by_size_over_checkpoints_and_processes() -> None:
    site = FilesHarness(options={"max_bytes": 1000})
    for number in range(20):
        run_writer(site, number)
    assert len(site.objects()) == len(site.rows()) > 1 and site.lines() == Counter(range(20))


def test_it_rolls_by_age() -> None:
    """The first flush at or after the age closes a file, with the batch of that flush."""
    site = FilesHarness()
    handler = site.handler(max_age_s=3600, idle_s=3600)
    for number in range(9):
        put(site, handler, number)
        site.clock.advance(900)
    assert [row.contents.events for row in site.rows()] == [5, 4]


HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("roll", "period_ms"), [("hourly", HOUR_MS), ("%H", HOUR_MS), ("%Y-%m-%dT%H%M", 60_000), ("%Y=%m", DAY_MS)]
)
def test_a_file_has_the_events_of_one_period(roll: str, period_ms: int) -> None:
    """Late events too, also those that another process adds; each period has one file."""
    site = FilesHarness(options={"roll": roll})
    times = [START_MS + step * 17 * 60_000 for step in (0, 1, 4, 9, 3, 0, 10, 90, 2)]
    for numbers in (range(5), range(5, 9)):
        handler = site.handler()
        for number in numbers:
            handler.handle(record_of(number, time_ms=times[number]))
        commit(site, handler)
    rows = site.rows()
    assert site.lines() == Counter(range(9)) and len(rows) == len({time_ms // period_ms for time_ms in times})
    assert all(row.contents.from_ms // period_ms == row.contents.to_ms // period_ms for row in rows)
    assert len(site.objects()) == len(rows)


def test_a_file_of_a_day_is_not_continued_by_the_hour() -> None:
    site = FilesHarness()
    handler = site.handler()
    for number, hours in enumerate((0, 2)):
        handler.handle(record_of(number, time_ms=START_MS + hours * HOUR_MS))
    commit(site, handler)
    for roll, files in (("hourly", 2), ("daily", 2)):
        run_writer(site, 2, roll=roll)
        assert len(site.rows()) == files
    assert site.lines() == Counter({0: 1, 1: 1, 2: 2})


@pytest.mark.parametrize("roll", ["hour", "weekly", "%j", "%Y/%m", "%", "%Y%", "%H:%M", "%d" * 31])
def test_a_period_that_is_none_is_refused(roll: str) -> None:
    with pytest.raises(InvalidConfigurationError, match="roll"):
        RollingS3Handler("files", roll=roll)


def test_an_idle_file_is_closed_without_traffic() -> None:
    site = FilesHarness()
    handler = site.handler(idle_s=300)
    put(site, handler, 1)
    site.clock.advance(200)
    assert commit(site, handler) == 0 and site.rows()[0].state == OPEN
    site.clock.advance(101)
    assert commit(site, handler) == 1 and site.rows()[0].state == CLOSED
    put(site, handler, 2)
    assert [row.contents.events for row in site.rows()] == [1, 1]


def test_an_idle_commit_costs_nothing() -> None:
    site = FilesHarness()
    handler = run_writer(site, 1)
    before = (sum(site.store.calls.values()), sum(site.database.calls.values()))
    for _ in range(5):
        assert commit(site, handler) == 0
    assert (sum(site.store.calls.values()), sum(site.database.calls.values())) == before


def test_what_a_commit_costs() -> None:
    """A new file: a query, a PUT, a read of dead generations, and its row within the transaction; one that grows: a GET and a
    PUT."""
    site = FilesHarness()
    handler = site.handler()
    site.store.calls.clear(), site.database.calls.clear()
    put(site, handler, 1)
    assert (dict(site.store.calls), dict(site.database.calls)) == ({"put": 1}, {"query": 1, "get_many": 1, "transact": 1})
    site.store.calls.clear(), site.database.calls.clear()
    put(site, handler, 2)
    assert (dict(site.store.calls), dict(site.database.calls)) == ({"put": 1, "get": 1}, {"transact": 1})


def test_a_large_file_grows_on_the_server() -> None:
    site = FilesHarness()
    handler = site.handler(format="text")
    big = "x" * 1_000_000
    for number in range(6):
        handler.handle(record_of(number, big))
    commit(site, handler)
    uploaded = site.store.uploaded_bytes
    put(site, handler, 7)
    assert site.store.uploaded_bytes - uploaded < 1000 and site.store.calls["copy_part"] == 1
    (row,) = site.rows()
    assert row.contents.size == site.store.head(row.object_key).size > 6_000_000


def test_ten_rows_go_with_the_checkpoint_and_more_by_one_write() -> None:
    site = FilesHarness()
    handler = site.handler()
    for number in range(10):
        handler.handle(record_of(number, fqn=f"svc.flow{number}"))
    assert commit(site, handler) == 10
    for number in range(10, 260):
        handler.handle(record_of(number, fqn=f"svc.flow{number - 10}"))
    assert commit(site, handler) == 1
    assert site.lines() == Counter(range(260))


def test_staged_rows_count_only_when_their_commit_does() -> None:
    site = FilesHarness()
    handler = site.handler()
    for number in range(30):
        handler.handle(record_of(number, fqn=f"svc.flow{number}"))
    handler.flush()
    writes = handler.pending_writes()
    assert len(site.rows()) == 30 and not site.lines()
    site.database.transact(writes)
    assert site.lines() == Counter(range(30))


def test_events_during_an_outage_of_the_checkpoint_store_are_committed_after_it() -> None:
    site = FilesHarness()
    handler = site.handler()
    for count in (3, 30, 2):
        start = int(handler.counts["events"])
        for number in range(start, start + count):
            handler.handle(record_of(number, fqn=f"svc.flow{number % 12}"))
        handler.flush()
        handler.pending_writes()  # and the transaction fails
    assert not site.lines()
    commit(site, handler)
    assert site.lines() == Counter(range(35))


def test_a_lost_lease_publishes_nothing() -> None:
    def lost() -> None:
        raise LeaseError("lost")

    site = FilesHarness()
    handler = site.handler(fence=lost)
    handler.handle(record_of(1))
    with pytest.raises(LeaseError):
        handler.pending_writes()
    assert site.objects() == []


def test_a_failed_flush_is_repeated_and_loses_nothing() -> None:
    calls: list[str] = []

    def flaky(operation: str, call: Any) -> Any:
        calls.append(operation)
        if operation == "put" and calls.count("put") < 4:
            raise StoreUnavailableError("throttled")
        return call()

    site = FilesHarness()
    handler = site.handler(store=Intercepted(site.store, flaky))
    handler.handle(record_of(1))
    for _ in range(3):
        with pytest.raises(StoreUnavailableError):
            handler.pending_writes()
    commit(site, handler)
    assert site.lines() == Counter([1])


def test_events_of_a_dead_generation_are_dropped_and_counted() -> None:
    site = FilesHarness()
    generations = Generations(site.database, site.clock)
    generation = generations.of_run("svc", "svc.flow", "run-1", START_MS)
    assert generation
    handler = site.handler()
    put(site, handler, 1, generation=generation)
    site.clock.advance(1)
    generations.end("svc", "svc.flow")
    site.clock.advance(31)
    put(site, handler, 2, 3, generation=generation)
    put(site, handler, 4, generation=generation)
    assert handler.counts["dropped"] == 3 and site.lines() == Counter([1])


def test_a_deletion_holds_the_checkpoint_back_once() -> None:
    """It has removed the row of a file that this handler had extended: the transaction is rejected, the next one succeeds without
    it."""
    site = FilesHarness()
    generations = Generations(site.database, site.clock)
    one, two = (str(generations.of_run("svc", fqn, "run-1", START_MS)) for fqn in ("svc.flow", "svc.other"))
    handler = site.handler()
    put(site, handler, 1, generation=one)
    handler.handle(record_of(2, generation=one))
    handler.handle(record_of(3, fqn="svc.other", generation=two))
    writes = handler.pending_writes()
    site.clock.advance(1)
    deletion = Deletion(site.database, Generations(site.database, site.clock), site.clock, lambda _: site.store)
    deletion.delete("svc", "svc.flow", Deadline(site.clock))
    with pytest.raises(PreconditionFailedError):
        site.database.transact(writes)
    commit(site, handler)
    assert site.lines() == Counter([3]) and len(site.objects()) == 1


def test_an_event_that_cannot_be_written_is_handled_as_logging_does(monkeypatch: pytest.MonkeyPatch) -> None:
    site = FilesHarness()
    handler = site.handler()
    failed: list[logging.LogRecord] = []
    monkeypatch.setattr(handler, "handleError", failed.append)
    bad = record_of(1, "%d")
    bad.args = ("no number",)
    handler.handle(bad)
    put(site, handler, 2)
    assert failed == [bad] and site.lines() == Counter([2])


@pytest.mark.parametrize("formatter", [None, logging.Formatter("%(levelname)s|%(message)s|%(runlake_line)s")])
def test_text_has_its_own_layout_or_the_usual_one(formatter: logging.Formatter | None) -> None:
    site = FilesHarness()
    handler = site.handler(format="text")
    handler.setFormatter(formatter)
    put(site, handler, 7)
    usual = "2026-09-21T01:00:00.007Z INFO logger.main - event 7\n"
    assert site.store.get(site.objects()[0]).body.decode() == ("INFO|event 7|7\n" if formatter else usual)


def test_a_line_of_json_holds_each_field() -> None:
    site = FilesHarness()
    run_writer(site, 7)
    assert json.loads(site.store.get(site.objects()[0]).body) == {
        "time": START_MS + 7, "level": "INFO", "logger": "logger.main", "message": "event 7", "fqn": "svc.flow", "runId": "run-1", "line": 7,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.behavior("Other libraries read the Avro and Parquet files of pipelines.")
@pytest.mark.parametrize("format_", ["avro", "parquet"])
def test_other_libraries_read_the_files(format_: str) -> None:
    import io

    import fastavro
    import pyarrow.parquet as pq

    site = FilesHarness()
    handler = site.handler(format=format_)
    for number in range(3):
        put(site, handler, number, text=f"größe \ud800 {number}")
    found: list[dict[str, Any]] = []
    for key in site.objects():
        body = io.BytesIO(site.store.get(key).body)
        found += list(fastavro.reader(body)) if format_ == "avro" else pq.read_table(body).to_pylist()  # type: ignore[arg-type]
    assert len(site.objects()) == (1 if format_ == "avro" else 3)
    assert [(each["message"], each["line"], each["time"].timestamp()) for each in found] == [
        (f"größe ? {number}", number, (START_MS + number) / 1000) for number in range(3)
    ]


def test_heavy_libraries_are_not_loaded_before_they_are_asked_for() -> None:
    code = "import sys, chalicelib.pipelines.files.handler as h; h.RollingS3Handler('b', 'jsonl'); print({'fastavro', 'pyarrow'} & {*sys.modules})"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "set()"


def test_a_format_that_is_none_is_refused_and_heavy_ones_are_loaded_when_asked_for() -> None:
    with pytest.raises(InvalidConfigurationError, match="format='xml'"):
        RollingS3Handler("files", "xml")
    with pytest.raises(InvalidConfigurationError, match="max_bytes=0"):
        RollingS3Handler("files", max_bytes=0)
    with pytest.raises(InvalidConfigurationError, match="compress='zip'"):
        RollingS3Handler("files", compress="zip")
    for format_ in ("avro", "parquet"):
        with pytest.raises(InvalidConfigurationError, match="only text and jsonl can be compressed"):
            RollingS3Handler("files", format_, compress="gzip")


@pytest.mark.parametrize("base", ["", "/files", "files/", "a//b", "#bases", "../x", "a b", ".hidden"])
def test_a_base_that_is_no_folder_is_refused(base: str) -> None:
    with pytest.raises(InvalidConfigurationError):
        RollingS3Handler(base)


@pytest.mark.parametrize("extension", ["a/b", ".hidden", "a b", "é", "x" * 41, "a:b", "#"])
def test_an_extension_that_cannot_be_part_of_a_key_is_refused(extension: str) -> None:
    with pytest.raises(InvalidConfigurationError, match="extension"):
        RollingS3Handler("files", extension=extension)


@pytest.mark.parametrize("second", [{}, {"format": "text", "extension": "jsonl"}, {"max_bytes": 1}])
def test_two_handlers_of_a_worker_that_write_the_same_files_are_refused(second: dict[str, Any]) -> None:
    site = FilesHarness()
    context = HandlerContext(site.store, site.database, site.clock, "test", lambda: None)
    RollingS3Handler("files", "jsonl").use(context)
    with pytest.raises(InvalidConfigurationError, match=r"writes the same files output=files/….jsonl"):
        RollingS3Handler(**{"base": "files", "format": "jsonl", **second}).use(context)
    RollingS3Handler("files", "text").use(context)
    RollingS3Handler("files/audit", "jsonl").use(context)
    RollingS3Handler("files", "jsonl").use(replace(context, outputs=set()))  # the next worker's


ELEMENTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
BASES = st.lists(st.text("ab-.=", min_size=1, max_size=4).filter(lambda each: each[0] not in ".="), min_size=1, max_size=4)


@given(BASES, ELEMENTS, ELEMENTS, ELEMENTS, st.integers(0, 2_900_000), st.integers(0, 10**9), st.lists(BASES, max_size=6))
def test_a_key_is_a_file_of_its_own_base_and_of_no_other(
    base: list[str], namespace: str, app: str, program: str, day: int, sequence: int, others: list[list[str]]
) -> None:
    key = FileContext("/".join(base), namespace, app, program).key(day, sequence, "jsonl")
    parts = key.split("/")
    beginnings = {"/".join(parts[:count]) for count in range(1, len(parts))} | {"/".join(other) for other in others}
    assert [other for other in beginnings | {"/".join(base)} if is_file_of(other, key)] == ["/".join(base)]


@pytest.mark.parametrize(
    "key",
    [
        "files/svc/2026-09-21/flow/main/0.jsonl", "files/svc/today/flow/main/00000000.jsonl", "files/notes.txt", "files/",
        "files/svc/2026-09-21/flow/main/00000000", "filesystem/svc/2026-09-21/flow/main/00000000.jsonl",
        "files/svc/2026-09-21/flow/main/00000000.jsonl/more", "files/audit/svc/2026-09-21/flow/main/00000000.jsonl",
    ],
)  # fmt: skip
def test_another_key_is_no_file_of_a_base(key: str) -> None:
    assert not is_file_of("files", key)


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({"path": "{namespace}/{application}/{level}.log"}, ["svc/my%20flow/{level}~{at}.log"]),
        ({"path": "{namespace}/{application}/{level}.log", "compress": "gzip"}, ["svc/my%20flow/{level}~{at}.log.gz"]),
        ({"path": "{date}/{hour}/{program}={level}"}, ["2026-09-21/01/a%2Fb%3Ac={level}~{at}.jsonl"]),
        ({"path": "{time}/{fqn}-{level}", "roll": "%Y=%m", "extension": "x"}, ["2026=09/svc.my%20flow-{level}~{at}.x"]),
    ],
)
def test_the_key_is_by_the_path_with_files_for_each_level(options: dict[str, str], keys: list[str]) -> None:
    site = FilesHarness(options=options)
    levels = (logging.INFO, logging.ERROR)
    for first in (0, 4):
        handler = site.handler()
        for number in range(first, first + 4):
            handler.handle(record_of(number, fqn="svc.my flow", program="a/b:c", level=levels[number % 2]))
        commit(site, handler)
        site.clock.advance(1)
    rows = {row.object_key: row for row in site.rows()}
    expected = [f"files/{keys[0].format(level=level, at=START_MS + at)}" for at, level in ((1, "ERROR"), (0, "INFO"))]
    assert site.objects() == sorted(rows) == expected
    assert [row.contents.events for row in rows.values()] == [4, 4]
    if "compress" not in options:
        assert site.lines() == Counter(range(8))


def test_applications_that_share_a_folder_never_try_for_the_same_number() -> None:
    site = FilesHarness(options={"path": "all.log", "workers": 8, "max_bytes": 200})
    handler = site.handler()
    for round_ in range(2):
        for number in range(30):
            handler.handle(record_of(30 * round_ + number, fqn=f"svc.flow{number}"))
            handler.handle(record_of(60 + 30 * round_ + number, fqn=f"svc.flow{number}"))
        commit(site, handler)
    assert site.lines() == Counter(range(120)) and site.store.calls["put"] == len(site.objects()) == len(site.rows())


PATHS = st.lists(
    st.lists(st.sampled_from(["a", "-", "b.", *(f"{{{field}}}" for field in FIELDS)]), min_size=1, max_size=3).map("".join),
    min_size=1,
    max_size=3,
).map("/".join)


@given(PATHS, ELEMENTS, ELEMENTS, ELEMENTS, st.sampled_from(["", "log"]), st.integers(0, LAST_MS))
def test_a_key_of_a_path_fits_s3_and_is_no_key_of_the_default_layout(
    path: str, namespace: str, app: str, program: str, extension: str, time_ms: int
) -> None:
    try:
        handler = RollingS3Handler("files", path=path, roll="%H%M", extension=extension)
    except InvalidConfigurationError:
        assume(False)
    names = (namespace, 50 * app, program, f"{namespace}.{50 * app}")
    file = handler._new_file(FileGroup(*names, "g", time_ms, 99 * program), time_ms)
    key = handler._key_of(file)(10**12)
    assert len(key) <= 1024 and is_templated_key("files", key) and not is_file_of("files", key)
    assert key.count("/") == path.count("/") + 1


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("{run_id}.log", "unknown='run_id'"), ("{}.log", "unknown=''"), ("{level", "fields in braces"), ("/a", "fields in braces"),
        ("a/../{level}", "fields in braces"), ("{level}/.log", "fields in braces"), ("a~{level}", "fields in braces"),
        ("{level!r}", "unknown='level!r'"), ("a" * 201, "at most 200"), ("-".join(["{fqn}"] * 20), "too many fields"),
        ("{level}.lög", "extension"), ("{level}.log", "no other extension"),
    ],
)  # fmt: skip
def test_a_path_that_is_none_is_refused(path: str, reason: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=re.escape(reason)):
        RollingS3Handler("files", path=path, extension="x" if path == "{level}.log" else "")
    with pytest.raises(InvalidConfigurationError, match="needs files of an hour"):
        RollingS3Handler("files", path="{hour}", roll="daily")


def test_its_own_location_on_s3() -> None:
    site, other = FilesHarness(), FilesHarness()
    handler = RollingS3Handler("files", "jsonl", bucket="elsewhere", workers=1)
    handler.use(
        HandlerContext(
            site.store, site.database, site.clock, "test", lambda: None, {BucketLocation("elsewhere"): other.store}.__getitem__
        )
    )
    put(site, handler, 1)
    assert (len(site.objects()), len(other.objects())) == (0, 1)
    with pytest.raises(InvalidConfigurationError, match="another bucket"):
        site.handler()
    lost = RollingS3Handler("more", bucket="elsewhere")
    with pytest.raises(InvalidConfigurationError, match="elsewhere"):
        lost.use(HandlerContext(site.store, site.database, site.clock, "test", lambda: None))


ROLE = "arn:aws:iam::111122223333:role/audit/runlake"


@pytest.mark.parametrize(
    ("options", "owner"),
    [
        ({"role": ROLE}, "111122223333"),
        ({"role": ROLE, "bucket_owner": "1" * 12}, "1" * 12),
        ({"bucket_owner": "1" * 12}, "1" * 12),
    ],
)
def test_a_bucket_has_the_role_and_the_owner_that_all_operations_use(options: dict[str, str], owner: str) -> None:
    site, other, asked = FilesHarness(), FilesHarness(), list[BucketLocation]()

    def stores(location: BucketLocation) -> Any:
        asked.append(location)
        return other.store

    handler = RollingS3Handler("files", "jsonl", bucket="audit-logs", workers=1, **options)  # type: ignore[arg-type]
    handler.use(HandlerContext(site.store, site.database, site.clock, "test", lambda: None, stores))
    put(site, handler, 1)
    files = PipelineFiles(site.database, site.clock, stores)
    assert [event.line for event in files.page(FileEventQuery("files", "svc", "flow"), 10, Deadline(site.clock)).events] == [1]
    assert files.findings("files") == ([], True)
    site.clock.advance(30 * 86_400)
    assert files.run_maintenance(Deadline(site.clock))[1]["files"].removed == 1
    assert {*asked} - {BucketLocation()} == {BucketLocation("audit-logs", options.get("role", ""), owner)} and not site.objects()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"role": ROLE}, "need the name of a bucket"), ({"bucket": "B", "bucket_owner": "1" * 12}, "need the name of a bucket"),
        ({"bucket": "audit-logs", "role": "admin"}, "ARN of a role"), ({"bucket": "audit-logs", "bucket_owner": "7"}, "12 digits"),
    ],
)  # fmt: skip
def test_a_location_that_is_none_is_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=reason):
        RollingS3Handler("files", **options)  # type: ignore[arg-type]


def test_a_bucket_that_is_gone_affects_only_its_own_files() -> None:
    site = FilesHarness()
    generation = str(Generations(site.database, site.clock).of_run("svc", "svc.flow", "run-1", START_MS))
    for base in ("a", "b"):
        run_writer(site, 1, base=base)
        put(site, site.handler(base=base, extension="x"), 2, generation=generation)
    put_output_set(site.database, OutputSet("a", "gone", DAY_MS, 0, 0, ROLE))
    put_output_set(site.database, OutputSet("a0", "gone", DAY_MS, 0, 0, ROLE))

    def stores(location: BucketLocation) -> Any:
        if location.role:
            raise InvalidConfigurationError("the role is not listed")
        return site.store

    files = PipelineFiles(site.database, site.clock, stores)
    site.clock.advance(30 * 86_400)
    with pytest.raises(InvalidConfigurationError):
        files.run_maintenance(Deadline(site.clock))
    assert len(site.objects("a/")) == 2 and site.objects("b/") == []
    with pytest.raises(InvalidConfigurationError):
        files.delete("svc", "svc.flow", Deadline(site.clock))
    run_writer(site, 1, base="b")
    site.clock.advance(30 * 86_400)
    with pytest.raises(InvalidConfigurationError):
        files.run_maintenance(Deadline(site.clock))
    assert site.objects("b/") == []
    put_output_set(site.database, OutputSet("a", "", DAY_MS, 0, 0))
    assert files.delete("svc", "svc.flow", Deadline(site.clock)).files == 1


def test_output_set_stores_the_retention_of_its_files() -> None:
    site = FilesHarness()
    site.handler(keep_days=1, keep_files=3)
    site.handler()
    assert list_output_sets(site.database) == [OutputSet("files", "", 7 * DAY_MS, 0, 0)]


def test_no_context_is_a_prefix_of_another() -> None:
    prefixes = [prefix_of("svc", "flow1"), prefix_of("svc", "flow10"), prefix_of("svc", "flow1:x"), prefix_of("svc", "flow1", "x")]
    for one in prefixes[:3]:
        assert [other for other in prefixes[:3] if other.startswith(one)] == [one]
    assert FileContext("b", "a:b", "c", "d").prefix != FileContext("b", "a", "b:c", "d").prefix


def test_long_names_are_cut_and_told_apart() -> None:
    long = ["ü" * 500, "ü" * 501]
    assert len({element(name) for name in long}) == 2 and all(len(element(name).encode()) <= 200 for name in long)


def test_handler_without_a_context_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    handler, failed = RollingS3Handler("files"), list[Any]()
    monkeypatch.setattr(handler, "handleError", failed.append)
    handler.handle(record_of(1))
    handler.flush()
    assert len(failed) == 1 and handler.pending_writes() == []


def test_memory_is_bounded_in_a_batch_of_any_size() -> None:
    site = FilesHarness(options={"memory_bytes": 200_000, "format": "text"})
    handler = site.handler()
    tracemalloc.start()
    for number in range(3000):
        handler.handle(record_of(number, f"{number}" + "x" * 1000, fqn=f"svc.flow{number % 7}"))
    held = handler._buffered_bytes
    tracemalloc.stop()
    commit(site, handler)
    assert held <= 210_000
    assert sum(row.contents.events for row in site.rows()) == 3000


def test_applications_that_are_quiet_are_forgotten_and_found_again() -> None:
    site = FilesHarness()
    handler = site.handler(max_open=10)
    for number in range(100):
        handler.handle(record_of(number, fqn=f"svc.flow{number}"))
    commit(site, handler)
    assert len(handler._files) == 10
    for number in range(100, 200):
        handler.handle(record_of(number, fqn=f"svc.flow{number - 100}"))
    commit(site, handler)
    assert len(site.objects()) == 100 and site.lines() == Counter(range(200))


def test_files_are_published_side_by_side_with_the_same_outcome() -> None:
    site = FilesHarness()
    Worker(site, site.handler(workers=8, max_bytes=600)).run([record_of(n, fqn=f"svc.flow{n % 9}") for n in range(100)], batch=20)
    assert site.lines() == Counter(range(100))


def test_a_row_that_another_has_changed_holds_the_checkpoint_back() -> None:
    site = FilesHarness()
    handler = run_writer(site, 1)
    (row,) = site.rows()
    site.database.transact([row.written(state=CLOSED)[1]])
    handler.handle(record_of(2))
    with pytest.raises(PreconditionFailedError):
        site.database.transact(handler.pending_writes())
    assert site.lines() == Counter([1])


def test_a_damaged_row_is_passed_over_by_the_writer() -> None:
    site = FilesHarness()
    at = f"{prefix_of('svc', 'flow', 'main')}{START_MS:015d}:x"
    site.database.put_many([Put(Key("pipeline_files", "files", at), {"partition": "files", "at": at, "names": 1})])
    run_writer(site, 1)
    assert site.lines() == Counter([1])
