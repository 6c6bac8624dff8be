"""``make fuzz``: feed every decoder with inputs that reach new code, begun from the corpus; the same seed does the same.

``--keep`` writes what reached new code back into the corpus, the smallest of it. atheris is there for Linux on x86-64; elsewhere the corpus is
replayed by the tests, and nothing more.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.fuzz import corpus
from tests.fuzz.seeds import SEEDS
from tests.fuzz.targets import TARGETS

COUNT = 1_000_000
_LONGEST_INPUT_BYTES = 512
_SLOWEST_S = 10
_DONE = re.compile(r"^#(\d+)\s")


def main() -> int:
    """1 when a decoder gave something that is neither a value nor its own error."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"all by default: {', '.join(TARGETS)}")
    parser.add_argument("--count", type=int, default=COUNT, help=f"inputs of all targets together (default {COUNT:,})")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31) or 1, help="one is drawn and printed by default")
    parser.add_argument("--keep", action="store_true", help="renew the corpus")
    arguments = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        parser.error("atheris is there for Linux on x86-64 only")
    if unknown := set(arguments.targets) - set(TARGETS):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    chosen = arguments.targets or list(TARGETS)
    each = -(-arguments.count // len(chosen))
    print(f"seed {arguments.seed}, {each:,} inputs for each of {len(chosen)} targets", flush=True)
    return 0 if _fuzz_all(chosen, each, arguments.seed, keep=arguments.keep) else 1


def _fuzz_all(targets: Sequence[str], count: int, seed: int, *, keep: bool) -> bool:
    columns = (TextColumn("{task.description:14}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    good = done = 0
    with Progress(*columns, disable=not sys.stderr.isatty()) as progress:
        for target in targets:
            bar = progress.add_task(target, total=count)
            with tempfile.TemporaryDirectory(prefix="runlake-fuzz-") as folder:
                inputs, failure = _fuzz(
                    target, Path(folder), count, seed, lambda number, bar=bar: progress.update(bar, completed=number)
                )
                done += inputs
                good += not failure
                progress.console.print(f"{target}: {inputs:,} inputs, {failure or 'nothing found'}", highlight=False)
                if keep and not failure:
                    found = (path.read_bytes() for path in (Path(folder) / "found").iterdir())
                    progress.console.print(f"{target}: {corpus.write(target, found)} kept", highlight=False)
    print(f"{done:,} inputs, seed {seed}: {good} of {len(targets)} targets without a finding")
    return good == len(targets)


def _fuzz(target: str, folder: Path, count: int, seed: int, tell: object) -> tuple[int, str]:
    """How many inputs were tried, and what was found, if anything."""
    (folder / "found").mkdir()
    for number, known in enumerate([*SEEDS[target], *corpus.read(target)]):
        (folder / "found" / f"known-{number}").write_bytes(known)
    options = [
        f"-runs={count}",
        f"-seed={seed}",
        f"-max_len={_LONGEST_INPUT_BYTES}",
        f"-timeout={_SLOWEST_S}",
        f"-artifact_prefix={folder}/",
    ]
    command = [sys.executable, "-m", "tests.fuzz.one", target, *options, str(folder / "found")]
    done, last = 0, []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        assert process.stdout
        for line in process.stdout:
            last = [*last[-60:], line]
            if found := _DONE.match(line):
                done = int(found[1])
                tell(done)  # type: ignore[operator]
    if process.returncode == 0:
        return done, ""
    broken = next((path.read_bytes() for kind in ("crash-*", "timeout-*", "oom-*") for path in folder.glob(kind)), b"")
    return done, f"input {broken!r}\n{''.join(last)}"


if __name__ == "__main__":
    sys.exit(main())
