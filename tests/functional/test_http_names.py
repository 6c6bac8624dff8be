"""Names with control or invisible characters: rejected if new, readable if OpenMetadata stored them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import astuple
from urllib.parse import quote

import pytest

from chalicelib.ports import PutOptions, Run
from chalicelib.runlog.tombstones import Tombstone, find_tombstone, put_tombstone
from tests.functional.gateway import LOGS, call, installed, post
from tests.world import World

UNPRINTABLE = [
    "\x1b[2J", "\x7f", "\x85", "\x9b2J", "\u061c", "\u200e", "\u200f", "\u2028", "\u2029",
    "\u202e", "\u2066", "\u2069", "\ufeff", "\U000e0041",
]  # fmt: skip
PRINTABLE = ["[bold]", "-rf", "run id=1", "naïve 語 🏔", "می\u200cخواهم", "👩\u200d🚀", "a\u00ad\u200bb"]
TEXT = {"Content-Type": "text/plain"}
JSON = {"Content-Type": "application/json"}
EVENTS = "/v1/events/svc.a/r1"


@pytest.fixture
def world() -> Iterator[World]:
    with installed(World()) as world:
        yield world


def path_of(*names: str) -> str:
    return "/".join(quote(name, safe="") for name in names)


def keys(world: World) -> list[str]:
    return [found.key for found in world.store.list("").objects]


@pytest.mark.parametrize("word", ["grep", "explanation", "histogram"])
def test_path_of_the_catalog_below_that_of_the_log_is_refused(word: str, world: World) -> None:
    answer = call("GET", f"{LOGS}/svc.a/r1/{word}?q=x")
    assert answer.status == 400 and "a run id cannot be a word of the API's paths" in answer.json["message"]


@pytest.mark.parametrize("name", [f"a{each}b" for each in UNPRINTABLE], ids=ascii)
def test_unprintable_new_name_is_rejected_and_stores_nothing(name: str, world: World) -> None:
    step = {"name": "Load"}
    refused = [
        post(path_of("svc.a", name), "x\n", TEXT),
        post(path_of(name, "r"), "x\n", TEXT),
        post(path_of("svc.a", name), ""),
        post(path_of("svc.a", name) + "/close", ""),
        call("POST", f"/v1/events/{path_of('svc.a', name)}", json.dumps({"message": "x"}), JSON),
        call("PUT", f"/v1/events/{path_of('svc.a', name)}/writers/w"),
        call("POST", f"/v1/events/{path_of('svc.a', name)}/writers/w/close", json.dumps({"count": 0}), JSON),
        call("POST", f"/v1/events/{path_of('svc.a', name)}/steps/s", json.dumps(step), JSON),
        call("PUT", f"/v1/events/{path_of('svc.a', name)}/starts/s", "{}", JSON),
        call("PUT", f"{EVENTS}/starts/{path_of(name)}", "{}", JSON),
        call("PUT", f"{EVENTS}/writers/{path_of(name)}"),
        call("POST", f"{EVENTS}/writers/{path_of(name)}/close", json.dumps({"count": 0}), JSON),
        call("POST", f"{EVENTS}/steps/{path_of(name)}", json.dumps(step), JSON),
        call("POST", f"{EVENTS}/steps/s", json.dumps({"name": name}), JSON),
        call("POST", f"{EVENTS}/steps/s", json.dumps({"parent": name}), JSON),
        call("POST", EVENTS, json.dumps({"message": "x", "step": name}), JSON),
        call("POST", f"{EVENTS}?writer={path_of(name)}", json.dumps({"id": 0, "message": "x"}), JSON),
    ]
    assert [answer.status for answer in refused] == [400] * len(refused)
    assert all("character in" in answer.json["message"] and answer.body.isprintable() for answer in refused)
    assert keys(world) == []


@pytest.mark.parametrize("name", PRINTABLE, ids=ascii)
def test_printable_new_name_is_accepted(name: str, world: World) -> None:
    assert post(path_of("svc.a", name), "x\n", TEXT).status == 200
    assert call("POST", f"{EVENTS}/steps/{path_of(name)}", json.dumps({"name": name}), JSON).status == 200


def test_long_step_label_outside_ascii_is_accepted(world: World) -> None:
    assert call("POST", f"{EVENTS}/steps/s", json.dumps({"name": "語" * 200}), JSON).status == 200


def test_new_run_leaves_room_for_each_of_its_keys(world: World) -> None:
    """The tombstone's is the longest: a run without one could not expire."""
    room = 1024 - len(world.layout.tombstone(Run("svc.a", "")))
    refused = post(path_of("svc.a", "r" * (room + 1)), "x\n", TEXT)
    assert refused.status == 400 and "too long once encoded bytes=1025 limit=1024" in refused.json["message"]
    assert keys(world) == []
    run = Run("svc.a", "r" * room)
    assert post(path_of(*astuple(run)), "x\n", TEXT).status == 200
    assert post(path_of(*astuple(run)) + "/close", "").status == 200
    tombstone = Tombstone(run.fqn, run.run_id, "age", 0, "plan-1", 2, 1, 3, 4, 5)
    put_tombstone(world.store, world.layout, tombstone)
    assert find_tombstone(world.store, world.layout, run) == tombstone


def test_run_without_room_for_a_tombstone_has_none(world: World) -> None:
    room = 1024 - len(world.layout.tombstone(Run("svc.a", "")))
    run = Run("svc.a", "r" * (room + 1))
    put_tombstone(world.store, world.layout, Tombstone(run.fqn, run.run_id, "age", 0, "plan-1", 2, 1, 3, 4, 5))
    assert find_tombstone(world.store, world.layout, run) is None and keys(world) == []


def test_log_of_openmetadata_under_an_unprintable_name_is_read(world: World) -> None:
    run = Run("svc.a", "old\u202e\x9b2J")
    world.store.put(world.layout.legacy_logs(run), b"one\n", PutOptions())
    path = path_of(*astuple(run))
    assert call("GET", f"{LOGS}/{path}").json["logs"] == "one"
    assert call("GET", f"/v1/events/{path}").json["events"][0]["message"] == "one"
