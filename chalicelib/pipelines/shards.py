"""Shards: one pipeline processed by several workers at once, each with its own share of the FQNs. Decision 0034.

All runs of one FQN are in one shard, so their order is kept, and each file of the rolling handler, which contains events of one
FQN, has one writer. The shard depends only on the FQN and the number of shards.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard ``number`` of ``count``. Number 0 leads: it distributes the runs, and acts for the pipeline as a whole. ``count`` 0:
    for a job, which distributes the runs itself."""

    number: int = 0
    count: int = 1

    @property
    def leads(self) -> bool:
        """Whether this shard distributes the runs."""
        return self.number == 0

    @property
    def is_fixed(self) -> bool:
        """Whether the distribution stays the same while the count does. That of a job's tasks does not: each job distributes the
        runs again."""
        return self.count > 0

    @property
    def suffix(self) -> str:
        """The suffix of the names of its lease and rows. Empty for the leading shard: its names are the pipeline's."""
        return f"#{self.number}" if self.number else ""

    def has(self, fqn: str) -> bool:
        """Whether the runs of this FQN are in this shard."""
        return self.count < 2 or shard_of(fqn, self.count) == self.number


ONLY = Shard()
OF_A_JOB = Shard(0, 0)


def shard_of(fqn: str, count: int) -> int:
    """The shard of an FQN. Stored state depends on it: it never changes."""
    return int.from_bytes(blake2b(fqn.encode(errors="surrogatepass"), digest_size=8).digest()) % count


def shards(count: int) -> list[Shard]:
    """All shards of a pipeline with this many."""
    return [Shard(number, count) for number in range(count)]
