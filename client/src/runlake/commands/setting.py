"""Commands about a run's state and about the client: status, config, profiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from runlake.archive import Archive
from runlake.browsing import later_attempts
from runlake.commands.candidates import pipeline_candidates
from runlake.commands.output import duration_of, report, show_json, show_rows, size_of, time_of
from runlake.commands.session import Session, fqn_and_run, json_option, pass_session, run_of
from runlake.commands.states import outcome_with_reason, state_of
from runlake.errors import UnavailableError
from runlake.names import RunName, public_url
from runlake.settings import NAMES, RUN_LOG, help_of, settings_file, settings_path
from runlake.signing import IAM, is_signed


@click.command()
@fqn_and_run
@json_option
@pass_session
def status(session: Session, fqn: str, run_id: str | None, as_json: bool) -> None:
    """Show the state of a run: whether its log is finalized, which data is pending or lost, and of which writers."""
    with session.archive() as archive:
        run = run_of(archive, fqn, run_id)
        facts = archive.facts(run)
        later = later_attempts(archive, run, facts) if run_id else []  # the newest run has none
        events = _completeness_of(archive, run, facts)
    if as_json:
        latest = {"latestAttempt": later[0]} if later else {}
        show_json({**facts, **latest, "events": events})
        return
    show_rows(
        ("", ""),
        [
            ("run", str(run)),
            *_start_rows(facts),
            *_later_rows(facts, later),
            ("status", state_of(facts)),
            ("outcome", outcome_with_reason(facts)),
            ("finalized", "yes" if facts["complete"] else "no"),
            *([] if facts["browser"] == RUN_LOG else [("log", f"in another store, read by {facts['browser']}")]),
            ("pending", size_of(facts["pendingBytes"])),
            ("lost", f"{facts['lost']} lines"),
            *([("lost by its client", f"{facts['lostLines']} lines")] if facts["lostLines"] else []),
            ("lines", str(facts["lines"])),
            ("size", size_of(facts["bytes"])),
            ("zone", facts.get("zone") or "none stated: times without one are in UTC"),
            ("started", time_of(facts["startedMs"])),
            *_activity_rows(facts),
            ("duration", duration_of(facts["durationMs"])),
            *_events_rows(events),
        ],
    )


def _completeness_of(archive: Archive, run: RunName, facts: dict[str, Any]) -> dict[str, Any]:
    """Unknown while another store is away: the rest of the state is known."""
    try:
        return archive.completeness(run)
    except UnavailableError as error:
        if facts["browser"] == RUN_LOG:
            raise
        report(f"the events of {run} cannot be counted browser={facts['browser']}: {error}")
        return {"state": "unknown", "writers": [], "lost": []}


def _later_rows(facts: dict[str, Any], later: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """No rows for the latest attempt."""
    if not later:
        return []
    count, latest = int(facts["attempt"]) + len(later), later[0]
    return [("attempts", f"{count}, latest {latest['runId']}: {outcome_with_reason(latest)}")]


def _start_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """No rows for a run without a start."""
    attempt = int(facts["attempt"])
    rows = [("attempt", f"{attempt} of {facts['firstRunId']}")] if attempt > 1 else []
    return rows + [(name, facts[name]) for name in ("host", "command") if facts[name]]


def _activity_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The end of the run; while it is running, its last line and its last heartbeat, if it sends any."""
    if facts["status"] == "open":
        heartbeats = [("last heartbeat", time_of(facts["lastHeartbeatMs"]))] if facts["lastHeartbeatMs"] else []
        return [("last line", time_of(facts["lastAppendMs"])), *heartbeats]
    return [("last sign of life" if facts["end"] == "abandoned" else "ended", time_of(facts["lastAppendMs"]))]


def _events_rows(events: dict[str, Any]) -> list[tuple[str, str]]:
    """No rows for a run without writers of events."""
    if not events["writers"]:
        return []
    rows = [("events", events["state"])]
    for writer in events["writers"]:
        count = "?" if writer["count"] is None else str(writer["count"])
        state = "lost" if writer["writer"] in events["lost"] else "closed" if writer["closed"] else "open"
        rows.append((f"writer {writer['writer']}", f"{state}, {writer['visible']} of {count} events{_missing(writer['missing'])}"))
    return rows


