"""Logs that OpenMetadata stored under a name that several pipelines share: only principals that may read all of these pipelines may
read them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib import composition
from chalicelib.access.patterns import matches
from chalicelib.deadline import Deadline
from chalicelib.ports import PutOptions, Run
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.deletion_marks import MARKS, find_mark, mark_key
from chalicelib.runlog.layout import shared_legacy_name
from tests.functional.archive import Site
from tests.functional.gateway import LOGS, Answer, call, get, installed, post
from tests.functional.test_access_lists import flat, pages
from tests.ingestion_harness import message, s3_record
from tests.issuer import JWT, Issuer, bearer
from tests.sampling import examples
from tests.support.publisher import InMemoryPublisher
from tests.world import World

ISSUER = Issuer()
SECRET = b"of team.hr_payroll\n"
FOLDER = "pipeline-logs/team_hr_payroll/run-1/"
OWNER, OTHER = "team.hr_payroll", "team_hr.payroll"
READS = {
    "page": f"{LOGS}/{{fqn}}/run-1",
    "download": f"{LOGS}/{{fqn}}/run-1/download",
    "stream": f"{LOGS}/{{fqn}}/stream/run-1?wait=0",
    "explanation": "/v1/catalog/pipelines/{fqn}/runs/run-1/explanation",
    "grep": "/v1/catalog/pipelines/{fqn}/runs/run-1/grep?q=of",
    "run": "/v1/catalog/pipelines/{fqn}/runs/run-1",
    "events": "/v1/events/{fqn}/run-1/log",
}
SHOWING = ("page", "download", "stream", "grep")


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    with installed(world, keys=ISSUER.read, **JWT):
        yield world


def put(world: World, name: str, folder: str = FOLDER) -> None:
    world.store.put(folder + name, SECRET, PutOptions())


def read(kind: str, fqn: str, *grants: str) -> Answer:
    return call("GET", READS[kind].format(fqn=quote(fqn, safe="")), None, bearer(ISSUER.granted(logs_read=list(grants))))


def append(fqn: str, text: str, *grants: str) -> Answer:
    token = bearer(ISSUER.granted(logs_write=list(grants)))
    return call("POST", f"{LOGS}/{quote(fqn, safe='')}/run-1", text, token | {"Content-Type": "text/plain"})


@pytest.mark.behavior("A log in a folder that several pipeline names share needs permission for all of them.")
@pytest.mark.parametrize("kind", READS)
@pytest.mark.parametrize("name", ["logs.txt", "partial.txt"])
@pytest.mark.parametrize(
    ("fqn", "grant"),
    [(OTHER, "team_hr.*"), (OTHER, OTHER), ("team hr.payroll", "team hr.*"), ("team$hr.payroll", "team$hr.*"), (OWNER, "team.*"),
     ("team_hr_payroll", "team_hr*")],
)  # fmt: skip
def test_shared_log_is_hidden_without_permission_for_every_spelling(
    world: World, fqn: str, grant: str, name: str, kind: str
) -> None:
    put(world, name)
    answer = read(kind, fqn, grant)
    assert answer.status < 500 and "of team" not in answer.body


@pytest.mark.parametrize("kind", SHOWING)
@pytest.mark.parametrize("grant", ["*", "team*", "team*payroll", "t*hr*"])
@pytest.mark.parametrize("fqn", [OWNER, OTHER])
def test_shared_log_is_readable_with_permission_for_every_spelling(world: World, fqn: str, grant: str, kind: str) -> None:
    put(world, "logs.txt")
    answer = read(kind, fqn, grant)
    assert answer.status == 200 and "of team" in answer.body


@pytest.mark.parametrize("kind", SHOWING)
def test_copy_under_its_own_name_is_readable_for_its_pipeline_only(world: World, kind: str) -> None:
    put(world, "logs.txt")
    put(world, "logs.txt", f"pipeline-logs/{OWNER}/run-1/")
    assert "of team" in read(kind, OWNER, "team.*").body
    assert "of team" not in read(kind, OTHER, "team_hr.*").body


def test_append_does_not_take_over_a_shared_log(world: World) -> None:
    put(world, "partial.txt")
    answer = append(OTHER, "mine\n", "team_hr.*")
    assert (answer.status, answer.json["line"]) == (200, 0)
    assert read("page", OTHER, "team_hr.*").json["logs"] == "mine"
    assert read("page", OTHER, "*").json["logs"] == "mine"
    assert read("page", OWNER, "*").json["logs"] == "of team.hr_payroll"


def test_append_with_permission_for_every_spelling_continues_a_shared_log(world: World) -> None:
    put(world, "partial.txt")
    assert append(OWNER, "more\n", "*").json["line"] == 1
    assert read("page", OWNER, "team.*").json["logs"] == "of team.hr_payroll\nmore"


def test_append_under_a_name_that_is_a_spelling_is_refused(world: World) -> None:
    put(world, "partial.txt")
    assert append("team_hr_payroll", "mine\n", "team_hr_*").status == 403
    assert world.names(Run("team_hr_payroll", "run-1")) == ["partial.txt"]


@pytest.mark.parametrize("name", ["logs.txt", "partial.txt"])
def test_log_of_this_project_in_a_shared_folder_has_one_spelling(name: str) -> None:
    """OpenMetadata would have spelled ``a.b`` like this, but this project wrote the log, for ``a_b``."""
    world, own = World(), Run("a_b", "r1")
    with installed(world):
        post("a_b/r1", "of a_b\n", {"Content-Type": "text/plain"})
        if name == "logs.txt":
            assert post("a_b/r1/close").status == 200
        else:
            world.parts().compactor.compact(own, world.deadline())
        assert name in world.names(own)
        page = get("a.b/r1").json
        assert (page["logs"], page["total"]) == ("", 0)
        assert get("a_b/r1").json["logs"] == "of a_b"


def test_name_without_underscores_is_its_own(world: World) -> None:
    put(world, "logs.txt", "pipeline-logs/mysql-ingest/run-1/")
    assert "of team" in read("page", "mysql-ingest", "mysql-*").body


def test_record_of_a_shared_log_is_hidden_with_it() -> None:
    world, topic = World(), InMemoryPublisher()
    with installed(world, publisher=topic, keys=ISSUER.read, **JWT):
        site = Site(world, topic, itertools.count(1))
        put(world, "logs.txt")
        assert site.receive(message(s3_record(FOLDER + "logs.txt"))) == []
        listed = {name: flat(pages(site, ISSUER.granted(logs_read=[name]), what="*")) for name in ("team_hr_*", "team_*", "team*")}
    assert (listed["team_hr_*"], listed["team_*"]) == ([], []) and len(listed["team*"]) == 1


NAMES = st.text("ab._ /", min_size=1, max_size=8)


@pytest.mark.slow
@settings(max_examples=examples(2000), deadline=None)
@given(st.text("ab._*", max_size=6), NAMES, st.data())
def test_pattern_of_any_spelling_matches_each(pattern: str, fqn: str, data: st.DataObject) -> None:
    twin = "".join(data.draw(st.sampled_from("._ /")) if letter in "._ /" else letter for letter in fqn)
    if matches(pattern, shared_legacy_name(fqn)):
        assert matches(pattern, fqn) and matches(pattern, twin)


SPELLING = "team_hr_payroll"
DELETE = "/v1/pipeline-files?fqn={}"


def delete(*grants: str, fqn: str = SPELLING) -> Answer:
    return call("DELETE", DELETE.format(fqn), None, bearer(ISSUER.granted(logs_delete=list(grants))))


def upkeep(world: World, hours: int = 3) -> None:
    for _ in range(hours):
        composition.services().pipeline_files.run_maintenance(Deadline(world.clock, 60))
        world.clock.advance(3600)


def own_run(world: World) -> Run:
    """A run of the pipeline whose name is the folder's."""
    run = Run(SPELLING, "run-2")
    world.parts().writer.append(run, Batch.from_text("mine\n"))
    world.clock.advance(1)
    return run


