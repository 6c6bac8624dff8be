"""Maps the objects of a run to S3 keys, and keys back to runs.

::

    {prefix}/{fqn}/{run_id}/segments/{sequence:010d}    immutable, numbered
                            partial.txt                 bytes [0, F) while the run is running
                            logs.txt                    bytes [0, end) once it is finalized
                            unfinished.json             an upload that goes on in the next pass (``runlog.unfinished_uploads``)
                            retired/{digest}            what deleted segments were (``runlog.segment_gc``)
                            events/{sequence:010d}      a segment's sidecar: what is not text of its events (``events.sidecar``)
                            events/bundles/{n}-{m}      sidecars of an ended run, from number n to m (``events.sidecar_bundle``)
                            events/writers/{w}/opened   a writer of events was registered; ``closed``: it has ended (``events.writers``)
                            events/steps/{step}         what was told of a step (``events.step_updates``)
                            events/chosen               how its events are written and browsed (``runlog.choice``)
                            events/start                which attempt it is, on which host, since when (``runlog.attempts``)
    {prefix}/.active/{fqn}/{run_id}/{writer_id}         heartbeat marker, diagnostics only
    {prefix}/.tombstones/{fqn}/{run_id}/expired.json    why a run is gone (``runlog.tombstones``)

The second attempt of run ``R`` is the run ``R~2`` (decision 0039).

Names are percent-encoded as in RFC 3986 (all but unreserved characters), so two names never share a key and ordinary names stay
readable. A leading dot is encoded too: no name can collide with ``.active``, ``.`` or ``..``. OpenMetadata replaces characters by underscores,
which maps many names to one key: the methods ``legacy_*`` return the keys of its objects, for reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from urllib.parse import quote, unquote

from chalicelib.errors import InvalidNameError
from chalicelib.ports import SEQUENCE_DIGITS, ListedObject, Run

MAX_KEY_BYTES = 1024  # S3's limit
RESERVED_RUN_IDS = frozenset({"last", "close", "download", "grep", "explanation", "histogram"})
"""Words of the API's own paths. A path of the catalog that is mistyped below that of the log is refused, not read as another run's empty log."""

UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
"""C0 and C1 controls, bidirectional controls, line separators, byte order marks and tags: characters that control a terminal, reorder the
text around them, or are invisible. Rejected in names of new runs only: logs that OpenMetadata stored under such names are readable."""
UNFINISHED = "unfinished.json"

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_OPENMETADATA_UNSAFE = re.compile(r"[^a-zA-Z0-9_-]")
_ANY_LETTER = "\0"  # no name contains it, so no pattern matches it literally
_SEGMENT_SUFFIX = re.compile(r"segments/(\d{10})", re.ASCII)
_RETIRED_SUFFIX = re.compile(r"retired/[A-Za-z0-9_-]{11}")  # not longer than a segment's, and after partial.txt in a LIST
_LONGEST_SUFFIX = len("segments/") + SEQUENCE_DIGITS
_LONGEST_NAMES = MAX_KEY_BYTES - _LONGEST_SUFFIX - len("p///")
"""Limit of the encoded FQN and run id with the shortest prefix: no layout has room for longer ones."""
_LONGEST_ENCODED = 12
"""Longest encoding of one character, in bytes."""
_MARKERS = ".active"
_EVENTS = "events"
_CHOSEN, _START = "chosen", "start"
ATTEMPT_MARK = "~"
"""Separates a run's id and the number of an attempt after the first; unreserved in URLs and keys."""
_SIDECAR = re.compile(rf"{_EVENTS}/(\d{{10}})", re.ASCII)
_BUNDLE = re.compile(rf"{_EVENTS}/bundles/(\d{{10}})-(\d{{10}})", re.ASCII)
_WRITER = re.compile(rf"{_EVENTS}/writers/([^/]+)/(?:opened|closed)")
_STEP = re.compile(rf"{_EVENTS}/steps/([^/]+)")
_TOMBSTONES, _TOMBSTONE = ".tombstones", "expired.json"


