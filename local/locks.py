"""``make lock``: write each requirements file's lock, with the digests of all distributions, so that pip installs locked files only.

uv makes a lock from a requirements file that pins every package. Nothing is resolved: versions change in the pins, never in a lock.
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
    "infra/docs.lock",
    "infra/uv.lock",
    "tests/integration/awscli/requirements.lock",
    "tests/integration/datalake/requirements.lock",
    "tests/integration/openmetadata/requirements.lock",
)
RUNTIME, DEVELOPMENT = LOCKS[:2]
UV = PROJECT / ".venv" / "bin" / "uv"
_PIN = re.compile(r"^([\w.-]+)(?:\[[\w,-]+\])?==([^\s;\\]+)")


def pins_of(lock: str) -> str:
    """The requirements file of a lock."""
    return lock.removesuffix(".lock") + ".txt"


def normalized(name: str) -> str:
    """A package name as package indexes normalize it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def entries(lock: str) -> dict[str, str]:
    """Requirements with version and digests, as pip reads them, by normalized name."""
    blocks = re.split(r"\n(?=\w)", (PROJECT / lock).read_text().strip())
    return {normalized(found[1]): block for block in blocks if (found := _PIN.match(block))}


def hashed(lock: str, names: Iterable[str]) -> str:
    """Requirements for ``pip --require-hashes`` of some locked packages. Raises LocalError if one is not locked."""
    locked = entries(lock)
    if missing := sorted(name for name in names if normalized(name) not in locked):
        raise LocalError(f"not locked, run make lock: lock={lock} packages={','.join(missing)}")
    return "".join(f"{locked[normalized(name)]}\n" for name in sorted(names))


def write(lock: str) -> None:
    """Write one lock again. Reads digests from the package index. Raises LocalError."""
    command = [str(UV), "pip", "compile", "--quiet", "--generate-hashes", "--no-deps", "--no-header", "--no-annotate"]
    command += ["--python-version", "3.11.5", "--universal"]
    command += [pins_of(lock), "--output-file", lock]
    (PROJECT / lock).unlink(missing_ok=True)
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    if done.returncode:
        raise LocalError(f"uv could not lock {pins_of(lock)}: {done.stderr.strip()[-500:]}")


def main() -> int:
    """Write all locks again."""
    for lock in LOCKS:
        write(lock)
        show(f"runlake: {lock}, {len(entries(lock))} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
