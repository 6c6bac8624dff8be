"""``make fuzz``: feed every decoder with inputs that reach new code, starting from the corpus, and measure small bodies that may be
costly. The same seed gives the same inputs.

``--keep`` writes the smallest inputs that reached new code back into the corpus. atheris exists only for Linux on x86-64; elsewhere
the tests only replay the corpus.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.fuzz import corpus, costs
from tests.fuzz.seeds import SEEDS
from tests.fuzz.targets import TARGETS

COUNT = 1_000_000
COSTS, COSTS_COUNT = "costs", 1_000
_LONGEST_INPUT_BYTES = 512
_SLOWEST_S = 10
_DONE = re.compile(r"^#(\d+)\s")


def main() -> int:
    """1 if a decoder raised anything but its own error, or a small body costs too much."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"default all: {', '.join([*TARGETS, COSTS])}")
    parser.add_argument("--count", type=int, default=COUNT, help=f"inputs of all targets together (default {COUNT:,})")
    parser.add_argument("--costs", type=int, default=COSTS_COUNT, help=f"small bodies to measure (default {COSTS_COUNT:,})")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31) or 1, help="default: drawn and printed")
    parser.add_argument("--keep", action="store_true", help="renew the corpus")
    arguments = parser.parse_args()
    if unknown := set(arguments.targets) - {*TARGETS, COSTS}:
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    decoders = [target for target in arguments.targets or TARGETS if target != COSTS]
    if decoders and importlib.util.find_spec("atheris") is None:
        parser.error("atheris exists only for Linux on x86-64")
    is_good = True
    if not arguments.targets or COSTS in arguments.targets:
        is_good = _measure(arguments.costs, arguments.seed)
    if decoders:
        each = -(-arguments.count // len(decoders))
        print(f"seed {arguments.seed}, {each:,} inputs for each of {len(decoders)} targets", flush=True)
        is_good = _fuzz_all(decoders, each, arguments.seed, keep=arguments.keep) and is_good
    return 0 if is_good else 1


def _measure(count: int, seed: int) -> bool:
    """Whether no small body costs too much. Prints those that do, and the largest costs."""
    costly, memory_bytes, cpu_units = 0, 0, 0.0
    for number, (name, shape, cost, units, over) in enumerate(costs.search(seed, count, workers=os.cpu_count() or 1), 1):
        memory_bytes, cpu_units = max(memory_bytes, cost.memory_bytes), max(cpu_units, units)
        if over:
            costly += 1
            print(f"{name}: {', '.join(over)}\n  {shape!r}", flush=True)
        if number in (count, *range(1_000, count, 1_000)):
            print(
                f"{COSTS}: {number:,} small bodies, seed {seed}: {costly} over a limit; at most "
                f"{memory_bytes / costs.MIB:.0f} MiB (limit {costs.MAX_MEMORY_BYTES // costs.MIB}) and {cpu_units:.0f} units of CPU "
                f"(limit {costs.MAX_CPU_UNITS:.0f})",
                flush=True,
            )
    return not costly


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
    """Number of inputs tried, and the finding, if any."""
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
