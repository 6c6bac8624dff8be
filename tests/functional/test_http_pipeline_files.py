"""Files of pipelines over HTTP: merged pages, deletion with their runs, repair."""

from __future__ import annotations

import json
import logging
import random
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from chalicelib import composition
from chalicelib.catalog.timestamps import iso, parse_time_ms
from chalicelib.deadline import Deadline
from chalicelib.pipelines.dead_letters import DeadLetters
from chalicelib.pipelines.files import service
from chalicelib.pipelines.files.handler import RollingS3Handler
from chalicelib.pipelines.files.output_sets import OutputSet, put_output_set
from chalicelib.pipelines.files.rows import FileRow, FileRows
from chalicelib.pipelines.ports import HandlerContext
from chalicelib.ports import PutOptions, Run
from chalicelib.response_size import RESPONSE_BYTES
from chalicelib.routes import pipeline_files as routes_pipeline_files
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.deletion_marks import is_marked
from tests.faults.interception import AFTER, BEFORE, Crash, Intercepted, StopAt
from tests.files_harness import record_of
from tests.functional.gateway import call, get, installed, post
from tests.issuer import JWT, Issuer, bearer
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import START_MS, World

PATH = "/v1/pipeline-files"


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    with installed(world):
        yield world


def handler_of(world: World, **options: Any) -> RollingS3Handler:
    made = RollingS3Handler(**({"base": "pipeline-files", "format": "jsonl", "workers": 1} | options))
    made.use(HandlerContext(world.store, world.database, world.clock, "runlake", lambda: None))
    return made


def write(world: World, *numbers: int, handler: RollingS3Handler | None = None, **about: Any) -> None:
    handler = handler or handler_of(world)
    for number in numbers:
        handler.handle(record_of(number, **({"time_ms": START_MS + number} | about)))
    world.database.transact(handler.pending_writes())
    handler.committed()


def asked(**query: Any) -> Any:
    answer = call("GET", f"{PATH}?{urlencode({'namespace': 'svc', 'app': 'flow'} | query)}")
    assert answer.status == 200, answer.body
    return answer.json


def pages(**query: Any) -> list[int]:
    """Lines of all events, page by page."""
    lines: list[int] = []
    cursor: dict[str, str] = {}
    while True:
        page = asked(**query, **cursor)
        lines += [event["line"] for event in page["events"]]
        if page["cursor"] is None:
            return lines
        cursor = {"cursor": page["cursor"]}


def test_events_come_in_order_by_pages(world: World) -> None:
    handler = handler_of(world, max_bytes=700)
    for number in range(30):
        write(world, number, handler=handler, program=f"p{number % 3}")
    assert pages(limit=7) == list(range(30))
    assert pages(limit=4, program="p1") == list(range(1, 30, 3))
    assert pages(limit=3, **{"from": START_MS + 5, "to": START_MS + 9}) == [5, 6, 7, 8]


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
def test_pages_break_anywhere_among_events_of_the_same_time(world: World, limit: int) -> None:
    rng = random.Random(limit)
    handler = handler_of(world, max_bytes=600)
    times = sorted(rng.randrange(4) for _ in range(25))
    for number, at in enumerate(times):
        write(world, number, handler=handler, program=f"p{number % 2}", time_ms=START_MS + at)
    lines = pages(limit=limit)
    assert sorted(lines) == list(range(25)) and [times[line] for line in lines] == times


def test_a_page_is_bounded_in_bytes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "PAGE_BYTES", 1000)
    write(world, *range(20))
    assert len(asked()["events"]) == 6 and pages() == list(range(20))


def listed(**query: Any) -> list[dict[str, Any]]:
    """Files of all pages."""
    found: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        query = {"namespace": "svc", "app": "flow", "cursor": cursor} | query
        answer = call("GET", f"{PATH}/files?{urlencode(query | {'cursor': cursor})}")
        assert answer.status == 200, answer.body
        found += answer.json["files"]
        cursor = answer.json["cursor"]
    return found


