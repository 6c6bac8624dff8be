"""``make mutants``: change one decisive line at a time and run the tests that must fail. Exit code 1 if they pass."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.mutants.curated import areas
from tests.mutants.mutant import Mutant
from tests.mutants.runner import PASSES, Outcome, failing_unmutated, run


def main() -> int:
    """0 when every mutant is killed or listed as equivalent, 1 otherwise, 2 for an unknown area."""
    curated = areas()
    arguments = _arguments(list(curated))
    chosen = [mutant for name in arguments.areas or curated for mutant in curated[name] if arguments.only in str(mutant)]
    if arguments.list:
        return _print_list(chosen)
    started_s = time.monotonic()
    print(f"{len(chosen)} mutants; first their tests without a mutation", file=sys.stderr, flush=True)
    if failure := failing_unmutated(chosen):
        print(f"the tests fail without a mutation:\n{failure}")
        return 1
    outcomes = _run(chosen, arguments.workers)
    minutes = (time.monotonic() - started_s) / 60
    print(f"{len(chosen)} mutants in {minutes:.1f} minutes: {', '.join(f'{n} {outcome}' for outcome, n in outcomes.items())}")
    return 0 if outcomes.keys() <= PASSES else 1


def _arguments(names: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"all by default: {', '.join(names)}")
    parser.add_argument("--only", default="", metavar="TEXT", help="mutants whose definition contains this text")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="mutants at a time (default: one for each core)")
    parser.add_argument("--list", action="store_true", help="print the mutants, run nothing")
    arguments = parser.parse_args()
    if unknown := set(arguments.areas) - set(names):
        parser.error(f"no such area: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    return arguments


def _print_list(mutants: Sequence[Mutant]) -> int:
    for mutant in mutants:
        print(f"{mutant.where}  {mutant.find!r} -> {mutant.replace!r}  {mutant.equivalent or mutant.tests}")
    return 0


def _run(mutants: Sequence[Mutant], workers: int) -> Counter[Outcome]:
    outcomes: Counter[Outcome] = Counter()
    columns = (TextColumn("mutants"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(file=sys.stdout, highlight=False, markup=False, soft_wrap=True)
    with Progress(*columns, console=console, disable=not sys.stdout.isatty()) as progress:
        bar = progress.add_task("mutants", total=len(mutants))
        for result in run(mutants, workers):
            outcomes[result.outcome] += 1
            progress.advance(bar)
            mutant = result.mutant
            console.print(f"{result.outcome}: {mutant.where}  {mutant.find!r} -> {mutant.replace!r}")
            if result.outcome not in PASSES or mutant.equivalent:
                console.print(f"  {mutant.why}\n  {result.detail}".rstrip())
    return outcomes


if __name__ == "__main__":
    sys.exit(main())
