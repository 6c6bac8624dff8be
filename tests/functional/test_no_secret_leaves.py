"""A configured secret in any part of any operation's input occurs afterwards in no object, key, metadata, row, report, metric, log line or
response.

``OPERATIONS`` has each sample of an operation, in several variants.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode

import pytest
from google.protobuf.json_format import ParseError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from chalicelib import composition, observability
from chalicelib.deadline import Deadline
from chalicelib.routes import paths, secrets
from chalicelib.routes.handler import MOVED_TO_SLASH
from chalicelib.runlog.log_end import list_all
from tests.functional.gateway import LOGS, Answer, call, installed, post
from tests.ingestion_harness import ARCHIVE, BUCKET, s3_record
from tests.sampling import examples
from tests.support.publisher import InMemoryPublisher
from tests.support.run_catalog import InMemoryRunCatalog
from tests.support.samples import (
    DECLARED,
    EVENT,
    FQN,
    JSON,
    LINES,
    NAMED,
    RECORD,
    RUN_ID,
    SAMPLES,
    UPLOAD,
    Document,
    OperationKey,
    Sample,
)
from tests.world import World

SECRET, QUOTED = "hunter2-prod-secret", 'it\'s a "hush"\\-secret'
"""The second is escaped differently in JSON, Python strings and addresses."""
RULES = SecretStr(json.dumps([{"fqn": "*", "values": [SECRET, QUOTED]}]))
PUBLIC = {(method, at) for (method, path), each in DECLARED.items() if each.is_public for at in (path, path.rstrip("/"))}
"""Public operations, also without the slash at the end, to which they redirect."""
HEADERS = {"Idempotency-Key", "Content-Type", "Content-Encoding", "Last-Event-Id", "X-Other", "User-Agent", "Host"}
"""Headers of every request in which a secret may be."""
Place = tuple[str, Any]
"""Which input: ``path``, ``query`` or ``header`` with a number or a name, ``key`` or ``value`` with the steps to it in the body."""


def as_escaped_json(document: Document) -> bytes:
    """Every character of a text is escaped, so only a parser finds the text."""
    return _escaped(document).encode()


def _escaped(value: Document) -> str:
    if isinstance(value, str):
        return '"' + "".join(f"\\u{ord(letter):04x}" for letter in value) + '"'
    if isinstance(value, list):
        return "[" + ",".join(map(_escaped, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{_escaped(name)}:{_escaped(each)}" for name, each in value.items()) + "}"
    return json.dumps(value)


def as_utf_16(document: Document) -> bytes:
    """``json.loads`` reads these bytes; a check that decodes them as UTF-8 finds nothing."""
    return json.dumps(document).encode("utf-16-le")


def as_utf_32(document: Document) -> bytes:
    return json.dumps(document).encode("utf-32-le")


def as_marked_json(document: Document) -> bytes:
    """A byte order mark, and every character of a text escaped."""
    return b"\xef\xbb\xbf" + as_escaped_json(document)


def places(sample: Sample) -> list[Place]:
    found: list[Place] = [("path", number) for number in range(sample.path.count("/"))]
    found += [("query", name) for name in (*sample.query, "other")] + [("query name", "")]
    found += [("header", name) for name in sorted(HEADERS | set(sample.headers))]
    return found + (list(_places(sample.document, ())) if sample.document is not None else [])


def send(sample: Sample, place: Place, text: Callable[[str], str]) -> Answer:
    """Sends the request with a secret: ``text`` adds it to the text at ``place``."""
    kind, where = place
    parts = sample.path_with()[1:].split("/")
    parts = [text(part) if (kind, where) == ("path", at) else part for at, part in enumerate(parts)]
    query = {**sample.query, **({where: text(sample.query.get(where, ""))} if kind == "query" else {})}
    query |= {text(""): "1"} if kind == "query name" else {}
    headers = sample.all_headers()
    headers |= {where: text(headers.get(where, ""))} if kind == "header" else {}
    document = _with(sample.document, where, kind, text) if kind in ("key", "value") else sample.document
    url = "".join("/" + (part if part.startswith("v") and at == 0 else quote(part, safe="")) for at, part in enumerate(parts))
    url += f"?{urlencode(query)}" if query else ""
    return call(sample.method, url, None if document is None else sample.encoded(document), headers)


def _places(value: Document, at: tuple[Any, ...]) -> Iterator[Place]:
    if isinstance(value, str):
        yield "value", at
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _places(each, (*at, number))
    elif isinstance(value, dict):
        yield "key", at
        for name, each in value.items():
            yield from _places(each, (*at, name))


def _with(value: Document, at: tuple[Any, ...], kind: str, text: Callable[[str], str]) -> Document:
    if at:
        changed = list(value) if isinstance(value, list) else dict(value)
        changed[at[0]] = _with(value[at[0]], at[1:], kind, text)
        return changed
    return text(value) if kind == "value" else {**value, text(""): "x"}


def variants(sample: Sample) -> Iterator[Sample]:
    """The request in each format, with escaped JSON, and without the slash at its end."""
    for each in list(sample.in_each_format()) or [sample]:
        yield each
        if each.document is not None and each.content_type == JSON and each.encoder is None:
            yield replace(each, encoder=as_escaped_json)
    if sample.path.endswith("/") and sample.path != "/":
        yield replace(sample, path=sample.path.rstrip("/"), status=MOVED_TO_SLASH)


def changed(operation: OperationKey, document: Document = None, **fields: Any) -> Sample:
    return replace(SAMPLES[operation], document=document, **fields)


FLUENT, FILES, BULK = ("POST", "/v1/agents/fluent"), ("POST", "/v0/archive/files"), ("POST", "/v1/agents/elasticsearch/_bulk")
EVENTS, TAG = "/v1/events/{fqn}/{runId}", f"runlake.{FQN}.{RUN_ID}"
OPERATIONS = (
    *(variant for sample in SAMPLES.values() for variant in variants(sample)),
    changed(("POST", f"{LOGS}/{{fqn}}/{{runId}}/close")),
    changed(("POST", EVENTS), [EVENT, EVENT], query={}, content_type=LINES),
    changed(("GET", f"{EVENTS}/log"), query={"raw": "true"}),
    changed(FLUENT, [RECORD], query={"tag": TAG}, encoder=as_escaped_json),
    changed(FLUENT, [{"log": "x"}], headers={"Fluent-Tag": TAG, **NAMED}),
    changed(("DELETE", "/v1/pipeline-files"), query={"fqn": FQN}),
)
UNREADABLE = tuple(
    replace(each, encoder=encode)
    for each in SAMPLES.values()
    for encode in (as_utf_16, as_utf_32, as_marked_json)
    if each.document and not each.path.startswith((LOGS, "/v1/events/", "/v1/agents/"))
)
"""Bodies that ``json.loads`` reads and that are refused here, of operations that do not mask them."""


def name_of(sample: Sample) -> str:
    encoder = sample.encoder.__name__ if sample.encoder else sample.content_type
    return f"{sample.method} {sample.path}" + (f" {encoder}" if sample.document is not None else "")


@contextmanager
def everything_said() -> Iterator[io.StringIO]:
    """Standard output and the lines of both loggers."""
    said = io.StringIO()
    handlers = [handler for each in (observability.logger, observability._decisions) for handler in each._logger.handlers]
    streams = [handler.setStream(said) for handler in handlers]  # type: ignore[attr-defined]
    try:
        with redirect_stdout(said):
            yield said
    finally:
        for handler, stream in zip(handlers, streams, strict=True):
            handler.setStream(stream)  # type: ignore[attr-defined]


def everything_in(value: Any, seen: set[int]) -> Iterator[str]:
    """Each text in a Python object: fields, names, bytes, contents of gzip."""
    if isinstance(value, str):
        yield value
        yield unquote(value)
    elif isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
        yield from everything_in((gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw).decode("latin-1"), seen)
        return
    if id(value) in seen or isinstance(value, str | int | float | None | type):
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        for name, each in list(value.items()):
            yield from everything_in(name, seen)
            yield from everything_in(each, seen)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in list(value):
            yield from everything_in(each, seen)
    else:
        names = [
            *getattr(value, "__dict__", ()),
            *(name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())),
        ]
        for name in names:
            yield from everything_in(getattr(value, name, None), seen)


def ingested(world: World) -> None:
    """Ingests the notifications of all objects, which creates rows and reports."""
    services = composition.services()
    deadline = Deadline(world.clock)
    for store, bucket in ((world.store, BUCKET), (world.archive_store, ARCHIVE)):
        for found in list_all(store, ""):
            record = json.dumps({"Records": [s3_record(found.key, bucket=bucket)]})
            composition.ingester(services).ingest([record], deadline)


def ways_to_write(secret: str) -> list[str]:
    """The forms of a secret in stored texts and logs, after percent-decoding."""
    other = secret.replace("'", "\\'")
    return [secret, json.dumps(secret)[1:-1], repr(secret)[1:-1], repr(f"{secret}'\"")[1:-4], other, repr(other)[1:-1]]


@contextmanager
def prepared(operation: Sample) -> Iterator[tuple[Mapping[str, Any], io.StringIO]]:
    """A world with a run and the objects that the operation needs: all stores, and the output."""
    world, runs, topic = World(), InMemoryRunCatalog(), InMemoryPublisher()
    with installed(world, runs=runs, publisher=topic, masking=RULES), everything_said() as said:
        assert post(f"{FQN}/{RUN_ID}", "zero\n", {"Content-Type": "text/plain"}).status == 200
        ingested(world)
        operation.needs(world)
        yield {"world": world, "runs": runs, "reports": topic}, said


def leaks(operation: Sample, place: Place, text: Callable[[str], str], secret: str = SECRET) -> list[str]:
    """The places that contain the secret afterwards."""
    with prepared(operation) as (stores, said):
        try:
            answer = send(operation, place, text)
        except ValueError as error:
            if "No matching route" not in str(error):
                raise
            return []  # the gateway rejects it
        except ParseError:
            return []  # protobuf has no such value
        ingested(stores["world"])
        assert answer.status < 500, answer
    own = [answer.body, *answer.headers, *map(str, answer.headers.values())]
    if answer.status == MOVED_TO_SLASH and operation.operation in PUBLIC:
        own = []  # repeats the caller's address: masking it would confirm to a stranger that a guess is a secret
    found = {"answer": own, "log lines": [said.getvalue()]}
    found |= {what: everything_in(store, set()) for what, store in stores.items()}  # type: ignore[misc]
    written = ways_to_write(secret)
    return [what for what, texts in found.items() if any(way in each for each in texts for way in written)]


@pytest.mark.parametrize("operation", OPERATIONS, ids=name_of)
def test_each_operation_is_a_good_request(operation: Sample) -> None:
    """A request that is rejected anyway would prove nothing."""
    with prepared(operation):
        answer = send(operation, ("nothing", None), str)
    assert answer.status == operation.status, answer


@pytest.mark.behavior("A configured secret is stored, reported and logged nowhere, wherever in a request it stands.")
@pytest.mark.sampled(default=20)
@pytest.mark.parametrize("operation", OPERATIONS, ids=name_of)
@pytest.mark.parametrize("secret", [SECRET, QUOTED], ids=["plain", "quoted"])
def test_secret_in_any_place_of_an_operation_leaks_nowhere(operation: Sample, secret: str) -> None:
    found = {
        place: where for place in places(operation) if (where := leaks(operation, place, lambda text: f"{text}{secret}", secret))
    }
    assert not found


@pytest.mark.parametrize("operation", UNREADABLE, ids=name_of)
def test_secret_in_a_body_of_another_encoding_leaks_nowhere(operation: Sample) -> None:
    inside = [place for place in places(operation) if place[0] in ("key", "value")]
    assert inside and not {place: where for place in inside if (where := leaks(operation, place, lambda text: f"{text}{SECRET}"))}


@settings(deadline=None, max_examples=examples(150), print_blob=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.data(),
    st.text("ab -_/.%é\"'\\\n", max_size=12),
    st.text("ab -_/.%é\"'\\\n", max_size=12),
    st.sampled_from([SECRET, QUOTED]),
)
def test_secret_among_other_text_leaks_nowhere(data: st.DataObject, before: str, behind: str, secret: str) -> None:
    operation = data.draw(st.sampled_from(OPERATIONS))
    place = data.draw(st.sampled_from(places(operation)))
    if place[0] == "header":  # HTTP allows no more
        before, behind = (each.encode("ascii", "ignore").decode().replace("\n", "") for each in (before, behind))
    assert leaks(operation, place, lambda text: before + secret + behind, secret) == []


JOINED = "alpha/beta-secret"


@pytest.mark.parametrize(
    "operation",
    [
        changed(FLUENT, [{**RECORD, "runlake": {"fqn": "alpha", "run_id": "beta-secret"}}]),
        changed(FLUENT, [{**RECORD, "runlake": {"fqn": "svc.alpha.beta-secret", "run_id": "r"}}]),
        changed(FLUENT, [{"log": "x"}], headers={"Fluent-Tag": "runlake.alpha.beta-secret"}),
        changed(BULK, [{"create": {"_index": "runlake-alpha-beta-secret"}}, RECORD]),
        changed(FILES, {**UPLOAD, "what": "beta-secret", "where": "alpha"}),
        changed(FILES, {**UPLOAD, "what": "alpha", "where": "beta-secret"}),
        changed(FILES, {**UPLOAD, "what": "beta-secret", "work_id": "alpha"}),
    ],
)
@pytest.mark.parametrize("between", ["/", ":", "|"])
def test_names_that_make_a_secret_together_are_refused(operation: Sample, between: str) -> None:
    """Adjacent parts of one key."""
    world, runs, secret = World(), InMemoryRunCatalog(), JOINED.replace("/", between)
    rules = SecretStr(json.dumps([{"fqn": "*", "values": [secret]}]))
    with installed(world, runs=runs, masking=rules), everything_said() as said:
        answer = operation.send()
        ingested(world)
    texts = [answer.body, said.getvalue(), *everything_in(world, set()), *everything_in(runs, set())]
    assert not [each for each in texts if secret in each] and "201" not in f"{answer.status}"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "latin-1"])
def test_body_that_is_stored_is_utf_8_without_a_byte_order_mark(encoding: str) -> None:
    """The check and the view decode the body with the same function, so no body passes that the check could not read."""
    world = World()
    with installed(world, masking=RULES):
        made = call("POST", paths.ARCHIVE + "/files", json.dumps(UPLOAD))
        assert made.status == 201
        for method, path, document in (
            ("POST", f"{paths.ARCHIVE}/files", {**UPLOAD, "note": "é"}),
            ("PATCH", f"{paths.ARCHIVE}/files/{made.json['id']}/metadata", {"note": "é"}),
            ("POST", f"{paths.PIPELINES}/errors/replay", {"from": "é"}),
        ):
            body = json.dumps(document, ensure_ascii=False).encode(encoding)
            answer = call(method, path, body, {"Content-Type": "application/json"})
            assert answer.status in (400, 404), (method, path, answer.body)


def test_body_with_a_secret_is_refused_unless_its_operation_masks_or_ignores_it() -> None:
    """Also by an operation that takes none, and by a path without an operation."""
    body, accepting = json.dumps({"x": SECRET}), set()
    with installed(World(), masking=RULES):
        for operation, sample in SAMPLES.items():
            if "the body holds a value" not in call(sample.method, sample.path_with(), body, {"Content-Type": JSON}).body:
                accepting.add(operation)
        assert call("POST", f"{LOGS}/{FQN}", body).status == 400
    masked = {each for each in SAMPLES if each[0] != "GET" and each[1].startswith((LOGS, "/v1/events/", "/v1/agents/"))}
    assert accepting - PUBLIC == masked - {("HEAD", paths.ELASTICSEARCH)}


def test_bodies_are_parsed_in_one_place_of_each_kind() -> None:
    """A view that parses JSON without the shared functions could read unchecked fields."""
    routes = Path(secrets.__file__).parent
    readers = {path.name for path in routes.glob("*.py") if "request.body" in path.read_text() and "json.loads" in path.read_text()}
    parsers = {path.name for path in routes.glob("*.py") if "json.loads" in path.read_text()}
    assert readers == set()
    assert parsers == {
        "json_bodies.py",  # bodies that are stored unmasked
        "bodies.py", "event_bodies.py", "close_requests.py",  # lines, events and the end of a run, which are masked
        "responses.py", "coordination.py", "pipeline_files.py",  # error responses, rows and cursors of our own
    }  # fmt: skip


def test_the_harness_sees_what_is_stored_and_said() -> None:
    """Without rules the search finds the secret everywhere, so the search works."""
    world, runs, topic = World(), InMemoryRunCatalog(), InMemoryPublisher()
    with installed(world, runs=runs, publisher=topic), everything_said() as said:
        assert post(f"{SECRET}/{RUN_ID}", f"{SECRET}\n", {"Content-Type": "text/plain"}).status == 200
        ingested(world)
    for what in (world, runs, topic, said.getvalue()):
        assert any(SECRET in each for each in everything_in(what, set())), what


@pytest.mark.parametrize("operation", [each for each in OPERATIONS if each.operation in PUBLIC], ids=name_of)
def test_host_reveals_nothing_to_an_unauthenticated_caller(operation: Sample) -> None:
    """A response that differed for a configured value would confirm a guess to an unauthenticated caller."""
    with prepared(operation):
        right, wrong = (send(operation, ("header", "Host"), lambda _, host=host: host) for host in (SECRET, SECRET[::-1]))  # type: ignore[misc]
    assert (right.status, right.body, right.headers) == (wrong.status, wrong.body, wrong.headers)


@pytest.mark.parametrize("operation", [each for each in OPERATIONS if each.operation in PUBLIC], ids=name_of)
@pytest.mark.parametrize("ending", ["", "%FF"], ids=["valid", "invalid UTF-8"])
def test_address_reveals_nothing_to_an_unauthenticated_caller(operation: Sample, ending: str) -> None:
    """The last part of the path and a query, masked or not, with a secret and with a wrong guess."""
    with prepared(operation):
        for url in (f"{operation.url}?q={{guess}}{ending}", f"/v1/ui/{{guess}}{ending}"):
            found = [call(operation.method, url.format(guess=guess)) for guess in (SECRET, SECRET[::-1])]
            right, wrong = ((each.status, each.body.replace(guess, ""), "Location" in each.headers) for each, guess in
                            zip(found, (SECRET, SECRET[::-1]), strict=True))  # fmt: skip
            assert right == wrong
