"""Fuzz targets: each asserts that a decoder returns a value or raises its own error, and that its inverse restores the input.

A target reads its input front to back (``Bytes``), so that a mutation of the input is a mutation of the decoder's input.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from chalice.app import CaseInsensitiveMapping
from itsdangerous import URLSafeSerializer

from chalicelib.aws.run_catalog import read_cursor, write_cursor
from chalicelib.catalog import cursor as archive_cursor
from chalicelib.catalog.cursor import CursorSigner
from chalicelib.catalog.metadata import parse_metadata
from chalicelib.catalog.search import FileQuery
from chalicelib.catalog.timestamps import iso, parse_time_ms
from chalicelib.coordination import administration
from chalicelib.errors import (
    BatchTooLargeError,
    DamagedLogError,
    InvalidBatchError,
    InvalidCursorError,
    InvalidEventError,
    InvalidInputError,
    InvalidMetadataError,
    InvalidNameError,
    InvalidTimeError,
)
from chalicelib.events.codecs import bulk, firehose, fluent, logstash, otlp, plain, syslog
from chalicelib.events.codecs.items import Decoded
from chalicelib.events.ports import Refused
from chalicelib.ingestion.notification import parse_notification
from chalicelib.masking.mask import mask
from chalicelib.masking.shapes import SHAPES, finders
from chalicelib.ports import Run
from chalicelib.routes import coordination, logs, paths, queries
from chalicelib.routes.allowance import gunzip
from chalicelib.routes.bodies import UnsupportedMediaTypeError, read_batch
from chalicelib.routes.budgets import LINES
from chalicelib.routes.operations import match
from chalicelib.routes.paths import decode_name
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.layout import Layout, checked_run
from chalicelib.runlog.position import Position, PositionSigner
from chalicelib.runlog.segment import entry_of, metadata_of, pack_landmarks, unpack_landmarks

Target = Callable[[bytes], None]
RUN = Run("svc.pipeline", "run-1")
NOW_MS = 1_790_000_000_000
LIMIT_BYTES = 1 << 16
KEYS = ["fuzzing-key-one", "fuzzing-key-two"]
TYPES = [
    "application/json", "text/plain", "application/gzip", "application/x-ndjson", "application/octet-stream", "application/x-gzip", "",
    "image/png", "application/json; charset=utf-8",
]  # fmt: skip
ENCODINGS = ["", "gzip", "identity", "br"]


class Bytes:
    """An input, read from its front."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 0

    def number(self, below: int) -> int:
        """A number; 0 at the end of the input."""
        width = (max(below - 1, 1).bit_length() + 7) // 8
        piece = self._raw[self._at : self._at + width]
        self._at += width
        return int.from_bytes(piece, "little") % below

    def choice(self, of: list[Any]) -> Any:
        """One of these."""
        return of[self.number(len(of))]

    def rest(self) -> bytes:
        """The remaining bytes."""
        return self._raw[self._at :]

    def text(self) -> str:
        """The remaining bytes as text that a gateway can pass: anything JSON can express, including lone surrogates."""
        return self.rest().decode(errors="surrogateescape")


def bodies(raw: bytes) -> None:
    """Request bodies of all types, as bytes and as text."""
    given = Bytes(raw)
    headers = {"content-type": given.choice(TYPES), "content-encoding": given.choice(ENCODINGS)}
    form = given.number(4)
    body: Any = {
        0: lambda: base64.b64encode(given.rest()).decode(),
        1: given.text,
        2: lambda: json.dumps({"logs": given.text(), "connectorId": "c", "compressed": form == 2}),
        3: lambda: json.dumps({"logs": base64.b64encode(gzip.compress(given.rest())).decode(), "compressed": True}),
    }[form]()
    event = {"body": body, "isBase64Encoded": form == 0}
    with suppress(InvalidBatchError, BatchTooLargeError, UnsupportedMediaTypeError):
        batch = read_batch(event, CaseInsensitiveMapping(headers), LINES, LIMIT_BYTES)
        assert batch.body == b"" or batch.body.endswith(b"\n")
        assert batch.lines == batch.body.count(b"\n") and batch.sent is None
        assert Batch.from_bytes(batch.body, batch.connector) == batch


def packed(raw: bytes) -> None:
    """gzip: random bytes, compressed data, and damaged compressed data."""
    given = Bytes(raw)
    cut, at, bits = given.number(64), given.number(1 << 16), given.number(256)
    content = given.rest()
    whole = gzip.compress(content, mtime=0)
    assert gunzip(whole, LIMIT_BYTES) == content if len(content) <= LIMIT_BYTES else True
    broken = bytearray(whole[: len(whole) - cut])
    if broken:
        broken[at % len(broken)] ^= bits
    for piece in (content, bytes(broken)):
        with suppress(InvalidBatchError, BatchTooLargeError):
            assert gunzip(piece, LIMIT_BYTES) == _by_the_standard_library(piece)


