"""Encodes a segment's entry, with its offset in the log and its writer, as S3 user metadata, and decodes it.

Keys: ``kind``, ``epoch``, ``first-line``, ``first-byte``, ``lines``, ``session``, ``base``, ``digest``, ``appended-ms``; optionally
``connector`` (percent-encoded), ``reason`` (of a seal), ``landmarks``, ``errors``, ``events``, ``first-ms``, ``last-ms`` and ``zone``; for a
close that reports the end of the run ``outcome``, ``exit-code``, ``signal``, ``exception``, ``step`` (texts are percent-encoded), ``lost-lines``,
``ended-ms``; on a run's first segment ``browser`` (``runlog.choice``). The number is in the object's key, the bytes are its size. Metadata
stays below S3's 2 KB for any batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, unquote

from chalicelib.errors import DamagedLogError
from chalicelib.lines.timestamps import is_plausible
from chalicelib.ports import RunEnd, SegmentEntry
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.zone import tz_of

DATA = "data"
SEAL = "seal"
CLOSED = "closed"
ABANDONED = "abandoned"

MAX_CONNECTOR_CHARS = 300
MAX_END_CHARS = 300
"""Limit for each of exception, step and signal, percent-encoded."""
_LANDMARK_STRIDE_BYTES = 256 * 1024
_MAX_LANDMARKS = 96


def landmarks_of(body: bytes) -> tuple[tuple[int, int], ...]:
    """(line, byte) pairs at line starts inside a large body: about every 256 KiB, and at most 96 of them.

    A page that starts inside the segment then reads from the nearest one, not from the segment's first byte.
    """
    stride = max(_LANDMARK_STRIDE_BYTES, len(body) // _MAX_LANDMARKS + 1)
    found: list[tuple[int, int]] = []
    line = byte = 0
    while (newline := body.find(b"\n", byte + stride)) >= 0 and newline + 1 < len(body):
        line += body.count(b"\n", byte, newline + 1)
        byte = newline + 1
        found.append((line, byte))
    return tuple(found)


def errors_of(body: bytes) -> int:
    """Number of error records, see ``lines.errors``."""
    # Imported here: line formats take time to compile, and functions that only read segments do not need them.
    from chalicelib.lines.errors import count_errors

    return count_errors(body)


def times_of(batch: Batch, appended_ms: int, zone: str) -> tuple[int, int] | None:
    """The times of the first and last line, or event, with a time; None if there is no plausible one. ``zone``: the run's."""
    if batch.times_ms is not None:
        return batch.times_ms if all(is_plausible(each, appended_ms) for each in batch.times_ms) else None
    from chalicelib.lines.time_search import first_and_last_ms  # imported here for the same reason

    return first_and_last_ms(batch.body, appended_ms, tz_of(zone))


def metadata_of(entry: SegmentEntry) -> dict[str, str]:
    """User metadata of a segment object."""
    metadata = {
        "kind": entry.kind,
        "epoch": str(entry.epoch),
        "first-line": str(entry.line),
        "first-byte": str(entry.byte),
        "lines": str(entry.lines),
        "session": entry.session,
        "base": str(entry.base),
        "digest": entry.digest,
        "appended-ms": str(entry.appended_ms),
    }
    if entry.connector:
        metadata["connector"] = quote(entry.connector, safe=":/")[:MAX_CONNECTOR_CHARS]
    if entry.reason:
        metadata["reason"] = entry.reason
    if entry.landmarks:
        metadata["landmarks"] = pack_landmarks(entry.landmarks)
    if entry.errors is not None:
        metadata["errors"] = str(entry.errors)
    if entry.events:
        metadata["events"] = str(entry.events)
    if entry.first_ms is not None and entry.last_ms is not None:
        metadata |= {"first-ms": str(entry.first_ms), "last-ms": str(entry.last_ms)}
    if entry.zone:
        metadata["zone"] = entry.zone
    return metadata | (metadata_of_end(entry.end) if entry.end else {})