def stored(world: World) -> set[str]:
    return {found.key for found in world.store.list("").objects}


@pytest.mark.parametrize("name", ["logs.txt", "partial.txt"])
def test_deletion_without_permission_for_every_spelling_leaves_a_shared_log(world: World, name: str) -> None:
    """Neither the request deletes it, nor the schedule that continues the request without a caller."""
    put(world, name)
    own = own_run(world)
    first = delete(SPELLING)
    assert (first.status, first.json["runs"], first.json["shared"]) == (202, 1, 1)
    upkeep(world)
    again = delete(SPELLING)
    assert (again.status, again.json["state"], again.json["shared"]) == (200, "deleted", 1)
    assert {key for key in stored(world) if not key.startswith(MARKS)} == {FOLDER + name}
    assert find_mark(world.store, own)
    assert find_mark(world.store, Run(SPELLING, "run-1")) is None
    assert read("page", OWNER, "*").json["logs"] == "of team.hr_payroll"


@pytest.mark.parametrize("grant", ["*", "team*"])
@pytest.mark.parametrize("names", [["logs.txt"], ["partial.txt"], ["logs.txt", "partial.txt"]])
def test_deletion_with_openmetadatas_own_log_ends(world: World, names: list[str], grant: str) -> None:
    for name in names:
        put(world, name)
    world.clock.advance(7200)
    assert delete(grant).status == 202
    world.clock.advance(3600)
    assert delete(grant).json["state"] == "deleted"
    assert stored(world) == {mark_key(Run(SPELLING, "run-1"))}


