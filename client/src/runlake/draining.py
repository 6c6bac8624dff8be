"""Shipping what dead processes left in their spools: each line once and in order, even if the drain is interrupted.

A drain is a shipper without a program: it resumes from the state of the folder, and records each step there as the program did. It ends the run
only if the program recorded its end, and starts an attempt only if the program had asked for one, or a person does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from runlake.archive import Archive
from runlake.buffer import Buffer, hole_line, no_line
from runlake.deliveries import Delivery, EventDelivery
from runlake.errors import RunlakeError, SettingsError
from runlake.methoddelivery import MethodConnection, MethodDelivery
from runlake.methods import choose_method
from runlake.names import RunName, is_same_address, public_url
from runlake.settings import Settings
from runlake.shipper import Pace, Shipper
from runlake.spool import Spool, claim, folders_in, remove_unfinished
from runlake.spoolstate import SpoolState

_PACE = Pace(interval_s=0)
_MOST_BYTES, _MOST_S, _MOST_FOLDERS = 32 * 1024 * 1024, 30.0, 100
"""Of a drain in the background."""
_MOST_FAILURES = 3
"""One after another: the server is away, or refuses the token."""
_UNFINISHED_S = 7 * 86_400.0
_LIMITS, _LEAST_LIMIT_BYTES = 4, 1024 * 1024 * 1024
"""The size that all folders of dead processes may have together: so many times the limit of one, and not less than this, since other programs have
other limits."""


@dataclass(frozen=True)
class Drained:
    """What became of a folder: lines (or events) stored, refused and put aside, and left; the bytes of those that do not wait any more;
    ``is_done``: it is deleted; else ``reason`` says why not. ``run``: as the folder named it; ``stored_as``: the attempt."""

    url: str
    run: RunName
    stored_as: RunName
    unit: str
    stored: int
    aside: int
    bytes: int
    left: int
    is_done: bool
    reason: str
    notices: tuple[str, ...]


@dataclass(frozen=True)
class Waiting:
    """A folder of a dead process: lines (or events) and bytes that wait, and since when."""

    folder: Path
    state: SpoolState
    lines: int
    bytes: int
    since_ms: int


def waiting_in(folder: Path) -> Waiting | None:
    """What a folder has; None if its writer lives or another drain works on it. Reads all files. Raises LeftoverError, OSError."""
    spool = claim(folder)
    if spool is None:
        return None
    with closing(spool):
        since_ms = int(folder.stat().st_mtime * 1000)
        lines = max(spool.end_line - spool.state.begin_line, 0)
        return Waiting(folder, spool.state, lines, spool.waiting_bytes, since_ms)


def discard(folder: Path) -> bool:
    """Delete a folder with its lines, readable or not; False if its writer lives or another drain works on it. Raises OSError."""
    try:
        spool = claim(folder)
    except RunlakeError:
        spool = Spool(folder.parent, SpoolState("", RunName("", ""), RunName("", ""), ""))
        spool.folder = folder
    if spool is None:
        return False
    spool.remove()
    return True


def drain_folder(
    folder: Path,
    settings: Settings,
    patience_s: float,
    *,
    starts_again: bool = False,
    moved_from: str = "",
    is_over: Callable[[int], bool] = lambda begin: False,
    connect: Callable[[], Archive] | None = None,
) -> Drained | None:
    """Ship a folder; None if its writer lives or another drain works on it. ``starts_again``: lines of a closed run go to its next attempt.
    ``moved_from``: an address whose folders go to that of the settings instead.

    Raises SettingsError for a folder of another server than that of the settings, whose token it must not get; LeftoverError, OSError."""
    spool = claim(folder)
    if spool is None:
        return None
    with closing(spool):
        if moved_from and is_same_address(spool.state.url, moved_from):
            spool.record(url=settings.required_url())
        state = spool.state
        check_address(state, settings)
        notices: list[str] = []
        root = str(folder.parent)
        with _delivery_of(state, settings) as delivery:
            buffer = Buffer.of(spool, no_line if isinstance(state.delivery, EventDelivery) else hole_line)
            connecting = connect or partial(Archive.of, settings, state.url)
            shipper = Shipper(connecting, delivery, buffer, _PACE, notices.append, starts_again=starts_again)
            counts = shipper.ship_remaining(patience_s, is_over)
        reason = spool.state.reason
        is_done = not folder.exists()
        return Drained(
            state.url, state.run, shipper.run, delivery.unit, counts.stored_lines, counts.aside_lines,
            buffer.begin - state.begin, counts.kept_lines, is_done, reason, tuple(text for text in notices if root not in text),
        )  # fmt: skip


def check_address(state: SpoolState, settings: Settings) -> None:
    """Raises SettingsError if the settings have a token, and not the address of the folder's server: the token may belong to another one. A
    signature is of use to the one server alone."""
    has_token = bool(settings.token_form) and settings.signer(state.url) is None
    if has_token and not (settings.url and is_same_address(state.url, settings.url)):
        url = public_url(state.url)
        following = (
            f"give its address and token: --url {url}, or a --profile with it; if it was wrong, see `runlake drain --moved-from`"
        )
        raise SettingsError(f"its lines are for another server: {url}", next_step=following)


class BackgroundDrain:
    """Drains the folders of dead processes for the server of these settings, beside a program that logs: one thread, one folder at a time, 32 MiB
    and 30 s at most, of the 100 oldest folders. Then it bounds what is left: ``report`` gets a message for each folder that is deleted for it."""

    def __init__(self, settings: Settings, report: Callable[[str], object]) -> None:
        self._settings, self._report = settings, report
        self._stopped = threading.Event()

    def start(self) -> None:
        """Start the thread, the first time in this process. A shutting-down interpreter refuses it: then another process drains."""
        global _is_started
        if not _is_started and self._settings.spool_bytes:
            _is_started = True
            with suppress(RuntimeError):
                threading.Thread(target=self.run, name="runlake-drain", daemon=True).start()

    def stop(self) -> None:
        """Stop before the next batch. Does not wait: an interrupted drain loses nothing."""
        self._stopped.set()

    def run(self) -> None:
        """The work of the thread. Never raises: a program must not notice."""
        with suppress(Exception):
            root = self._settings.spool_root
            folders = folders_in(root)
            remove_unfinished(root, _UNFINISHED_S, time.time())
            self._drain(folders[:_MOST_FOLDERS])
            self._bound([folder for folder in folders if folder.exists()])

    def _drain(self, folders: list[Path]) -> None:
        over_s, left_bytes, failures = time.monotonic() + _MOST_S, _MOST_BYTES, 0
        for folder in folders:
            if self._stopped.is_set() or time.monotonic() > over_s or left_bytes <= 0 or failures >= _MOST_FAILURES:
                return
            with suppress(Exception):  # it stays as it is
                state = _state_to_drain(folder, self._settings)
                if state is None:
                    continue
                budget = state.begin + left_bytes
                result = drain_folder(
                    folder, self._settings, 0,
                    is_over=lambda begin, budget=budget: self._stopped.is_set() or time.monotonic() > over_s or begin >= budget,  # type: ignore[misc]
                )  # fmt: skip
                if result is not None:
                    left_bytes -= result.bytes
                    failures = 0 if result.bytes or result.is_done else failures + 1

    def _bound(self, folders: list[Path]) -> None:
        limit_bytes = max(_LIMITS * self._settings.spool_bytes, _LEAST_LIMIT_BYTES)
        sizes = dict(_sizes_of(folders))
        if sum(sizes.values()) <= limit_bytes:
            return
        dead = [folder for folder in sizes if _is_of_dead(folder)]
        excess = sum(sizes[folder] for folder in dead) - limit_bytes
        for folder in dead:
            if excess <= 0 or self._stopped.is_set():
                return
            waiting = waiting_in(folder)
            if waiting is not None and discard(folder):
                excess -= sizes[folder]
                unit = waiting.state.delivery.unit
                self._report(f"{waiting.lines} {unit} of {waiting.state.run} are dropped: too many wait in {folder.parent}")


def drain_group(settings: Settings, group: str, connect: Callable[[], Archive]) -> None:
    """Ship what dead processes of one start left, such as children of a pool, before the run is closed. Waits for no recovery. Never raises."""
    with suppress(Exception):
        for folder in folders_in(settings.spool_root):
            with suppress(Exception):  # it stays for a drain
                if folder.name.startswith(f"{group}-") and _state_to_drain(folder, settings):
                    drain_folder(folder, settings, 0, connect=connect)


_is_started = False
"""Whether this process drains in the background: once is enough."""


def _sizes_of(folders: list[Path]) -> Iterator[tuple[Path, int]]:
    """The bytes of each folder's chunks."""
    for folder in folders:
        with suppress(FileNotFoundError):  # another drain has shipped it
            yield folder, sum(path.stat().st_size for path in folder.glob("*.chunk"))


