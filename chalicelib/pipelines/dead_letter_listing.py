"""Lists dead letters by the names in their keys, without reading them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from chalicelib.errors import DamagedLogError, InvalidCursorError
from chalicelib.pipelines.dead_letters import DEAD, DeadLetterId, dead_prefixes, find_dead_letter, prefixes_of_pipeline
from chalicelib.pipelines.files.key_layout import LAST_MS
from chalicelib.ports import ListedObject, ObjectStore, Run

MAX_READS = 20
"""The most letters with shortened names in a page: their names are read from the objects."""
MAX_EXAMINED = 1000
"""The keys of one LIST."""
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


@dataclass(frozen=True, slots=True)
class DeadLetterQuery:
    """Letters of all pipelines, of the runs of one (``fqn``), or of one run (``run_id``), with ``from_ms`` <= ``stored_ms`` < ``to_ms``.
    ``pipeline``, ``handler``: only of this processing pipeline, and of this handler. ``may_see``: whether the caller may see those of an
    FQN."""

    fqn: str | None = None
    run_id: str | None = None
    pipeline: str | None = None
    handler: str | None = None
    from_ms: int = 0
    to_ms: int = LAST_MS + 1
    may_see: Callable[[str], bool] = lambda _: True

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes of the letters' keys."""
        if self.fqn is None:
            return (f"{DEAD}/",)
        return prefixes_of_pipeline(self.fqn) if self.run_id is None else dead_prefixes(Run(self.fqn, self.run_id))

    def has(self, letter: ListedDeadLetter) -> bool:
        """Whether it is one of the query's letters."""
        id = letter.id
        names = ((self.fqn, id.run.fqn), (self.pipeline, id.pipeline), (self.handler, id.handler))
        return (
            all(name in (None, own) for name, own in names)
            and self.from_ms <= letter.stored_ms < self.to_ms
            and self.may_see(id.run.fqn)
        )


def list_dead_letters(store: ObjectStore, query: DeadLetterQuery, after: str, limit: int) -> DeadLetterPage:
    """A page of at most ``limit`` letters in the order of keys: by pipeline, run, processing pipeline, handler, line. ``after``: of the
    previous page, "" for the first. A page may have fewer letters although more follow: it examines at most ``MAX_EXAMINED`` keys below
    each prefix. At most two LISTs, and a GET for each letter with shortened names, up to ``MAX_READS``. Raises InvalidCursorError,
    UnavailableError."""
    prefixes = query.prefixes
    at = next((at for at, prefix in enumerate(prefixes) if after.startswith(prefix)), None) if after else 0
    if at is None:
        raise InvalidCursorError("the cursor is of another list: omit it to start from the first page")
    letters: list[ListedDeadLetter] = []
    reads = 0
    for prefix in prefixes[at:]:
        listing = store.list(prefix, start_after=after, limit=MAX_EXAMINED)
        for listed in listing.objects:
            is_short = "+" in listed.key
            if len(letters) == limit or (is_short and reads == MAX_READS):
                return DeadLetterPage(letters, after)
            reads += is_short
            after = listed.key
            id = _read_id(store, listed) if is_short else _parsed(listed.key)
            letter = ListedDeadLetter(id, listed.size, listed.last_modified_ms) if id else None
            if letter is not None and query.has(letter):
                letters.append(letter)
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
