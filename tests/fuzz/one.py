"""``python -m tests.fuzz.one TARGET [libFuzzer options]``: one target in its own process, which libFuzzer ends."""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["chalicelib"]):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    """Does not return."""
    target, *options = sys.argv[1:]
    atheris.Setup([sys.argv[0], *options], TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
