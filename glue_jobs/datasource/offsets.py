"""Progress of a read: a position for each run that may still grow, and a time through which all other runs are done.

As JSON, in a query's checkpoint, or stored by a job that reads incrementally::

    {"v": 1, "of": "<selection>", "through": 1795230000, "runs": {"<run>": "<position>", …}}

A run's name is 12 characters of a digest, a position takes about 30: 100,000 runs are about 5 MB. A closed run leaves the map as
soon as its end is older than ``through``, by the store's clock: a closed run that is not in the map and ended by then has been
read. An abandoned run may be reopened, so it stays until its objects expire.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, NamedTuple

from chalicelib.catalog.runs import RUNNING
from chalicelib.errors import InvalidConfigurationError
from chalicelib.ports import CANCELLED, FAILED, LOST, SUCCEEDED, UNKNOWN
from glue_jobs.datasource.options import Options
from glue_jobs.datasource.slices import EXACT, TAIL, Edge

VERSION = 1
OPEN, ABANDONED, CLOSED = "o", "a", "c"
_REPORTED = {SUCCEEDED: "s", FAILED: "f", CANCELLED: "x", UNKNOWN: "u"}
_OUTCOMES = {letter: outcome for outcome, letter in _REPORTED.items()}
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_DIGEST_BYTES = 9
_AT_THE_END = "!"


class Position(NamedTuple):
    """Everything before ``byte`` and ``line``, and the segments below ``next``, were seen. ``floor``: all complete events before
    it were emitted; the last event after it is held back while it may grow. ``format``: fixed when the run was first read; empty:
    the run was complete then. ``reference_s``: about that time. ``reported``: the outcome of an ended run; empty: it is lost."""

    next: int
    byte: int
    line: int
    floor: int
    state: str
    reference_s: int
    format: str = ""
    reported: str = ""

    @property
    def outcome(self) -> str:
        """Outcome of the run at that time."""
        return self.reported or {OPEN: RUNNING, ABANDONED: LOST}.get(self.state, UNKNOWN)

    @property
    def edge(self) -> Edge:
        """The edge up to which events were emitted."""
        return Edge(self.byte, self.line, EXACT if self.floor == self.byte else TAIL, self.floor)

    def packed(self) -> str:
        """A short text."""
        floor = _AT_THE_END if self.floor == self.byte else _digits(self.floor)
        state = self.state + _REPORTED.get(self.reported, "")
        return ".".join(
            (_digits(self.next), _digits(self.byte), _digits(self.line), floor, state, _digits(self.reference_s), self.format)
        )

    @classmethod
    def unpacked(cls, text: str) -> Position:
        """The inverse. Raises ValueError."""
        following, byte, line, floor, state, reference_s, format = text.split(".")
        at = int(byte, 36)
        border = at if floor == _AT_THE_END else int(floor, 36)
        reported = _OUTCOMES[state[1:]] if state[1:] else ""
        return cls(int(following, 36), at, int(line, 36), border, state[:1], int(reference_s, 36), format, reported)


START = Edge(0)


@dataclass(frozen=True, slots=True)
class Offset:
    """``of`` identifies the selection. ``runs`` by ``name_of`` their key prefix. ``skips``: skip all data that exists at the
    first listing (``startingOffsets=latest``)."""

    of: str
    through_s: int = 0
    runs: Mapping[str, Position] = field(default_factory=dict)
    skips: bool = False

    @classmethod
    def initial(cls, options: Options) -> Offset:
        """The offset before the first read. Always the same."""
        return cls(fingerprint(options))

    @property
    def skipping(self) -> Offset:
        """The same, but all data that exists at the first listing is skipped."""
        return replace(self, skips=True)

    @property
    def text(self) -> str:
        """The form for the options ``startingOffsets`` and ``endingOffsets``; the same for equal offsets."""
        return json.dumps(self.to_json(), separators=(",", ":"), sort_keys=True)

    def to_json(self) -> dict[str, Any]:
        """The form for the checkpoint, the same for equal offsets."""
        runs = {run: self.runs[run].packed() for run in sorted(self.runs)}
        return {"v": VERSION, "of": self.of, "through": self.through_s, "runs": runs} | ({"skips": True} if self.skips else {})

    @classmethod
    def from_json(cls, document: Mapping[str, Any], options: Options) -> Offset:
        """The inverse. Raises InvalidConfigurationError for another selection or version, or an invalid offset."""
        if document.get("v") != VERSION:
            raise InvalidConfigurationError(f"unsupported version of the offset version={document.get('v')} expected={VERSION}")
        if document.get("of") != fingerprint(options):
            raise InvalidConfigurationError(
                "the offset belongs to other options (bucket, prefix, fqn, run, logFormat): start from the beginning, or use the same options"
            )
        try:
            runs = {run: Position.unpacked(text) for run, text in document["runs"].items()}
            return cls(document["of"], int(document["through"]), runs, bool(document.get("skips")))
        except (LookupError, ValueError, AttributeError, TypeError) as error:
            raise InvalidConfigurationError(f"the offset is damaged: {error!r}") from error

    @classmethod
    def parsed(cls, text: str, options: Options) -> Offset:
        """The inverse of ``text``. Raises InvalidConfigurationError."""
        try:
            document = json.loads(text)
        except ValueError as error:
            raise InvalidConfigurationError(f"invalid JSON in an offset: {error}") from error
        if not isinstance(document, dict):
            raise InvalidConfigurationError("an offset must be a JSON object")
        return cls.from_json(document, options)


def name_of(base: str) -> str:
    """A run's name in offsets, from its key prefix. Two of a million collide with a probability of 1 in 10^10."""
    return urlsafe_b64encode(blake2b(base.encode(), digest_size=_DIGEST_BYTES).digest()).decode()


def fingerprint(options: Options) -> str:
    """Identifies the options that decide which rows a stream has."""
    decisive = (options.bucket, options.prefix, options.fqn, options.run, options.log_format or "")
    return urlsafe_b64encode(blake2b(repr(decisive).encode(), digest_size=_DIGEST_BYTES).digest()).decode()


def _digits(number: int) -> str:
    digits = ""
    while number:
        number, rest = divmod(number, 36)
        digits = _DIGITS[rest] + digits
    return digits or "0"