def test_files_are_listed_with_sizes_and_links(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = handler_of(world, max_bytes=250)
    for number in range(20):
        write(world, number, handler=handler, program=f"p{number % 2}")
    files = listed()
    assert [file["program"] for file in files] == sorted(file["program"] for file in files) and len(files) > 2
    assert sum(file["events"] for file in files) == 20
    for file in files:
        assert (file["format"], file["fqn"]) == ("jsonl", "svc.flow") and file["key"] in file["url"]
        assert file["bytes"] == world.store.head(file["key"]).size
    assert listed(limit=1) == files
    assert {file["program"] for file in listed(program="p1")} == {"p1"}
    later = listed(**{"from": START_MS + 10})
    assert 0 < len(later) < len(files) and all(file["lastTime"] >= START_MS + 10 for file in later)
    monkeypatch.setattr(routes_pipeline_files, "PAGE_BYTES", 1000)
    assert listed() == files


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_events_are_those_of_a_level_and_of_a_file(world: World, limit: int) -> None:
    handlers = [handler_of(world, format=format_, extension=f"x{format_}") for format_ in ("jsonl", "avro", "text")]
    for number, handler in enumerate(handlers * 4):
        write(world, number, handler=handler, level=logging.WARNING if number % 2 else logging.INFO)
    keys = {file["format"]: file["key"] for file in listed()}
    assert pages(limit=limit, key=keys["jsonl"]) == [0, 3, 6, 9]
    assert pages(limit=limit, key=keys["avro"], level="warn") == [1, 7]
    assert len(pages(limit=limit, key=keys["text"])) == 4 and pages(limit=limit, key="none") == []
    assert [each for each in pages(limit=limit, level="WARNING") if each >= 0] == [1, 3, 7, 9]
    assert [file["key"] for file in listed(key=keys["avro"])] == [keys["avro"]] and len(listed(key="")) == 3
    assert call("GET", f"{PATH}?namespace=svc&app=flow&level=x").status == 400


def test_files_of_hidden_pipelines_are_not_listed() -> None:
    issuer = Issuer()
    with installed(World(), keys=issuer.read, **JWT) as made:
        write(made, 1)
        for names, count in (["svc.*"], 1), (["svc.other"], 0):
            answer = call("GET", f"{PATH}/files?namespace=svc&app=flow", None, bearer(issuer.granted(logs_read=names)))
            assert len(answer.json["files"]) == count


@pytest.mark.parametrize("query", [{"cursor": "x"}, {"limit": 0}, {"namespace": ""}, {"base": "none"}, {"from": "x"}])
def test_bad_list_of_files_is_refused(world: World, query: dict[str, Any]) -> None:
    write(world, 1)
    assert call("GET", f"{PATH}/files?{urlencode({'namespace': 'svc', 'app': 'flow'} | query)}").status == 400


def test_bases_are_listed_in_pages(world: World) -> None:
    for base in ("pipeline-files/b", "pipeline-files", "pipeline-files/a"):
        handler_of(world, base=base)
    first = call("GET", f"{PATH}/bases?limit=2").json
    assert first["bases"] == ["pipeline-files", "pipeline-files/a"]
    assert call("GET", f"{PATH}/bases?cursor={first['cursor']}").json == {"bases": ["pipeline-files/b"], "cursor": None}
    assert call("GET", f"{PATH}/bases?cursor=/x").status == call("GET", f"{PATH}/bases?limit=0").status == 400


def returned_bytes(body: str) -> int:
    """Size of a response as Lambda counts it: the body is a string in JSON."""
    return len(json.dumps({"statusCode": 200, "headers": {}, "multiValueHeaders": {}, "body": body}))


@pytest.mark.slow
@pytest.mark.parametrize("text", ['"' * 100_000, "\\" * 100_000, "é" * 100_000, "\U0001f600" * 50_000, "x" * 500_000])
def test_a_page_fits_a_response_whatever_its_messages(world: World, text: str) -> None:
    handler = handler_of(world)
    for number in range(40):
        write(world, number, handler=handler, text=text)
    lines: list[int] = []
    cursor: dict[str, str] = {}
    while not lines or cursor:
        answer = call("GET", f"{PATH}?{urlencode({'namespace': 'svc', 'app': 'flow', **cursor})}")
        assert answer.status == 200 and 0 < returned_bytes(answer.body) <= RESPONSE_BYTES
        assert all(event["message"] == text and "truncated" not in event for event in answer.json["events"])
        lines += [event["line"] for event in answer.json["events"]]
        cursor = {"cursor": answer.json["cursor"]} if answer.json["cursor"] else {}
    assert lines == list(range(40))


def test_event_too_large_for_a_response_is_truncated_and_flagged(world: World) -> None:
    text = "\U0001f600" * 1_000_000
    write(world, 1, 2, text=text)
    answer = call("GET", f"{PATH}?{urlencode({'namespace': 'svc', 'app': 'flow'})}")
    [event] = answer.json["events"]
    assert returned_bytes(answer.body) <= RESPONSE_BYTES
    assert event["truncated"] and event["line"] == 1 and text.startswith(event["message"]) and len(event["message"]) == 262_144
    assert pages() == [1, 2]


def test_repair_lists_and_mends_as_much_as_a_response_holds(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    handler_of(world)
    for number in range(2500):
        key = f"pipeline-files/svc/2026-09-21/flow/{'p' * 700}/{number:08d}.jsonl"
        world.store.put(key, b"orphan", PutOptions())
    world.clock.advance(7200)
    listed = call("GET", f"{PATH}/repair")
    assert (len(listed.json["findings"]), listed.json["complete"]) == (1000, False) and returned_bytes(
        listed.body
    ) <= RESPONSE_BYTES
    answers = [call("POST", f"{PATH}/repair") for _ in range(3)]
    assert [len(answer.json["mended"]) for answer in answers] == [1000, 1000, 500]
    assert [answer.json["complete"] for answer in answers] == [False, False, True]
    monkeypatch.setattr(service, "PAGE_BYTES", 2000)
    for number in range(5):
        world.store.put(f"pipeline-files/svc/2026-09-21/flow/{'p' * 700}/{number:08d}.jsonl", b"orphan", PutOptions())
    world.clock.advance(7200)
    assert len(call("GET", f"{PATH}/repair").json["findings"]) == len(call("POST", f"{PATH}/repair").json["mended"]) == 3


def test_repair_spares_the_files_of_a_nested_base(world: World) -> None:
    write(world, 1)
    write(world, 2, handler=handler_of(world, base="pipeline-files/audit", format="text"))
    world.clock.advance(7200)
    for base in ("pipeline-files", "pipeline-files/audit"):
        assert call("POST", f"{PATH}/repair?base={base}").json == {"mended": [], "complete": True}
    audit = asked(base="pipeline-files/audit")
    assert [event["message"] for event in audit["events"]] == ["event 2"] and audit["leftOut"] == 0


def test_avro_is_read_without_a_library(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    write(world, 1, 2, handler=handler_of(world, format="avro"))
    for name in ("fastavro", "pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    assert pages() == [1, 2]


def test_parquet_without_its_library_counts_as_unsupported_and_not_as_damaged(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(world, 1, handler=handler_of(world, format="parquet"))
    write(world, 2)
    assert [event["line"] for event in asked()["events"]] == [1, 2] and asked()["unsupported"] == 0
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "chalicelib.pipelines.files.parquet")
    monkeypatch.delattr("chalicelib.pipelines.files.parquet")
    page = asked()
    assert ([event["line"] for event in page["events"]], page["leftOut"], page["unsupported"]) == ([2], 0, 1)


def test_missing_file_is_counted_and_does_not_fail_the_page(world: World) -> None:
    handler = handler_of(world, max_bytes=100)
    for number in range(4):
        write(world, number, handler=handler)
    keys = [each.key for each in world.store.list("pipeline-files/").objects]
    world.store.delete(keys[1])
    page = asked()
    assert [event["line"] for event in page["events"]] == [0, 2, 3] and page["leftOut"] == 1


def test_event_of_another_program_does_not_fail_the_page(world: World) -> None:
    """A line below -1, a lone surrogate, no names."""
    write(world, 1)
    [listed] = world.store.list("pipeline-files/").objects
    stored = world.store.get(listed.key)
    event = json.loads(stored.body) | {"line": -7, "message": "\ud800"}
    for name in ("level", "logger", "runId"):
        del event[name]
    body = json.dumps(event, separators=(",", ":")).encode().ljust(len(stored.body) - 1) + b"\n"
    world.store.put(listed.key, body, PutOptions(stored.info.metadata))
    page = asked()
    assert [(each["line"], each["message"], each["level"]) for each in page["events"]] == [(-1, "\ud800", "")]
    assert "truncated" not in page["events"][0] and page["leftOut"] == 0


@pytest.mark.parametrize(
    "query",
    ["", "app=flow", "namespace=svc", "namespace=svc&app=flow&limit=0", "namespace=svc&app=flow&limit=x", "namespace=svc&app=flow&from=-1",
     "namespace=svc&app=flow&cursor=x", "namespace=svc&app=flow&from=2026-13-01", "namespace=svc&app=flow&to=1960-01-01",
     "namespace=svc&app=flow&to=1.5", "namespace=svc&app=flow&from=253402300800000", "namespace=svc&app=flow&to=9999-12-31T23:59:59-12:00",
     "namespace=svc&app=flow&base=nobody", "namespace=svc&app=" + "x" * 1001],
)  # fmt: skip
def test_bad_queries_are_refused(world: World, query: str) -> None:
    handler_of(world)
    answer = call("GET", f"{PATH}?{query}")
    assert answer.status == 400 and answer.json["code"] == 400


def test_range_is_of_moments_as_people_write_them(world: World) -> None:
    write(world, 0, 1, 2)
    times = [event["time"] for event in asked()["events"]]
    written = [iso(each if isinstance(each, int) else parse_time_ms(each, 0)) for each in times]
    assert [event["line"] for event in asked(**{"from": written[1], "to": written[2]})["events"]] == [1]
    assert asked(**{"from": written[0][:10]})["events"] == asked()["events"]
    told = call("GET", f"{PATH}?namespace=svc&app=flow&from=tomorrow").json["message"]
    assert told == "from must be a time from 1970 on, ISO 8601 or milliseconds since the epoch from='tomorrow'"


@pytest.mark.parametrize("query", ["", "fqn=a.b&namespace=a", "fqn=", "fqn=a%00b", "namespace=a%00"])
def test_deletion_without_fqn_or_namespace_is_refused(world: World, query: str) -> None:
    assert call("DELETE", f"{PATH}?{query}").status == 400


def run_with_lines(world: World, run: Run, runs: InMemoryRunCatalog) -> None:
    assert post(f"{run.fqn}/{run.run_id}", '"one\\ntwo\\n"').status == 200


@pytest.mark.behavior("A pipeline's runs, files and dead letters are deleted together.")
def test_a_pipelines_runs_and_files_go_together() -> None:
    world, runs = World(), InMemoryRunCatalog()
    with installed(world, runs=runs):
        for fqn, run_id in (("svc.flow", "r1"), ("svc.flow", "r2"), ("svc.flow10", "r1"), ("other.flow", "r1")):
            assert post(f"{fqn}/{run_id}", '"one\\ntwo\\n"').status == 200
        assert post("svc.flow/r1/close").status == 200
        files = composition.services().pipeline_files
        for number, fqn in enumerate(("svc.flow", "svc.flow10")):
            write(world, number, fqn=fqn, generation=files.generation_of(Run(fqn, "r1")))
            DeadLetters(world.store, "audit", world.clock).put("h", record_of(number, fqn=fqn, run_id="r1"), ValueError("no"), 1)
        world.clock.advance(1)
        first = call("DELETE", f"{PATH}?fqn=svc.flow")
        assert (first.status, first.json["state"], first.json["files"], first.json["runs"]) == (202, "deleting", 1, 2)
        assert asked()["events"] == [] and len(asked(app="flow10")["events"]) == 1
        assert [each.key for each in world.store.list("_dead/").objects] == ["_dead/svc.flow10/r1/audit/h/0000000001.json"]
        for run_id in ("r1", "r2"):
            assert get(f"svc.flow/{run_id}").status == post(f"svc.flow/{run_id}", '"late\\n"').status == 410
            assert is_marked(world.store, Run("svc.flow", run_id))
            assert files.generation_of(Run("svc.flow", run_id)) is None
        assert get("svc.flow10/r1").json["logs"] == get("other.flow/r1").json["logs"] == "one\ntwo"
        world.clock.advance(1300)
        again = call("DELETE", f"{PATH}?fqn=svc.flow")
        assert (again.status, again.json["state"]) == (200, "deleted")
        assert world.names(Run("svc.flow", "r1")) == []
        assert post("svc.flow/r3", '"new\\n"').status == 200
        new = files.generation_of(Run("svc.flow", "r3"))
        write(world, 9, generation=new, time_ms=world.clock.now_ms())
        assert [event["line"] for event in asked()["events"]] == [9]
        assert call("DELETE", f"{PATH}?namespace=svc").json["runs"] == 2
        assert get("other.flow/r1").json["logs"] == "one\ntwo" and get("svc.flow/r3").status == 410


def test_a_deletion_does_not_stop_at_a_damaged_log() -> None:
    world = World()
    damaged = [Run("svc.flow", f"r{number}") for number in range(3)]
    for run in (*damaged, Run("svc.flow", "r9")):
        for _ in range(3):
            world.parts().writer.append(run, Batch.from_text("one\n"))
    world.parts().finalizer.close(damaged[2])
    for sequence, run in enumerate(damaged[:2]):
        world.store.delete(world.layout.segment(run, sequence))
    logs = world.store.head(world.layout.logs(damaged[2]))
    world.store.put(logs.key, b"shorter", PutOptions(logs.metadata))
    world.clock.advance(1)
    with installed(world, runs=InMemoryRunCatalog()):
        assert call("DELETE", f"{PATH}?fqn=svc.flow").json["runs"] == 4
        world.clock.advance(1300)
        assert call("DELETE", f"{PATH}?fqn=svc.flow").json["state"] == "deleted"
    assert not any(world.names(run) for run in (*damaged, Run("svc.flow", "r9")))


def test_damaged_size_does_not_fail_the_response_of_a_deletion() -> None:
    world, runs = World(), InMemoryRunCatalog()
    with installed(world, runs=runs):
        assert post("svc.flow/r1", '"one\\n"').status == 200
        generation = composition.services().pipeline_files.generation_of(Run("svc.flow", "r1"))
        write(world, 1, fqn="svc.flow", generation=generation)
        [row] = FileRows(world.database).listed("pipeline-files", "")
        assert isinstance(row, FileRow)
        world.database.transact([row.written(contents=replace(row.contents, size=-1))[1]])
        world.clock.advance(1)
        answer = call("DELETE", f"{PATH}?fqn=svc.flow")
        assert (answer.status, answer.json["files"], answer.json["bytes"]) == (202, 1, 0)


@pytest.mark.slow
def test_a_deletion_of_runs_wherever_it_stops() -> None:
    """Two runs of a pipeline, one running, one closed; deleted runs stay deleted, and the run of another pipeline stays."""
    for how in ("error", "crash"):
        for moment in (BEFORE, AFTER):
            number, fired = 0, True
            while fired:
                fired = _stopped_deletion(number, moment, how)
                number += 1
            assert number > 25


def _stopped_deletion(number: int, moment: str, how: str) -> bool:
    world, runs = World(), InMemoryRunCatalog()
    stop = StopAt(number, moment, how)
    for run in (Run("svc.flow", "r1"), Run("svc.flow", "r2"), Run("svc.flow10", "r1")):
        world.parts().writer.append(run, Batch.from_text("one\n"))
    world.parts().finalizer.close(Run("svc.flow", "r1"))
    with installed(world):
        write(world, 1)
    world.clock.advance(1)
    with (
        installed(world, store=Intercepted(world.store, stop), runs=runs, database=Intercepted(world.database, stop)),
        suppress(Crash),
    ):
        call("DELETE", f"{PATH}?fqn=svc.flow")
    with installed(world, runs=runs):
        for _ in range(3):
            world.clock.advance(1300)
            answer = call("DELETE", f"{PATH}?fqn=svc.flow")
        assert answer.json["state"] == "deleted"
        assert world.names(Run("svc.flow", "r1")) == world.names(Run("svc.flow", "r2")) == []
        assert get("svc.flow10/r1").json["logs"] == "one"
    return stop.fired


def test_repair_over_http(world: World) -> None:
    write(world, 1)
    world.store.put("pipeline-files/svc/2026-09-21/flow/main/00000007.jsonl", b"nobody's", PutOptions())
    assert call("GET", f"{PATH}/repair").json == {"findings": [], "complete": True}
    world.clock.advance(7200)
    found = call("GET", f"{PATH}/repair").json
    assert [each["kind"] for each in found["findings"]] == ["object-only"]
    mended = call("POST", f"{PATH}/repair").json
    assert mended == {"mended": found["findings"], "complete": True}
    assert call("GET", f"{PATH}/repair").json["findings"] == [] and pages() == [1]


def test_maintenance_removes_old_files_and_continues_deletions(world: World) -> None:
    files = composition.services().pipeline_files
    write(world, 1)
    write(world, 2, handler=handler_of(world, base="audit", keep_days=30))
    world.clock.advance(8 * 86_400)
    deleted, kept = files.run_maintenance(Deadline(world.clock))
    assert {name: each.removed for name, each in kept.items()} == {"audit": 0, "pipeline-files": 1} and deleted.is_complete


def test_the_hourly_schedule_does_it(world: World) -> None:
    from chalicelib.triggers.maintenance import maintain_pipeline_files

    write(world, 1)
    world.clock.advance(8 * 86_400)
    assert maintain_pipeline_files(composition.services(), 9_000) == {}
    assert maintain_pipeline_files(composition.services(), 60_000)["files_let_go"] == 1
    with installed(world, database=Intercepted(world.database, StopAt(0, BEFORE, "outage"))):
        assert maintain_pipeline_files(composition.services(), 60_000) == {}


NAMES = ("svc", 'svc"x".etl', '"svc".etl', "svc.etl", "svc.other")


def test_a_namespace_is_deleted_as_far_as_the_principal_may() -> None:
    """A pipeline that the principal may not delete by ``fqn`` is skipped by ``namespace``, also when the schedule continues."""
    issuer = Issuer()
    world, runs = World(), InMemoryRunCatalog()
    with installed(world, runs=runs, keys=issuer.read, **JWT):
        put_output_set(world.database, OutputSet("pipeline-files", "", 0, 0, 0))
        everything = bearer(issuer.granted("root", logs_read=["*"], logs_write=["*"], logs_delete=["*"]))
        for name in NAMES:
            assert post(f"{quote(name, safe='')}/run-1", '"x\\n"', everything | {"Content-Type": "application/json"}).status == 200
        world.clock.advance(1)
        expected = {}
        for _ in range(4):
            some = bearer(issuer.granted("some", logs_delete=["svc.*"]))
            answer = call("DELETE", f"{PATH}?namespace=svc", headers=some)
            assert answer.status in (200, 202), answer.body
            composition.services().pipeline_files.run_maintenance(Deadline(world.clock))
            world.clock.advance(1300)
        for name in NAMES:
            refused = (
                call("DELETE", f"{PATH}?fqn={quote(name)}", headers=bearer(issuer.granted("some", logs_delete=["svc.*"]))).status
                == 403
            )
            expected[name] = "x" if refused else ""
        everything = bearer(issuer.granted("root", logs_read=["*"], logs_write=["*"], logs_delete=["*"]))
        logs = {name: get(f"{quote(name, safe='')}/run-1", headers=everything).json.get("logs", "") for name in NAMES}
        assert logs == expected and set(expected.values()) == {"x", ""}
        world.clock.advance(7200)
        everything = bearer(issuer.granted("root", logs_delete=["*"]))
        assert call("DELETE", f"{PATH}?namespace=svc", headers=everything).json["runs"] == 3
        assert (
            call("DELETE", f"{PATH}?namespace=other", headers=bearer(issuer.granted("some", logs_delete=["svc.*"]))).status == 403
        )


def test_slow_reads_bound_a_page_and_its_cursor_goes_on(world: World) -> None:
    gets = 0

    def slow(operation: str, answer: Any) -> Any:
        nonlocal gets
        if operation == "get":
            gets += 1
            world.clock.advance(1)
        return answer()

    for number in range(20):
        write(world, 1, program=f"p{number:02d}", time_ms=START_MS)
        write(world, 2, program=f"p{number:02d}", time_ms=START_MS + 60_000)
    with installed(world, store=Intercepted(world.store, slow)):
        answers = [asked(**{"from": START_MS + 1, "to": START_MS + 60_000})]
        while answers[-1]["cursor"]:
            answers.append(asked(**{"from": START_MS + 1, "to": START_MS + 60_000}, cursor=answers[-1]["cursor"]))
        assert len(answers) == 3 and gets == 20 and not any(each["events"] for each in answers)
        assert sorted(pages()) == [1] * 20 + [2] * 20


@pytest.mark.parametrize(
    "cursor",
    [
        "1790000000000-3",
        "x",
        "é",
        "\ud800",
        "W10",
        "WzEsMiwzLDRd",
        "WzEsIiIsMSwxLDFd",
        "WzEsIiIsLTEsMV0",
        "W3RydWUsIiIsMSwxXQ",
        "bnVsbA",
    ],
    ids=ascii,
)
def test_cursor_that_was_not_made_here_is_refused(world: World, cursor: str) -> None:
    write(world, 1)
    answer = call("GET", f"{PATH}?namespace=svc&app=flow&cursor={quote(cursor, errors='surrogatepass')}")
    assert answer.status == 400 and ("omit it" in answer.json["message"] or not cursor.isascii())
