"""Any files, registered in any order and rewritten, copied and deleted, against a plain list: queries, latest files and rows.

Over the in-memory database with many examples, over moto and ministack with a few. On failure Hypothesis prints the steps and the seed.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest
from boto3.dynamodb.conditions import Key as Where
from hypothesis import HealthCheck, Phase, given, note, seed, settings
from hypothesis import strategies as st

from chalicelib.aws.database import DynamoDbDatabase
from chalicelib.catalog.file_state import OBJECTS, file_key, url_key
from chalicelib.catalog.files import FILES, LATEST, FileRecord, latest_key
from chalicelib.catalog.latest import LatestFiles
from chalicelib.catalog.listing import CLASSES_MS, LISTING, directory_keys, listing_rows
from chalicelib.catalog.registration import Description, FileCatalogWriter, ObjectRef
from chalicelib.catalog.search import MAX_INDEXES, MAX_ROWS, FileQuery, Search
from chalicelib.catalog.timestamps import FIRST_MS, LAST_MS
from chalicelib.errors import StoreUnavailableError, TooManyNamesError
from chalicelib.ports import Database, Put
from local.emulator import CREDENTIALS, REGION
from tests.contract.conftest import MEMORY
from tests.contract.files import (
    DAY_MS,
    MAX_DURATION_MS,
    NOW_MS,
    Bucket,
    Content,
    Model,
    all_pages,
    data_key,
    file_id,
    metadata,
    subject,
)
from tests.sampling import pick, seed_of
from tests.support.clock import ManualClock
from tests.support.database import InMemoryDatabase
from tests.support.file_ids import DOTS, HOSTILE, MANY_SEGMENTS

SEED = seed_of("file catalog")
EXAMPLES = int(os.environ.get("RUNLAKE_EXAMPLES") or pick(5, 20, 400))
EMULATED_SHARE = 30
"""One in this many examples runs on each emulator."""
AHEAD_MS = DAY_MS
"""The contract: the latest file is not one that begins more than 24 h from now."""
DIRECTORIES = ("n#", "c#", "p#")
TOTALS: Counter[str] = Counter()

WHATS = ("syslog", "sys", "nginx-access")
WHERES = ("web-1", "web-10", "db_1")
WORK_IDS = (None, None, "job-1", "job-10")
FILES_AT_MOST = 12
KEYS = (*(data_key(number) for number in range(FILES_AT_MOST)), "odd", "2015/syslog.gz", f"{file_id(3)}/data.bak")

STARTS = st.one_of(
    st.sampled_from([NOW_MS, NOW_MS - 1, NOW_MS + 1, 0, -1, 1, NOW_MS + AHEAD_MS, NOW_MS + AHEAD_MS + 1]),
    st.integers(NOW_MS - 3 * DAY_MS, NOW_MS + 3 * DAY_MS),
    st.sampled_from(range(-3 * DAY_MS, 3 * DAY_MS, DAY_MS // 2)),
    st.sampled_from([NOW_MS - years * 365 * DAY_MS for years in (1, 10, 57, 400, -5, -500)]),
    st.sampled_from([FIRST_MS, FIRST_MS + 1, LAST_MS - MAX_DURATION_MS]),
)
DURATIONS = st.one_of(
    st.sampled_from([None, 0, 1, 999]),
    st.sampled_from([each + more for each in CLASSES_MS for more in (-1, 0, 1) if 0 < each + more <= MAX_DURATION_MS]),
    st.sampled_from([DAY_MS - 1, DAY_MS, 20 * DAY_MS, MAX_DURATION_MS]),
)
CONTENTS = st.builds(
    lambda number, start, duration, more, size, created, refused: Content(
        metadata(number, start, duration, **more), size, created, refused
    ),
    st.integers(0, FILES_AT_MOST - 1),
    STARTS,
    DURATIONS,
    st.fixed_dictionaries(
        {"what": st.sampled_from(WHATS), "where": st.sampled_from(WHERES), "work_id": st.sampled_from(WORK_IDS)},
        optional={"extra": st.sampled_from([1.5, {"a": [None, True]}, "", 10**40, []])},
    ),
    st.integers(0, 2**40),
    st.integers(NOW_MS, NOW_MS + 2),
    st.sampled_from([False] * 9 + [True]),
)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of an object: new content; None: deletion. ``own``: the content has the id in its key."""

    key: str
    content: Content | None
    own: bool

    def applied(self) -> Content | None:
        """The content with the expected id."""
        if self.content is None or not self.own or not self.key.endswith("/data"):
            return self.content
        own = metadata(0, 0).model_validate(self.content.metadata.document() | {"id": self.key.removesuffix("/data")})
        return Content(own, self.content.size, self.content.created_ms, self.content.refused)


