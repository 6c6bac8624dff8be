"""A position: the log end for a writer's next batch, returned with every response and presented with the next append.

It is stored in the cookie that OpenMetadata's connectors send back. It is signed (itsdangerous), bound to one run and one session, and only a
hint: a position that is forged, of another run, or unreadable is ignored, and an old one is only a lower bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b, sha256

from itsdangerous import BadSignature, Signer

from chalicelib.errors import InvalidConfigurationError
from chalicelib.ports import Run

YOUNG_MS = 60_000
"""Below this age a position is used without a read: the segment of its number cannot have been retired since (decision 0001)."""

_VERSION = "1"
_FIELDS = 10


@dataclass(frozen=True, slots=True)
class Position:
    """The log's end as a session last saw it. ``contended``: its last append met another writer. ``zone``: the run's, see
    ``SegmentEntry``."""

    session: str
    epoch: int
    sequence: int
    line: int
    byte: int
    contended: bool
    issued_ms: int
    zone: str = ""

    def is_young(self, now_ms: int) -> bool:
        """Whether its number can be used without a read. A position from the future is not."""
        return 0 <= now_ms - self.issued_ms < YOUNG_MS


class PositionSigner:
    """Signs and verifies position tokens. The first key signs, every key verifies: rotation prepends the new one.

    Processes that only seal runs, such as schedules and jobs, have no key. There both methods raise InvalidConfigurationError: a process that
    cannot sign cannot append, so a process without the API's secrets never stores an unmasked batch."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._has_keys = bool(keys)
        # itsdangerous signs with the last key of its list.
        self._signer = Signer(list(reversed(keys)), salt=b"runlake.position", digest_method=sha256)

    def dumps(self, run: Run, position: Position) -> str:
        """A cookie-safe token of about 110 characters, and those of the zone."""
        self._check()
        fields = (
            _VERSION,
            _fingerprint(run),
            position.session,
            position.epoch,
            position.sequence,
            position.line,
            position.byte,
            int(position.contended),
            position.issued_ms,
            position.zone,
        )
        return self._signer.sign("_".join(map(str, fields))).decode()

    def loads(self, run: Run, token: str | None) -> Position | None:
        """The position in a token, or None if the token is empty, invalid, or for another run."""
        self._check()
        if not token:
            return None
        try:
            fields = self._signer.unsign(token).decode().split("_", _FIELDS - 1)
        except (BadSignature, UnicodeError):
            return None
        if len(fields) != _FIELDS or fields[:2] != [_VERSION, _fingerprint(run)]:
            return None
        session, (epoch, sequence, line, byte, contended, issued_ms) = fields[2], map(int, fields[3:-1])
        return Position(session, epoch, sequence, line, byte, bool(contended), issued_ms, fields[-1])

    def _check(self) -> None:
        if not self._has_keys:
            raise InvalidConfigurationError("this process cannot append: no key to sign positions variable=RUNLAKE_POSITION_KEYS")


def _fingerprint(run: Run) -> str:
    return blake2b(f"{run.fqn}\0{run.run_id}".encode(), digest_size=8).hexdigest()
