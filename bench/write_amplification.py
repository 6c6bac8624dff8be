"""Bytes that compaction uploads to S3 over bytes of log, by the shape of a run: small batches in a small log cost the most."""

from __future__ import annotations

from bench.bench_world import MIB, Function
from bench.measure import Measure, reported
from bench.workload import LINE
from chalicelib.deadline import Deadline
from chalicelib.ports import Run
from chalicelib.runlog.batch import Batch

_KIB = 1024
BATCHES_OF_A_TICK = 12
"""A batch every ten seconds, compacted every two minutes."""


def write_amplification(function: Function, sizes: tuple[int, ...] = (256 * _KIB, MIB, 5 * MIB, 20 * MIB)) -> list[Measure]:
    """A run of 4 KiB batches up to several lengths, 12 a tick; and one of 2 MiB batches, compacted after each, up to 200 MiB."""
    large = 40 * max(sizes) if max(sizes) < MIB else 200 * MIB
    ratio = _amplification(function, "large", large, 2 * MIB, 1)[large]
    by_size = _by_size(function, sizes)
    figures = "; ".join(f"{by_size[size]:.1f} at {_named(size)}" for size in sizes)
    return [
        Measure(
            f"bytes uploaded by compaction over bytes of log, 2 MiB a tick, {_named(large)}",
            "at most 1.2",
            f"{ratio:.3f}",
            ratio <= 1.2,
        ),
        reported(f"the same in batches of 4 KiB, {BATCHES_OF_A_TICK} a tick", figures),
    ]


def _by_size(function: Function, sizes: tuple[int, ...]) -> dict[int, float]:
    return _amplification(function, "small", max(sizes), 4 * _KIB, BATCHES_OF_A_TICK, sizes)


def _amplification(
    function: Function, name: str, size: int, batch_bytes: int, batches_of_a_tick: int, sizes: tuple[int, ...] = ()
) -> dict[int, float]:
    """Uploaded bytes over bytes of log at each of the sizes."""
    run, position = Run("svc.bench", f"amplification-{name}"), None
    batch = Batch.from_text((LINE * (batch_bytes // len(LINE) + 1))[: batch_bytes - 1] + "\n")
    uploaded = written = number = 0
    ratios: dict[int, float] = {}
    while written < size:
        position = function.services.writer.append(run, batch, position=position).position
        written, number = written + batch_bytes, number + 1
        if number % batches_of_a_tick == 0:
            before = function.requests.uploaded_bytes
            function.services.compactor.compact(run, Deadline(function.services.clock))
            uploaded += function.requests.uploaded_bytes - before
        ratios |= {each: uploaded / written for each in (*sizes, size) if written >= each and each not in ratios}
    return ratios


def _named(size: int) -> str:
    return f"{size // MIB} MiB" if size >= MIB else f"{size // _KIB} KiB"
