"""Identifies batches by a digest of the sent bytes, also if the stored bytes differ from them.

A masked batch is stored with a keyed digest (decision 0019): with a plain digest, a reader of the segment's metadata could guess the masked
passwords by brute force.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b

from chalicelib.runlog.batch import Batch

_KEYED = "m"
_PERSON = b"runlake.masked"


class BatchFingerprints:
    """``keys``: secrets; the first one creates digests, all verify. ``may_vary``: whether other masking rules would have stored another body."""

    def __init__(self, keys: Sequence[str] = (), may_vary: Callable[[bytes], bool] = lambda _: False) -> None:
        self._keys = [blake2b(key.encode(), digest_size=32).digest() for key in keys]
        self._may_vary = may_vary

    def digest(self, batch: Batch) -> str:
        """The digest to store with a batch."""
        return batch.digest if batch.sent is None or not self._keys else _keyed(batch.sent, self._keys[0])

    def matches(self, batch: Batch, digest: str) -> bool:
        """Whether a stored digest belongs to this batch, whether or not it was masked, and independent of the current rules."""
        if not digest.startswith(_KEYED):
            return digest == batch.digest
        return any(_keyed(_sent(batch), key) == digest for key in self._keys)

    def may_differ_in_size(self, batch: Batch) -> bool:
        """Whether an earlier attempt of this batch may have been stored with another size. Scans the batch: call it only if sizes differ."""
        return self._may_vary(_sent(batch))


def _sent(batch: Batch) -> bytes:
    return batch.body if batch.sent is None else batch.sent


def _keyed(sent: bytes, key: bytes) -> str:
    return _KEYED + blake2b(sent, digest_size=16, key=key, person=_PERSON).hexdigest()
