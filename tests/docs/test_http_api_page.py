"""docs/http-api.md has every operation, parameter and field of the OpenAPI document; its tables of errors are complete."""

from __future__ import annotations

import re
from typing import Any

import pytest

from chalicelib.routes import openapi, openapi_archive
from chalicelib.routes.archive_queries import ArchiveErrorCode
from chalicelib.routes.operations import OPERATIONS, Operation
from docs import generate, http_api
from tests.docs.pages import DOCS, headings

PAGE = DOCS / "http-api.md"
DOCUMENT = openapi.document("/")
COMPONENTS = DOCUMENT["components"]
SECTIONS = dict(re.findall(r"^### (\w+ /.*)\n((?:(?!##).*\n)*)", PAGE.read_text(), re.MULTILINE))


def name_of(reference: dict[str, str]) -> str:
    return reference["$ref"].rpartition("/")[2]


def operation_of(declared: Operation) -> dict[str, Any]:
    operation: dict[str, Any] = DOCUMENT["paths"][declared.path][declared.method.lower()]
    return operation


def test_every_operation_has_a_section_in_the_order_of_the_table() -> None:
    found = [heading for heading in headings(PAGE) if re.match(r"[A-Z]+ /", heading)]
    assert found == [f"{each.method} {each.path}" for each in OPERATIONS]


@pytest.mark.parametrize("declared", OPERATIONS, ids=lambda each: each.id)
def test_section_has_or_links_the_parts_of_its_operation(declared: Operation) -> None:
    section, operation = SECTIONS[http_api.heading(declared)], operation_of(declared)
    assert operation["summary"] in section
    if "As [above](#" in section:
        return
    names = [COMPONENTS["parameters"][name_of(each)]["name"] for each in operation.get("parameters", ())]
    assert [name for name in names if name not in ("fqn", "runId", "cursor") and name not in section] == []
    assert [code for code in declared.errors if str(code) not in section] == []
    assert [scope for scope in declared.scopes if f"`{scope}`" not in section] == []
    assert [status for status in operation["responses"] if status < "308" and status not in section] == []
    assert ("requestBody" in operation) == ("**Body**" in section)


def test_every_parameter_and_field_is_described() -> None:
    page = PAGE.read_text()
    common = {"fqn", "runId"} | {key for key, each in COMPONENTS["parameters"].items() if each["name"] == "cursor"}
    described = {key for key, each in COMPONENTS["parameters"].items() if http_api.cell(each["description"]) in page}
    assert described == set(COMPONENTS["parameters"]) - common
    for name, schema in COMPONENTS["schemas"].items():
        fields = schema.get("properties", {}) if name not in ("LogError", "ArchiveError") else {}
        texts = [http_api.cell(field["description"]) for key, field in fields.items() if "description" in field and key != "cursor"]
        assert [text for text in texts if text not in page] == [], name


def test_tables_have_no_gaps() -> None:
    """A row begins with a name; a type that the generator does not know would be missing."""
    rows = [line for section in SECTIONS.values() for line in section.splitlines() if line.startswith("|") and "---" not in line]
    assert len(rows) > 250
    assert [row for row in rows if row.startswith("||") or " or |" in row or "|[]" in row] == []


def test_every_example_is_of_its_section() -> None:
    for declared in OPERATIONS:
        example = http_api.console_examples().get(declared.id, "")
        assert example in SECTIONS[http_api.heading(declared)]


def test_every_status_of_an_error_is_explained() -> None:
    assert set(generate.STATUSES) == generate.statuses()
    assert not {429, 504} & generate.statuses()


def test_every_code_of_the_archive_is_explained() -> None:
    assert set(generate.ARCHIVE_CODES) == set(openapi_archive.ERRORS) == set(ArchiveErrorCode)
