"""Objects under a run's ``events/`` are recognized, or deliberately ignored, by all code that lists a run's objects."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.errors import DamagedLogError, InvalidNameError, SnapshotChangedError
from chalicelib.events.sidecar import Sidecar, SidecarEntry, decode_sidecar, encode_sidecar
from chalicelib.events.sidecar_bundle import BundleName, decode_bundle, encode_bundle, group_sidecars
from chalicelib.events.step_updates import StepUpdate
from chalicelib.ports import PutOptions, Run
from chalicelib.runlog.layout import Layout, ParsedKey
from chalicelib.runlog.log_end import list_all
from glue_jobs.catalog.run_inspection import RunInspector
from glue_jobs.datasource.objects import Listed, RunGrouper
from glue_jobs.expiration.expiry import ExpiringRun, Expiry, Outcome
from glue_jobs.expiration.inventory import BucketInventory
from tests.events_harness import ClientWriter, event_parts, make_event, read_step_log
from tests.ingestion_harness import ingest_one, ingester_of, message, s3_record
from tests.support.publisher import InMemoryPublisher
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import RUN, World

NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)


def ended() -> World:
    """A closed run with every kind of object under ``events/``."""
    world = World()
    parts = event_parts(world)
    parts.writers.open(RUN, "w")
    author = ClientWriter(parts, "w")
    for number in range(3):
        author.say(make_event(f"{number}", "s"))
    parts.step_updates.record(RUN, "s", StepUpdate(name="S"))
    world.store.put(world.layout.chosen(RUN), b"{}", PutOptions())
    sidecars = [(number, world.store.get(world.layout.sidecar(RUN, number)).body) for number in range(2)]
    world.store.put(world.layout.bundle(RUN, 0, 1), encode_bundle(sidecars), PutOptions())
    parts.writers.close(RUN, "w", 3)
    world.clock.advance(3600)
    parts.finalizer.close(RUN)
    return world


@given(NAMES, NAMES, NAMES, st.integers(0, 10**10 - 1))
def test_keys_come_back(fqn: str, run_id: str, name: str, number: int) -> None:
    run, layout = Run(fqn, run_id.replace("/", "_") + "-"), Layout("p")
    assert layout.parse(layout.sidecar(run, number)) == ParsedKey(run, "sidecar", sidecar=number)
    assert layout.parse(layout.writer(run, name, "opened")) == ParsedKey(run, "writer", name=name)
    assert layout.parse(layout.writer(run, name, "closed")) == ParsedKey(run, "writer", name=name)
    assert layout.parse(layout.step(run, name)) == ParsedKey(run, "step", name=name)
    assert layout.parse(layout.chosen(run)) == ParsedKey(run, "chosen")
    assert layout.parse(layout.bundle(run, number, 10**10 - 1)) == ParsedKey(run, "bundle", bundle=(number, 10**10 - 1))
    keys = [layout.sidecar(run, number), layout.after_sidecars(run), layout.bundle(run, 0, 1), layout.chosen(run), layout.logs(run)]
    assert keys == sorted(keys)


def test_foreign_keys_are_not_recognized() -> None:
    layout = Layout("p")
    for name in (
        "events/1",
        "events/bundles/0000000001",
        "events/bundles/0000000001-2",
        "events/writers/w",
        "events/writers/w/else",
        "events/steps/a/b",
        "events/",
        "events/steps/%ff",
        "events/x",
    ):
        assert layout.parse(f"p/a/b/{name}") is None
    with pytest.raises(InvalidNameError):
        layout.step(Run("a" * 800, "b"), "ä" * 100)


def test_census_reports_no_event_object() -> None:
    world = ended()
    inspection = RunInspector(world.store, world.layout, RUN).inspect()
    assert (list(inspection.problems), sorted(inspection.entries)) == ([], [0, 1, 2, 3])
    assert [inspection.entries[number].events for number in range(4)] == [1, 1, 1, 0]


def test_retirement_keeps_how_many_events_a_segment_had() -> None:
    world = ended()
    world.parts().finalizer.compact_and_finalize(RUN, world.deadline())
    world.clock.advance(3600)
    world.parts().finalizer.compact_and_finalize(RUN, world.deadline())
    assert [entry.events for entry in world.retired_entries()] == [1, 1, 1]
    assert read_step_log(event_parts(world), "s") == "0\n1\n2\n"


def test_inventory_and_expiry_include_event_objects() -> None:
    world = ended()
    inventory = BucketInventory(world.store, world.layout)
    (found,) = [row for folder in inventory.folders() for row in inventory.runs(folder)]
    run, status, ended_ms, size, objects, log_bytes, tail = found
    assert (run, status, tail) == (RUN, "finalized", 3)
    world.clock.advance(3600)
    expiring = ExpiringRun(RUN.fqn, RUN.run_id, "age", 0, ended_ms, size, objects, log_bytes, tail)
    removal = world.removal(InMemoryRunCatalog())
    expiry = Expiry(world.store, removal, world.parts().writer, world.layout, world.clock, "plan")
    assert expiry.expire(expiring) is Outcome.EXPIRED
    assert list(list_all(world.store, world.layout.run_prefix(RUN))) == []


def test_spark_data_source_ignores_event_objects() -> None:
    world, foreign = ended(), []
    folder = RunGrouper(world.layout, lambda run: True, lambda run, key: foreign.append(key))
    folder.add(Listed(found.key, found.size, found.etag, 0) for found in list_all(world.store, world.layout.prefix))
    assert foreign == []
    (objects,) = folder.runs
    assert objects.logs is not None


def test_notifications_of_event_objects_are_indexed() -> None:
    world = ended()
    parts, topic = event_parts(world), InMemoryPublisher()
    world.database.__init__()  # type: ignore[misc]
    ingester = ingester_of(world, InMemoryRunCatalog(), topic, index_sidecar=parts.indexing.index_object)
    for found in list_all(world.store, world.layout.events(RUN)):
        report = ingest_one(ingester, message(s3_record(found.key)))
        assert (list(report.problems), list(report.records)) == ([], [])
    assert topic.messages == []
    assert parts.index.visible(RUN)["w"].ranges == ((0, 2),) and parts.index.step_updates(RUN)["s"]["name"] == "S"
    gone = ingest_one(ingester, message(s3_record(world.layout.sidecar(RUN, 9))))
    assert "is gone" in gone.problems[0]
    assert ingest_one(ingester, message(s3_record(world.layout.sidecar(RUN, 0), "ObjectRemoved:Delete"))).problems == []


def test_damaged_sidecar_stops_nothing() -> None:
    world = ended()
    parts = event_parts(world)
    world.store.put(world.layout.sidecar(RUN, 1), b"no gzip", PutOptions())
    assert parts.indexing.rebuild(RUN) == 3
    ingester = ingester_of(world, InMemoryRunCatalog(), InMemoryPublisher(), index_sidecar=parts.indexing.index_object)
    assert "not a sidecar" in ingest_one(ingester, message(s3_record(world.layout.sidecar(RUN, 1)))).problems[0]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=5,
)
NOTED = st.builds(
    SidecarEntry,
    *[st.integers(0, 10**12)] * 5,
    id=st.none() | st.integers(0, 10**9),
    step=st.none() | NAMES,
    level=st.none() | NAMES,
    error=st.booleans(),
    data=st.dictionaries(NAMES, JSON, max_size=3),
    annotations=st.lists(st.fixed_dictionaries({"position": st.integers(0, 9), "note": JSON}), max_size=2),
)


@given(st.lists(NOTED, max_size=4))
def test_sidecar_round_trip(events: list[SidecarEntry]) -> None:
    sidecar = Sidecar(3, 1, 2, 4, 5, "ä\nw", "house", 7, tuple(events))
    found = decode_sidecar(encode_sidecar(sidecar))
    assert [(each.line, each.id, each.step, each.level, dict(each.data), list(each.annotations)) for each in found.events] == [
        (each.line, each.id, each.step, each.level, dict(each.data), list(each.annotations)) for each in events
    ]
    assert encode_sidecar(found) == encode_sidecar(sidecar)
    for damaged in (b"", b"x", encode_sidecar(sidecar)[:-9]):
        with pytest.raises(DamagedLogError):
            decode_sidecar(damaged)


BODIES = st.dictionaries(st.integers(0, 10**10 - 1), st.binary(max_size=20), min_size=1, max_size=5).map(
    lambda each: sorted(each.items())
)


@given(BODIES)
def test_bundle_round_trip(sidecars: list[tuple[int, bytes]]) -> None:
    body = encode_bundle(sidecars)
    assert list(decode_bundle(body).items()) == sidecars
    for damaged in (b"", b"x", body[:9], body + b"x", encode_bundle([sidecars[0], sidecars[0]])):
        with pytest.raises(DamagedLogError):
            decode_bundle(damaged)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=4),
    st.sets(st.integers(0, 50), max_size=20),
    st.integers(0, 45),
)
def test_groups_have_each_number_once_and_in_order(drawn: list[tuple[int, int]], singles: set[int], first: int) -> None:
    bundles = [BundleName(low, low + more) for low, more in drawn]
    groups = list(group_sidecars(sorted(number for number in singles if number >= first), bundles, first))
    assert all(before.last < after.first for before, after in pairwise(groups))
    assert all(first <= group.first <= number <= group.last for group in groups for number in group.singles)
    assert [number for group in groups for number in group.singles] == sorted(number for number in singles if number >= first)
    assert {name for group in groups for name in group.bundles} == {name for name in bundles if _reaches(name, bundles, first)}


def _reaches(name: BundleName, bundles: list[BundleName], first: int) -> bool:
    """Whether a bundle, or one that overlaps it, has numbers from ``first`` on."""
    overlapping = {name}
    while (
        more := {each for each in bundles if any(each.first <= other.last and other.first <= each.last for other in overlapping)}
        - overlapping
    ):
        overlapping |= more
    return max(each.last for each in overlapping) >= first


def test_listing_of_many_sidecars_notices_a_bundle() -> None:
    """Sidecars that a later page of the listing lacks are in a bundle that the first page did not have."""
    world = World()
    for number in range(1500):
        world.store.put(world.layout.sidecar(RUN, number), b"x", PutOptions())
    groups = event_parts(world).indexing.sidecars.groups(RUN)
    assert [next(groups).first for _ in range(900)] == list(range(900))
    world.store.put(world.layout.bundle(RUN, 1100, 1200), b"x", PutOptions())
    world.store.delete_many([world.layout.sidecar(RUN, number) for number in range(1100, 1201)])
    with pytest.raises(SnapshotChangedError):
        list(groups)
    assert [group.last for group in event_parts(world).indexing.sidecars.groups(RUN)][1100:1102] == [1200, 1201]


def test_only_requested_sidecars_of_a_bundle_are_read() -> None:
    """A step's events are read in groups of segments, and one bundle may have those of several groups."""
    sidecars = event_parts(ended()).indexing.sidecars
    assert [each.sequence for each in sidecars.read_numbers(RUN, [1, 2], [BundleName(0, 1)])] == [1, 2]


