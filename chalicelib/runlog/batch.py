"""A batch: the lines of one append, as the bytes that the log stores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b

NEWLINE = b"\n"
# JSON can contain lone surrogates as \ud800 escapes; UTF-8 cannot encode them.
_SURROGATES = dict.fromkeys(range(55296, 57344), "�")


@dataclass(frozen=True, slots=True)
class Batch:
    """Log lines ready to be stored. ``body`` ends with a newline, or is empty: an init or a keep-alive, which stores nothing.

    ``lines`` counts newlines: lines split on ``\\n`` only, and a missing final newline is added. ``digest``: BLAKE2b-128 in hex of the sent
    bytes. ``connector`` is stored as metadata, never in the lines. ``sent``: the bytes as received, set if ``body`` is masked, and always for
    events, which are more than their text; None: same as ``body``. ``events``: their number. ``errors``: number of events whose stated level
    is an error; None: derived from the text. ``times_ms``: of the first and last event; None: derived from the text. ``zone``: the one that
    its writer states for the run; empty: none.
    """

    body: bytes
    lines: int
    digest: str
    connector: str = ""
    sent: bytes | None = None
    events: int = 0
    errors: int | None = None
    times_ms: tuple[int, int] | None = None
    zone: str = ""

    @classmethod
    def from_text(cls, text: str, connector: str = "") -> Batch:
        """From text in JSON; lone surrogates become U+FFFD."""
        try:
            raw = text.encode()
        except UnicodeEncodeError:
            raw = text.translate(_SURROGATES).encode()
        return cls.from_bytes(raw, connector)

    @classmethod
    def from_bytes(cls, raw: bytes, connector: str = "") -> Batch:
        """From raw bytes, stored unchanged whether or not they are UTF-8."""
        body = raw if not raw or raw.endswith(NEWLINE) else raw + NEWLINE
        return cls(body, body.count(NEWLINE), blake2b(body, digest_size=16).hexdigest(), connector)

    def stored_as(self, body: bytes) -> Batch:
        """The same batch with a masked body, which must have the same number of lines."""
        return replace(self, body=body, sent=self.body)
