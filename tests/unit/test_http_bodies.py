"""Request bodies: accepted formats, and rejected input."""

from __future__ import annotations

import base64
import gzip
import json
import re
import tracemalloc
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from chalice.app import CaseInsensitiveMapping
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.errors import BatchTooLargeError, InvalidBatchError
from chalicelib.routes.allowance import Allowance, gunzip
from chalicelib.routes.bodies import UnsupportedMediaTypeError, read_batch
from chalicelib.routes.budgets import LINES

MIB = 1024 * 1024
LIMIT = 64 * MIB
BUDGET = LINES
TEXT = "two\nlines, é"
STORED = "two\nlines, é\n".encode()
packed = partial(gzip.compress, mtime=0)
"""The same bytes at any time: they are in names of tests."""


def read(body: Any, content_type: str | None = None, limit: int = LIMIT, **headers: str) -> bytes:
    event: dict[str, Any] = {"body": body}
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if content_type:
        given["Content-Type"] = content_type
    return read_batch(event, CaseInsensitiveMapping(given), BUDGET, limit).body


def packed_batch(text: str) -> dict[str, Any]:
    return {"logs": base64.b64encode(packed(text.encode())).decode(), "compressed": True}


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (json.dumps(TEXT), None),
        (json.dumps(TEXT, ensure_ascii=False), "application/json"),
        (json.dumps(TEXT).encode(), "application/json; charset=utf-8"),
        (json.dumps({"logs": TEXT}), "application/json"),
        (json.dumps({"logs": TEXT, "timestamp": 1, "connectorId": "h-1", "compressed": False, "lineCount": 2}), "application/json"),
        (json.dumps({"logs": TEXT, "compressed": None, "timestamp": "soon", "lineCount": "many", "other": {}}), "application/json"),
        (json.dumps(packed_batch(TEXT)), "application/json"),
        (TEXT, "text/plain"),
        (TEXT.encode(), "Text/Plain; charset=utf-8"),
        (TEXT, "application/x-ndjson"),
        (packed(TEXT.encode()), "application/gzip"),
        (packed(b"two\n") + packed("lines, é".encode()) + b"\0\0", "application/x-gzip"),
    ],
)
def test_every_form_of_the_same_lines(body: Any, content_type: str | None) -> None:
    assert read(body, content_type) == STORED


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/octet-stream", "application/gzip"])
def test_content_encoding_gzip(content_type: str) -> None:
    plain = json.dumps(TEXT).encode() if content_type == "application/json" else TEXT.encode()
    assert read(packed(plain), content_type, Content_Encoding="gzip") == STORED


def test_bytes_that_a_gateway_hands_over_in_base64() -> None:
    body = base64.b64encode(packed(TEXT.encode())).decode()
    event = {"body": body, "isBase64Encoded": True}
    assert read_batch(event, CaseInsensitiveMapping({"content-type": "application/gzip"}), BUDGET, LIMIT).body == STORED


@pytest.mark.parametrize(("content_type", "body"), [("application/json", json.dumps(TEXT)), ("text/plain", TEXT)])
def test_a_body_that_the_gateway_has_unpacked(content_type: str, body: str) -> None:
    assert read(body, content_type, Content_Encoding="gzip") == STORED


@pytest.mark.parametrize(
    "body", [None, "", b"", '""', "null", "{}", '{"logs": null}', '{"logs": ""}', '{"logs": "", "compressed": true}']
)
def test_an_init_or_keep_alive(body: Any) -> None:
    assert read(body, "application/json") == b""


def test_connector_is_stored_outside_of_the_lines() -> None:
    event = {"body": json.dumps({"logs": "x", "connectorId": "host\ud800-1"})}
    batch = read_batch(event, CaseInsensitiveMapping({}), BUDGET, LIMIT)
    assert (batch.body, batch.connector) == (b"x\n", "host\ufffd-1")


@pytest.mark.parametrize("body", [r'"a\ud800b"', r'{"logs": "a\ud800b"}', r'{"logs": "a\udfffb"}'])
def test_lone_surrogates_become_replacement_characters(body: str) -> None:
    assert read(body) == "a\ufffdb\n".encode()


def test_bytes_that_are_no_utf8() -> None:
    assert read(b'"a\xffb"', "application/json") == "a\ufffdb\n".encode()
    assert read(b"a\xffb", "text/plain") == b"a\xffb\n"


