"""Shared by all commands: the settings of this call, the archive, the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import click

from runlake.commands.candidates import pipeline_candidates, run_candidates
from runlake.commands.output import report, show_help
from runlake.names import RunName, page_url
from runlake.settings import Settings, load_settings

if TYPE_CHECKING:
    from runlake.archive import Archive

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Group(click.Group):
    """Commands. Without one the help is an error, exit code 2, as in click since 8.2."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            show_help(ctx.get_help())
            ctx.exit(2)
        return super().parse_args(ctx, args)


class Commands(MutableMapping[str, click.Command]):
    """Commands by name, each imported when it is used. ``places``: the module of ``runlake.commands`` and the name in it, with a dot between."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = dict(places)
        self._imported: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._imported:
            module, _, its_name = self._places[name].partition(".")
            self._imported[name] = getattr(import_module(f"runlake.commands.{module}"), its_name)
        return self._imported[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._places[name], self._imported[name] = "", command

    def __delitem__(self, name: str) -> None:
        del self._places[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class Session:
    """One call of the command line. Settings are read when they are needed: ``--help`` works without any."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self._reported: set[str] = set()

    def settings(self, **more: Any) -> Settings:
        """``more``: options of the command, None if absent. Reports notices about the settings once. Raises SettingsError."""
        settings = load_settings(self.options | more)
        for notice in settings.notices:
            if notice not in self._reported:
                self._reported.add(notice)
                report(notice)
        return settings

    def archive(self) -> Archive:
        """The archive, as a context manager. Raises SettingsError."""
        from runlake.archive import Archive

        return Archive.of(self.settings())

    def page(self, fqn: str | None = None, run_id: str | None = None) -> str:
        """The address of the web page of a run, of a pipeline's runs, or of the start; "" if the settings name no address with a page."""
        address = self.settings().page_address()
        return address and page_url(address, fqn, run_id)


def run_of(archive: Archive, fqn: str, run_id: str | None) -> RunName:
    """The named run, or the pipeline's newest. Raises NotFoundError."""
    return RunName(fqn, run_id) if run_id else archive.newest_run(fqn)


pass_session = click.make_pass_decorator(Session)


def fqn_argument(*, required: bool = True) -> Callable[[_Command], _Command]:
    """The argument FQN, which shells complete."""
    return click.argument("fqn", required=required, shell_complete=pipeline_candidates)


def run_argument(*, required: bool = False) -> Callable[[_Command], _Command]:
    """The argument RUN, which shells complete if FQN is before it."""
    return click.argument("run_id", metavar="RUN" if required else "[RUN]", required=required, shell_complete=run_candidates)


def fqn_and_run(command: _Command) -> _Command:
    """The arguments FQN and RUN; without RUN, the command uses the newest run."""
    return fqn_argument()(run_argument()(command))


def limit_option(default: int) -> Callable[[_Command], _Command]:
    """The maximum number of entries of a list."""
    return click.option(
        "-n", "--limit", type=click.IntRange(min=1), default=default, show_default=True, help="Maximum number of entries."
    )


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
