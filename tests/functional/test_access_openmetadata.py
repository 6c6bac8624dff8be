"""Logs that OpenMetadata stored under a name that several pipelines share: whoever may read all of them reads them, and nobody else."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.access.patterns import matches
from chalicelib.memory.publisher import InMemoryPublisher
from chalicelib.ports import PutOptions, Run
from chalicelib.runlog.layout import any_spelling
from tests.functional.archive import Site
from tests.functional.gateway import LOGS, Answer, call, installed
from tests.functional.test_access_lists import flat, pages
from tests.ingesting import message, s3_record
from tests.issuer import JWT, Issuer, bearer
from tests.world import World

ISSUER = Issuer()
SECRET = b"of team.hr_payroll\n"
FOLDER = "pipeline-logs/team_hr_payroll/run-1/"
OWNER, OTHER = "team.hr_payroll", "team_hr.payroll"
READS = {
    "page": f"{LOGS}/{{fqn}}/run-1",
    "download": f"{LOGS}/{{fqn}}/run-1/download",
    "stream": f"{LOGS}/{{fqn}}/stream/run-1?wait=0",
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


@pytest.mark.parametrize("kind", READS)
@pytest.mark.parametrize("name", ["logs.txt", "partial.txt"])
@pytest.mark.parametrize(
    ("fqn", "grant"),
    [(OTHER, "team_hr.*"), (OTHER, OTHER), ("team hr.payroll", "team hr.*"), ("team$hr.payroll", "team$hr.*"), (OWNER, "team.*"),
     ("team_hr_payroll", "team_hr*")],
)  # fmt: skip
def test_shared_log_is_not_shown_to_who_may_not_read_every_spelling(
    world: World, fqn: str, grant: str, name: str, kind: str
) -> None:
    put(world, name)
    answer = read(kind, fqn, grant)
    assert answer.status < 500 and "of team" not in answer.body


@pytest.mark.parametrize("kind", SHOWING)
@pytest.mark.parametrize("grant", ["*", "team*", "team*payroll", "t*hr*"])
@pytest.mark.parametrize("fqn", [OWNER, OTHER])
def test_shared_log_is_shown_to_who_may_read_every_spelling(world: World, fqn: str, grant: str, kind: str) -> None:
    put(world, "logs.txt")
    answer = read(kind, fqn, grant)
    assert answer.status == 200 and "of team" in answer.body


@pytest.mark.parametrize("kind", SHOWING)
def test_copy_under_the_own_name_is_shown_to_its_pipeline_alone(world: World, kind: str) -> None:
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


def test_append_by_who_may_write_every_spelling_continues_a_shared_log(world: World) -> None:
    put(world, "partial.txt")
    assert append(OWNER, "more\n", "*").json["line"] == 1
    assert read("page", OWNER, "team.*").json["logs"] == "of team.hr_payroll\nmore"


def test_append_under_a_name_that_is_a_spelling_is_refused(world: World) -> None:
    put(world, "partial.txt")
    assert append("team_hr_payroll", "mine\n", "team_hr_*").status == 403
    assert world.names(Run("team_hr_payroll", "run-1")) == ["partial.txt"]


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


@settings(max_examples=2000, deadline=None)
@given(st.text("ab._*", max_size=6), NAMES, st.data())
def test_pattern_of_any_spelling_matches_each(pattern: str, fqn: str, data: st.DataObject) -> None:
    twin = "".join(data.draw(st.sampled_from("._ /")) if letter in "._ /" else letter for letter in fqn)
    if matches(pattern, any_spelling(fqn)):
        assert matches(pattern, fqn) and matches(pattern, twin)
