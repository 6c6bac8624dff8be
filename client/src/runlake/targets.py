"""Targets: other systems that get events, by the package ``runlake-forwarding``, which is an extra (boto3 and pydantic)."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from runlake._python import HAS_FORWARDING
from runlake.errors import SettingsError
from runlake.names import RunName

TARGET = "target"
"""The logging method that writes to a target."""


class TargetMethod:
    """``LoggingMethod`` that sends events to a target, with the fields of `runlake forward --target`. A target that recognizes events by their
    uid (Elasticsearch, OpenSearch) stores a repeated one once. Raises SettingsError for an invalid target, and without the extra."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        import json

        self._forwarding = forwarding()
        try:
            self._target = json.dumps(options)
            self._forwarding.check_target(self._target)
        except (TypeError, ValueError) as error:
            raise SettingsError(str(error), next_step=f"correct [methods.{TARGET}] of the settings file") from error

    def create_writer(self, run: RunName, writer: str, instance_id: str) -> Any:
        """See ``LoggingMethod``."""
        return self._forwarding.TargetWriter(self._target, run.fqn, run.run_id, instance_id=instance_id, writer=writer)


def forwarding() -> ModuleType:
    """The package ``runlake_forwarding``. Raises SettingsError if it is not installed, or cannot be."""
    if not HAS_FORWARDING:
        raise SettingsError("targets need Python 3.11", next_step="use the method runlog, or a newer Python")
    try:
        import runlake_forwarding
    except ImportError as error:
        raise SettingsError(
            f"forwarding is not installed: {error}",
            next_step="run `pip install ./forwarding './client[forward]'` in a checkout of Runlake",
        ) from error
    return runlake_forwarding
