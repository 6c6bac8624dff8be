"""Bytes that compaction uploads to S3 over bytes of log."""

from __future__ import annotations

from bench.bench_world import MIB, Function
from bench.measure import Measure
from bench.workload import LINE
from chalicelib.deadline import Deadline
from chalicelib.ports import Run
from chalicelib.runlog.batch import Batch

_BATCH_BYTES = 2 * MIB


def write_amplification(function: Function, size: int = 200 * MIB) -> list[Measure]:
    """A run of 2 MiB batches, compacted after each."""
    run, position = Run("svc.bench", "amplification"), None
    batch = Batch.from_text((LINE * (_BATCH_BYTES // len(LINE) + 1))[: _BATCH_BYTES - 1] + "\n")
    uploaded = 0
    for _ in range(size // _BATCH_BYTES):
        position = function.services.writer.append(run, batch, position=position).position
        before = function.requests.uploaded_bytes
        function.services.compactor.compact(run, Deadline(function.services.clock))
        uploaded += function.requests.uploaded_bytes - before
    ratio = uploaded / size
    what = f"bytes uploaded by compaction over bytes of log, 2 MiB a tick, {size // MIB} MiB"
    return [Measure(what, "at most 1.2", f"{ratio:.3f}", ratio <= 1.2)]
