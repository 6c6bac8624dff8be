"""TLS of all connections of the process. The CA certificates are read for the first one: http does without their 20 ms.

OpenSSL reads them without the interpreter's lock. If the process ended meanwhile, OpenSSL would free what the thread uses, and the process be
killed by SIGSEGV. So the end of the interpreter waits for them. Other calls of OpenSSL are over before its modules are freed.
"""

from __future__ import annotations

import atexit
import os
import threading
from functools import cache
from typing import TYPE_CHECKING, Any

from runlake.errors import UnavailableError

if TYPE_CHECKING:
    import ssl

_reading = threading.RLock()
_ended = threading.Event()


@cache
def context() -> ssl.SSLContext:
    """The context for a client of httpx, without the certificates until a connection needs them."""
    import ssl

    class Deferred(ssl.SSLContext):
        """As ``httpx.create_ssl_context`` makes it, from its use on."""

        def wrap_socket(self, *arguments: Any, **more: Any) -> ssl.SSLSocket:
            return loaded().wrap_socket(*arguments, **more)

        def wrap_bio(self, *arguments: Any, **more: Any) -> ssl.SSLObject:
            return loaded().wrap_bio(*arguments, **more)

    return Deferred(ssl.PROTOCOL_TLS_CLIENT)


def loaded() -> ssl.SSLContext:
    """The context with the certificates. Raises UnavailableError in a thread that the end of the interpreter does not wait for."""
    with _reading:
        if _ended.is_set() and threading.current_thread().daemon:
            raise UnavailableError("the program ends")
        return _loaded()


@cache
def _loaded() -> ssl.SSLContext:
    import httpx

    made = httpx.create_ssl_context()
    made.set_alpn_protocols(["http/1.1"])
    return made


def _end() -> None:
    with _reading:
        _ended.set()


atexit.register(_end)  # when it is imported: then handlers are closed before
os.register_at_fork(before=_reading.acquire, after_in_parent=_reading.release, after_in_child=_reading.release)
