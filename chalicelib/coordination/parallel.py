"""Requests beside each other, a bounded number at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TypeVar

THREADS = 8
Item = TypeVar("Item")
Answer = TypeVar("Answer")


def in_parallel(call: Callable[[Item], Answer], items: Iterable[Item], threads: int = THREADS) -> list[Answer]:
    """The answers in order. After the first error no further call begins; those that run end; then it is raised."""
    todo = list(items)
    if len(todo) <= 1:
        return [call(item) for item in todo]
    answers: dict[int, Answer] = {}
    errors: list[BaseException] = []
    failed = Event()

    def one(number: int) -> None:
        if failed.is_set():
            return
        try:
            answers[number] = call(todo[number])
        except BaseException as error:
            errors.append(error)
            failed.set()

    with ThreadPoolExecutor(min(threads, len(todo))) as pool:
        list(pool.map(one, range(len(todo))))
    if errors:
        raise errors[0]
    return [answers[number] for number in range(len(todo))]
