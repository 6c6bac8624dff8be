"""Cost of small bodies: each is handled in its own process, forked from an idle one.

Memory is the peak growth of that process's resident set, CPU time is in units of a calibration loop, and work is counted by the
request's allowance, the bytes searched for secrets, and the items in the response.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import random
import resource
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any
from unittest import mock

from chalicelib.masking.mask import Masked
from chalicelib.masking.masker import Masker
from chalicelib.masking.shapes import SHAPES as SECRETS
from chalicelib.routes import bodies
from chalicelib.routes.allowance import Allowance
from tests.functional.gateway import Answer, Context, call, installed
from tests.fuzz.shapes import BODY_BYTES, SHAPES, Shape, mutated
from tests.world import World

MIB = 1024 * 1024
MAX_MEMORY_BYTES = 64 * MIB
MAX_MASKED_BYTES = 16 * MIB
MAX_CPU_S = 4.0
MAX_CPU_UNITS = 400.0
"""``MAX_CPU_S`` where a unit takes 10 ms."""
_MASKING = json.dumps([{"fqn": "*", "shapes": list(SECRETS), "values": ["hush-hush-hush"]}])
_MAXRSS_BYTES = 1024
_PATIENCE_MS = 600_000
"""Deadline of a request; so long that it does not end costly ones."""


@dataclass(frozen=True)
class Cost:
    """``expanded_bytes``, ``values``, ``members``, ``shared_bytes``: counted against the allowance. ``masked_bytes``: bytes
    searched for secrets, repeated searches included. ``items``: items in the response."""

    status: int
    body_bytes: int
    response_bytes: int
    items: int
    expanded_bytes: int
    values: int
    members: int
    shared_bytes: int
    masked_bytes: int
    memory_bytes: int
    cpu_s: float


class Meter:
    """Measures shapes in fresh processes. ``workers``: how many at a time."""

    def __init__(self, workers: int = 1) -> None:
        self._pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_prepare)

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def costs(self, shapes: Iterable[Shape]) -> Iterator[Cost]:
        """The cost of each shape, in order."""
        return self._pool.map(_cost, ((shape, shape.body()) for shape in shapes))

    def unit_s(self) -> float:
        """CPU seconds of one unit of the calibration loop, on this machine now."""
        return self._pool.submit(unit_s).result()


def excess(shape: Shape, cost: Cost) -> list[str]:
    """Limits of counted work and of memory that a body exceeds; ignores CPU time."""
    budget = shape.request.budget
    size = min(cost.body_bytes, BODY_BYTES)
    limits = {
        "body_bytes": BODY_BYTES,
        "expanded_bytes": budget.expanded_bytes.of(size),
        "values": budget.values.of(size),
        "members": budget.members,
        "shared_bytes": budget.shared_bytes.of(size),
        "items": budget.items.of(size),
        "masked_bytes": MAX_MASKED_BYTES,
        "memory_bytes": MAX_MEMORY_BYTES,
        "response_bytes": budget.response_bytes,
        "status": 499,
    }
    return [f"{name}={getattr(cost, name):,} limit={limit:,}" for name, limit in limits.items() if getattr(cost, name) > limit]


def search(seed: int, count: int, workers: int) -> Iterator[tuple[str, Shape, Cost, float, list[str]]]:
    """Bodies mutated from the corpus: name, shape, cost, units of CPU, and exceeded limits. The same seed tries the same bodies."""
    with Meter(workers) as meter:
        unit_s = meter.unit_s()
        some = islice(mutated(random.Random(seed)), count)
        while chunk := list(islice(some, 100)):
            for (name, shape), cost in zip(chunk, meter.costs([each for _, each in chunk]), strict=True):
                units = cost.cpu_s / unit_s
                slow = [f"cpu_units={units:.0f} limit={MAX_CPU_UNITS:.0f}"] if units > MAX_CPU_UNITS else []
                yield name, shape, cost, units, excess(shape, cost) + slow


class _Counted(Allowance):
    made: list[tuple[_Counted, tuple[int, ...]]] = []  # noqa: RUF012

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.made.append((self, self._left()))

    def _left(self) -> tuple[int, ...]:
        return self._bytes_left, self._values_left, max(self._members_left, 0), max(self._shared_bytes_left, 0)

    @classmethod
    def spent(cls) -> tuple[int, ...]:
        """Bytes, values, members and shared bytes of all allowances."""
        pairs = [zip(begun, allowance._left(), strict=True) for allowance, begun in cls.made]
        return tuple(sum(begun - left for begun, left in column) for column in zip(*pairs, strict=True)) or (0, 0, 0, 0)


def _prepare() -> None:
    """Import everything that requests import, so that no request is charged for it. Discards the logs of requests."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    for shape in SHAPES.values():
        with installed(World(), masking=_MASKING):
            small = shape.small()
            call("POST", small.request.url, small.body(), small.headers())


def _cost(request: tuple[Shape, bytes]) -> Cost:
    """Handled in a fork, so that the cost is independent of earlier bodies."""
    source, target = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(source)
            with os.fdopen(target, "wb") as pipe:
                pickle.dump(_measured(*request), pipe)
        finally:
            os._exit(0)
    os.close(target)
    with os.fdopen(source, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    if not answer:
        raise AssertionError(f"the process of a body ended without a result shape={request[0]!r}")
    cost: Cost = pickle.loads(answer)
    return cost


def _measured(shape: Shape, body: bytes) -> Cost:
    masked_bytes, mask = 0, Masker.mask

    def counted(masker: Masker, fqn: str, text: bytes, **options: bool) -> Masked:
        nonlocal masked_bytes
        masked_bytes += len(text)
        return mask(masker, fqn, text, **options)

    patches = mock.patch.object(bodies, "Allowance", _Counted), mock.patch.object(Masker, "mask", counted)
    with installed(World(), masking=_MASKING), patches[0], patches[1]:
        call("GET", "/v1/health")
        _Counted.made.clear()
        resident, begun_s = _resident_bytes(), time.process_time()
        answer = call("POST", shape.request.url, body, shape.headers(), Context(remaining_ms=_PATIENCE_MS))
        cpu_s, memory = time.process_time() - begun_s, _resident_bytes() - resident
    counts = (len(body), len(answer.body), _items(answer), *_Counted.spent(), masked_bytes)
    return Cost(answer.status, *counts, memory_bytes=memory, cpu_s=cpu_s)


def _resident_bytes() -> int:
    """Peak resident set of this process so far; right after a fork, its current one."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_BYTES


def _items(answer: Answer) -> int:
    document = json.loads(answer.body) if answer.body.startswith("{") else {}
    return sum(_count(document.get(name, 0)) for name in ("accepted", "refused", "items"))


def _count(value: Mapping[str, Any] | list[Any] | int) -> int:
    return value if isinstance(value, int) else len(value)


def unit_s() -> float:
    """CPU seconds of one unit of the calibration loop in this process."""
    text = json.dumps([{"a": number, "b": "x" * 20} for number in range(400)])
    best = float("inf")
    for _ in range(5):
        begun_s = time.process_time()
        for _ in range(36):
            sum(len(each["b"]) for each in json.loads(text))
            json.dumps(json.loads(text))
        best = min(best, time.process_time() - begun_s)
    return best
