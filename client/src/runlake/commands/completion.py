"""The command ``completion``, and the scripts of shells that differ from click's."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

import click
from click.shell_completion import CompletionItem, FishComplete, ShellComplete, add_completion_class, get_completion_class

from runlake.commands.output import show_script

_BASH = r"""%(complete_func)s() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        case ${line%%%%,*} in
            dir) compopt -o dirnames 2>/dev/null ;;
            file) compopt -o default 2>/dev/null ;;
            plain) COMPREPLY+=("${line#*,}") ;;
        esac
    done < <(COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS" \
        %(complete_var)s=bash_complete "${1/#\~/$HOME}" 2>/dev/null)
}
complete -o nosort -F %(complete_func)s %(prog_name)s 2>/dev/null || complete -F %(complete_func)s %(prog_name)s
"""
_PLAIN = re.compile(r"[^\w@%+=:,./-]")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands, options, pipelines, runs and profiles in SHELL.

    \b
    Add a line to the file that your shell reads at its start:
      bash  eval "$(runlake completion bash)"     ~/.bashrc
      zsh   eval "$(runlake completion zsh)"      ~/.zshrc, after compinit
      fish  runlake completion fish | source      ~/.config/fish/config.fish

    Pipelines and runs are asked of the server: one request, two seconds at most.
    """
    made = get_completion_class(shell)
    assert made is not None
    root = click.get_current_context().find_root()
    show_script(made(root.command, {}, "runlake", "_RUNLAKE_COMPLETE").source())


class BashCompletion(ShellComplete):
    """For bash from 3.2 on. Unlike click's, it keeps names with spaces, quotes, ``*``, ``:`` and so on as they are."""

    name = "bash"
    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor, and the one that is being typed."""
        self._typed = typed_words(os.environ["COMP_LINE"], os.environ.get("COMP_WORDBREAKS", ""))
        return self._typed.words[1:-1], self._typed.words[-1]

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """Without the names that no text makes of what was typed."""
        return [item for item in super().get_completions(args, incomplete) if self._typed.is_completed_by(item.value)]

    def format_completion(self, item: CompletionItem[str]) -> str:
        """``TYPE,TEXT``: the text in the place of the part that bash replaces."""
        return f"{item.type},{self._typed.replacement(item.value)}"


class FishCompletion(FishComplete):
    """Click's, but names may contain commas."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split -m 1 ","')


for _class in (BashCompletion, FishCompletion):
    add_completion_class(_class)


@dataclass
class TypedWords:
    """A command line up to the cursor. ``words``: unquoted; the last one is being typed. Bash replaces that from character ``begin`` on: the part
    after a separator such as ``:``, or after the opening ``quote``, if it is still open."""

    words: list[str]
    begin: int = 0
    quote: str = ""

    def is_completed_by(self, name: str) -> bool:
        """Whether there is a replacement. In double quotes bash replaces ``!`` by earlier commands, and keeps a backslash before it."""
        return not (self.quote == '"' and "!" in self._rest(name))

    def replacement(self, name: str) -> str:
        """The text that makes a name of the last word."""
        rest = self._rest(name)
        if self.quote == "'":
            return rest.replace("'", "'\\''")
        special = re.compile(r'["$`\\]') if self.quote else _PLAIN
        return special.sub(lambda match: "\\" + match[0], rest)

    def _rest(self, name: str) -> str:
        return name[self.begin :] if name.startswith(self.words[-1][: self.begin]) else name


def typed_words(line: str, separators: str) -> TypedWords:
    """Split a line as bash does. ``separators``: COMP_WORDBREAKS."""
    typed, word, is_begun, is_escaped = TypedWords([]), "", False, False
    for char in line:
        if is_escaped:
            word, is_escaped = word + char, False
        elif char == "\\" and typed.quote != "'":
            is_begun = is_escaped = True
        elif typed.quote:
            word, typed.quote = (word, "") if char == typed.quote else (word + char, typed.quote)
        elif char in "'\"":
            typed.quote, typed.begin, is_begun = char, len(word), True
        elif char.isspace():
            typed.words += [word] if is_begun else []
            word, typed.begin, is_begun = "", 0, False
        else:
            word, is_begun = word + char, True
            typed.begin = len(word) if char in separators else typed.begin
    typed.words.append(word)
    return typed
