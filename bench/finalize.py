"""Finalize one run in this process and print its peak memory in KiB and the log's size: the memory that the scheduled function
needs."""

from __future__ import annotations

import resource
import sys


def main() -> None:
    """Arguments: FQN and run id; the environment names bucket and tables."""
    import app  # noqa: F401 (what a function has loaded counts too)
    from chalicelib import composition
    from chalicelib.deadline import Deadline
    from chalicelib.ports import Run

    services = composition.services()
    done = services.finalizer.finalize(Run(*sys.argv[1:3]), Deadline(services.clock))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, done.bytes)


if __name__ == "__main__":
    main()
