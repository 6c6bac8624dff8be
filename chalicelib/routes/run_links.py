"""The address of a run in its orchestrator."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

from chalicelib.access.patterns import matches

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def link_of(templates: Mapping[str, str], fqn: str, first_run_id: str) -> str | None:
    """The template of the first pattern that matches the FQN, with names percent-encoded; None: no pattern matches.

    ``first_run_id``: of attempt 1, which is the id that the orchestrator knows.
    """
    template = next((template for pattern, template in templates.items() if matches(pattern, fqn)), None)
    if template is None:
        return None
    values = {"fqn": fqn, "name": fqn.rpartition(".")[2], "runId": first_run_id}
    return _PLACEHOLDER.sub(lambda placeholder: quote(values[placeholder[1]], safe=""), template)
