"""A batch: what one append brings, as the bytes that will stand in the log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b

NEWLINE = b"\n"
# Lone surrogates come as \ud800 escapes in JSON; UTF-8 has no form for them.
_SURROGATES = dict.fromkeys(range(55296, 57344), "�")


@dataclass(frozen=True, slots=True)
class Batch:
    """Log lines ready to be stored. ``body`` ends in a newline, or is empty: an init or a keep-alive, which stores nothing.

    ``lines`` counts newlines: lines split on ``\\n`` only, and a batch without a final newline still ends its line. ``digest`` is
    BLAKE2b-128 in hex of what was sent. ``connector`` is kept as metadata, never written into the lines. ``sent`` is what came, where
    it was masked, and of events always, for there is more to them than text; None: ``body`` itself. ``events``: how many it is made of.
    ``errors``: how many of these are errors by the levels that their senders state; None: the text says. ``times_ms``: of the first and
    last event; None: the text says.
    """

    body: bytes
    lines: int
    digest: str
    connector: str = ""
    sent: bytes | None = None
    events: int = 0
    errors: int | None = None
    times_ms: tuple[int, int] | None = None

    @classmethod
    def from_text(cls, text: str, connector: str = "") -> Batch:
        """Text as it came in JSON; lone surrogates become U+FFFD."""
        try:
            raw = text.encode()
        except UnicodeEncodeError:
            raw = text.translate(_SURROGATES).encode()
        return cls.from_bytes(raw, connector)

    @classmethod
    def from_bytes(cls, raw: bytes, connector: str = "") -> Batch:
        """Bytes as they came, UTF-8 or not: they are kept as they are."""
        body = raw if not raw or raw.endswith(NEWLINE) else raw + NEWLINE
        return cls(body, body.count(NEWLINE), blake2b(body, digest_size=16).hexdigest(), connector)

    def stored_as(self, body: bytes) -> Batch:
        """The same batch, of which something was masked: as many lines."""
        return replace(self, body=body, sent=self.body)
