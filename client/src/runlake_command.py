"""The entry point of the command: an interrupt prints no traceback, also while the package and its libraries are imported."""

from __future__ import annotations

import sys

from runlake_signals import leave_process_1


def main() -> None:
    """Run the command line. Exits with 130 after an interrupt that it does not handle itself."""
    try:
        leave_process_1()
        from runlake.__main__ import main as run  # imports httpx, click and more, for some tenths of a second

        run()
    except KeyboardInterrupt:
        sys.stderr.write("runlake: interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