def test_deletion_of_a_copy_under_the_own_name_ends(world: World) -> None:
    put(world, "logs.txt", f"pipeline-logs/{OWNER}/run-1/")
    put(world, "logs.txt")
    assert delete("team.*", fqn=OWNER).json["runs"] == 1
    world.clock.advance(3600)
    assert delete("team.*", fqn=OWNER).json["state"] == "deleted"
    assert stored(world) == {FOLDER + "logs.txt", mark_key(Run(OWNER, "run-1"))}


@pytest.mark.parametrize(
    ("continued_by", "grant", "status"), [("*", "team.*", 200), (None, "*", 200), (None, "team*", 200), (None, "team.*", 404)]
)
def test_deletion_of_run_deletes_its_shared_log(world: World, continued_by: str | None, grant: str, status: int) -> None:
    put(world, "partial.txt")
    if continued_by:
        append(OWNER, "more\n", continued_by)
    token = bearer(ISSUER.granted(logs_delete=[grant]))
    assert call("DELETE", f"/v1/catalog/pipelines/{OWNER}/runs/run-1", None, token).status == status
    gone = [read("page", fqn, "*").status for fqn in (OWNER, SPELLING)]
    assert gone == ([410, 410] if status == 200 else [200, 200])
    assert any(b"of team" in body for _, _, body in world.store.everything()) == (status != 200)


def test_schedule_finishes_a_permitted_deletion_of_a_shared_log(world: World) -> None:
    put(world, "partial.txt")
    world.clock.advance(1)
    generations = composition.services().pipeline_files.generations
    generations.end(SPELLING, SPELLING)  # the request broke off here
    upkeep(world)
    assert stored(world) == {mark_key(Run(SPELLING, "run-1"))}


def test_deletion_in_progress_includes_the_shared_log_after_a_permitted_request(world: World) -> None:
    put(world, "partial.txt")
    own_run(world)
    assert delete(SPELLING).json["shared"] == 1
    both = delete("*").json
    assert (both["state"], both["shared"], both["runs"]) == ("deleting", 0, 1)
    assert delete(SPELLING).status == 202  # goes on with the same, and is not refused
    upkeep(world)
    assert {key for key in stored(world) if not key.startswith(MARKS)} == set()


@pytest.mark.parametrize(("grant", "status"), [(SPELLING, 403), ("team*", 200)])
def test_run_with_a_shared_log_is_deleted_with_permission_for_every_spelling(world: World, grant: str, status: int) -> None:
    put(world, "partial.txt")
    path, token = f"/v1/catalog/pipelines/{SPELLING}/runs/run-1", bearer(ISSUER.granted(logs_delete=[grant]))
    assert call("DELETE", path, None, token).status == status
    assert (find_mark(world.store, Run(SPELLING, "run-1")) is None) == (status == 403)


def test_shared_log_that_the_run_continues_is_deleted_with_it(world: World) -> None:
    put(world, "partial.txt")
    assert append(SPELLING, "more\n", "*").json["line"] == 1
    world.clock.advance(1)
    assert delete(SPELLING).json["runs"] == 1
    upkeep(world)
    assert stored(world) == {mark_key(Run(SPELLING, "run-1"))}


def test_shared_log_stays_if_segments_do_not_continue_it(world: World) -> None:
    world.parts().writer.append(Run(SPELLING, "run-1"), Batch.from_text("mine\n"))
    put(world, "logs.txt")
    world.clock.advance(1)
    assert delete(SPELLING).json["shared"] == 1
    assert FOLDER + "logs.txt" in stored(world)