def encode_name(name: str) -> str:
    """One path element of a key; ``unquote`` is its inverse."""
    encoded = quote(name, safe="")
    return "%2E" + encoded[1:] if encoded.startswith(".") else encoded


def shared_legacy_name(fqn: str) -> str:
    """A name that represents all FQNs that OpenMetadata stores in the same folder: a permission pattern that matches it matches all of them."""
    return legacy_name(fqn).replace("_", _ANY_LETTER)


def legacy_name(fqn: str) -> str:
    """OpenMetadata's spelling of an FQN in its keys."""
    return _OPENMETADATA_UNSAFE.sub("_", fqn)


def may_share_legacy_name(fqn: str) -> bool:
    """Whether OpenMetadata stores this FQN unchanged: then its folder may contain logs of other pipelines."""
    return not _OPENMETADATA_UNSAFE.search(fqn)


_ANY_RUN_ID = "any"


def checked_run(fqn: str, run_id: str) -> Run:
    """A run with valid names. Raises InvalidNameError without the name, which may contain a secret."""
    for what, name in (("fqn", fqn), ("run id", run_id)):
        if not name:
            raise InvalidNameError(f"empty {what}")
        if _CONTROL.search(name):
            raise InvalidNameError(f"control character in {what}")
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            raise InvalidNameError(f"{what} is not valid unicode")
    if "/" in run_id:
        raise InvalidNameError("a run id must not contain a slash")
    is_short = (len(fqn) + len(run_id)) * _LONGEST_ENCODED <= _LONGEST_NAMES
    if not is_short and (names_bytes := len(encode_name(fqn)) + len(encode_name(run_id))) > _LONGEST_NAMES:
        raise InvalidNameError(f"fqn and run id are too long once encoded bytes={names_bytes} limit={_LONGEST_NAMES}")
    if run_id in RESERVED_RUN_IDS:
        raise InvalidNameError(f"a run id cannot be a word of the API's paths: {', '.join(sorted(RESERVED_RUN_IDS))}")
    return Run(fqn, run_id)


def checked_fqn(fqn: str) -> str:
    """A valid name of a pipeline. Raises InvalidNameError, as ``checked_run`` does."""
    return checked_run(fqn, _ANY_RUN_ID).fqn


