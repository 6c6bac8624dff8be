"""Shards: one pipeline worked by several workers at once, each with the runs of its own share of names (FQN). Decision 0034.

All runs of one FQN are in one shard, so their order is kept, and each file of the rolling handler, which holds events of one FQN, has one
writer. Which shard that is depends on the FQN and the number of shards alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard ``number`` of ``count``. Number 0 leads: it divides the runs, and acts for the pipeline as a whole. ``count`` 0: of a job,
    which divides the runs itself."""

    number: int = 0
    count: int = 1

    @property
    def leads(self) -> bool:
        """Whether this is the shard that divides the runs."""
        return self.number == 0

    @property
    def is_fixed(self) -> bool:
        """Whether the runs stay divided as they are while the count is the same. Those of a job's tasks do not: each job divides them."""
        return self.count > 0

    @property
    def suffix(self) -> str:
        """What the names of its lease and of its rows end in. Empty of the leading shard: its names are the pipeline's."""
        return f"#{self.number}" if self.number else ""

    def has(self, fqn: str) -> bool:
        """Whether the runs of this name are this shard's."""
        return self.count < 2 or shard_of(fqn, self.count) == self.number


ONLY = Shard()
OF_A_JOB = Shard(0, 0)


def shard_of(fqn: str, count: int) -> int:
    """The shard of a name. Stored state depends on it: it never changes."""
    return int.from_bytes(blake2b(fqn.encode(errors="surrogatepass"), digest_size=8).digest()) % count


def shards(count: int) -> list[Shard]:
    """All shards of a pipeline that has so many."""
    return [Shard(number, count) for number in range(count)]
