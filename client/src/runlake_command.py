"""The entry point of the command: an interrupt prints no traceback, also while the package and its libraries are imported. Python 3.6 can read it."""

import sys


def main() -> None:
    """Run the command line, in a process of its own."""
    if sys.version_info[:2] < (3, 9):  # noqa: UP036 - pip refuses this, but the command as one file needs no pip
        found = ".".join(map(str, sys.version_info[:2]))
        sys.stderr.write(f"runlake: Python {found} is too old\nnext: use Python 3.9 or later, as python3.9 runlake.pyz\n")
        sys.exit(125 if "exec" in sys.argv else 2)
    from runlake_signals import run_process

    run_process(_run)


def _run() -> None:
    from runlake.__main__ import main as run  # imports click and more, for some hundredths of a second

    run()


if __name__ == "__main__":
    main()