def _missing(spans: list[list[int]]) -> str:
    ranges = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)
    return f", missing {ranges}" if ranges else ""


@click.command()
@click.option(
    "--pipeline",
    metavar="FQN",
    shell_complete=pipeline_candidates,
    help="Show what the server configures for new runs of it instead.",
)
@json_option
@pass_session
def config(session: Session, pipeline: str | None, as_json: bool) -> None:
    """Show the settings in force, and where each comes from: argument, environment, file or default.

    With --pipeline, its logging method by these settings, and the log browser and outputs of its new runs, which requires the scope admin.
    """
    if pipeline is not None:
        with session.archive() as archive:
            method = session.settings().method_of(pipeline)
            return _show_chosen(archive.configuration(pipeline), method, as_json=as_json)
    settings = session.settings()
    values = settings.display_values()
    origins = {name: settings.origins.get(name, "default") for name in NAMES}
    if as_json:
        show_json({name: {"value": values[name], "origin": origins[name]} for name in NAMES} | {"file": str(settings_path())})
        return
    show_rows(
        ("SETTING", "VALUE", "FROM", "MEANING"),
        [(name, str(values[name]), origins[name], help_of(name)) for name in NAMES],
    )
    for pattern, method in settings.locators:
        report(f"locator: runs of {pattern} are written by {method}")
    for name, options in settings.methods.items():
        where = [f"{key}={options[key]}" for key in ("kind", "index", "group") if key in options]
        url = [f"url={public_url(str(options['url']))}"] if "url" in options else []
        report(f"method {name}: {' '.join(where + url)}")
    report(f"file: {settings_path()}")


def _show_chosen(configuration: Mapping[str, Any], method: str, *, as_json: bool) -> None:
    """``method``: what this machine's settings choose."""
    chosen = configuration["chosen"]
    problems = [each for each in configuration["plugins"] if each["problem"]]
    if as_json:
        show_json({**chosen, "method": method, "problems": problems})
        return
    show_rows(
        ("", ""),
        [
            ("pipeline", chosen["fqn"]),
            ("method", method),
            ("browser", chosen["browser"]),
            ("outputs", ", ".join(map(str, chosen["outputs"])) or "-"),
            ("locator", "-" if chosen["locator"] is None else chosen["locator"]),
        ],
    )
    for each in problems:
        instead = f"is replaced by {each['fallback']}" if each["fallback"] else "cannot be used"
        report(f"{each['kind']} {each['name']} {instead}: {each['problem']}")


@click.command()
@json_option
@pass_session
def profiles(session: Session, as_json: bool) -> None:
    """List the profiles of the settings file, without secrets, and which of them is active.

    \b
    Each is a table of ~/.config/runlake/config.toml:
      default_profile = "test"
      [profiles.test]
      url = "https://logs.test.example.com/api"
      token_command = "secret-tool lookup runlake test"

    Choose one with --profile or RUNLAKE_PROFILE.
    """
    file, active = settings_file(), session.settings().profile
    listed: list[dict[str, Any]] = [
        {"profile": name, "active": name == active, **_without_secrets(each)} for name, each in file.profiles.items()
    ]
    if as_json:
        for each in listed:
            show_json(each)
    elif listed:
        rows = [
            [each["profile"], "active" if each["active"] else "-", each["url"] or "-", each["auth"] or each["token"] or "-"]
            for each in listed
        ]
        show_rows(("PROFILE", "ACTIVE", "URL", "CREDENTIALS"), rows)
    else:
        report(f"there are no profiles: `runlake profiles --help` shows how to add them path={file.path}")


def _without_secrets(profile: Mapping[str, Any]) -> dict[str, str]:
    """``token``: where it is from; ``auth``: "iam" if requests are signed. A command may contain a secret, as may a URL."""
    forms = {"token": "value", "token_file": "file", "token_command": "command"}
    url, auth = str(profile.get("url", "")), str(profile.get("auth", ""))
    return {
        "url": public_url(url),
        "auth": IAM if is_signed(auth, url) else "",
        "token": next((word for name, word in forms.items() if profile.get(name)), ""),
    }
