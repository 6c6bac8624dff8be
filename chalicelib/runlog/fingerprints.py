"""What tells one batch from another: a digest of what was sent, which stays true when what is stored differs from it.

A batch that was masked is stored with a keyed digest (decision 0019): beside the masked text a plain one would let whoever reads the
segment's metadata try passwords until one fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b

from chalicelib.runlog.batch import Batch

_KEYED = "m"
_PERSON = b"runlake.masked"


class BatchFingerprints:
    """``keys``: secrets; the first makes, all recognise. ``may_vary``: whether other masking rules would have stored another body."""

    def __init__(self, keys: Sequence[str] = (), may_vary: Callable[[bytes], bool] = lambda _: False) -> None:
        self._keys = [blake2b(key.encode(), digest_size=32).digest() for key in keys]
        self._may_vary = may_vary

    def digest(self, batch: Batch) -> str:
        """What is stored with a batch."""
        return batch.digest if batch.sent is None or not self._keys else _keyed(batch.sent, self._keys[0])

    def matches(self, batch: Batch, digest: str) -> bool:
        """Whether a stored digest is this batch's, masked then or not, whatever the rules are now."""
        if not digest.startswith(_KEYED):
            return digest == batch.digest
        return any(_keyed(_sent(batch), key) == digest for key in self._keys)

    def may_differ_in_size(self, batch: Batch) -> bool:
        """Whether a try of this batch may have been stored with another size. Reads the batch: asked only where sizes differ."""
        return self._may_vary(_sent(batch))


def _sent(batch: Batch) -> bytes:
    return batch.body if batch.sent is None else batch.sent


def _keyed(sent: bytes, key: bytes) -> str:
    return _KEYED + blake2b(sent, digest_size=16, key=key, person=_PERSON).hexdigest()