def metadata_of_end(end: RunEnd) -> dict[str, str]:
    """User metadata for a seal, and for the ``logs.txt`` that ends with it."""
    metadata = {"outcome": end.outcome}
    if end.exit_code is not None:
        metadata["exit-code"] = str(end.exit_code)
    texts = {"signal": end.signal, "exception": end.exception, "step": end.step}
    metadata |= {name: _quoted(text) for name, text in texts.items() if text}
    numbers = {"lost-lines": end.lost_lines, "ended-ms": end.ended_ms}
    return metadata | {name: str(number) for name, number in numbers.items() if number}


def _quoted(text: str) -> str:
    """Percent-encode a text, cut to ``MAX_END_CHARS``. Leading and trailing spaces are encoded too: HTTP strips them from header values."""
    encoded, fitting = "", ""
    begin, end = len(text) - len(text.lstrip(" ")), len(text.rstrip(" "))
    for at, letter in enumerate(text):
        encoded += quote(letter, safe=" :/()'" if begin <= at < end else "")
        if len(encoded) > MAX_END_CHARS:
            return fitting.rstrip(" ")
        fitting = encoded
    return encoded


def end_of(metadata: Mapping[str, str]) -> RunEnd | None:
    """The inverse of ``metadata_of_end``; None if the metadata contains no outcome. Raises ValueError."""
    if "outcome" not in metadata:
        return None
    return RunEnd(
        outcome=metadata["outcome"],
        exit_code=int(metadata["exit-code"]) if "exit-code" in metadata else None,
        signal=unquote(metadata.get("signal", "")),
        exception=unquote(metadata.get("exception", "")),
        step=unquote(metadata.get("step", "")),
        lost_lines=int(metadata.get("lost-lines", "0")),
        ended_ms=int(metadata.get("ended-ms", "0")),
    )


def entry_of(sequence: int, metadata: Mapping[str, str], size: int) -> SegmentEntry:
    """The inverse of ``metadata_of``. Raises DamagedLogError."""
    try:
        return SegmentEntry(
            sequence=sequence,
            kind=metadata["kind"],
            epoch=int(metadata["epoch"]),
            line=int(metadata["first-line"]),
            byte=int(metadata["first-byte"]),
            lines=int(metadata["lines"]),
            bytes=size,
            session=metadata["session"],
            base=int(metadata["base"]),
            digest=metadata["digest"],
            appended_ms=int(metadata["appended-ms"]),
            connector=unquote(metadata.get("connector", "")),
            reason=metadata.get("reason", ""),
            landmarks=unpack_landmarks(metadata.get("landmarks", "")),
            errors=int(metadata["errors"]) if "errors" in metadata else None,
            events=int(metadata.get("events", "0")),
            end=end_of(metadata),
            first_ms=int(metadata["first-ms"]) if "first-ms" in metadata else None,
            last_ms=int(metadata["last-ms"]) if "last-ms" in metadata else None,
            zone=metadata.get("zone", ""),
        )
    except (KeyError, ValueError) as error:
        raise DamagedLogError(f"segment metadata is missing sequence={sequence} missing={error}") from error


def pack_landmarks(landmarks: tuple[tuple[int, int], ...]) -> str:
    """Landmarks as text: differences in hex, ``lines:bytes`` joined by commas."""
    packed: list[str] = []
    line = byte = 0
    for at_line, at_byte in landmarks:
        packed.append(f"{at_line - line:x}:{at_byte - byte:x}")
        line, byte = at_line, at_byte
    return ",".join(packed)


def unpack_landmarks(text: str) -> tuple[tuple[int, int], ...]:
    """The inverse of ``pack_landmarks``. Raises ValueError."""
    landmarks: list[tuple[int, int]] = []
    line = byte = 0
    for pair in text.split(",") if text else ():
        lines, size = pair.split(":")
        line, byte = line + int(lines, 16), byte + int(size, 16)
        landmarks.append((line, byte))
    return tuple(landmarks)