CHANGES = st.builds(
    Change,
    st.sampled_from(KEYS),
    st.one_of(CONTENTS, CONTENTS, CONTENTS, CONTENTS, st.none()),
    st.sampled_from([True, True, True, False]),
)
BATCHES = st.lists(CHANGES, min_size=1, max_size=10, unique_by=lambda change: change.key)


@dataclass
class World:
    """A catalog over fresh tables, the objects, and the expected catalog."""

    database: Database
    bucket: Bucket = field(default_factory=Bucket)
    model: Model = field(default_factory=Model)

    def __post_init__(self) -> None:
        self.search = Search(self.database)
        self.latest = LatestFiles(self.database, self.search)
        self.registration = FileCatalogWriter(self.database, self.latest, ManualClock(NOW_MS))

    def change(self, changes: Iterable[tuple[str, Content | None]]) -> None:
        """Change objects and notify the catalog."""
        for key, content in changes:
            if content is None:
                self.bucket.objects.pop(key, None)
            else:
                self.bucket.objects[key] = content
        self.look([key for key, _ in changes])

    def look(self, keys: list[str]) -> None:
        """Notify the catalog of objects, changed or not."""
        subjects = [subject(key) for key in keys]
        outcomes = self.registration.update(subjects, self.bucket.describe)
        assert list(outcomes) == subjects
        for each, outcome in outcomes.items():
            assert outcome.error is None, outcome.error
            assert outcome.description == self.bucket.describe(each)
        self.model.tell(self.bucket, self._key_of)

    def _key_of(self, file_id: str) -> str | None:
        """Key of the object from which the catalog has a file."""
        state = self.registration.find(file_id)
        return state.url.removeprefix("s3://archive/") if state and state.record else None

    # ------------------------------------------------------------ what must hold

    def check(self, queries: Iterable[tuple[FileQuery, list[int]]]) -> None:
        """Runs after each step."""
        for query, limits in queries:
            self.check_query(query, limits)
        self.check_latest()
        self.check_rows()

    def check_query(self, query: FileQuery, limits: list[int]) -> None:
        pages = all_pages(self.search, query, limits)
        assert all(page.documents for page in pages[:-1]), "a page is empty"
        for number, page in enumerate(pages):
            limit = limits[number % len(limits)]
            assert len(page.documents) == limit if page.after else len(page.documents) <= limit
        found = [document for page in pages for document in page.documents]
        expected = self.model.answer(query)
        assert [place(document) for document in found] == [place(document) for document in expected]
        assert found == expected
        TOTALS["queries"] += 1
        TOTALS["answers"] += len(found)

    def check_latest(self) -> None:
        for source in [(what, where) for what in WHATS for where in WHERES]:
            found = self.latest.find(*source, NOW_MS)
            expected = self.model.greatest_age(source, NOW_MS + AHEAD_MS)
            assert (found.age if found else None) == expected, source
            assert found is None or found.document() in [record.document() for record in self.model.records()]
            row = self.database.get_many([latest_key(*source)]).get(latest_key(*source))
            kept = (row["metadata"]["start"], row["create_time"]) if row else None
            assert kept == self.model.greatest_age(source, LAST_MS), source

    def check_rows(self) -> None:
        rows = rows_of(self.database)
        assert by_keys(rows[FILES]) == by_keys(as_a_table_holds_it(row) for row in self.model.day_rows())
        records = self.model.records()
        assert max(Counter(row["range_key"] for row in rows[FILES]).values(), default=1) <= 30
        listed = [row["document"] for row in rows[LISTING] if not row["partition"].startswith(DIRECTORIES)]
        assert set(listed) == {record.text() for record in records}, "what is gone is not listed, and what is there is"
        for row in rows[LATEST]:
            assert FileRecord.from_text(row["document"]) in records
        self._check_remembered({row["key"]: row for row in rows[OBJECTS]}, records)

    def _check_remembered(self, rows: Mapping[str, Mapping[str, Any]], records: list[FileRecord]) -> None:
        """The state of a listed file stays, with the row of its URL, which its removal needs."""
        for record in records:
            row = rows[file_key(record.id).partition]
            assert row["document"] == record.text() and "expires_at" not in row
            if subject(record.url.removeprefix("s3://archive/")).id != record.id:
                led = rows[url_key(record.url).partition]
                assert led["id"] == record.id and "expires_at" not in led, "its removal would go unnoticed once this has expired"
        assert {name for name, row in rows.items() if "document" in row} == {file_key(record.id).partition for record in records}


