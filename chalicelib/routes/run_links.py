"""The address of a run in its orchestrator."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from chalicelib.access.patterns import matches


def link_of(templates: Mapping[str, str], fqn: str, first_run_id: str) -> str | None:
    """The template of the first pattern that matches the FQN, with names percent-encoded; None: no pattern matches.

    ``first_run_id``: of attempt 1, which is the id that the orchestrator knows.
    """
    template = next((template for pattern, template in templates.items() if matches(pattern, fqn)), None)
    if template is None:
        return None
    values = {"fqn": fqn, "name": fqn.rpartition(".")[2], "runId": first_run_id}
    head, *parts = template.split("{")
    encoded = (quote(values[name], safe="") + rest for name, _, rest in (part.partition("}") for part in parts))
    return head + "".join(encoded)
