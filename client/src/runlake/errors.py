"""The errors of this package, grouped by the caller's next move.

RunlakeError
├── SettingsError        fix the settings: an address is missing, a token's command fails
├── LoginError           log in again: the issuer, or the person, refused, or the answer is not valid
├── ApiError             the server rejected the request
│   ├── AccessError      get a token, or a scope (401, 403)
│   ├── NotFoundError    check the name (404)
│   │   └── AddressError the server is not Runlake: fix the address
│   ├── RunClosedError   write to the next attempt (409): nothing was stored
│   ├── RunDeletedError  drop the lines (410): the run was deleted on purpose
│   └── RefusedError     fix the request (other 4xx)
│       ├── AttemptTakenError  omit the number of the attempt
│       └── MethodRefusedError correct the run's logging method, or the archive's log browser
├── UnavailableError     repeat it: the same append is stored once (no response, 5xx)
│   ├── ForeignAnswerError   fix the address, or the proxy: a response is not Runlake's
│   └── MethodUnavailableError  repeat it: the system to which a logging method writes is away
├── IncompleteError      the bytes differ from those of the archive, or from the announced ones
├── TargetError          choose another file name
│   └── NoAddressError   omit it: the API has no address of this file
└── LeftoverError        lines on disk cannot be read: discard them, or inspect them
"""

from __future__ import annotations


class RunlakeError(Exception):
    """The root. ``next_step`` is advice for a person: that of the class, or a more specific one."""

    next_step = ""

    def __init__(self, message: str = "", *, next_step: str | None = None) -> None:
        super().__init__(message)
        if next_step is not None:
            self.next_step = next_step


def advise(error: BaseException, next_step: str) -> None:
    """Give an error this next step; one of Python's, such as a KeyboardInterrupt, gets it as a note."""
    if isinstance(error, RunlakeError):
        error.next_step = next_step
    else:
        error.__notes__ = [*getattr(error, "__notes__", ()), next_step]


class SettingsError(RunlakeError):
    """A setting is missing, invalid or unreadable."""

    next_step = "see `runlake config` for what is set, and where"


class LoginError(RunlakeError):
    """A login failed: nobody is logged in."""

    next_step = "log in again with `runlake login`; if the error persists, contact the operator"


class ApiError(RunlakeError):
    """A response other than 2xx. ``status`` is its code, the text is the server's message."""

    def __init__(self, status: int, message: str, *, next_step: str | None = None) -> None:
        super().__init__(message, next_step=next_step)
        self.status = status


class AccessError(ApiError):
    """A missing or invalid token, or one without the scope."""

    next_step = "log in with `runlake login`, set a token (--token-file, RUNLAKE_TOKEN), or ask the operator for the scope"


class NotFoundError(ApiError):
    """The path or run does not exist."""

    next_step = "check the names with `runlake pipelines` and `runlake runs FQN`"


class AddressError(NotFoundError):
    """The server at the address is not Runlake's API."""

    next_step = "check the path of the url: it ends with the stage, as https://host/api; `runlake config` shows it"


class RunClosedError(ApiError):
    """The run accepts no more lines."""

    next_step = "start another run: a closed one cannot change"


class RunDeletedError(ApiError):
    """The run was deleted on purpose: nothing of it can be read or stored again."""

    next_step = "start another run: the name of a deleted one stays taken"


class RefusedError(ApiError):
    """A request that the archive will never accept."""

    next_step = "correct what the message names"


class AttemptTakenError(RefusedError):
    """The requested attempt number belongs to another process, or cannot be started."""

    next_step = "leave the number out (--attempt, RUNLAKE_ATTEMPT): the archive takes the next free one"


class MethodRefusedError(RefusedError):
    """The archive refuses to start a run with another logging method than the run log: it could not find the events."""

    next_step = "correct what the message names; then `runlake drain` sends what waits"


class UnavailableError(RunlakeError):
    """No response, or one that asks to retry. Outcome unknown. ``retry_after_s``: the wait that the server asked for."""

    next_step = "is the server up, and the address right? `runlake config` shows it"

    def __init__(self, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ForeignAnswerError(UnavailableError):
    """A response of another server, such as a proxy's login page. Nothing was stored; only a person can change it."""

    next_step = "is the address Runlake's, and ends with the stage (https://host/api)? is there a proxy in between?"


class MethodUnavailableError(UnavailableError):
    """The system to which a logging method writes gave no response, or one that asks to retry."""

    next_step = "is the target up, and its address and credentials right? events wait meanwhile"


class LeftoverError(RunlakeError):
    """A folder of lines on disk is damaged."""

    next_step = "inspect the folder, or delete it with `runlake drain --discard`"


class IncompleteError(RunlakeError):
    """The bytes or lines differ from the archive's counts or hash."""

    next_step = "run the download again: it starts from the beginning"


class TargetError(RunlakeError):
    """A fetched file cannot have this name: another file has it, or its template is wrong."""

    next_step = "name another file with --filename-template"


class NoAddressError(TargetError):
    """A name, such as a line of a list, that leads to no file over the API."""