@dataclass(frozen=True, slots=True)
class ParsedKey:
    """``kind``: segment, partial, logs, unfinished, retired, sidecar, bundle, writer, step, chosen, start, marker or tombstone;
    ``sequence``: of a segment, else None; ``sidecar``: the number of a sidecar's segment, else None; ``name``: of a writer or step;
    ``bundle``: the first and the last number of a bundle, else None."""

    run: Run
    kind: str
    sequence: int | None = None
    sidecar: int | None = None
    name: str = ""
    bundle: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """Keys under one prefix of a bucket."""

    prefix: str = "pipeline-logs"

    def run_prefix(self, run: Run) -> str:
        """Prefix of all keys of a run. Raises InvalidNameError if they would exceed S3's limit."""
        prefix = f"{self.prefix}/{encode_name(run.fqn)}/{encode_name(run.run_id)}/"
        room = MAX_KEY_BYTES - _LONGEST_SUFFIX
        if len(prefix) > room:
            raise InvalidNameError(f"fqn and run id are too long once encoded bytes={len(prefix)} limit={room}")
        return prefix

    def check_new(self, run: Run) -> None:
        """Check the names of a run before its first object is stored. Raises InvalidNameError."""
        for what, name in (("fqn", run.fqn), ("run id", run.run_id)):
            if UNPRINTABLE.search(name):
                raise InvalidNameError(f"control or invisible character in {what}")
        _fitting(self.tombstone(run))  # longer than the keys of a running run: if it did not fit, the run could not expire

    def segments(self, run: Run) -> str:
        """Prefix of all segments of a run."""
        return self.run_prefix(run) + "segments/"

    def segment(self, run: Run, sequence: int) -> str:
        """The segment with this number."""
        return f"{self.run_prefix(run)}segments/{sequence:010d}"

    def before_segment(self, run: Run, sequence: int) -> str:
        """The ``start_after`` of a LIST that begins with the segment with this number."""
        return self.segment(run, sequence - 1) if sequence > 0 else self.segments(run)

    def partial(self, run: Run) -> str:
        """The artifact of a running run."""
        return self.run_prefix(run) + "partial.txt"

    def logs(self, run: Run) -> str:
        """The final artifact."""
        return self.run_prefix(run) + "logs.txt"

    def all_retired(self, run: Run) -> str:
        """Prefix of all objects with entries of deleted segments."""
        return self.run_prefix(run) + "retired/"

    def retired(self, run: Run, digest: str) -> str:
        """Entries of a batch of deleted segments."""
        return self.all_retired(run) + digest

    def events(self, run: Run) -> str:
        """Prefix of a run's event objects: first in a LIST of the run."""
        return f"{self.run_prefix(run)}{_EVENTS}/"

    def sidecar(self, run: Run, sequence: int) -> str:
        """The sidecar of the segment with this number."""
        return f"{self.events(run)}{sequence:010d}"

    def before_sidecar(self, run: Run, sequence: int) -> str:
        """The ``start_after`` of a LIST that begins with the sidecar with this number."""
        return self.sidecar(run, sequence - 1) if sequence > 0 else self.events(run)

    def after_sidecars(self, run: Run) -> str:
        """A key that sorts after all sidecars."""
        return f"{self.events(run)}:"

    def bundles(self, run: Run) -> str:
        """Prefix of all bundles of sidecars: after all sidecars in a LIST."""
        return f"{self.events(run)}bundles/"

    def bundle(self, run: Run, first: int, last: int) -> str:
        """The bundle of the sidecars from number ``first`` to ``last``. Raises InvalidNameError."""
        return _fitting(f"{self.bundles(run)}{first:010d}-{last:010d}")

    def writers(self, run: Run) -> str:
        """Prefix of all objects of a run's writers."""
        return f"{self.events(run)}writers/"

    def writer(self, run: Run, writer: str, what: str) -> str:
        """The marker of a writer; ``what``: ``opened`` or ``closed``. Raises InvalidNameError."""
        return _fitting(f"{self.writers(run)}{encode_name(writer)}/{what}")

    def steps(self, run: Run) -> str:
        """Prefix of all objects of a run's steps."""
        return f"{self.events(run)}steps/"

    def step(self, run: Run, step: str) -> str:
        """The updates of a step. Raises InvalidNameError."""
        return _fitting(self.steps(run) + encode_name(step))

    def chosen(self, run: Run) -> str:
        """The configuration for writing and browsing a run's events."""
        return self.events(run) + _CHOSEN

    def start(self, run: Run) -> str:
        """The start of a run: its attempt number, host and command."""
        return self.events(run) + _START

    def later_attempts(self, run: Run) -> str:
        """Prefix of the folders of all attempts of a run after the first."""
        return self.run_prefix(run).removesuffix("/") + ATTEMPT_MARK

    def all_markers(self) -> str:
        """Prefix of the heartbeat markers of all runs."""
        return f"{self.prefix}/{_MARKERS}/"

    def markers(self, run: Run) -> str:
        """Prefix of the heartbeat markers of a run."""
        return f"{self.prefix}/{_MARKERS}/{encode_name(run.fqn)}/{encode_name(run.run_id)}/"

    def marker(self, run: Run, writer_id: str) -> str:
        """The heartbeat marker of one writer."""
        return self.markers(run) + encode_name(writer_id)

    def tombstones(self, fqn: str) -> str:
        """Prefix of the tombstones of a pipeline's runs."""
        return f"{self.prefix}/{_TOMBSTONES}/{encode_name(fqn)}/"

    def tombstone(self, run: Run) -> str:
        """The tombstone of an expired run."""
        return f"{self.tombstones(run.fqn)}{encode_name(run.run_id)}/{_TOMBSTONE}"

    def legacy_fqn_prefix(self, fqn: str) -> str:
        """Prefix of OpenMetadata's objects of a pipeline, which other FQNs may share."""
        return f"{self.prefix}/{legacy_name(fqn)}/"

    def legacy_run_prefix(self, run: Run) -> str:
        """Prefix of OpenMetadata's objects of a run."""
        return f"{self.legacy_fqn_prefix(run.fqn)}{run.run_id}/"

    def legacy_partial(self, run: Run) -> str:
        """OpenMetadata's partial.txt of a run."""
        return self.legacy_run_prefix(run) + "partial.txt"

    def legacy_logs(self, run: Run) -> str:
        """OpenMetadata's logs.txt of a run."""
        return self.legacy_run_prefix(run) + "logs.txt"

    def unfinished(self, run: Run) -> str:
        """The record of a run's unfinished upload."""
        return self.run_prefix(run) + UNFINISHED

    def segments_among(self, run: Run, listed: Iterable[ListedObject]) -> Iterator[ListedObject]:
        """The segments of this run among listed objects; other keys below ``segments/`` are foreign."""
        prefix = self.run_prefix(run)
        return (each for each in listed if each.key.startswith(prefix) and _SEGMENT_SUFFIX.fullmatch(each.key, len(prefix)))

    def sequence_of(self, run: Run, key: str) -> int:
        """The number of a listed segment of this run."""
        return int(key[len(self.segments(run)) :])

    def parse(self, key: str) -> ParsedKey | None:
        """The run and kind of a key; None if it is not a key of this layout."""
        if not key.startswith(self.prefix + "/"):
            return None
        elements = key[len(self.prefix) + 1 :].split("/")
        if elements[0] == _MARKERS:
            return self._parsed(elements[1:3], "marker") if len(elements) == 4 else None
        if elements[0] == _TOMBSTONES:
            return self._parsed(elements[1:3], "tombstone") if elements[3:] == [_TOMBSTONE] else None
        kind = {"partial.txt": "partial", "logs.txt": "logs", UNFINISHED: "unfinished"}.get("/".join(elements[2:]))
        if kind:
            return self._parsed(elements[:2], kind)
        if _RETIRED_SUFFIX.fullmatch("/".join(elements[2:])):
            return self._parsed(elements[:2], "retired")
        if elements[2:3] == [_EVENTS]:
            return self._parsed_event_key(elements)
        segment = _SEGMENT_SUFFIX.fullmatch("/".join(elements[2:]))
        return self._parsed(elements[:2], "segment", int(segment[1])) if segment else None

    def _parsed_event_key(self, elements: list[str]) -> ParsedKey | None:
        """Parse a key under ``events/``."""
        name, parsed = "/".join(elements[2:]), self._parsed(elements[:2], "sidecar")
        if parsed is None:
            return None
        if elements[3:] in ([_CHOSEN], [_START]):
            return replace(parsed, kind=elements[3])
        if sidecar := _SIDECAR.fullmatch(name):
            return replace(parsed, sidecar=int(sidecar[1]))
        if bundle := _BUNDLE.fullmatch(name):
            return replace(parsed, kind="bundle", bundle=(int(bundle[1]), int(bundle[2])))
        for kind, found in (("writer", _WRITER.fullmatch(name)), ("step", _STEP.fullmatch(name))):
            if found:
                return _named(parsed, kind, found[1])
        return None

    @staticmethod
    def _parsed(names: list[str], kind: str, sequence: int | None = None) -> ParsedKey | None:
        try:
            fqn, run_id = (unquote(name, errors="strict") for name in names)
            return ParsedKey(checked_run(fqn, run_id), kind, sequence)
        except (UnicodeDecodeError, InvalidNameError):
            return None


def _named(parsed: ParsedKey, kind: str, name: str) -> ParsedKey | None:
    try:
        return replace(parsed, kind=kind, name=unquote(name, errors="strict"))
    except UnicodeDecodeError:
        return None


def is_key(text: str) -> bool:
    """Whether S3 accepts a key of this length."""
    return len(text) <= MAX_KEY_BYTES


def _fitting(key: str) -> str:
    if not is_key(key):
        raise InvalidNameError(f"names are too long once encoded bytes={len(key)} limit={MAX_KEY_BYTES}")
    return key
