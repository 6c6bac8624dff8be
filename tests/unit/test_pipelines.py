"""Listing of pipelines: each visible one once, at a bounded cost, with any names."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.access.patterns import Patterns
from chalicelib.errors import InvalidCursorError
from chalicelib.ports import ABSENT, PutOptions, Run
from chalicelib.runlog.pipeline_listing import MAX_LISTS, PipelineListing, PipelineQuery
from tests.sampling import examples
from tests.world import World

NAMES = st.text("ab.-_ /é0%", min_size=1, max_size=4)


def world_of(*names: str, runs: int = 1) -> World:
    world = World()
    for name in names:
        for run in range(runs):
            world.store.put(world.layout.segment(Run(name, f"run-{run}"), 0), b"x\n", PutOptions(), ABSENT)
    return world


def listed(world: World, query: PipelineQuery, limit: int) -> list[str]:
    pipelines, names, after = PipelineListing(world.store, world.layout), [], ""
    while after is not None:
        page = pipelines.page(query, limit, after)
        assert len(page.names) <= limit
        names += page.names
        after = page.after
    return names


def query_of(prefix: str, *patterns: str, contains: str = "") -> PipelineQuery:
    return PipelineQuery(prefix, contains, Patterns(patterns).__contains__, [each.partition("*")[0] for each in patterns])


@settings(max_examples=examples(200), deadline=None)
@given(
    names=st.sets(NAMES, max_size=12),
    prefix=st.text("ab. é", max_size=2),
    contains=st.text("aBé.", max_size=2),
    patterns=st.sets(st.text("ab.* é", min_size=1, max_size=4), max_size=3),
    limit=st.integers(1, 5),
)
def test_each_visible_name_is_listed_once(names: set[str], prefix: str, contains: str, patterns: set[str], limit: int) -> None:
    world = world_of(*names, runs=2)
    world.store.put(f"{world.layout.prefix}/.active/a/run/writer", b"", PutOptions())
    world.store.put(f"{world.layout.prefix}/.tombstones/a/run/expired.json", b"{}", PutOptions())
    seen = {name for name in names if name.startswith(prefix) and name in Patterns(tuple(patterns))}
    expected = {name for name in seen if contains.lower() in name}  # the names have no capitals
    found = listed(world, query_of(prefix, *patterns, contains=contains), limit)
    assert sorted(found) == sorted(expected)


def test_a_page_is_one_request_however_many_runs_there_are() -> None:
    world = world_of(*(f"svc.{number:03d}" for number in range(300)), runs=5)
    world.store.calls.clear()
    page = PipelineListing(world.store, world.layout).page(PipelineQuery(), 50)
    assert page.names == [f"svc.{number:03d}" for number in range(50)] and page.after == "svc.049"
    assert dict(world.store.calls) == {"list": 1}


def test_invisible_names_are_not_listed() -> None:
    world = world_of(*(f"hr.{number:04d}" for number in range(3000)), "sales.a", "sales.b", "zoo")
    world.store.calls.clear()
    assert listed(world, query_of("", "sales.*", "zoo"), 50) == ["sales.a", "sales.b", "zoo"]
    assert world.store.calls["list"] == 2
    assert listed(world, query_of("sales.b", "sales.*", "zoo"), 50) == ["sales.b"]
    assert listed(world, query_of("hr", "sales.*"), 50) == []
    assert world.store.calls["list"] == 3


@pytest.mark.parametrize(
    "query", [query_of("", "*_hr"), query_of("", "*", contains="C_H")], ids=["hidden names", "names without the text"]
)
def test_page_with_many_skipped_names_has_a_cursor_before_it_is_full(query: PipelineQuery) -> None:
    world = world_of(*(f"hr.{number:05d}" for number in range(1000 * MAX_LISTS)), "svc_hr")
    pipelines = PipelineListing(world.store, world.layout)
    page = pipelines.page(query, 50)
    assert (page.names, page.after) == ([], f"hr.{1000 * MAX_LISTS - 1:05d}")
    assert world.store.calls["list"] == MAX_LISTS
    assert page.after and pipelines.page(query, 50, page.after).names == ["svc_hr"]


@pytest.mark.parametrize("after", ["a b", "é", "a/b", "x" * 2000, "x" * 1020, "\x00"])
def test_a_cursor_that_was_not_made_here(after: str) -> None:
    with pytest.raises(InvalidCursorError):
        PipelineListing(World().store, World().layout).page(PipelineQuery(), 5, after)


def test_prefix_longer_than_any_key_has_no_names_and_costs_nothing() -> None:
    world = World()
    page = PipelineListing(world.store, world.layout).page(PipelineQuery(prefix="x" * 2000), 5)
    assert (page.names, page.after, world.store.calls["list"]) == ([], None, 0)
