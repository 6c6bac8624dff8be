"""AWS credentials as botocore finds them on this machine: variables, web identity, SSO, profiles, container, instance.

botocore is an extra, and imported by the first request that is signed. It renews credentials before they expire.
"""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass, field
from typing import Any

from runlake.errors import RunlakeError, SettingsError, UnavailableError, advise

WHOSE = "`aws sts get-caller-identity` shows whose credentials these are"
_BOUNDS: dict[str, Any] = {"connect_timeout": 5, "read_timeout": 20, "retries": {"total_max_attempts": 2}}
"""Of requests to STS and IAM Identity Center: with botocore's own, one that gets no answer takes five minutes."""
_SERVER_ERROR = 500
_PRINTABLE = re.compile(r"[!-~]+")


@dataclass(frozen=True)
class Keys:
    """Credentials at one time."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)


class Chain:
    """The credentials of a process: read once, and again after AWS refused them as expired."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._session: Any = None
        self._credentials: Any = None
        self._used = ""  # the access key

    @property
    def source(self) -> str:
        """Where botocore found them, as ``env`` or ``iam-role``; "" before they are read."""
        return str(getattr(self._credentials, "method", ""))

    def keys(self) -> Keys:
        """Credentials that hold now. Raises SettingsError, UnavailableError."""
        with self._lock:
            credentials = self._credentials or self._read()
        try:
            frozen = credentials.get_frozen_credentials()  # botocore renews them
        except Exception as error:
            raise _unreadable(error) from error
        keys = Keys(frozen.access_key, frozen.secret_key, frozen.token or "")
        if not all(_PRINTABLE.fullmatch(each) for each in (keys.access_key, keys.secret_key, keys.session_token or "-")):
            raise SettingsError(
                f"the AWS credentials are empty, or have spaces, line breaks or letters beyond ASCII credentials={self.source}",
                next_step="set them again, without what a copy brought along",
            )
        self._used = keys.access_key
        return keys

    def newer_keys(self, refused: str) -> Keys:
        """Credentials after those with this access key were refused as expired: read again, unless another thread did so. Raises SettingsError,
        UnavailableError."""
        with self._lock:
            if self._used == refused:
                self._credentials = None
        return self.keys()

    def region(self) -> str:
        """The region of the environment, or of the profile; "" if none is set."""
        return os.environ.get("AWS_REGION") or str(self._session.get_config_variable("region") or "")

    def _read(self) -> Any:
        import_for_requests()
        from botocore.config import Config
        from botocore.session import Session

        try:
            self._session = Session()
            self._session.set_default_client_config(Config(**_BOUNDS))
            self._credentials = self._session.get_credentials()
        except Exception as error:
            raise _unreadable(error) from error
        if self._credentials is None:
            raise SettingsError(
                "requests to this address are signed, and there are no AWS credentials",
                next_step="give the job a role, or run `aws sso login` and set AWS_PROFILE",
            )
        return self._credentials


def import_for_requests() -> None:
    """Import botocore, as before a fork. Raises SettingsError if it is not installed."""
    try:
        import botocore.session  # noqa: F401
    except ImportError as error:
        raise SettingsError(
            f"requests to this address are signed with AWS credentials, which needs botocore: {error}",
            next_step="run `pip install botocore`, with the Python of this command",
        ) from error


_chains: dict[int, Chain] = {}
"""By process: locks of a parent are not usable in its forked children."""


def chain_of_process() -> Chain:
    """That of this process."""
    return _chains.setdefault(os.getpid(), Chain())


def _unreadable(error: Exception) -> RunlakeError:
    """For any error of botocore: one line, and the next step."""
    import botocore.exceptions as errors

    message = f"the AWS credentials cannot be read: {one_line(str(error)) or type(error).__name__}"
    if (
        isinstance(error, (errors.HTTPClientError, errors.ConnectionError))
        or _status_of(error) >= _SERVER_ERROR
        or "Throttl" in message
    ):
        away = UnavailableError(message)
        advise(away, "repeat it, or check the way to where they are from: STS, IAM Identity Center, or the host's metadata")
        return away
    if type(error).__name__.startswith(("SSO", "UnauthorizedSSO", "TokenRetrieval", "Login")):
        return SettingsError(message, next_step="run `aws sso login`, or `aws login`, for the profile of AWS")
    if isinstance(error, errors.ProfileNotFound):
        return SettingsError(message, next_step="correct AWS_PROFILE, or add the profile to ~/.aws/config")
    return SettingsError(message, next_step=f"check them: {WHOSE}")


def _status_of(error: Exception) -> int:
    """Of the response of STS or IAM Identity Center; 0 for another error."""
    return int(getattr(error, "response", {}).get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def one_line(text: str) -> str:
    """A text without line breaks."""
    return " ".join(text.split())
