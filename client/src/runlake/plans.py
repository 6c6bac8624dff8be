"""A run before anything of it is written: all that can be wrong with its names, its method and its start.

``runlake exec`` starts its command by a plan, and imports what writes the log while the command runs.
"""

from __future__ import annotations

from collections.abc import Callable

from runlake.methods import choose_method
from runlake.names import RunName, checked_run_name, new_run_id
from runlake.settings import PROFILE_VARIABLE, Settings
from runlake.starts import Start, environment_of, inherited_method, inherited_start_id, inherited_zone
from runlake.zones import checked_zone


class RunPlan:
    """One run of a pipeline, as a handler writes it; see ``RunlogHandler`` for the arguments. ``command``: masked text, or a function that returns
    it. ``heartbeat_s``: the interval of the heartbeats, if the handler has to send any. ``is_of_exec``: ``runlake exec`` started the run, and closes
    it. ``zone``: of times without one in the lines. Raises SettingsError."""

    def __init__(
        self,
        settings: Settings,
        fqn: str,
        run_id: str | None = None,
        *,
        closes_run: bool = False,
        command: str | Callable[[], str] | None = None,
        attempt: int | None = None,
        start: Start | None = None,
        method: str | None = None,
        zone: str = "",
        heartbeat_s: int | None = None,
    ) -> None:
        settings.required_url()
        _ = settings.spool_root
        self.settings = settings
        self.run = checked_run_name(RunName(fqn, run_id or new_run_id()))
        inherited = inherited_method(self.run) if start is None else None
        self.method = choose_method(settings, self.run.fqn, inherited or method)
        self.is_of_exec = start is None and inherited_start_id(self.run) is not None
        self.zone = (inherited_zone(self.run) if self.is_of_exec else "") or (checked_zone(zone) if zone else "")
        self.closes_run = closes_run and not self.is_of_exec
        name, is_in_archive = self.method.name, self.method.method is None
        interval_s = settings.heartbeat_s if heartbeat_s is None else heartbeat_s
        promised_s = interval_s if self.closes_run or not is_in_archive else 0
        if command is not None or self.is_of_exec:
            start = Start.now(self.run, command or "", attempt, heartbeat_s=promised_s, method=name)
        elif start is None and not is_in_archive:  # the archive must know the method before the first event
            start = Start.now(self.run, "", is_joining=True, heartbeat_s=promised_s, method=name)
        self.start = start

    def environment(self, zone: str) -> dict[str, str]:
        """The environment variables that make a child process write to the same run and attempt, with the same profile. ``zone``: of its times."""
        profile = {PROFILE_VARIABLE: self.settings.profile} if self.settings.profile else {}
        return profile | (self.start.environment(self.run, zone) if self.start else environment_of(self.run))
