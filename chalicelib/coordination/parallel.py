"""Requests beside each other, a bounded number at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

THREADS = 8
Item = TypeVar("Item")
Answer = TypeVar("Answer")


def in_parallel(call: Callable[[Item], Answer], items: Iterable[Item], threads: int = THREADS) -> list[Answer]:
    """The answers in order. After the first error no further call begins; those that run end; then it is raised."""
    todo: Sequence[Item] = list(items)
    if len(todo) <= 1:
        return [call(item) for item in todo]
    with ThreadPoolExecutor(min(threads, len(todo))) as pool:
        futures = [pool.submit(call, item) for item in todo]
        _, pending = wait(futures, return_when=FIRST_EXCEPTION)
        for future in pending:
            future.cancel()
    failed = [future for future in futures if not future.cancelled() and future.exception()]
    return [future.result() for future in failed or futures]
