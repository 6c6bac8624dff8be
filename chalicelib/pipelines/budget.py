"""How many errors a handler may have before it is given up: more than so many in so many seconds."""

from __future__ import annotations

from collections import Counter, deque

from chalicelib.pipelines.configuration import Errors


class ErrorBudget:
    """Of one pipeline, by handler. ``total``: errors since it was made. Keeps ``max`` times a handler."""

    def __init__(self, errors: Errors) -> None:
        self._errors = errors
        self._times: dict[str, deque[int]] = {}
        self.total: Counter[str] = Counter()

    def spend(self, handler: str, now_ms: int) -> bool:
        """Count an error. Whether that is more than the budget holds."""
        self.total[handler] += 1
        times = self._times.setdefault(handler, deque(maxlen=self._errors.max + 1))
        times.append(now_ms)
        return len(times) > self._errors.max and now_ms - times[0] < self._errors.window_s * 1000
