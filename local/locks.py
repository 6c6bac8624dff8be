"""``make lock``: every pin of the requirements with the digests of its files, so that pip takes what was locked and nothing else.

A lock is made by uv from the file beside it, which names all packages and versions. Nothing is resolved: a version changes in the pins,
never in a lock.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable

from local.state import PROJECT, LocalError
from local.terminal import show

LOCKS = (
    "requirements.lock",
    "requirements-dev.lock",
    "infra/checkov.lock",
    "infra/audit.lock",
    "tests/integration/datalake/requirements.lock",
    "tests/integration/openmetadata/requirements.lock",
)
RUNTIME, DEVELOPMENT = LOCKS[:2]
UV = PROJECT / ".venv-audit" / "bin" / "uv"
_PIN = re.compile(r"^([\w.-]+)(?:\[[\w,-]+\])?==([^\s;\\]+)")


def pins_of(lock: str) -> str:
    """The file that a lock is made from."""
    return lock.removesuffix(".lock") + ".txt"


def normalized(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def entries(lock: str) -> dict[str, str]:
    """By normalized name: a requirement with its version and digests, as pip reads it."""
    blocks = re.split(r"\n(?=\w)", (PROJECT / lock).read_text().strip())
    return {normalized(found[1]): block for block in blocks if (found := _PIN.match(block))}


def hashed(lock: str, names: Iterable[str]) -> str:
    """Requirements of some packages of a lock, for ``pip --require-hashes``. Raises LocalError for one that is not there."""
    locked = entries(lock)
    if missing := sorted(name for name in names if normalized(name) not in locked):
        raise LocalError(f"not locked, run make lock: lock={lock} packages={','.join(missing)}")
    return "".join(f"{locked[normalized(name)]}\n" for name in sorted(names))


def write(lock: str) -> None:
    """Make one lock anew. Asks the package index for digests. Raises LocalError."""
    command = [str(UV), "pip", "compile", "--quiet", "--generate-hashes", "--no-deps", "--no-header", "--no-annotate"]
    command += ["--python-version", "3.11.5", "--universal"]
    command += [pins_of(lock), "--output-file", lock]
    (PROJECT / lock).unlink(missing_ok=True)
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    if done.returncode:
        raise LocalError(f"uv could not lock {pins_of(lock)}: {done.stderr.strip()[-500:]}")


def main() -> int:
    """Make all locks anew."""
    for lock in LOCKS:
        write(lock)
        show(f"runlake: {lock}, {len(entries(lock))} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
