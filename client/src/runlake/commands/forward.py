"""The command ``forward``: a run's events to another system. Progress is in a file: a command that was killed continues from it."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from runlake.archive import Archive
from runlake.commands.output import report, show_line
from runlake.commands.session import Session, fqn_argument, pass_session, run_argument
from runlake.errors import SettingsError, UnavailableError, advise
from runlake.names import RunName
from runlake.pacing import retried
from runlake.targets import forwarding

_ADDRESS = ("kind", "url", "index", "group", "region")
"""Fields of a target that say where events go; other headers or another shape continue."""


@click.command()
@fqn_argument()
@run_argument(required=True)
@click.option("--target", type=Path, required=True, metavar="FILE", help="A JSON document that describes the target.")
@click.option("--position", type=Path, metavar="FILE", help="A file that stores the progress; forwarding continues from it.")
@click.option("-f", "--follow", is_flag=True, help="Continue until the run's events are complete or lost.")
@click.option("--instance", default="runlake", show_default=True, help="The installation that plain lines name in the target.")
@pass_session
def forward(
    session: Session, fqn: str, run_id: str, target: Path, position: Path | None, follow: bool, instance: str
) -> None:  # fmt: skip
    """Forward the events of one run to Elasticsearch, CloudWatch Logs, Fluentd, Logstash or a receiver of OTLP.

    Needs `pip install ./forwarding './client[forward]'` in a checkout. For all runs, let the archive forward: a handler of a pipeline.
    """
    forward_run = forwarding().forward_run
    run, document = RunName(fqn, run_id), _text(target)
    progress = _Progress(position, run, document)
    again = "repeat the command with the same --position" if position else "use --position, to continue from there"
    with session.archive() as archive:
        archive.facts(run)  # an unknown run has an empty list of events, which would be followed forever
        try:
            done = forward_run(
                lambda path, query: retried(lambda: _answer(archive, run, path, query), time.sleep, report), document, fqn, run_id,
                instance_id=instance, position=progress.position, save=progress.save, is_live=follow,
            )  # fmt: skip
        except ValueError as error:
            raise SettingsError(str(error), next_step=f"check the files of --target ({target}) and --position") from error
        except ConnectionError as error:
            unavailable = UnavailableError(str(error))
            advise(unavailable, again)
            raise unavailable from error
        except KeyboardInterrupt as error:
            advise(error, again)
            raise
    show_line(f"taken={done.taken} refused={done.refused} requests={done.requests} repeated={done.repeated}")
    for reason in done.reasons:
        report(f"refused: {reason}")


class _Progress:
    """The position of ``--position``, whose file is replaced atomically. Its lines: the position, and a digest of the run and the
    target's address, since a position is a number of lines, which would skip events of another run or target silently. Raises
    SettingsError for a file that cannot be read, has no position, or that of another run or target."""

    def __init__(self, path: Path | None, run: RunName, target: str) -> None:
        self._path, self._owner = path, _digest(run, target)
        stored = _text(path).splitlines() if path and path.exists() else []
        self.position = stored[0] if stored else None
        if stored and len(stored) != 2:
            raise SettingsError(f"not a position of this command file={path}", next_step="check the file of --position")
        if stored and self._owner and stored[1] != self._owner:
            raise SettingsError(
                f"the position is of another run or target file={path}",
                next_step="use one file for each run and target, or delete it to begin with the first event",
            )

    def save(self, position: str) -> None:
        """Store a position."""
        if self._path:
            draft = self._path.with_name(self._path.name + ".new")
            draft.write_text(f"{position}\n{self._owner}\n")
            os.replace(draft, self._path)


def _digest(run: RunName, target: str) -> str:
    """Of the run and the address, which may contain a secret. Empty for a target that its own check refuses."""
    try:
        fields = json.loads(target)
    except ValueError:
        return ""
    if not isinstance(fields, dict):
        return ""
    address = [run.fqn, run.run_id, *(str(fields.get(name, "")) for name in _ADDRESS)]
    return hashlib.sha256(json.dumps(address).encode()).hexdigest()[:16]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeError) as error:
        raise SettingsError(f"a file cannot be read: file={path} error={error}", next_step="check the path") from error


def _answer(archive: Archive, run: RunName, path: str, query: Mapping[str, str]) -> Any:
    return archive.completeness(run) if path == "/completeness" else archive.events_page(run, **query)
