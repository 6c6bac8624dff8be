"""Log browsers of other packages: entry points that declare the version of the protocol that they implement.

An entry point is a factory (``registry.BrowserFactory``) with an attribute ``RUNLAKE_PROTOCOL = 1``, or in a module that has
it. One that cannot be loaded, implements another version, or raises when it is called, is replaced by a fallback and reported; it
stops no function.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from chalicelib.errors import UnavailableError

PROTOCOL = 1
"""The version of ``events.ports.LogBrowser``. It grows when an implementation would have to change."""
_DECLARATION = "RUNLAKE_PROTOCOL"


@dataclass(frozen=True, slots=True)
class PluginState:
    """A plugin in ``GET /v1/configuration``. ``protocol``: the version that it declares; None: none, or it cannot be loaded. ``fallback``: used
    in its place because of ``problem``."""

    kind: str
    name: str
    protocol: int | None
    problem: str | None = None
    fallback: str | None = None

    def document(self) -> dict[str, Any]:
        """See ``routes.events_models``."""
        return asdict(self)


class Plugin:
    """An entry point, loaded on first use."""

    def __init__(self, point: EntryPoint) -> None:
        self._point = point
        self._failure: str | None = None

    def create(self, *arguments: Any) -> Any:
        """What the factory returns; None if it cannot be used or raises, which ``problem`` then states. Each call tries again. Raises
        UnavailableError if the factory does: another try may succeed, and a fallback would miss what is stored elsewhere."""
        factory = self._loaded[0]
        if factory is None:
            return None
        try:
            made = factory(*arguments)
        except UnavailableError:
            raise
        except (Exception, SystemExit) as error:
            self._failure = f"raises when it is called error={type(error).__name__}"
            return None
        self._failure = None if made is not None else "returns nothing when it is called"
        return made

    @property
    def protocol(self) -> int | None:
        """The declared version."""
        return self._loaded[1]

    @property
    def problem(self) -> str | None:
        """Why it cannot be used, or why the last call failed; None: it can."""
        return self._loaded[2] or self._failure

    @cached_property
    def _loaded(self) -> tuple[Callable[..., Any] | None, int | None, str | None]:
        try:
            factory = self._point.load()
        except (Exception, SystemExit) as error:
            # Code of another package. Its message may quote anything, so only its type is reported.
            return None, None, f"cannot be loaded error={type(error).__name__}"
        protocol = getattr(factory, _DECLARATION, getattr(sys.modules.get(getattr(factory, "__module__", "")), _DECLARATION, None))
        if not isinstance(protocol, int) or isinstance(protocol, bool):
            return None, None, f"declares no version of the protocol attribute={_DECLARATION}"
        if protocol != PROTOCOL:
            return None, protocol, f"implements another version of the protocol version={protocol} supported={PROTOCOL}"
        return factory, protocol, None


def installed(group: str) -> Mapping[str, Plugin]:
    """The entry points of a group by name. Loads none."""
    return {point.name: Plugin(point) for point in entry_points(group=group)}
