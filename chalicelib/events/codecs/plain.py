"""Plain text: an event per line. Only headers or the URL can name the run."""

from __future__ import annotations

from collections.abc import Iterator

from chalicelib.events.codecs import json_text
from chalicelib.events.codecs.items import Decoded, Item
from chalicelib.events.event import NewEvent
from chalicelib.events.well_formed import well_formed_text


def decode(body: bytes | str) -> Iterator[Item]:
    """An event for each line, also for an unterminated last one. Lines end only at ``\\n``."""
    lines = json_text.lines_of(well_formed_text(json_text.text_of(body)))
    return (Decoded(index, NewEvent(message=line)) for index, line in enumerate(lines))
