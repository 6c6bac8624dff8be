"""Threads of generators that read ahead of their consumers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor


class ReadAhead(ThreadPoolExecutor):
    """Ends without waiting: reads that have not begun are cancelled, and others end by themselves. Garbage collection, which runs in any
    thread, may close a generator in one of its own threads, which cannot wait for itself. Not for writes."""

    def __exit__(self, *_: object) -> None:
        self.shutdown(wait=False, cancel_futures=True)
