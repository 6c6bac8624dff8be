"""Addresses of runs in their orchestrator."""

from __future__ import annotations

import pytest

from chalicelib.routes.run_links import link_of

LINKS = {
    "shop.night.*": "https://airflow.example/dags/{name}/grid?dag_run_id={runId}",
    "shop.*": "https://airflow.example/home?search={fqn}",
    "*": "http://dagster.example:3000/runs/{runId}#{runId}",
}


@pytest.mark.parametrize(
    ("fqn", "run_id", "link"),
    [
        ("shop.night.a b", "manual__1:00+00", "https://airflow.example/dags/a%20b/grid?dag_run_id=manual__1%3A00%2B00"),
        ("shop.x&y=1", "r", "https://airflow.example/home?search=shop.x%26y%3D1"),
        ("{runId}/../", "{fqn}#<", "http://dagster.example:3000/runs/%7Bfqn%7D%23%3C#%7Bfqn%7D%23%3C"),
    ],
)
def test_first_pattern_decides_and_names_are_encoded(fqn: str, run_id: str, link: str) -> None:
    assert link_of(LINKS, fqn, run_id) == link


def test_without_a_pattern_there_is_no_link() -> None:
    assert link_of({"shop.*": "https://a.example/"}, "hr.payroll", "r") is None