def _is_of_dead(folder: Path) -> bool:
    """Whether a folder can be read, and its writer is dead."""
    with suppress(Exception):
        return _state_of(folder) is not None
    return False


def _state_to_drain(folder: Path, settings: Settings) -> SpoolState | None:
    """The state of a folder that a program drains unasked; None for one that only a person does: of another server, or a refused batch."""
    state = _state_of(folder)
    if state is None or state.is_refused or not is_same_address(state.url, settings.url):
        return None
    return state


def _state_of(folder: Path) -> SpoolState | None:
    spool = claim(folder)
    if spool is None:
        return None
    with closing(spool):
        return spool.state


@contextmanager
def _delivery_of(state: SpoolState, settings: Settings) -> Iterator[Delivery]:
    """The delivery of a folder; the options of its logging method are in the settings: they may contain secrets."""
    delivery = state.delivery
    if "method" not in state.facts or not isinstance(delivery, EventDelivery):
        yield delivery
        return
    chosen = choose_method(settings, state.run.fqn, str(state.facts["method"]))
    if chosen.method is None:
        raise SettingsError(f"{chosen.problem}: install its package again")
    with closing(MethodConnection(chosen.name, chosen.method)) as connection:
        yield MethodDelivery(delivery, connection, str(state.facts["instanceId"]))
