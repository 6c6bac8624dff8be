"""docs/http-api.md leaves nothing out: routes, actions, statuses and codes of errors, parameters."""

from __future__ import annotations

import re

import pytest

import app
from chalicelib.routes import (
    openapi,
    openapi_archive,
    openapi_catalog,
    openapi_coordination,
    openapi_events,
    queries,
)
from chalicelib.routes.archive_queries import ArchiveErrorCode
from chalicelib.routes.operations import OPERATIONS, Operation
from docs import generate
from tests.docs.pages import DOCS, headings, rows, section

PAGE = DOCS / "http-api.md"
ENDPOINTS = [heading.split(" ") for heading in headings(PAGE) if re.match(r"(GET|HEAD|POST|PUT|PATCH|DELETE) /", heading)]


def of_document(name: str) -> list[Operation]:
    return [each for each in OPERATIONS if each.document == name]


def test_every_operation_is_described_and_every_description_is_an_operation() -> None:
    declared = {(each.method, each.path) for each in OPERATIONS}
    assert {(method, path.rstrip("/") or "/") for method, path in ENDPOINTS} == {
        (method, path.rstrip("/") or "/") for method, path in declared
    }


def test_every_route_of_the_app_is_listed() -> None:
    listed = {row[1].strip("`"): set(row[0].split(", ")) for row in rows(section(PAGE, "Paths"))}
    assert listed == {path: set(methods) for path, methods in app.app.routes.items()}


def test_every_operation_of_pipelines_is_described_with_its_parameters_fields_and_errors() -> None:
    for operation in of_document("catalog"):
        text, known = section(PAGE, f"{operation.method} {operation.path}"), openapi_catalog.OPERATIONS[operation.id]
        names = [openapi_catalog.PARAMETERS[each]["name"] for each in known["parameters"] if each not in ("fqn", "runId")]
        fields = openapi_catalog.SCHEMAS[known["answers"][200]]["properties"]
        assert [name for name in (*names, *fields) if f"`{name}`" not in text] == []
        told = re.search(r"Errors: ([^.]*)", text)
        assert told, operation
        assert [code for code in operation.errors if str(code) not in told[1]] == []


@pytest.mark.parametrize("operation", of_document("events"), ids=lambda each: each.id)
def test_every_operation_of_events_is_described_with_its_parameters_and_errors(operation: Operation) -> None:
    text, known = section(PAGE, f"{operation.method} {operation.path}"), openapi_events.OPERATIONS[operation.id]
    names = [openapi_events.PARAMETERS[each] for each in known.get("parameters", ()) if each in openapi_events.PARAMETERS]
    assert [each["name"] for each in names if each["in"] == "query" and f"`{each['name']}`" not in text] == []
    told = re.search(r"Errors: ([^.]*)", text)
    assert told and [code for code in operation.errors if str(code) not in told[1]] == []


def test_every_operation_of_coordination_is_described_with_its_parameters_and_errors() -> None:
    for operation in of_document("coordination"):
        text, known = section(PAGE, f"{operation.method} {operation.path}"), openapi_coordination.OPERATIONS[operation.id]
        names = [openapi_coordination.PARAMETERS[each]["name"] for each in known["parameters"] if each.startswith("partition")]
        assert [name for name in names if f"`{name}`" not in text] == []
        told = re.search(r"Errors: ([^.]*)", text)
        assert told, operation
        assert [code for code in operation.errors if str(code) not in told[1]] == []


def test_every_field_of_a_partition_is_described() -> None:
    table = section(PAGE, "GET /v1/coordination/{source}")
    assert [name for name in openapi_coordination.SCHEMAS["Partition"]["properties"] if f"`{name}`" not in table] == []


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
def test_stated_default_and_range_of_a_parameter_are_those_of_the_api(method: str, path: str) -> None:
    """``| `limit` | 50 | …; 1 to 100 |``, and in prose ``limit`` (50; 1 to 100)."""
    wrong = []
    for name, known in query_parameters(method, path).items():
        for default, words in stated(section(PAGE, f"{method} {path}"), name):
            if default and float(default) != known.get("default"):
                wrong.append((name, default, known))
            if (least_and_most := re.search(r"(?<!\d)(\d) to ([\d,]+)", words)) and [
                int(each.replace(",", "")) for each in least_and_most.groups()
            ] != [known.get("minimum", known.get("minLength")), known.get("maximum", known.get("maxLength"))]:
                wrong.append((name, words, known))
    assert wrong == []


