"""Candidates for the shell's completion: names that the server lists, by one request. After an error, or two seconds, there are none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from threading import Thread
from typing import TYPE_CHECKING

import click

from runlake.settings import load_settings, settings_file
from runlake.terminal import UNPRINTABLE

if TYPE_CHECKING:
    from runlake.archive import Archive

TIMEOUT_S = 2.0
MAX_PIPELINES, MAX_RUNS = 50, 100
"""Those of one page. For each pipeline, the server reads its newest run too."""
_HIDDEN = re.compile(f"[\t{UNPRINTABLE}]")


def pipeline_candidates(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Names of pipelines that begin with the typed text."""
    return _fetched(
        context, incomplete, lambda archive: (each["fqn"] for each in archive.pipelines(incomplete, MAX_PIPELINES)), MAX_PIPELINES
    )


def run_candidates(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Ids of the newest runs of the pipeline that was typed before."""
    fqn = context.params.get("fqn")
    if not fqn:
        return []
    return _fetched(context, incomplete, lambda archive: (each["runId"] for each in archive.runs(fqn, MAX_RUNS)), MAX_RUNS)


def profile_candidates(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Names of profiles in the settings file."""
    with suppress(Exception):
        return _visible(settings_file().profiles, incomplete)
    return []


def _fetched(context: click.Context, incomplete: str, names: Callable[[Archive], Iterable[str]], most: int) -> list[str]:
    """If there may be more than ``most``, the typed text is a candidate too: shells complete the longest common beginning of the candidates,
    which the others may not have."""
    from runlake.archive import Archive, import_for_requests

    import_for_requests(is_secure=False)  # not within the time of the request
    found: list[str] = []

    def fetch() -> None:
        with suppress(Exception), Archive.of(load_settings({**context.find_root().params, "timeout_s": TIMEOUT_S})) as archive:
            found.extend(list(islice(map(str, names(archive)), most)))

    request = Thread(target=fetch, daemon=True)  # a command that prints the token may take longer
    request.start()
    request.join(TIMEOUT_S)
    fetched = list(found)
    return _visible(fetched, incomplete) + ([incomplete] if len(fetched) == most else [])


def _visible(names: Iterable[str], incomplete: str) -> list[str]:
    """A shell would print control characters as they are, and insert a name that begins with "-", which is then an option."""
    return [name for name in names if name.startswith(incomplete) and not name.startswith("-") and not _HIDDEN.search(name)]
