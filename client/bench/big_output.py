"""``runlake exec`` of a command that writes 1 GiB, beside the same command into ``cat``: duration and peak memory.

``--gib 0.1`` writes less, ``--lag-ms 100`` makes each response later, ``--away`` has no archive: all lines go to a spool of 2 GiB.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from client.bench.sink import facts_of, running_sink

_WRITER = """
import sys
block = b''.join(b'%010d 2026-11-21 10:00:00.000 INFO load: row %d of a table that is loaded\\n' % (n, n * 7919) for n in range(16384))
left = int(sys.argv[1])
while left > 0:
    left -= sys.stdout.buffer.write(block[:left])
"""
_AWAY = "http://127.0.0.1:1/api"


@dataclass(frozen=True, slots=True)
class Output:
    """What a command wrote to its stdout, in ``seconds``; the peak memory and the CPU of the process that was started."""

    bytes: int
    sha256: str
    ends_line: bool
    seconds: float
    code: int
    memory_mib: float
    cpu_s: float


def output_of(command: list[str], environ: dict[str, str]) -> Output:
    """Run a command, and read all that it writes."""
    started_s = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environ)
    assert process.stdout is not None
    seen, size, last = hashlib.sha256(), 0, b""
    while block := process.stdout.read(1 << 20):
        seen.update(block)
        size, last = size + len(block), block[-1:]
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    seconds, cpu_s = time.perf_counter() - started_s, usage.ru_utime + usage.ru_stime
    return Output(size, seen.hexdigest(), last == b"\n", seconds, process.returncode, usage.ru_maxrss / 1024, cpu_s)


def measured(size: int, lag_ms: int, *, is_away: bool) -> tuple[Output, Output, dict[str, Any]]:
    """``cat``, ``exec``, and the sink's totals (of an archive that is away: none)."""
    writer = [sys.executable, "-c", _WRITER, str(size)]
    with nullcontext(_AWAY) if is_away else running_sink(lag_ms) as url, tempfile.TemporaryDirectory() as spool:
        environ = {**os.environ, "RUNLAKE_URL": url, "RUNLAKE_SPOOL_DIR": spool, "RUNLAKE_SPOOL_BYTES": str(2 << 30)}
        quoted = " ".join(f"'{word}'" for word in [*writer[:2], "", writer[3]])
        environ["WRITER"] = _WRITER
        piped = output_of(["sh", "-c", quoted.replace("''", '"$WRITER"') + " | cat"], environ)
        command = [sys.executable, "-m", "runlake", "exec", "-q", "--patience", "0", "p", "--", *writer]
        archived = output_of(command if is_away else [word for word in command if word not in ("--patience", "0")], environ)
        return piped, archived, {} if is_away else facts_of(url)


def main() -> int:
    """Exit code 1 if a byte is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--lag-ms", type=int, default=0)
    parser.add_argument("--away", action="store_true")
    options = parser.parse_args()
    piped, archived, stored = measured(int(options.gib * (1 << 30)), options.lag_ms, is_away=options.away)
    is_whole = archived.code == 0 and archived.sha256 == piped.sha256
    ratio = archived.seconds / piped.seconds
    print(f"cat:  {piped.bytes} bytes in {piped.seconds:.1f} s")
    print(
        f"exec: {archived.bytes} bytes in {archived.seconds:.1f} s, {archived.bytes / archived.seconds / 1e6:.0f} MB/s, {ratio:.2f} times cat"
    )
    print(f"CPU {archived.cpu_s:.1f} s; most memory {archived.memory_mib:.0f} MiB")
    if stored:
        ends = stored["bytes"] - archived.bytes - (not archived.ends_line)
        is_whole = is_whole and 0 < ends < 100
        least_s = stored["batches"] * options.lag_ms / 1000 + stored["serverS"]
        print(f"archived {stored['bytes']} bytes in {stored['batches']} batches; the lag and the server alone: {least_s:.1f} s")
    print(f"whole: {is_whole}")
    return 0 if is_whole else 1


if __name__ == "__main__":
    sys.exit(main())
