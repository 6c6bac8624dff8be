"""Suggestions for a command or option that does not exist. A command that writes, closes or deletes is suggested only for its usual name
in other tools: ``runlake logs`` must not lead to ``runlake close``."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

CHANGING_COMMANDS = frozenset({"exec", "drain", "close", "delete"})
CHANGING_OPTIONS = frozenset({"--discard"})
USUAL_WORDS = {
    **dict.fromkeys(("log", "logs", "show", "read", "view", "print", "less", "more", "get"), "cat"),
    **dict.fromkeys(("follow", "watch", "stream"), "tail -f"),
    **dict.fromkeys(("list", "ls", "ps", "history"), "runs"),
    **dict.fromkeys(("find", "search"), "grep"),
    **dict.fromkeys(("explain", "reason", "cause"), "why"),
    **dict.fromkeys(("failed", "failures", "errors"), "runs --failed"),
    **dict.fromkeys(("fetch", "pull", "save"), "download"),
    **dict.fromkeys(("info", "describe", "stat"), "status"),
    **dict.fromkeys(("execute", "run"), "exec"),
    **dict.fromkeys(("push", "upload"), "files push"),
}
"""Command names of other tools, and the command for each."""


def suggested_command(typed: str, commands: Iterable[str]) -> str | None:
    """The command for a word of other tools, else the one with the most similar spelling; None if there is neither."""
    word = typed.lower()
    spelled_alike = get_close_matches(word, sorted(set(commands) - CHANGING_COMMANDS), n=1)
    return USUAL_WORDS.get(word) or next(iter(spelled_alike), None)


def suggested_options(names: Iterable[str]) -> list[str]:
    """Options similar to the typed one, without those that may not be suggested."""
    return [name for name in names if name not in CHANGING_OPTIONS]