def _by_the_standard_library(piece: bytes) -> bytes:
    try:
        return gzip.decompress(piece)
    except (OSError, EOFError, zlib.error) as error:
        raise AssertionError(f"gunzip took what gzip refuses: {error}") from error


def positions(raw: bytes) -> None:
    """The cookie: random, and signed values of a client that has the key."""
    signer = PositionSigner(KEYS)
    given = Bytes(raw)
    position = Position(
        f"{given.number(1 << 32):x}", *(given.number(1 << 32) for _ in range(4)), bool(given.number(2)), given.number(1 << 40)
    )
    assert signer.loads(RUN, signer.dumps(RUN, position)) == position
    text = given.text()
    token = logs.session_of(CaseInsensitiveMapping({"cookie": text}))
    assert signer.loads(RUN, token) is None and signer.loads(RUN, text) is None
    broken = signer.loads(RUN, signer.dumps(RUN, position)[: given.number(128)] + text)
    assert broken in (None, position), "base64 has more than one text for the same signature, and none for another position"
    signed = PositionSigner(KEYS)._signer.sign(given.rest()).decode("latin-1")
    found = signer.loads(RUN, signed)
    assert found is None or signer.loads(RUN, signer.dumps(RUN, found)) == found


def cursors(raw: bytes) -> None:
    """Cursors of the runs of a pipeline, of files, of partitions: random, and signed where cursors are signed."""
    given = Bytes(raw)
    form, text = given.number(4), given.text()
    as_cursor = base64.urlsafe_b64encode(given.rest()).decode().rstrip("=")
    for each in (text, as_cursor):
        with suppress(InvalidInputError):
            row = read_cursor(each)
            assert read_cursor(write_cursor(row["started_ms"], row["run_id"])) == row
        with suppress(InvalidCursorError):
            place = administration.read_cursor(each)
            assert administration.read_cursor(administration.write_cursor(place)) == place
        with suppress(InvalidCursorError):
            coordination._rest(given.choice([None, *coordination.ORDER]), each)
    _file_cursors(form, text)


def _file_cursors(form: int, text: str) -> None:
    query, signer = FileQuery((text or "a",), "b" if form & 1 else None, None, 0, NOW_MS, bool(form & 2)), CursorSigner(KEYS)
    after = (NOW_MS, text.encode(errors="replace").decode())
    found = signer.read(signer.write(query, after), query)
    assert found.after == after
    with suppress(InvalidCursorError):
        signer.read(text, query)
        raise AssertionError("a cursor that was not signed was taken")
    with suppress(ValueError):
        value = json.loads(text)
        signed = URLSafeSerializer(KEYS[0], salt=archive_cursor._SALT).dumps(value)
        with suppress(InvalidCursorError):
            signer.read(str(signed), query)


def notifications(raw: bytes) -> None:
    """Messages of the queue: random, records with random fields, and wrapped by SNS."""
    given = Bytes(raw)
    form, text = given.number(4), given.text()
    record = {"eventVersion": "2.1", "eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": "b"}, "object": {"key": text}}}
    body = {
        0: text,
        1: json.dumps({"Records": [record]}),
        2: json.dumps({"Message": text}),
        3: '{"Records": [' + text + "]}",
    }[form]
    layout = Layout("pipeline-logs")
    with suppress(InvalidInputError):
        found = parse_notification(body)
        assert len(found.events) + len(found.problems) == 1 or form != 1
        for event in found.events:
            event.key.encode()
            parsed = layout.parse(event.key)
            assert parsed is None or checked_run(parsed.run.fqn, parsed.run.run_id) == parsed.run


def names(raw: bytes) -> None:
    """FQNs and run ids: to paths and keys, and back."""
    given = Bytes(raw)
    method, text = given.choice(["GET", "POST"]), given.text()
    with suppress(InvalidNameError):
        if found := match(method, f"{paths.BASE}/logs/{text}"):
            sent = {name: decode_name(value) for name, value in found.names.items()}
            checked_run(sent["fqn"], sent.get("runId", "any"))
    layout = Layout("pipeline-logs")
    assert layout.parse(text) is None or layout.parse(text)
    half = len(text) // 2
    with suppress(InvalidNameError):
        run = checked_run(text[:half], text[half:])
        key = layout.segment(run, 7)
        key.encode("ascii")
        parsed = layout.parse(key)
        assert parsed and (parsed.run, parsed.kind, parsed.sequence) == (run, "segment", 7)
        there = f"{paths.BASE}/logs/{quote(run.fqn, safe='')}/{quote(run.run_id, safe='')}"
        found = match("POST", there)
        assert found and found.operation.id == "appendLog"
        assert [decode_name(value) for value in found.names.values()] == [run.fqn, run.run_id]


