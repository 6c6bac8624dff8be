"""The error budget of a handler: the handler is disabled after more than ``max`` errors in ``window_s`` seconds."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping

from chalicelib.pipelines.configuration import Errors


class ErrorBudget:
    """The budgets of one pipeline's handlers. ``own``: of handlers with their own limits. ``total``: errors since construction. Keeps
    ``max`` + 1 times per handler."""

    def __init__(self, errors: Errors, own: Mapping[str, Errors] | None = None) -> None:
        self._errors, self._own = errors, own or {}
        self._times: dict[str, deque[int]] = {}
        self.total: Counter[str] = Counter()

    def spend(self, handler: str, now_ms: int) -> bool:
        """Count an error. Returns whether the budget is exceeded."""
        errors = self._own.get(handler, self._errors)
        self.total[handler] += 1
        times = self._times.setdefault(handler, deque(maxlen=errors.max + 1))
        times.append(now_ms)
        return len(times) > errors.max and now_ms - times[0] < errors.window_s * 1000