def place(document: Mapping[str, Any]) -> tuple[int, str]:
    return document["metadata"]["start"], document["metadata"]["id"]


def rows_of(database: Database) -> dict[str, list[Mapping[str, Any]]]:
    """Every row of every table."""
    if isinstance(database, InMemoryDatabase):
        return {table: database.rows(table) for table in (FILES, LATEST, LISTING, OBJECTS)}
    assert isinstance(database, DynamoDbDatabase)
    return {table: scanned(database._client.meta.endpoint_url, schema.name) for table, schema in database._schemas.items()}


def scanned(endpoint_url: str, table: str) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = []
    answer: dict[str, Any] = {"LastEvaluatedKey": None}
    while "LastEvaluatedKey" in answer:
        start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]} if rows else {}
        answer = resource(endpoint_url).Table(table).scan(ConsistentRead=True, **start)
        rows += answer["Items"]
    return rows


_resources: dict[str, Any] = {}


def resource(endpoint_url: str) -> Any:
    """boto3's own view of the tables, as other readers have it."""
    if endpoint_url not in _resources:
        _resources[endpoint_url] = boto3.resource("dynamodb", region_name=REGION, endpoint_url=endpoint_url, **CREDENTIALS)
    return _resources[endpoint_url]


def by_keys(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Mapping[str, Any]]:
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    for row in rows:
        key = row["time_index_key"], row["range_key"]
        assert key not in found
        found[key] = row
    return found


def as_a_table_holds_it(row: Mapping[str, Any]) -> dict[str, Any]:
    """A table stores numbers of more than 38 digits as text; a fraction of two equals a decimal."""
    document = {name: str(value) if value == 10**40 else value for name, value in row["metadata"].items()}
    return {**row, "metadata": document}


# ---------------------------------------------------------------- any history


NAMES = st.one_of(st.just("*"), st.sampled_from(WHATS), st.sampled_from(["sys*", "*s", "*x*", "nothing", "[a-z]*", "syslog.gz"]))