def parameters(raw: bytes) -> None:
    """Query parameters, which never raise foreign errors, and times."""
    given = Bytes(raw)
    text = given.text()
    query = {given.choice(["after", "offset", "limit", "tail", "since", "wait"]): text, "since": text}
    page = queries.page_request(query, 5.0)
    assert page.after >= 0 and 1 <= page.limit <= 10_000 and 0 <= page.wait_s <= 5
    assert 1 <= queries.runs_limit({"limit": text}) <= queries.MAX_RUNS
    with suppress(InvalidTimeError):
        ms = parse_time_ms(text, NOW_MS)
        assert parse_time_ms(iso(ms), NOW_MS) == ms


def documents(raw: bytes) -> None:
    """Metadata documents of files."""
    given = Bytes(raw)
    form, text = given.number(3), given.text()
    plain = {
        "version": 0,
        "start": NOW_MS,
        "end": None,
        "where": "w",
        "what": "x",
        "id": "0" * 32,
        "hash": "0" * 32,
        "path": "/p",
        "work_id": None,
    }
    with suppress(ValueError):
        value = json.loads(text)
        plain |= value if isinstance(value, dict) else {"path": value}
    body = {0: text, 1: json.dumps(plain), 2: json.dumps({**plain, "path": text})}[form]
    with suppress(InvalidMetadataError, InvalidTimeError):
        found = parse_metadata(body, "0" * 32)
        assert parse_metadata(found.text(), "0" * 32) == found


def segments(raw: bytes) -> None:
    """Metadata of segment objects, including landmarks."""
    given = Bytes(raw)
    fields = given.text().split("|")
    with suppress(ValueError):
        landmarks = unpack_landmarks(fields[0])
        assert unpack_landmarks(pack_landmarks(landmarks)) == landmarks
    names_of = [
        "kind",
        "epoch",
        "first-line",
        "first-byte",
        "lines",
        "session",
        "base",
        "digest",
        "appended-ms",
        "connector",
        "reason",
        "landmarks",
    ]
    metadata: Mapping[str, str] = dict(zip(names_of, fields, strict=False))
    with suppress(DamagedLogError):
        entry = entry_of(7, metadata, 100)
        assert entry_of(7, metadata_of(entry), 100) == entry or len(entry.connector) > 50


def masking(raw: bytes) -> None:
    """Every shape, and values in all their encodings, over random text."""
    found = mask(raw, _FINDERS)
    assert not any(value in found.body for value in _VALUES)
    assert found.body.count(b"\n") == raw.count(b"\n")
    assert bool(found.counts) == (found.body != raw)


AGENTS: dict[str, Callable[[bytes], Iterable[Any]]] = {
    "fluent:decode_json": fluent.decode_json,
    "fluent:decode_msgpack": fluent.decode_msgpack,
    "logstash:decode": logstash.decode,
    "bulk:decode": bulk.decode,
    "otlp:decode_json": otlp.decode_json,
    "otlp:decode_protobuf": otlp.decode_protobuf,
    "plain:decode": plain.decode,
    "syslog:decode": lambda body: syslog.decode(body, NOW_MS),
    "firehose:decode": lambda body: firehose.decode(body, lambda packed: gunzip(packed, LIMIT_BYTES)).items,
}
"""By ``Decoder.function``. The stored inputs choose one by its number: add others at the end."""


def agents(raw: bytes) -> None:
    """Requests of log agents: each item is an event or a rejection, numbered in order."""
    given = Bytes(raw)
    decode = given.choice(list(AGENTS.values()))
    with suppress(InvalidEventError):
        items = [getattr(each, "item", each) for each in decode(given.rest())]
        assert all(isinstance(each, Decoded | Refused) for each in items)
        assert [each.index for each in items] == list(range(len(items)))


_VALUES = [b"hush-hush", b"hush-hush-hush", b"ge/he im+", b"aXVzaC1odXNo"]
_FINDERS = finders(SHAPES, _VALUES)
TARGETS: dict[str, Target] = {
    each.__name__: each
    for each in (bodies, packed, positions, cursors, notifications, names, parameters, documents, segments, masking, agents)
}