@pytest.mark.parametrize(
    ("body", "content_type", "headers", "stored"),
    [
        (b"caf\xe9\n", "application/octet-stream", {}, b"caf\xe9\n"),
        (b"caf\xe9\n", "application/octet-stream; charset=ISO-8859-1", {}, b"caf\xc3\xa9\n"),
        (packed(b"\x80\n"), 'application/gzip; charset="windows-1252"', {}, "€\n".encode()),
        (packed(b"caf\xe9\n"), "text/plain; charset=iso-8859-15", {"Content_Encoding": "gzip"}, b"caf\xc3\xa9\n"),
        ("é\n".encode("utf-16"), "application/octet-stream;charset=utf-16", {}, b"\xc3\xa9\n"),
        ("e\n", "text/plain; charset=iso-8859-1", {}, b"e\n"),
        ("e\n".encode("utf-16-le").decode(), "text/plain; charset=UTF-16LE", {}, b"e\n"),
        ('"e"', "application/json; charset=iso-8859-1", {}, b"e\n"),
        ("caf\ufffd\n", "text/plain", {"Content_Length": "7"}, "caf\ufffd\n".encode()),
        (
            "caf\ufffd\n",
            "text/plain; charset=us-ascii",
            {"Content_Length": "7", "Content_Encoding": "identity"},
            "caf\ufffd\n".encode(),
        ),
        ('"caf\ufffd"', "application/json", {}, "caf\ufffd\n".encode()),
    ],
)
def test_bytes_of_any_charset_are_kept_or_converted(body: Any, content_type: str, headers: dict[str, str], stored: bytes) -> None:
    assert read(body, content_type, **headers) == stored


@pytest.mark.behavior("Text that is not UTF-8 is stored byte by byte or refused, never changed.")
@pytest.mark.parametrize(
    ("body", "content_type", "headers"),
    [
        ("caf\ufffd\n", "text/plain", {}),
        ("caf\ufffd\n", "text/plain", {"Content_Length": "5"}),
        ("caf\ufffd\n", "text/plain; charset=utf-8", {"Content_Length": "6"}),
        ("caf\ufffd\n", "text/plain", {"Content_Length": "7", "Content_Encoding": "gzip"}),
        ("caf\ufffd\n", "text/plain; charset=iso-8859-1", {"Content_Length": "5"}),
        ('"caf\ufffd"', "application/json; charset=iso-8859-1", {}),
    ],
)
def test_text_with_replaced_bytes_is_refused(body: str, content_type: str, headers: dict[str, str]) -> None:
    with pytest.raises(UnsupportedMediaTypeError, match="application/octet-stream"):
        read(body, content_type, **headers)


@pytest.mark.parametrize(
    ("body", "charset"),
    [("x", "ebcdic"), ("x", "punycode"), ("x", "zlib"), ("x", "iso-8859-99"), (b"\x81", "windows-1252"), (b"abc", "utf-16le")],
)
def test_unreadable_charset_is_refused(body: Any, charset: str) -> None:
    with pytest.raises(UnsupportedMediaTypeError, match=f"charset='{charset}'"):
        read(body, f"application/octet-stream; charset={charset}")


def test_nul_and_control_characters_are_log_too() -> None:
    assert read(json.dumps("a\0b\x1b[31m\r\n\x7f")) == b"a\0b\x1b[31m\r\n\x7f\n"


