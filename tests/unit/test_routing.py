"""The run of a record: the default rules for all agents, configured rules, and clear refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.errors import InvalidConfigurationError, InvalidEventError
from chalicelib.events.codecs.items import Decoded
from chalicelib.events.event import NewEvent
from chalicelib.events.routing import Router
from chalicelib.ports import Run

RUN = Run("svc_sales.etl", "run-1")
NAMES = {"fqn": RUN.fqn, "run_id": RUN.run_id}
HEADERS = {"x-runlake-fqn": RUN.fqn, "x-runlake-run-id": RUN.run_id}


def run_of(about: dict[str, Any], headers: dict[str, str] | None = None, rules: Any = None, timestamp: int | None = None) -> Run:
    router = Router.of(rules or [])
    return router.run_of(Decoded(0, NewEvent(message="m", timestamp=timestamp), about), headers or {})


@pytest.mark.parametrize(
    ("about", "headers"),
    [
        ({"record": {"runlake": NAMES}}, {}),
        ({"record": {"runlake.fqn": RUN.fqn, "runlake.run_id": RUN.run_id}}, {}),
        ({"record": {"runlake_fqn": RUN.fqn, "runlake_run_id": RUN.run_id}}, {}),
        ({"record": {"x": 1}}, HEADERS),
        ({}, HEADERS),
        ({"record": {"runlake": NAMES}}, {"x-runlake-fqn": "other", "x-runlake-run-id": "other"}),
        ({"record": {"runlake": {"run_id": RUN.run_id}}}, {"x-runlake-fqn": RUN.fqn}),
        ({"attributes": {"runlake.run_id": RUN.run_id}, "resource": {"service.name": RUN.fqn}}, {}),
        ({"resource": {"cicd.pipeline.name": RUN.fqn, "cicd.pipeline.run.id": RUN.run_id, "service.name": "ci"}}, {}),
        ({"record": {"service": {"name": RUN.fqn}, "run_id": RUN.run_id}}, {}),
        ({"common": {"runlake.fqn": RUN.fqn, "runlake.run_id": RUN.run_id}}, {}),
        ({"record": {"x": 1}, "tag": f"runlake.{RUN.fqn}.{RUN.run_id}"}, {}),
        ({"record": {"x": 1}, "index": f"runlake-{RUN.fqn}-run-1".replace("run-1", "r")}, {}),
        ({"log_stream": f"runlake/{RUN.fqn}/{RUN.run_id}", "log_group": "/aws/glue"}, {}),
    ],
)
def test_default_rules(about: dict[str, Any], headers: dict[str, str]) -> None:
    found = run_of(about, headers)
    assert found.fqn == RUN.fqn and found.run_id in (RUN.run_id, "r")


@pytest.mark.parametrize(
    "about",
    [
        {},
        {"record": {"message": "x"}},
        {"record": {"runlake": {"fqn": RUN.fqn}}},
        {"record": {"runlake": {"fqn": RUN.fqn, "run_id": None}}},
        {"record": {"runlake": {"fqn": RUN.fqn, "run_id": True}}},
        {"record": {"runlake": {"fqn": RUN.fqn, "run_id": ["a"]}}},
        {"record": {"runlake": {"fqn": "", "run_id": "r"}}},
        {"tag": "kube.var.log.containers.x.log"},
        {"tag": "runlake.run-1"},
        {"resource": {"service.name": RUN.fqn}},
        {"record": {"runlake": {"fqn": "x" * 600, "run_id": "r"}}},
    ],
)
def test_record_without_run_is_refused_with_advice(about: dict[str, Any]) -> None:
    with pytest.raises(InvalidEventError, match=r"no rule matches the record: send runlake\.fqn and runlake\.run_id"):
        run_of(about)


@pytest.mark.parametrize("run_id", ["a/b", "last", "a\nb", "a\0b"])
def test_names_that_cannot_be_stored_are_refused(run_id: str) -> None:
    with pytest.raises(InvalidEventError, match="name that cannot be stored"):
        run_of({"record": {"runlake": {"fqn": "f", "run_id": run_id}}})


@pytest.mark.behavior("Rules assign a log agent's record to its pipeline and run.")
@pytest.mark.parametrize(
    ("rules", "about", "expected"),
    [
        ([{"fqn": "{record.app}", "run_id": "{record.job}"}], {"record": {"app": "a", "job": 7}}, Run("a", "7")),
        ([{"fqn": "k8s.{k8s.labels.app}", "run_id": "{id}"}], {"record": {"k8s": {"labels": {"app": "a"}}}, "id": "i"}, Run("k8s.a", "i")),
        ([{"fqn": "{resource.name}", "run_id": "{attributes.name}"}], {"resource": {"name": "r"}, "attributes": {"name": "a"}}, Run("r", "a")),
        ([{"fqn": "{nothing|header.x-team}", "run_id": "r"}], {"record": {}}, Run("team", "r")),
        ([{"from": "log_group", "as": "/jobs/{fqn}", "run_id": "{log_stream}"}], {"log_group": "/jobs/a/b", "log_stream": "s"}, Run("a/b", "s")),
        ([{"from": "record.path", "as": "{fqn}/{run_id}.log"}], {"record": {"path": "a/b/c.log"}}, Run("a/b", "c")),
        ([{"fqn": "hosts.{host}", "run_id": "{day}"}], {"record": {"host": "h"}}, Run("hosts.h", "2026-09-21")),
        ([{"fqn": "hosts.{host}", "run_id": "{hour}"}], {"record": {"host": "h"}}, Run("hosts.h", "2026-09-21T14")),
        ([{"from": "tag", "as": "a.{fqn}.{run_id}"}, {"fqn": "{tag}", "run_id": "all"}], {"tag": "b.c"}, Run("b.c", "all")),
        ([{"from": "tag", "as": "a.+{fqn}.{run_id}"}, {"fqn": "x", "run_id": "y"}], {"tag": "a..b.c"}, Run("x", "y")),
    ],
)  # fmt: skip
def test_configured_rules(rules: list[dict[str, str]], about: dict[str, Any], expected: Run) -> None:
    assert run_of(about, {"x-team": "team"}, rules, 1_790_000_000_000) == expected


def test_configured_rules_replace_the_default_in_order() -> None:
    rules = [{"fqn": "{a}", "run_id": "{b}"}, {"fqn": "{c}", "run_id": "{d}"}]
    assert run_of({"record": {"a": "1", "b": "2", "c": "3", "d": "4"}}, rules=rules) == Run("1", "2")
    assert run_of({"record": {"a": "1", "c": "3", "d": "4"}}, rules=rules) == Run("3", "4")
    with pytest.raises(InvalidEventError):
        run_of({"record": {"runlake": NAMES}}, HEADERS, rules)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ('["x"]', "rules.0"),
        ('[{"fqn": "{a}"}]', "must define both"),
        ('[{"fqn": "{a}", "run_id": "{}"}]', "placeholder must contain a name"),
        ('[{"fqn": "{a", "run_id": "{b}"}]', "braces"),
        ('[{"fqn": "{a}", "run_id": "{b}", "agent": "x"}]', "extra"),
        ('[{"from": "tag"}]', "a rule with from needs as"),
        ('[{"from": "tag", "as": "x"}]', "as must contain"),
        ('[{"from": "tag", "as": "{fqn}.{name}"}]', "as must contain"),
        ('[{"from": "tag", "as": "{fqn}.{fqn}"}]', "as must contain"),
        ('[{"from": "tag", "as": "{fqn}"}]', "must define both"),
        ('[{"fqn": 7, "run_id": "x"}]', "string"),
    ],
)
def test_invalid_rules_are_rejected(setting: str, told: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=told) as caught:
        Router.of(json.loads(setting))
    assert "variable=RUNLAKE_EVENTS field=rules" in str(caught.value)


@given(fqn=st.text("ab.-/", min_size=1, max_size=9), run_id=st.text("ab-", min_size=1, max_size=9))
def test_tag_is_split_at_its_last_dot(fqn: str, run_id: str) -> None:
    assert run_of({"tag": f"runlake.{fqn}.{run_id}"}) == Run(fqn, run_id)
