"""The catalog's rows of runs that are gone: they would expire by themselves, but lists would name the runs until then."""

from __future__ import annotations

from chalicelib.aws.dynamodb import Table
from chalicelib.catalog.segments import run_key
from chalicelib.ports import Run

_NAMES = {"#run": "run", "#at": "at"}


class DynamoDbRows:
    """``expiry.CatalogRows`` on the two tables of runs."""

    def __init__(self, runs: Table, segments: Table) -> None:
        self._runs, self._segments = runs, segments

    def forget(self, run: Run) -> None:
        """A DeleteItem, a Query for each MB of segments' rows, a request for 25 of them."""
        self._runs.delete({"fqn": run.fqn, "run_id": run.run_id})
        self._segments.delete_all(
            self._segments.query_all(
                "#run = :run", {":run": run_key(run)}, ExpressionAttributeNames=_NAMES, ProjectionExpression="#run, #at"
            )
        )
