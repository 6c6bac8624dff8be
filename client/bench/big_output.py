"""``runlake exec`` of a command that writes 1 GiB: duration and peak memory. ``--gib 0.1`` writes less."""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time

from client.bench.sink import facts_of, running_sink

_WRITER = """
import sys
block = b''.join(b'%010d 2026-11-21 10:00:00.000 INFO load: row %d of a table that is loaded\\n' % (n, n * 7919) for n in range(16384))
left = int(sys.argv[1])
while left > 0:
    left -= sys.stdout.buffer.write(block[:left])
"""


def main() -> int:
    """Exit code 1 if a byte is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=1.0)
    size = int(parser.parse_args().gib * (1 << 30))
    with running_sink() as url, tempfile.TemporaryDirectory() as spool:
        environ = {**os.environ, "RUNLAKE_URL": url, "RUNLAKE_SPOOL_DIR": spool}
        started_s = time.perf_counter()
        command = [sys.executable, "-m", "runlake", "exec", "-q", "p", "--", sys.executable, "-c", _WRITER, str(size)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environ)
        assert process.stdout is not None
        seen, seen_bytes, last = hashlib.sha256(), 0, b""
        while block := process.stdout.read(1 << 20):
            seen.update(block)
            seen_bytes, last = seen_bytes + len(block), block[-1:]
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        lasted_s = time.perf_counter() - started_s
        found = facts_of(url)
    extra = 0 if last == b"\n" else 1
    end_bytes = found["bytes"] - seen_bytes - extra
    whole = 0 < end_bytes < 100 and process.returncode == 0
    print(f"exec: {seen_bytes} bytes in {lasted_s:.1f} s, {seen_bytes / lasted_s / 1e6:.0f} MB/s; archived {found['bytes']} bytes")
    cpu_s = usage.ru_utime + usage.ru_stime
    print(f"in {found['requests']} requests; CPU {cpu_s:.1f} s; most memory {usage.ru_maxrss / 1024:.0f} MiB; whole: {whole}")
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