@pytest.mark.parametrize(
    ("damaged", "readable"),
    [((0, 2), [1, 2, 3]), ((1, 3), [0, 1, 2]), ((5, 6), [0, 1, 2])],
    ids=["overlaps a bundle", "is overlapped", "is elsewhere"],
)
def test_damaged_bundle_hides_no_other_sidecar(damaged: tuple[int, int], readable: list[int]) -> None:
    world = World()
    parts = event_parts(world)
    for number in range(4):
        parts.log.append(RUN, [make_event(f"event {number}", "s")])
    bodies = {number: world.store.get(world.layout.sidecar(RUN, number)).body for number in range(4)}
    healthy = (1, 3) if damaged == (0, 2) else (0, 2)
    world.store.put(world.layout.bundle(RUN, *healthy), encode_bundle([(each, bodies[each]) for each in healthy]), PutOptions())
    world.store.put(world.layout.bundle(RUN, *damaged), b"no bundle", PutOptions())
    world.store.delete_many([world.layout.sidecar(RUN, number) for number in range(4) if number not in (1, 2) or number in healthy])
    sidecars, read, errors = event_parts(world).indexing.sidecars, [], 0
    for number, reader in sidecars.readers(RUN, list(sidecars.groups(RUN))):
        try:
            read.append(reader().sequence)
        except DamagedLogError:
            errors += 1
            assert number == damaged[0]
    assert (read, errors) == (readable, 1)
    assert [each.sequence for each in sidecars.read_numbers(RUN, readable, sidecars.bundles(RUN))] == readable
    assert [sidecars.read_one(RUN, number).sequence for number in readable] == readable
