"""The entry point of the command: an interrupt prints no traceback, also while the package and its libraries are imported."""

from __future__ import annotations

from runlake_signals import run_process


def main() -> None:
    """Run the command line, in a process of its own."""
    run_process(_run)


def _run() -> None:
    from runlake.__main__ import main as run  # imports click and more, for some hundredths of a second

    run()


if __name__ == "__main__":
    main()
