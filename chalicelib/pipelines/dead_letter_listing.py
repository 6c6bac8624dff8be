"""Lists the dead letters of a log pipeline by the names in their keys, without reading them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from chalicelib.errors import DamagedLogError, InvalidCursorError
from chalicelib.pipelines.dead_letters import DeadLetterId, dead_prefixes, find_dead_letter, prefixes_of_pipeline
from chalicelib.ports import ListedObject, ObjectStore, Run

MAX_READS = 20
"""The most letters with shortened names in a page: their names are read from the objects."""
_KEY = re.compile(r"_dead/([^/+]+)/([^/+]+)/([^/+]+)/([^/+]+)/(\d{10,19})\.json", re.ASCII)


@dataclass(frozen=True, slots=True)
class ListedDeadLetter:
    """A dead letter of a list. ``stored_ms``: the time of the last attempt, by the store's clock."""

    id: DeadLetterId
    bytes: int
    stored_ms: int


@dataclass(frozen=True, slots=True)
class DeadLetterPage:
    """A page of a list. ``after``: the key after which the next page begins, None at the end."""

    letters: Sequence[ListedDeadLetter]
    after: str | None


def list_dead_letters(store: ObjectStore, fqn: str, run_id: str | None, after: str, limit: int) -> DeadLetterPage:
    """A page of at most ``limit`` letters of a pipeline, or of one run, in the order of keys: by run, processing pipeline, handler, line.
    ``after``: of the previous page, "" for the first. A page may have fewer letters although more follow. At most two LISTs, and a GET for
    each letter with shortened names, up to ``MAX_READS``. Raises InvalidCursorError, UnavailableError."""
    prefixes = dead_prefixes(Run(fqn, run_id)) if run_id is not None else prefixes_of_pipeline(fqn)
    at = next((at for at, prefix in enumerate(prefixes) if after.startswith(prefix)), None) if after else 0
    if at is None:
        raise InvalidCursorError("the cursor is of another list: omit it to start from the first page")
    letters: list[ListedDeadLetter] = []
    reads = 0
    for prefix in prefixes[at:]:
        listing = store.list(prefix, start_after=after, limit=limit - len(letters))
        for listed in listing.objects:
            is_short = "+" in listed.key
            if is_short and reads == MAX_READS:
                return DeadLetterPage(letters, after)
            reads += is_short
            after = listed.key
            letter = _read_id(store, listed) if is_short else _parsed(listed.key)
            if letter is not None and letter.run.fqn == fqn:
                letters.append(ListedDeadLetter(letter, listed.size, listed.last_modified_ms))
        if listing.truncated or (len(letters) == limit and prefix != prefixes[-1]):
            return DeadLetterPage(letters, after)
        after = ""
    return DeadLetterPage(letters, None)


def _parsed(key: str) -> DeadLetterId | None:
    """The names in a key; None for a foreign object."""
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    fqn, run_id, pipeline, handler = map(unquote, match.groups()[:4])
    return DeadLetterId(pipeline, handler, Run(fqn, run_id), int(match[5]))


def _read_id(store: ObjectStore, listed: ListedObject) -> DeadLetterId | None:
    try:
        letter = find_dead_letter(store, listed.key)
    except DamagedLogError:
        return None
    return letter.id if letter else None
