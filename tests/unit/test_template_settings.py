"""Every setting has a parameter and a variable in ``infra/template.yaml``; ``tests/integration/test_template.py`` compares their values in the
packaged template."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chalicelib.settings import Settings
from tests.support.template import what_to_add

TEMPLATE = (Path(__file__).parents[2] / "infra" / "template.yaml").read_text()
PARAMETERS = re.findall(r"^  (\w+):$", TEMPLATE.partition("\nParameters:\n")[2].partition("\n\n")[0], re.MULTILINE)
VARIABLES = re.findall(r"^ +(RUNLAKE_\w+):", TEMPLATE, re.MULTILINE)


def test_template_has_every_setting() -> None:
    wanted = [text for field in Settings.model_fields if (text := what_to_add(field, PARAMETERS, VARIABLES))]
    assert not wanted, "; ".join(wanted)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("search_seconds", "add parameter SearchSeconds and variable RUNLAKE_SEARCH_SECONDS to infra/template.yaml"),
        ("bucket_name", "add variable RUNLAKE_BUCKET_NAME to infra/template.yaml"),
        ("runs_table", ""),
    ],
)
def test_what_to_add_for_a_setting(field: str, message: str) -> None:
    assert what_to_add(field, ["BucketName"], ["RUNLAKE_RUNS_TABLE"]) == message