@pytest.mark.parametrize(
    ("body", "content_type", "message"),
    [
        ("{", "application/json", "not json"),
        ("{'logs': 1}", "application/json", "not json"),
        ("[" * 100_000, "application/json", "not json"),
        ("9" * 10_000, "application/json", "not json"),
        ("[]", "application/json", "a string or a LogBatch object type=list"),
        ("5", "application/json", "type=int"),
        ("true", "application/json", "type=bool"),
        ('{"logs": 5}', "application/json", "field=logs"),
        ('{"logs": ["a"]}', "application/json", "field=logs"),
        ('{"logs": "a", "connectorId": {}}', "application/json", "field=connectorId"),
        ('{"logs": "a", "compressed": "perhaps"}', "application/json", "field=compressed"),
        ('{"logs": "a!", "compressed": true}', "application/json", "not base64"),
        ('{"logs": "aé", "compressed": true}', "application/json", "not base64"),
        ('{"logs": "aGVsbG8=", "compressed": true}', "application/json", "gzip body is broken"),
        (b"hello", "application/gzip", "gzip body is broken"),
        (packed(b"hello")[:-5], "application/gzip", "ends too early"),
        (packed(b"hello") + b"rest", "application/gzip", "gzip body is broken"),
        (packed(b"hello")[:-8] + bytes(8), "application/gzip", "gzip body is broken"),
        ("\x1f\ufffd\x08", "application/gzip", "decoded as text"),
    ],
)
def test_bad_bodies_are_refused(body: Any, content_type: str, message: str) -> None:
    with pytest.raises(InvalidBatchError, match=message):
        read(body, content_type)


def test_broken_gzip_by_content_encoding() -> None:
    with pytest.raises(InvalidBatchError, match="gzip body is broken"):
        read(b"not gzip", "text/plain", Content_Encoding="gzip")
    with pytest.raises(InvalidBatchError, match="decoded as text"):
        read(packed(b"x").decode(errors="replace"), "application/json", Content_Encoding="gzip")


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [("image/png", ""), ("application/x-www-form-urlencoded", ""), ("multipart/form-data; boundary=x", ""), ("text/plain", "br")],
)
def test_other_types_are_refused(content_type: str, encoding: str) -> None:
    with pytest.raises(UnsupportedMediaTypeError):
        read("x", content_type, Content_Encoding=encoding)


def test_a_body_over_the_limit() -> None:
    limit = BUDGET.body_bytes
    with pytest.raises(BatchTooLargeError, match=f"bytes={limit + 1} limit={limit}"):
        read("x" * (limit + 1), "text/plain")
    assert len(read("x" * (limit - 1) + "\n", "text/plain")) == limit


@pytest.mark.slow
@pytest.mark.behavior("A body that expands beyond the limit is refused in bounded memory.")
@pytest.mark.parametrize("members", [1, 70])
def test_a_gzip_bomb_is_refused_in_bounded_memory(members: int) -> None:
    bomb = packed(bytes(200 * MIB // members)) * members
    tracemalloc.start()
    try:
        with pytest.raises(BatchTooLargeError, match="expands too far"):
            gunzip(bomb, 8 * MIB)
        assert tracemalloc.get_traced_memory()[1] < 24 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "content", [b'"' + b"," * 200_000 + b'"', b'"\n"\n"' + b'\\"[' * 99_999 + b'"\n"\\\\",0', b'"a\n' + b'"{\n' * 99_999]
)
def test_commas_in_long_strings_are_no_values(content: bytes) -> None:
    """Strings of lines end with the line, those of a document at their quote: each has a text of more than one piece."""
    lines = [re.sub(rb'"(?:[^"\\]|\\.)*(?:"|$)', b"", line) for line in content.split(b"\n")]
    expected = 1 + max(sum(map(len, (re.findall(rb"[,\[{]", each) for each in texts))) for texts in (lines, [_document(content)]))
    allowance = Allowance(BUDGET, 0, LIMIT)
    before = allowance.values
    allowance.check_values(content)
    assert before - allowance.values == expected


def _document(content: bytes) -> bytes:
    return re.sub(rb'"(?:[^"\\]|\\.)*(?:"|$)', b"", content, flags=re.DOTALL)


def test_the_limit_itself_is_allowed() -> None:
    assert len(gunzip(packed(bytes(8 * MIB)), 8 * MIB)) == 8 * MIB


@given(st.text())
def test_any_text_arrives_in_every_form(text: str) -> None:
    expected = text.encode() + b"\n" if text and not text.endswith("\n") else text.encode()
    assert read(json.dumps(text)) == expected
    assert read(json.dumps({"logs": text})) == expected
    assert read(json.dumps(packed_batch(text))) == expected
    assert read(text.encode(), "text/plain") == expected


@given(st.binary(max_size=200))
def test_random_bytes_are_a_batch_or_an_error(body: bytes) -> None:
    for content_type in ("application/json", "application/gzip", "text/plain"):
        with suppress(InvalidBatchError):
            assert read(body, content_type).endswith(b"\n") or not body or content_type != "text/plain"