@st.composite
def queries(draw: st.DrawFn, model: Model) -> tuple[FileQuery, list[int]]:
    """A query with bounds at or next to the times of files, and page sizes."""
    edges = sorted({edge for record in model.records() for edge in (record.metadata.start, record.metadata.last_ms)} | {NOW_MS})
    moments = st.builds(int.__add__, st.sampled_from(edges), st.sampled_from([0, 0, -1, 1, DAY_MS, -400 * DAY_MS]))
    earliest, latest = sorted(min(max(draw(moments), FIRST_MS), LAST_MS) for _ in range(2))
    if draw(st.booleans()):
        earliest, latest = (
            max(earliest // DAY_MS * DAY_MS, FIRST_MS),
            min(latest, earliest + draw(st.sampled_from([0, 1, 7, 8])) * DAY_MS),
        )
    open_ends = draw(st.sampled_from(["", "", "earliest", "latest", "both"]))
    query = FileQuery(
        whats=tuple(draw(st.lists(NAMES, min_size=1, max_size=3))),
        where=draw(st.sampled_from([None, None, "*", *WHERES, "web-*", "*1", "nowhere"])),
        work_id=draw(st.sampled_from([None, None, None, None, "job-1", "job-10", "job-2", "*"])),
        start_ms=FIRST_MS if open_ends in ("earliest", "both") else earliest,
        end_ms=LAST_MS if open_ends in ("latest", "both") else latest,
        newest_first=draw(st.booleans()),
    )
    return query, draw(st.lists(st.one_of(st.integers(1, 4), st.integers(1, 100)), min_size=1, max_size=3))


@pytest.mark.behavior("Lists equal the objects in the bucket after any history.")
def test_catalog_equals_the_objects_after_any_history(kind: str, new_database: Callable[[], Database]) -> None:
    examples = EXAMPLES if kind == MEMORY else max(2, EXAMPLES // EMULATED_SHARE)
    print(f"\nseed: RUNLAKE_SEED={SEED} RUNLAKE_EXAMPLES={EXAMPLES} kind={kind} examples={examples}")
    TOTALS.clear()

    @seed(SEED)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        print_blob=True,
        phases=[Phase.generate, Phase.shrink]
        if os.environ.get("RUNLAKE_SHRINK")
        else [Phase.generate],  # making it small takes minutes
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def history(data: st.DataObject) -> None:
        world = World(new_database())
        TOTALS["histories"] += 1
        for _ in range(data.draw(st.integers(1, 6 if kind == MEMORY else 4), label="steps")):
            changes = data.draw(BATCHES, label="changes")
            world.change([(change.key, change.applied()) for change in changes])
            TOTALS["changes"] += len(changes)
            asked = [data.draw(queries(world.model), label="query") for _ in range(6 if kind == MEMORY else 3)]
            world.check(asked)
            note(f"files={len(world.model.records())}")
        world.look(
            list(KEYS)
        )  # update every object again: files that were taken for another object's are settled, and nothing else changes
        world.check([])

    history()
    print(f"{kind}: {dict(TOTALS)}")
    assert TOTALS["histories"] >= examples


@pytest.mark.slow
@pytest.mark.parametrize("more", range(3))
def test_an_archive_of_hundreds_of_files(more: int) -> None:
    """In memory: more files and fuller pages than Hypothesis makes, from the same seed."""
    print(f"\nseed: RUNLAKE_SEED={SEED}")
    chance, world = random.Random(SEED + more), World(InMemoryDatabase())
    starts = [NOW_MS + chance.randrange(-20 * DAY_MS, 2 * DAY_MS) for _ in range(150)] + [NOW_MS - 3000 * DAY_MS, 0, -5, -DAY_MS]
    durations = [
        None,
        0,
        *(chance.randrange(1, 2 * longest_ms) for longest_ms in CLASSES_MS[1:-2]),
        *CLASSES_MS[:-2],
        MAX_DURATION_MS,
    ]

    def content(number: int) -> Content:
        names = {"what": chance.choice(WHATS), "where": chance.choice(WHERES), "work_id": chance.choice(WORK_IDS)}
        of = metadata(number, chance.choice(starts), chance.choice(durations), **names)
        return Content(of, chance.randrange(99), NOW_MS + chance.randrange(3))

    for _ in range(pick(5, 15, 30)):
        numbers = chance.sample(range(400), 40)
        world.change([(data_key(number), content(number) if chance.random() < 0.8 else None) for number in numbers])
    for _ in range(pick(5, 20, 80)):
        moments = [chance.choice(starts) + chance.choice([0, 0, 1, -1, DAY_MS, 7 * DAY_MS, -4000 * DAY_MS]) for _ in range(2)]
        if chance.random() < 0.3:
            moments = [min(moments) // DAY_MS * DAY_MS, min(moments) + chance.choice([0, 1, 5, 9]) * DAY_MS]
        query = FileQuery(
            whats=tuple(chance.choices([*WHATS, "*", "sys*"], k=chance.randrange(1, 3))),
            where=chance.choice([None, None, "*", "web-*", *WHERES]),
            work_id=chance.choice([None, None, None, "job-1"]),
            start_ms=min(moments),
            end_ms=max(moments),
            newest_first=chance.random() < 0.5,
        )
        world.check_query(query, chance.choices([1, 3, 10, 99, 100], k=2))
    world.check([(FileQuery(("*",)), [100]), (FileQuery(("*",), newest_first=True), [37])])
    assert len(world.model.records()) > 200


# ---------------------------------------------------------------- single cases


@pytest.fixture
def world(new_database: Callable[[], Database]) -> World:
    return World(new_database())


def test_a_file_of_thirty_days_is_listed_once_and_has_thirty_rows(world: World) -> None:
    start = NOW_MS // DAY_MS * DAY_MS
    world.change([(data_key(1), Content(metadata(1, start, 30 * DAY_MS - 1, work_id="job-1")))])
    assert len(rows_of(world.database)[FILES]) == 30
    world.check([(FileQuery(("syslog",), start_ms=start + day * DAY_MS, end_ms=start + day * DAY_MS), [1]) for day in range(30)])


def test_thirty_days_that_all_become_others(world: World) -> None:
    """The largest change of one file: every row is deleted, and as many are added."""
    for start in (NOW_MS // DAY_MS * DAY_MS, 0):
        world.change([(data_key(1), Content(metadata(1, start, 30 * DAY_MS - 1, work_id=f"job-{start}", what=f"w{start}")))])
        world.check([(FileQuery(("*",)), [1])])


def test_an_object_becomes_another_file_of_thirty_days_that_was_elsewhere(world: World) -> None:
    """The deleted and added rows exceed one transaction: object 1 was file 1, and is now the file of object 2."""
    day = NOW_MS // DAY_MS * DAY_MS
    long = 30 * DAY_MS - 1
    world.change([
        (data_key(1), Content(metadata(1, day, long, work_id="job-1"))),
        (data_key(2), Content(metadata(2, day, long, work_id="job-1"))),
    ])  # fmt: skip
    world.change([(data_key(1), Content(metadata(2, 0, long, work_id="job-2", what="other")))])
    world.check([(FileQuery(("*",)), [1])])


def test_a_file_that_came_back_to_an_odd_key_is_missed_when_it_goes(world: World) -> None:
    """The row that maps the key to the file must not expire while the file exists."""
    content = Content(metadata(1, NOW_MS, 5))
    for key, now in (("odd", content), ("odd", None), (data_key(1), content), ("odd", content)):
        world.change([(key, now)])
        world.check([(FileQuery(("*",)), [1])])


def test_a_file_outlives_its_copy(world: World) -> None:
    """A copy has the same document, so it is the same file. If the copy is deleted, the file remains."""
    content = Content(metadata(1, NOW_MS, 5))
    for key, now in ((data_key(1), content), ("odd", content), ("odd", None)):
        world.change([(key, now)])
    assert [document["url"] for document in world.search.page(FileQuery(("*",))).documents] == [subject(data_key(1)).url]


def test_rejected_copy_gives_the_file_back_to_its_original(world: World) -> None:
    content = Content(metadata(1, NOW_MS, 5))
    rejected = Content(metadata(1, NOW_MS, 5), refused=True)
    for key, now in ((data_key(1), content), ("odd", content), ("odd", rejected)):
        world.change([(key, now)])
        world.check([(FileQuery(("*",)), [1])])
    assert [document["url"] for document in world.search.page(FileQuery(("*",))).documents] == [subject(data_key(1)).url]
    latest = world.latest.find("syslog", "web-1", NOW_MS)
    assert latest and latest.url == subject(data_key(1)).url


def test_rejected_copy_without_an_original_is_remembered_with_its_reason(world: World) -> None:
    for refused in (False, True):
        world.change([("odd", Content(metadata(1, NOW_MS, 5), refused=refused))])
    state = world.registration.find(file_id(1))
    assert state and (state.record, state.problem) == (None, "not what was announced")
    world.check([(FileQuery(("*",)), [1])])


def test_rejected_object_does_not_take_a_file_from_a_good_one(world: World) -> None:
    content = Content(metadata(1, NOW_MS, 5))
    world.change([("odd", content)])
    world.change([(data_key(1), Content(metadata(1, NOW_MS, 5), refused=True))])
    assert [document["url"] for document in world.search.page(FileQuery(("*",))).documents] == [subject("odd").url]


def test_files_of_one_source_and_the_same_times_are_all_listed(world: World) -> None:
    for number in range(3):
        world.change([(data_key(number), Content(metadata(number, NOW_MS, 5)))])
        world.check([(FileQuery(("*",)), [1])])


@pytest.mark.sampled(default=2)
@pytest.mark.parametrize("newest_first", [False, True])
def test_pages_of_chosen_ids_are_in_the_order_of_their_bytes(new_database: Callable[[], Database], *, newest_first: bool) -> None:
    """A page may end at any id. DynamoDB sorts keys by the bytes of UTF-8."""
    world, ids = World(new_database()), [*HOSTILE, *MANY_SEGMENTS, *DOTS]
    world.change([(f"odd-{place}", Content(metadata(0, NOW_MS, id=each))) for place, each in enumerate(ids)])
    for limit, left in ((1, ids), (7, ids[::2])):
        if left != ids:
            world.change([(f"odd-{place}", None) for place, each in enumerate(ids) if each not in left])
        pages = all_pages(world.search, FileQuery(("syslog",), "web-1", newest_first=newest_first), [limit])
        found = [document["metadata"]["id"] for page in pages for document in page.documents]
        assert found == sorted(left, key=str.encode, reverse=newest_first)
        assert all(len(page.documents) == limit for page in pages[:-1])


REWRITES = 12


def test_rewritten_odd_key_costs_the_same_each_time(world: World) -> None:
    """Its earlier files leave the row once their originals were read."""
    looks: list[int] = []
    for number in range(REWRITES):
        world.bucket.looks = 0
        world.change([("odd", Content(metadata(number, NOW_MS + number, 5)))])
        looks.append(world.bucket.looks)
        assert len(odd_row(world).get("left", ())) <= 1
    assert max(looks) == looks[3], looks
    world.change([(data_key(REWRITES - 1), Content(metadata(REWRITES - 1, NOW_MS)))])
    world.check([(FileQuery(("*",)), [3])])


def test_file_that_moves_again_and_again_settles_only_its_last_source(world: World) -> None:
    sources: list[list[str]] = []
    for number in range(REWRITES):
        world.change([(data_key(1), Content(metadata(1, NOW_MS, 5, where=f"web-{number}")))])
        row = world.database.get_many([file_key(file_id(1))])[file_key(file_id(1))]
        sources.append([where for _, where in row.get("unsettled", ())])
    assert sources == [[], *([f"web-{number}"] for number in range(REWRITES - 1))]
    world.look([data_key(1)])
    assert "unsettled" not in world.database.get_many([file_key(file_id(1))])[file_key(file_id(1))]


def test_original_is_looked_at_when_an_earlier_look_stopped_before_it(world: World) -> None:
    """A copy becomes another file, and the process dies before it reads the original; the next read of the key repairs it."""
    content = Content(metadata(1, NOW_MS, 5))
    world.change([(data_key(1), content)])
    world.change([("odd", content)])
    world.bucket.objects["odd"] = Content(metadata(2, NOW_MS, 5))

    def dies_at_the_original(of: ObjectRef) -> Description:
        if of.key == data_key(1):
            raise StoreUnavailableError("the process dies")
        return world.bucket.describe(of)

    world.registration.update([subject("odd")], dies_at_the_original)
    assert odd_row(world)["left"] == [file_id(1)]
    world.change([("odd", Content(metadata(3, NOW_MS, 5)))])
    assert {document["metadata"]["id"] for document in world.search.page(FileQuery(("*",))).documents} == {file_id(1), file_id(3)}


def odd_row(world: World) -> Mapping[str, Any]:
    key = url_key(subject("odd").url)
    return world.database.get_many([key])[key]


ODD_NAMES = ("cls", "_fields_set", "self", "days", "document", "model_extra", "__class__", "", "a.b", "é")


def test_keys_of_any_name_are_kept(world: World) -> None:
    """Unknown keys are kept, including names with a meaning in Python, and the file can be listed, changed and removed."""
    for number, name in enumerate(ODD_NAMES):
        for created in range(2):
            of = metadata(number, NOW_MS, 5, what=f"w{number}", **{name: "kept"})
            world.change([(data_key(number), Content(of, created_ms=NOW_MS + created))])
        documents = world.search.page(FileQuery((f"w{number}",))).documents
        assert [document["metadata"].get(name) for document in documents] == ["kept"]
        state = world.registration.find(file_id(number))
        assert state and state.record and state.record.metadata.document().get(name) == "kept"
        latest = world.latest.find(f"w{number}", "web-1", NOW_MS)
        assert latest and latest.metadata.document().get(name) == "kept"
        world.change([(data_key(number), None)])
        world.check([])


def test_the_latest_file_falls_back_step_by_step(world: World) -> None:
    starts = [NOW_MS - number * 100 * DAY_MS for number in (3, 0, 5, 1, 4, 2)]
    world.change([(data_key(number), Content(metadata(number, start, 60_000 * number))) for number, start in enumerate(starts)])
    for number in sorted(range(len(starts)), key=lambda number: -starts[number]):
        world.check([])
        world.change([(data_key(number), None)])
    world.check([])
    assert rows_of(world.database)[LATEST] == []


COUNT = 40
"""Files of one batch: more than a transaction holds."""


def test_a_batch_of_many_files_of_one_source(world: World) -> None:
    world.change([(f"key-{number}", Content(metadata(number, NOW_MS, number))) for number in range(COUNT)])
    world.check([(FileQuery(("syslog",)), [7])])
    world.change([(f"key-{number}", None) for number in range(0, COUNT, 2)])
    world.check([(FileQuery(("syslog",), newest_first=True), [100])])


def test_other_readers_find_files_by_work_id_as_the_datalake_does(kind: str, world: World) -> None:
    """The query of Planet's own API: by work id and what, and where as the beginning of the range."""
    contents = [
        Content(metadata(1, NOW_MS, 3 * DAY_MS, work_id="job-1")),
        Content(metadata(2, NOW_MS, 5, work_id="job-1", where="web-10")),
        Content(metadata(3, NOW_MS, 5, work_id="job-1", what="sys")),
        Content(metadata(4, NOW_MS, 5, work_id="job-10")),
        Content(metadata(5, NOW_MS)),
    ]
    world.change([(data_key(number), content) for number, content in enumerate(contents, 1)])
    expected = {
        ("job-1:syslog", None): Counter({file_id(1): 4, file_id(2): 1}),
        ("job-1:syslog", "web-1"): Counter({file_id(1): 4}),
        ("job-1:sys", None): Counter({file_id(3): 1}),
        ("job-10:syslog", "web-1"): Counter({file_id(4): 1}),
        (f"null{file_id(5)}:syslog", None): Counter({file_id(5): 1}),
        ("null:syslog", None): Counter(),
    }
    for (work, where), ids in expected.items():
        assert Counter(row["metadata"]["id"] for row in by_work_id(world.database, work, where)) == ids
    world.change([(data_key(1), None)])
    assert [row["metadata"]["id"] for row in by_work_id(world.database, "job-1:syslog", None)] == [file_id(2)]


def by_work_id(database: Database, work: str, where: str | None) -> list[Mapping[str, Any]]:
    if isinstance(database, InMemoryDatabase):  # it has no indexes: what one would hold
        rows = [row for row in database.rows(FILES) if row["work_id_index_key"] == work]
        return [row for row in rows if where is None or row["range_key"].startswith(f"{where}:")]
    assert isinstance(database, DynamoDbDatabase)
    condition = Where("work_id_index_key").eq(work)
    if where is not None:
        condition = condition & Where("range_key").begins_with(f"{where}:")
    table = resource(database._client.meta.endpoint_url).Table(database._schemas[FILES].name)
    found: list[Mapping[str, Any]] = table.query(IndexName="work-id-index", KeyConditionExpression=condition, Limit=100)["Items"]
    return found


@pytest.mark.slow
def test_a_page_over_many_sources_is_full() -> None:
    """Rows read ahead for it are used."""
    world = World(InMemoryDatabase())
    for where in range(120):
        world.change([
            (data_key(number), Content(metadata(number, NOW_MS + number, 90_000 * (1 + number % 2), where=f"web-{where}")))
            for number in range(where * 30, where * 30 + 30)
        ])  # fmt: skip
    query = FileQuery(("*",), "*", start_ms=NOW_MS + 1)
    pages = all_pages(world.search, query, [100])
    assert [len(page.documents) for page in pages] == [100] * 36
    assert [document for page in pages for document in page.documents] == world.model.answer(query)


@pytest.mark.slow
def test_a_page_ends_when_it_reads_too_much_in_vain() -> None:
    """Files that began before the interval and have ended are skipped, up to a limit for a page: it ends before it is full, never
    empty."""
    database, minute_ms = InMemoryDatabase(), 60_000
    begins = [
        (NOW_MS - 63 * minute_ms, 64),
        *((NOW_MS - 63 * minute_ms + number, 33) for number in range(1, 5 * MAX_ROWS)),
        (NOW_MS - 1, 33),
    ]
    for number, (start_ms, minutes) in enumerate(begins):
        record = FileRecord("s3://archive/x", 1, 1, metadata(number, start_ms, minutes * minute_ms))
        directory = (
            [Put(key, {"partition": key.partition, "at": key.sort}) for key in directory_keys(record)] if number == 0 else []
        )
        database.put_many([*directory, *(Put(key, row) for key, row in listing_rows(record).items())])
    pages = all_pages(Search(database), FileQuery(("syslog",), start_ms=NOW_MS, end_ms=NOW_MS + 1), [100])
    assert [[document["metadata"]["id"] for document in page.documents] for page in pages] == [
        [file_id(0)],
        [file_id(len(begins) - 1)],
    ]
    database.read_rows = 0
    Search(database).page(FileQuery(("syslog",), start_ms=NOW_MS, end_ms=NOW_MS + 1))
    assert MAX_ROWS < database.read_rows < 3 * MAX_ROWS


def test_a_work_id_of_too_many_whats_is_refused() -> None:
    world = World(InMemoryDatabase())
    for first in range(0, MAX_INDEXES + 10, 10):
        world.change([
            (data_key(number), Content(metadata(number, NOW_MS, what=f"what-{number}", work_id="job-1")))
            for number in range(first, first + 10)
        ])  # fmt: skip
    with pytest.raises(TooManyNamesError):
        world.search.page(FileQuery(("*",), work_id="job-1"))
    assert len(world.search.page(FileQuery(("what-1*",), work_id="job-1")).documents) == 100
