"""How a run ended, as its client reports it when it closes the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from runlake.starts import plausible_age_ms

SUCCEEDED, FAILED, CANCELLED = "succeeded", "failed", "cancelled"
_EXCEPTION_CHARS, _STEP_CHARS = 2_000, 200


@dataclass(frozen=True)
class RunEnd:
    """``outcome``: succeeded, failed or cancelled; the reason, as far as it applies: ``exit_code``, ``signal``, ``exception``, ``step``.
    ``lost_lines``: lines that could not be stored. ``ended_ms``: when it ended, by this machine's clock: when this object was created."""

    outcome: str
    exit_code: int | None = None
    signal: str = ""
    exception: str = ""
    step: str = ""
    lost_lines: int = 0
    ended_ms: int = field(default_factory=lambda: int(time.time() * 1000), compare=False)

    @classmethod
    def of_exception(cls, error: BaseException | None, step: str, mask: Callable[[str], str]) -> RunEnd:
        """The end of a block of code. ``SystemExit`` gives its exit code, ``KeyboardInterrupt`` a cancellation. ``mask`` replaces secrets before the
        text is cut to the archive's limit."""
        if error is None:
            return cls(SUCCEEDED)
        if isinstance(error, SystemExit):
            code = exit_status(error)
            reason = mask(error.code)[:_EXCEPTION_CHARS] if isinstance(error.code, str) else ""
            return cls(FAILED if code else SUCCEEDED, exit_code=code, exception=reason, step=step[:_STEP_CHARS] if code else "")
        if isinstance(error, KeyboardInterrupt):
            return cls(CANCELLED, step=step[:_STEP_CHARS])
        import traceback

        text = mask("".join(traceback.format_exception_only(error)).strip())
        return cls(FAILED, exception=text[:_EXCEPTION_CHARS], step=step[:_STEP_CHARS])

    def with_lost(self, lines: int) -> RunEnd:
        """The same with the number of lines that could not be stored."""
        return replace(self, lost_lines=lines)

    def without_details(self) -> RunEnd:
        """The end without the details, for an archive that refuses them."""
        return RunEnd(self.outcome, lost_lines=self.lost_lines, ended_ms=self.ended_ms)

    def body(self) -> dict[str, Any]:
        """The request's body. It has the time since the end, not the time: a wrong clock does no harm."""
        age_ms = int(time.time() * 1000) - self.ended_ms
        return self._facts() | {"ageMs": plausible_age_ms(age_ms)}

    def document(self) -> dict[str, Any]:
        """The JSON that is stored on disk."""
        return self._facts() | {"endedMs": self.ended_ms}

    def _facts(self) -> dict[str, Any]:
        code = {} if self.exit_code is None else {"exitCode": self.exit_code}
        texts = {"signal": self.signal, "exception": self.exception, "step": self.step}
        lost = {"lostLines": self.lost_lines} if self.lost_lines else {}
        return {"outcome": self.outcome, **code, **{name: text for name, text in texts.items() if text}, **lost}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> RunEnd:
        """The inverse of ``document``. Raises LookupError."""
        return cls(
            document["outcome"],
            document.get("exitCode"),
            document.get("signal", ""),
            document.get("exception", ""),
            document.get("step", ""),
            document.get("lostLines", 0),
            int(document["endedMs"]),
        )


def is_failure(error: BaseException | None) -> bool:
    """Whether a block of code that ended by this exception failed: ``sys.exit(0)`` is not a failure."""
    return error is not None and not (isinstance(error, SystemExit) and exit_status(error) == 0)


def exit_status(error: SystemExit) -> int:
    """The exit status of a process that ends by this exception, 0 to 255: the interpreter takes the low byte of an integer, and -1 for one of
    more than 64 bits."""
    code = error.code
    if not isinstance(code, int):
        return 0 if code is None else 1
    return int(code) & 0xFF if -(2**63) <= code < 2**63 else 0xFF
