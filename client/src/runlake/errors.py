"""What can go wrong, by what the caller does next.

RunlakeError
├── SettingsError        fix the settings: an address is missing, a token's command fails
├── ApiError             the server answered, and said no
│   ├── AccessError      get a token, or a scope (401, 403)
│   ├── NotFoundError    check the name (404)
│   │   └── AddressError the server is not Runlake: fix the address
│   ├── RunClosedError   write to the next attempt (409): nothing was stored
│   └── RefusedError     fix the request (other 4xx)
│       └── AttemptTakenError  leave the number of the attempt out
├── UnavailableError     repeat it: the very same append is stored once (no answer, 5xx)
├── IncompleteError      what was fetched is not what the archive has
└── LeftoverError        what waits on disk cannot be read: discard it, or look at it
"""

from __future__ import annotations


class RunlakeError(Exception):
    """The root of all. ``next_step`` tells a person what to do: that of its class, unless a better one is known."""

    next_step = ""

    def __init__(self, message: str = "", *, next_step: str | None = None) -> None:
        super().__init__(message)
        if next_step is not None:
            self.next_step = next_step


class SettingsError(RunlakeError):
    """Something is not set, or cannot be read."""

    next_step = "see `runlake config` for what is set, and where"


class ApiError(RunlakeError):
    """An answer other than 2xx. ``status`` is its code, the text is the server's message."""

    def __init__(self, status: int, message: str, *, next_step: str | None = None) -> None:
        super().__init__(message, next_step=next_step)
        self.status = status


class AccessError(ApiError):
    """No token, one that does not hold, or one without the scope."""

    next_step = "set a token (--token-file, RUNLAKE_TOKEN), or ask the operator for the scope"


class NotFoundError(ApiError):
    """There is no such path or run."""

    next_step = "check the names with `runlake pipelines` and `runlake runs FQN`"


class AddressError(NotFoundError):
    """Something answers at the address, and it is not Runlake's API."""

    next_step = "check the path of the url: it ends with the stage, as https://host/api; `runlake config` shows it"


class RunClosedError(ApiError):
    """The run takes no more lines."""

    next_step = "begin another run: a closed one stays as it is"


class RefusedError(ApiError):
    """A request that can never work."""

    next_step = "correct what the message names"


class AttemptTakenError(RefusedError):
    """The attempt that was asked for by its number is another process's, or cannot be started."""

    next_step = "leave the number out (--attempt, RUNLAKE_ATTEMPT): the archive takes the next free one"


class UnavailableError(RunlakeError):
    """No answer, or one that says to try again. What was asked may have happened. ``retry_after_s`` is the server's wish."""

    next_step = "is the server up, and the address right? `runlake config` shows it"

    def __init__(self, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class LeftoverError(RunlakeError):
    """A folder of lines that wait on disk is damaged."""

    next_step = "look into the folder, or give it up with `runlake drain --discard`"


class IncompleteError(RunlakeError):
    """Fewer or other bytes than the archive says there are."""

    next_step = "run the download again: it begins anew"
