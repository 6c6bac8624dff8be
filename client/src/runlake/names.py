"""Names in addresses, and names made up."""

from __future__ import annotations

import secrets
import shlex
import time
from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class RunName:
    """Which run: the fully qualified name of its pipeline, and its id."""

    fqn: str
    run_id: str

    def __str__(self) -> str:
        return f"{self.fqn}/{self.run_id}"

    @property
    def words(self) -> str:
        """As a shell takes it behind ``runlake close``."""
        return shlex.join([self.fqn, self.run_id])


def part(name: str) -> str:
    """A name as one part of a path: everything that could mean something there is encoded, slashes too."""
    return quote(name, safe="")


def new_run_id() -> str:
    """A run id nobody else makes up; ids made later sort later, by the second."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()) + "-" + secrets.token_hex(4)
