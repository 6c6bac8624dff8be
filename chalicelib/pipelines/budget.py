"""The error budget of a handler: the handler is disabled after more than ``max`` errors in ``window_s`` seconds."""

from __future__ import annotations

from collections import Counter, deque

from chalicelib.pipelines.configuration import Errors


class ErrorBudget:
    """The budgets of one pipeline's handlers. ``total``: errors since construction. Keeps ``max`` + 1 times per handler."""

    def __init__(self, errors: Errors) -> None:
        self._errors = errors
        self._times: dict[str, deque[int]] = {}
        self.total: Counter[str] = Counter()

    def spend(self, handler: str, now_ms: int) -> bool:
        """Count an error. Returns whether the budget is exceeded."""
        self.total[handler] += 1
        times = self._times.setdefault(handler, deque(maxlen=self._errors.max + 1))
        times.append(now_ms)
        return len(times) > self._errors.max and now_ms - times[0] < self._errors.window_s * 1000
