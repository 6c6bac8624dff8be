"""The limits of each operation: a request at the limit is accepted, one above it is rejected with 413 or 400, and nothing is stored."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import random
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from urllib.parse import quote

import pytest
from chalice.app import Request

import app
from chalicelib import composition
from chalicelib.catalog import metadata
from chalicelib.events.ports import Refused
from chalicelib.ports import ListedObject, Run
from chalicelib.response_size import RESPONSE_BYTES, document_bytes, envelope_bytes
from chalicelib.routes import budgets, paths
from chalicelib.routes.budgets import EVENT_BYTES, Growth
from chalicelib.routes.chalice_adapter import adapt
from chalicelib.routes.event_bodies import Items
from tests.functional.budget_requests import (
    DOCUMENTS,
    READING,
    RECORDS,
    STREAMS,
    STRUCTURED,
    VALUES,
    deep,
    items,
    name_of,
    padded,
    streams,
    values,
)
from tests.functional.gateway import LOGS, STAGE, Answer, call, event_of, get, installed, post
from tests.functional.largest_requests import LARGEST, Largest
from tests.fuzz.shapes import otlp_values
from tests.support.samples import DECLARED, JSON, LINES, NAMED, PROTOBUF, ROWS, SAMPLES, TEXT, Sample
from tests.world import World

MIB = 1024 * 1024
BULK, EVENTS = SAMPLES["POST", "/v1/agents/elasticsearch/_bulk"], ("POST", "/v1/events/{fqn}/{runId}")
OTLP = replace(SAMPLES["POST", "/v1/agents/otlp/v1/logs"], content_type=PROTOBUF)
CLOSE = ("POST", f"{LOGS}/{{fqn}}/{{runId}}/close")


@pytest.fixture
def world() -> Iterator[World]:
    with installed(World()) as world:
        yield world


def is_refusal(answer: Answer, status: int) -> bool:
    if answer.headers["Content-Type"] == PROTOBUF:
        return answer.status == status and bool(answer.body)
    found = answer.json
    return answer.status == status and found["code"] in (status, "TooLarge") and bool(found["message"])


def is_empty(world: World) -> bool:
    return not world.store.list("").objects and not world.archive_store.list("").objects


NOWHERE = {
    ("GET", "/v1/catalog/pipelines/{s1}"),
    ("POST", f"{paths.BASE}/logs/{{s1}}"),
    ("PUT", f"{paths.EVENT_BASE}/{{s1}}/{{s2}}"),
}
"""Methods of a route that no operation has: a 404."""


def test_every_route_is_of_an_operation() -> None:
    """Greedy routes serve several operations, with a route for each number of parts of a path: each has at least one."""
    routes = {(method, route) for route, methods in app.app.routes.items() for method in methods}
    served = set()
    for sample, parts in itertools.product(ROWS, range(1, 9)):
        with suppress(ValueError):  # no route is so long
            event = event_of(sample.method, sample.path_with(fqn="/".join("abcdefgh"[:parts])), prefix="/prod")
            operation = adapt(Request(event, None)).operation
            assert operation and (operation.path == sample.path or sample.path.endswith("/{fqn}"))
            served.add((sample.method, event["resource"]))
    assert routes - served == NOWHERE


ANSWERED = [each for each in LARGEST if not each.note.startswith("items")]
"""Those of items are sent by the test of items."""


@pytest.mark.sampled(default=8)
@pytest.mark.slow
@pytest.mark.parametrize("largest", ANSWERED, ids=lambda each: f"{' '.join(each.sample.operation)} {each.note}")
def test_largest_request_is_answered_within_the_limit_of_a_response(largest: Largest) -> None:
    with largest.ready() as send:
        answer = send()
    expected = (answer.status < 413) if largest.status is None else (answer.status == largest.status)
    assert expected, answer.body[:300]
    assert envelope_bytes(answer.body) <= largest.sample.budget.response_bytes <= 5 * MIB


LIMITED = [(sample, name) for sample in ROWS for name in budgets.NAME_CHARS if f"{{{name}}}" in sample.path]


def test_every_name_in_a_path_has_a_limit() -> None:
    assert {name for _, path in SAMPLES for name in re.findall(r"{(\w+)}", path)} == set(budgets.NAME_CHARS)
    assert budgets.NAME_CHARS["what"] == metadata.MAX_NAME_CHARS


@pytest.mark.parametrize(("sample", "name"), LIMITED, ids=lambda each: each if isinstance(each, str) else " ".join(each.operation))
def test_name_over_the_limit_is_refused(world: World, sample: Sample, name: str) -> None:
    limit = budgets.NAME_CHARS[name]
    longest, longer = (sample.path_with(**{name: "%78" * length}) for length in (limit, limit + 1))
    body = "x" if sample in READING else None
    answer = call(sample.method, longer, body, {"Content-Type": TEXT})
    assert is_refusal(answer, 400) and f"{name} is too long chars={limit + 1}" in answer.json["message"] and is_empty(world)
    assert f"{name} is too long chars" not in call(sample.method, longest, body, {"Content-Type": TEXT}).body


def test_name_of_a_run_with_slashes_counts_as_one(world: World) -> None:
    limit = budgets.NAME_CHARS["fqn"]
    answer = call("POST", f"{LOGS}/{'x' * limit}/y/r1", "x", {"Content-Type": TEXT})
    assert is_refusal(answer, 400) and f"fqn is too long chars={limit + 2}" in answer.json["message"] and is_empty(world)


@pytest.mark.parametrize("fqn", ["f" * 2, "é" * 2])
def test_longest_names_of_a_run_that_a_key_holds_are_stored_and_longer_ones_refused(world: World, fqn: str) -> None:
    room = next(
        size for size in range(1000, 0, -1) if post(f"{quote(fqn)}/{'r' * size}", "x", {"Content-Type": TEXT}).status == 200
    )
    assert get(f"{quote(fqn)}/{'r' * room}").json["total"] == 1 and room > 800
    stored = len(world.store.list("").objects)
    answer = post(f"{quote(fqn)}/{'r' * (room + 1)}", "x", {"Content-Type": TEXT})
    assert is_refusal(answer, 400) and len(world.store.list("").objects) == stored


@pytest.mark.parametrize("sample", STRUCTURED, ids=name_of)
def test_records_at_the_greatest_depth_are_stored_and_deeper_ones_refused(world: World, sample: Sample) -> None:
    """Each record is checked independently."""
    answer = sample.send(deep(sample, sample.budget.depth - 1))
    assert answer.status == 200 and get("svc.a/r1?tail=1").json["total"] == 1
    for levels in (sample.budget.depth, sample.budget.depth + 1):
        assert sample.send(deep(sample, levels)).status in (200, 400)
    assert get("svc.a/r1?tail=1").json["total"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("sample", [each for each in DOCUMENTS if each.operation != CLOSE], ids=name_of)
def test_document_of_lists_is_refused(sample: Sample) -> None:
    """A close ignores a body without an outcome, whatever it is."""
    largest = next(each for each in LARGEST if each.sample.operation == sample.operation)
    for levels in (1, sample.budget.depth + 1, 2_000):
        body = (
            "{" + ",".join(f'"{name}":{"[" * levels}{"]" * levels}' for name in ("name", "count", "from", "path")) + "}"
        ).encode()
        with largest.ready(body) as send:
            stored = everything_stored()
            answer = send()
            assert answer.status == 400 and answer.json["message"], (answer.body, levels)
            assert everything_stored() == stored


def everything_stored() -> list[ListedObject]:
    services = composition.services()
    return [each for store in (services.store, services.archive_store) for each in store.list("").objects]


@pytest.mark.parametrize("sample", ROWS, ids=name_of)
def test_body_over_the_limit_is_refused(world: World, sample: Sample) -> None:
    answer = call(sample.method, sample.path_with(), "x" * (sample.budget.body_bytes + 1), {"Content-Type": TEXT})
    assert is_refusal(answer, 413) and is_empty(world)


@pytest.mark.usefixtures("world")
def test_request_without_an_operation_has_the_smallest_limits() -> None:
    assert is_refusal(call("POST", f"{LOGS}/svc.a", "x" * 64 * 1024, {"Content-Type": TEXT}), 404)
    assert is_refusal(call("POST", f"{LOGS}/svc.a", "x" * (64 * 1024 + 1), {"Content-Type": TEXT}), 413)


@pytest.mark.parametrize("sample", ROWS, ids=name_of)
def test_path_and_query_over_the_limit_are_refused(world: World, sample: Sample) -> None:
    path = sample.path_with()
    room = sample.budget.target_chars - len(STAGE + path) - len("q")
    answer = call(sample.method, f"{path}?q={'x' * (room + 1)}", headers={"Content-Type": JSON})
    assert is_refusal(answer, 400) and "path and query are too long" in answer.json["message"] and is_empty(world)
    answer = call(sample.method, f"{path}?q={'x' * room}", headers={"Content-Type": JSON})
    assert "path and query" not in answer.body


@pytest.mark.sampled(default=1)
@pytest.mark.slow
@pytest.mark.parametrize("sample", RECORDS, ids=name_of)
def test_items_at_the_limit_are_stored_and_one_more_is_refused(world: World, sample: Sample) -> None:
    limit = sample.budget.items.limit
    assert is_refusal(sample.send(items(sample, limit + 1)), 413) and is_empty(world)
    answer = sample.send(items(sample, limit))
    assert answer.status == 200, answer.body[:200]
    assert get("svc.a/r1?tail=1").json["total"] == limit
    assert envelope_bytes(answer.body) <= sample.budget.response_bytes


@pytest.mark.parametrize("sample", RECORDS, ids=name_of)
def test_items_of_a_small_body_have_a_lower_limit(world: World, sample: Sample) -> None:
    floor = sample.budget.items.floor
    packed = gzip.compress(sample.with_records([{"message": "<13>m"}] * (floor + 1)))
    assert sample.budget.items.of(len(packed)) == floor
    assert is_refusal(sample.send(packed, Content_Encoding="gzip"), 413) and is_empty(world)


@pytest.mark.parametrize("sample", STREAMS, ids=name_of)
def test_runs_at_the_limit_are_stored_and_one_more_is_refused(world: World, sample: Sample) -> None:
    limit = sample.budget.streams
    answer = sample.send(streams(sample, limit + 1))
    assert is_refusal(answer, 413) and is_empty(world)
    agent = DECLARED[sample.operation].agent
    assert agent
    assert f"runs and writers for one request limit={limit}: lower {agent.batch_setting} of the agent" in answer.body
    assert sample.send(streams(sample, limit)).status == 200
    assert get("p0/r").json["total"] == get(f"p{limit - 1}/r").json["total"] == 1


@pytest.mark.sampled(default=1)
@pytest.mark.slow
@pytest.mark.parametrize("sample", VALUES, ids=name_of)
def test_values_over_the_limit_are_refused(world: World, sample: Sample) -> None:
    answer = sample.send(values(sample, sample.budget.values.limit + 1))
    assert is_refusal(answer, 413) and "too many values" in answer.json["message"] and is_empty(world)
    assert sample.send(values(sample, sample.budget.values.limit - 20)).status < 413


@pytest.mark.slow
@pytest.mark.parametrize("before", [b"", b"\x0b\x0c"], ids=["plain", "behind a group"])
def test_fields_of_protobuf_over_the_limit_are_refused(world: World, before: bytes) -> None:
    limit, around = OTLP.budget.fields.floor, 5 + len(before)
    answers = [OTLP.send(otlp_values(limit - around + more, before).body(), Content_Encoding="gzip") for more in (0, 1)]
    assert [answer.status for answer in answers] == [400, 413] and is_empty(world)
    assert f"too many values limit={limit}" in answers[1].body


EXPANDING = [each for sample in READING if sample.budget.expanded_bytes.limit for each in sample.in_each_format()]


@pytest.mark.parametrize("sample", EXPANDING, ids=name_of)
def test_body_that_expands_over_the_limit_is_refused(world: World, sample: Sample) -> None:
    packed = gzip.compress(b" " * (sample.budget.expanded_bytes.floor + 1))
    answer = sample.send(packed, Content_Encoding="gzip")
    assert is_refusal(answer, 413) and "expands too far" in answer.body and is_empty(world)
    packed = gzip.compress(b" " * sample.budget.expanded_bytes.floor)
    assert "expands too far" not in sample.send(packed, Content_Encoding="gzip").body


@pytest.mark.sampled(default=3)
@pytest.mark.slow
@pytest.mark.behavior("Plain data is stored however well it compresses: up to 6 MiB of lines, 4 MiB of records.")
@pytest.mark.parametrize("sample", RECORDS, ids=name_of)
def test_equal_records_of_4_mib_are_stored(world: World, sample: Sample) -> None:
    count, chars = sample.budget.items.floor // 2, 4 * MIB
    while len(body := sample.with_records([{"message": "<13>" + "x" * (chars // count), "data": ["b"]}] * count)) > 4 * MIB:
        chars = chars * 9 // 10
    packed = gzip.compress(body)
    assert len(body) > 3 * MIB and len(body) > 100 * len(packed)
    answer = sample.send(packed, Content_Encoding="gzip")
    assert answer.status == 200 and get("svc.a/r1?tail=1").json["total"] == count


@pytest.mark.parametrize("sample", DOCUMENTS, ids=name_of)
def test_document_at_the_limit_is_taken(world: World, sample: Sample) -> None:
    sample.needs(world)
    assert sample.send(padded(sample.document, sample.budget.body_bytes)).status == sample.status
    assert is_refusal(sample.send(padded(sample.document, sample.budget.body_bytes + 3)), 413)


@pytest.mark.parametrize("sample", DOCUMENTS, ids=name_of)
def test_body_counts_in_bytes_where_it_comes_as_text(world: World, sample: Sample) -> None:
    document = json.dumps({"name": "é" * 32 * 1024}, ensure_ascii=False)
    assert len(document) < 64 * 1024 < len(document.encode())
    assert is_refusal(call(sample.method, sample.path_with(), document, {"Content-Type": JSON}), 413)


def test_depth_over_the_limit_is_refused_by_itself(world: World) -> None:
    limit = SAMPLES[EVENTS].budget.depth
    deep = [
        json.dumps({"message": "m", "data": {"a": json.loads("[" * levels + "]" * levels)}}) for levels in (limit - 1, limit + 2)
    ]
    answer = call("POST", "/v1/events/svc.a/r1", "\n".join(deep), {"Content-Type": "application/x-ndjson"})
    assert (answer.status, answer.json["accepted"], [each["index"] for each in answer.json["errors"]]) == (200, 1, [1])


def test_gzip_with_many_members_is_refused(world: World) -> None:
    kind, members = {"Content-Type": "application/gzip"}, SAMPLES["POST", f"{LOGS}/{{fqn}}/{{runId}}"].budget.members
    assert post("svc.a/r1", gzip.compress(b"x\n") * members, kind).status == 200
    answer = post("svc.a/r2", gzip.compress(b"") * (members + 1), kind)
    assert is_refusal(answer, 413) and "members" in answer.json["message"] and get("svc.a/r2").json["total"] == 0


def test_a_body_that_the_gateway_unpacked_has_the_limits_of_what_was_sent(world: World) -> None:
    """API Gateway decompresses ``Content-Encoding: gzip`` of text types, and 5 MB may have been sent as 5 KB."""
    headers = {"Content-Type": LINES, "Content-Encoding": "gzip", **NAMED}
    answer = call("POST", "/v1/agents/fluent", "0\n" * 2_000_000, headers)
    assert is_refusal(answer, 413) and "too many items" in answer.json["message"] and is_empty(world)
    answer = call("POST", "/v1/agents/fluent", " " * (4 * MIB + 1), headers)
    assert is_refusal(answer, 413) and "expands too far" in answer.json["message"] and is_empty(world)


def test_the_largest_batch_of_the_openmetadata_client_is_stored(world: World) -> None:
    """10,000 records, compressed or not: lines of one connector that differ mostly in their times."""
    noise = random.Random(7)
    record = "[2026-11-22 12:%02d:%02d,%03d] INFO {sql_source.py:411} - Fetched table db.schema.table_%d in %d ms"
    lines = "\n".join(
        record % (n // 600, n // 10 % 60, noise.randrange(1000), n % 100, noise.randrange(900)) for n in range(10_000)
    )
    for number, body in enumerate(
        (json.dumps(lines), json.dumps({"logs": lines, "connectorId": "h"}), json.dumps(compressed(lines)))
    ):
        assert post(f"svc.a/r{number}", body, {"Content-Type": JSON}).status == 200
        assert get(f"svc.a/r{number}?tail=1").json["total"] == 10_000


def compressed(lines: str) -> dict[str, object]:
    return {"logs": base64.b64encode(gzip.compress(lines.encode())).decode(), "compressed": True}


def test_a_full_lambda_payload_of_lines_is_stored(world: World) -> None:
    line = "a, [list, of] {words} in a line of the log\n"
    text = line * (EVENT_BYTES // len(line) - 1)
    assert post("svc.a/r1", text, {"Content-Type": TEXT}).status == 200


@pytest.mark.behavior("The longest line that the client sends is stored, whatever its bytes.")
@pytest.mark.parametrize("shorter", [1, 0])
@pytest.mark.parametrize(("random_part", "filling"), [(0, b" "), (0, b"\0"), (1, b""), (0.5, b"\xe9")])
def test_longest_line_of_the_client_is_stored(world: World, random_part: float, filling: bytes, shorter: int) -> None:
    from runlake.batches import MAX_LINE_BYTES  # the client is a package of its own
    from runlake.deliveries import TextDelivery
    from runlake.names import RunName

    size = MAX_LINE_BYTES - shorter
    noise = random.Random(3).randbytes(int(size * random_part)).replace(b"\n", b"\r")
    line = noise + filling * (size - len(noise))
    packed = TextDelivery(RunName("svc.a", "r1")).pack(line)
    assert len(base64.b64encode(packed)) < EVENT_BYTES - 64 * 1024, "an event has the headers as well"
    assert post("svc.a/r1", packed, {"Content-Type": "application/gzip"}).status == 200
    assert world.body("segments/0000000000", Run("svc.a", "r1")) == line + b"\n"


def test_bulk_with_names_too_long_for_its_response_is_refused_before_anything_is_stored(world: World) -> None:
    lines = "".join(f'{{"create":{{"_id":"{"i" * 500}-{number}"}}}}\n{{"message":"m"}}\n' for number in range(9_000))
    answer = BULK.send(lines.encode())
    assert is_refusal(answer, 413) and "response" in answer.json["message"] and is_empty(world)


def test_response_of_a_bulk_of_refusals_has_all_items_and_fits(world: World) -> None:
    lines = "".join(f'{{"update":{{"_id":"{"é" * 20}{number}"}}}}\n{{"message":"m"}}\n' for number in range(10_000))
    assert is_refusal(BULK.send(lines.encode() + b'{"update":{}}\n{"message":"m"}\n'), 413)
    answer = BULK.send(lines.encode())
    assert answer.status == 200 and len(answer.json["items"]) == 10_000
    assert envelope_bytes(answer.body) <= BULK.budget.response_bytes


def test_errors_of_many_events_are_all_listed_and_fit(world: World) -> None:
    sample = replace(SAMPLES[EVENTS], content_type=LINES, query={})
    name = "\\u0001" * 60
    lines = '{"message":"m"}\n' + f'{{"message":"m","{name}":1}}\n' * 9_999
    answer = sample.send(lines.encode())
    assert (answer.status, answer.json["accepted"], len(answer.json["errors"])) == (200, 1, 9_999)
    assert envelope_bytes(answer.body) <= sample.budget.response_bytes


@pytest.mark.slow
def test_long_reasons_of_many_events_are_shortened_to_what_fits() -> None:
    errors = Items((), [Refused(number, "\u0001" * 10_000) for number in range(10_000)]).error_documents([])
    assert len(errors) == 10_000
    assert document_bytes({"errors": errors}) <= RESPONSE_BYTES


def test_response_over_the_limit_is_an_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chalicelib.routes.health.page", lambda: "\x01" * (MIB - 1000))
    assert is_refusal(call("GET", "/docs/static/index.html"), 500)
    monkeypatch.setattr("chalicelib.routes.health.page", lambda: "\x01" * (5 * MIB // 6 - 2))
    assert call("GET", "/docs/static/index.html").status == 200


@pytest.mark.parametrize(("size", "expected"), [(0, 10), (20, 10), (21, 10), (100, 50), (1000, 99)])
def test_growth(size: int, expected: int) -> None:
    assert Growth(10, 0.5, 99).of(size) == expected


@pytest.mark.slow
def test_packed_chunk_of_fluent_bit_with_much_alike_is_stored(world: World) -> None:
    """2 MB of records of 100 bytes, which gzip packs 40 times smaller."""
    record = b'{"date":1790000000.000000001,"log":"GET /api/v1/orders HTTP/1.1 200 OK took 12 ms id=%06d","level":"info"}\n'
    chunk = b"".join(record % (number * 7) for number in range(20_000))
    packed = gzip.compress(chunk)
    assert len(chunk) > 2_000_000 and len(packed) < 80_000
    headers = {"Content-Type": LINES, "Content-Encoding": "gzip", **NAMED}
    answer = call("POST", "/v1/agents/fluent", packed, headers)
    assert answer.status == 200 and answer.json["accepted"] == 20_000
