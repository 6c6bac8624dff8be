"""Catalog rows of deleted runs. They would expire anyway, but lists would show the runs until then."""

from __future__ import annotations

from chalicelib.aws.dynamodb import Table
from chalicelib.ports import Run, run_key

_NAMES = {"#run": "run", "#at": "at"}


class DynamoDbRows:
    """``expiry.CatalogRows`` over the two tables of runs."""

    def __init__(self, runs: Table, segments: Table) -> None:
        self._runs, self._segments = runs, segments

    def forget(self, run: Run) -> None:
        """One DeleteItem, one Query for each MB of segment rows, one request for 25 of these."""
        self._runs.delete({"fqn": run.fqn, "run_id": run.run_id})
        self._segments.delete_all(
            self._segments.query_all(
                "#run = :run", {":run": run_key(run)}, ExpressionAttributeNames=_NAMES, ProjectionExpression="#run, #at"
            )
        )