def test_defaults_and_ranges_are_found_in_the_page() -> None:
    texts = {f"{method} {path}": section(PAGE, f"{method} {path}") for method, path in ENDPOINTS}
    found = [
        (place, name, default)
        for place, text in texts.items()
        for name in query_parameters(*place.split(" "))
        for default, _ in stated(text, name)
    ]
    assert ("GET /v1/catalog/pipelines", "limit", "50") in found
    assert ("GET /v0/archive/latest/{what}/{where}", "lookback", "14") in found
    assert len(found) >= 15


def query_parameters(method: str, path: str) -> dict[str, dict[str, float]]:
    """The schemas of an operation's numbers in its query, by name."""
    document = openapi.document("http://localhost")
    shared = document["components"]["parameters"]
    listed = document["paths"].get(path, {}).get(method.lower(), {}).get("parameters", [])
    known = [shared[each["$ref"].rpartition("/")[2]] if "$ref" in each else each for each in listed]
    return {each["name"]: each["schema"] for each in known if each["in"] == "query" and "type" in each["schema"]}


def stated(text: str, name: str) -> list[tuple[str, str]]:
    """What a section says of a parameter: its default ("" where none is a number), and the words behind it."""
    in_tables = re.findall(rf"^\| `{name}`[^|]*\| *([\d.]*) *\|([^|]*)\|$", text, re.MULTILINE)
    return [*in_tables, *re.findall(rf"`{name}` \((\d+)(?:; ([^)]*))?\)", text)]


def route(path: str) -> str:
    """The app's spelling of a path."""
    return (path.rstrip("/") or "/").replace("{id}", "{file_id}")


def test_every_status_of_an_error_is_explained() -> None:
    explained = {int(row[0]) for row in rows(section(PAGE, "Errors"))}
    assert explained == generate.statuses()
    assert not {429, 504} & explained


def test_every_endpoint_tells_its_errors() -> None:
    for method, path in ENDPOINTS:
        if f"{method} {path}" in ("GET /spec/", "GET /v1/openapi.json", "GET /docs/", "GET /v0/environment/", "GET /v0/archive/"):
            continue  # they ask nobody
        told = re.search(r"Errors: ([^.]*)", section(PAGE, f"{method} {path}"))
        assert told, path
        assert {int(status) for status in re.findall(r"\b[45]\d\d\b", told[1])} <= generate.statuses()


def test_every_parameter_of_a_page_is_described() -> None:
    asked: list[str] = []

    class Asked(dict[str, str]):
        def get(self, name: str, default: object = None) -> None:  # type: ignore[override]
            asked.append(name)

    queries.page_request(Asked(), 10)
    table = section(PAGE, "GET /v1/services/ingestionPipelines/logs/{fqn}/{runId}")
    assert [name for name in asked if f"`{name}`" not in table] == []


def test_every_code_of_the_archive_is_explained() -> None:
    explained = {row[0].strip("`"): int(row[1]) for row in rows(section(PAGE, "Codes of the archive"))}
    assert explained == {code: status for code, (status, _, _) in openapi_archive.ERRORS.items()}
    assert set(explained) == set(ArchiveErrorCode)


@pytest.mark.parametrize("operation", of_document("archive"), ids=lambda each: each.id)
def test_every_endpoint_of_the_archive_tells_its_parameters_and_codes(operation: Operation) -> None:
    text, known = section(PAGE, f"{operation.method} {operation.path}"), openapi_archive.OPERATIONS[operation.id]
    names = [openapi_archive.PARAMETERS[each] for each in known.get("parameters", ())]
    assert [each["name"] for each in names if each["in"] == "query" and f"`{each['name']}`" not in text] == []
    assert [code for code in operation.errors if f"`{code}`" not in text] == []
