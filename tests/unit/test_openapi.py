"""The OpenAPI document is valid, matches the routes, and has valid examples; its page loads nothing from other origins."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import ValidationError
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from chalicelib import __version__
from chalicelib.catalog.metadata import Metadata
from chalicelib.coordination import Status
from chalicelib.errors import InvalidEventError
from chalicelib.events.codecs import firehose
from chalicelib.events.event import MAX_TIMESTAMP_MS, Loggable, NewEvent
from chalicelib.events.starts import StartBody
from chalicelib.events.validation import measured_event
from chalicelib.ports import Run
from chalicelib.routes import (
    agent_requests,
    bodies,
    coordination,
    docs_page,
    logs,
    openapi,
    openapi_archive,
    openapi_catalog,
    operations,
    paths,
    queries,
)
from chalicelib.routes.budgets import LINES, BodyForm
from chalicelib.routes.schemas import IncompleteDocumentError
from tests.support import samples

BASE_URL = "https://logs.example.com/api"
DOCUMENT = openapi.document(BASE_URL)
COMPONENTS = DOCUMENT["components"]
METHODS = ("get", "put", "post", "patch", "delete", "head", "options")
OPERATIONS = {
    f"{method.upper()} {path}": operation for path, item in DOCUMENT["paths"].items() for method, operation in item.items()
}
REGISTRY: Registry[Any] = Registry().with_resource(
    "urn:document", Resource.from_contents(DOCUMENT, default_specification=DRAFT202012)
)


def nodes(value: Any, where: str = "#") -> Iterator[tuple[str, Any]]:
    """Everything in the document, with its JSON pointer."""
    yield where, value
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from nodes(inner, f"{where}/{str(key).replace('~', '~0').replace('/', '~1')}")


def resolved(node: Any) -> Any:
    """A component in place of a reference to it."""
    while "$ref" in node:
        node = REGISTRY.resolver("urn:document").lookup(node["$ref"]).contents
    return node


def mistakes(schema: Any, example: Any) -> list[str]:
    """Violations of the schema by an example, including formats."""
    rooted = json.loads(json.dumps(schema).replace('"#/', '"urn:document#/'))
    validator = Draft202012Validator(rooted, registry=REGISTRY, format_checker=Draft202012Validator.FORMAT_CHECKER)
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(example)]


def media() -> Iterator[tuple[str, Any]]:
    """Every media type of request and response bodies."""
    for name, operation in OPERATIONS.items():
        for content_type, given in operation.get("requestBody", {}).get("content", {}).items():
            yield f"{name} body {content_type}", given
        for status, response in operation["responses"].items():
            for content_type, given in resolved(response).get("content", {}).items():
                yield f"{name} {status} {content_type}", given


def examples(given: Any) -> list[Any]:
    """The examples of a media type, a parameter or a header."""
    return [each["value"] for each in given.get("examples", {}).values()] + ([given["example"]] if "example" in given else [])


def test_it_is_valid_and_json() -> None:
    plain = json.loads(json.dumps(DOCUMENT))
    assert plain == DOCUMENT
    assert [str(error) for error in OpenAPIV31SpecValidator(plain).iter_errors()] == []


def test_it_tells_its_address_and_version() -> None:
    assert DOCUMENT["openapi"].startswith("3.1.")
    assert DOCUMENT["info"]["version"] == __version__
    assert DOCUMENT["servers"] == [{"url": BASE_URL}]
    assert openapi.document(BASE_URL + "/") == DOCUMENT
    assert openapi.document("http://127.0.0.1:4566/api")["servers"] == [{"url": "http://127.0.0.1:4566/api"}]


def test_every_reference_resolves_and_every_component_is_used() -> None:
    references = {node["$ref"] for _, node in nodes(DOCUMENT) if isinstance(node, dict) and "$ref" in node}
    for reference in references:
        assert resolved({"$ref": reference}), reference
    components = {
        f"#/components/{kind}/{name}" for kind, named in COMPONENTS.items() if kind != "securitySchemes" for name in named
    }
    assert references == components


def test_no_name_is_taken_twice() -> None:
    """The tables of the resources are merged: a repeated name would overwrite an entry."""
    for kind in ("schemas", "parameters"):
        assert len(COMPONENTS[kind]) == sum(len(getattr(resource, kind)) for resource in openapi.RESOURCES.values()), kind


@pytest.mark.parametrize("name", COMPONENTS["schemas"])
def test_every_schema_is_described_and_its_examples_hold(name: str) -> None:
    schema = COMPONENTS["schemas"][name]
    Draft202012Validator.check_schema(schema)
    assert schema["description"] and schema["examples"]
    for example in schema["examples"]:
        assert mistakes(schema, example) == []


@pytest.mark.parametrize(
    ("name", "example"),
    [
        ("Metadata", {}),
        ("MetadataChange", {"hash": "a3e75ee4f45f676422e038f2c116d000"}),
        ("MetadataChange", {"work_id": "null"}),
        ("MetadataChange", {"what": "Sys Log"}),
        ("Upload", {"method": "PUT"}),
        ("CreatedFile", {**COMPONENTS["schemas"]["CreatedFile"]["examples"][0], "expires_at": "tomorrow"}),
        ("LogPage", {"logs": "", "total": 0, "streaming": False}),
    ],
)
def test_a_schema_refuses(name: str, example: Any) -> None:
    """Schemas reject invalid values, so the validation of examples is effective."""
    assert mistakes(COMPONENTS["schemas"][name], example)


def test_every_example_of_a_body_holds() -> None:
    wrong = {where: mistakes(given["schema"], each) for where, given in media() if "schema" in given for each in examples(given)}
    assert {where: found for where, found in wrong.items() if found} == {}
    lacking = [where for where, given in media() if "application/json" in where and not examples(given)]
    assert lacking == []


def test_every_example_of_a_parameter_or_header_holds() -> None:
    headers = [header for _, node in nodes(DOCUMENT) if isinstance(node, dict) for header in node.get("headers", {}).values()]
    for each in [*COMPONENTS["parameters"].values(), *(resolved(header) for header in headers if isinstance(header, dict))]:
        assert [found for example in examples(each) for found in mistakes(each.get("schema", {}), example)] == []


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_is_described(name: str) -> None:
    operation = OPERATIONS[name]
    assert operation["summary"] and not operation["summary"].endswith(".")
    assert operation["tags"][0] in [tag["name"] for tag in DOCUMENT["tags"]]
    assert all(resolved(response)["description"] for response in operation["responses"].values())
    in_path = {parameter["name"] for parameter in map(resolved, operation.get("parameters", ())) if parameter["in"] == "path"}
    assert in_path == set(re.findall(r"{(\w+)}", name))
    assert ("308" in operation["responses"]) == (name.endswith("/") and name != "GET /")
    assert not {"429", "504"} & set(operation["responses"])


@pytest.mark.parametrize("declared", operations.OPERATIONS, ids=lambda each: each.id)
def test_every_error_lists_its_codes(declared: operations.Operation) -> None:
    table: Any = openapi.RESOURCES[declared.document].errors
    listed = []
    for status, response in OPERATIONS[f"{declared.method} {declared.path}"]["responses"].items():
        if int(status) >= 400 and "$ref" not in response:  # a reference is a shared response of authentication
            given = response["content"]["application/json"]
            codes = given["schema"]["properties"]["code"]["enum"]
            assert codes and all(table[code][0] == int(status) for code in codes), status
            assert [example["code"] for example in examples(given)] == codes
            assert ("Retry-After" in response.get("headers", {})) == (status == "503")
            listed += codes
    assert sorted(map(str, listed)) == sorted(map(str, declared.errors))


@pytest.mark.parametrize("declared", operations.OPERATIONS, ids=lambda each: each.id)
def test_a_body_is_documented_if_the_budget_says_that_it_is_read(declared: operations.Operation) -> None:
    is_documented = "requestBody" in OPERATIONS[f"{declared.method} {declared.path}"]
    assert is_documented == (declared.budget.form is not BodyForm.IGNORED)


def test_every_code_is_of_an_operation() -> None:
    declared = {code for each in operations.OPERATIONS if each.document == "archive" for code in each.errors}
    assert declared == set(openapi_archive.ERRORS)


# True to the code


def test_operations_are_those_of_the_table_in_its_order() -> None:
    assert sorted(OPERATIONS) == sorted(f"{each.method} {each.path}" for each in operations.OPERATIONS)


def test_every_operation_has_a_sample_and_the_other_way_round() -> None:
    sampled, documented = Counter(each.operation for each in samples.ROWS), set(samples.operations())
    lacking, superfluous = documented - set(sampled), set(sampled) - documented
    assert not lacking, f"add a Sample to ROWS in tests/support/samples.py: {sorted(lacking)}"
    assert not superfluous, f"a Sample of tests/support/samples.py is of no operation: {sorted(superfluous)}"
    assert [operation for operation, count in sampled.items() if count > 1] == []


def test_the_parameters_of_a_page_are_those_that_are_read() -> None:
    asked: list[str] = []

    class Asked(dict[str, str]):
        def get(self, name: str, default: object = None) -> None:  # type: ignore[override]
            asked.append(name)

    queries.page_request(Asked(), 10)
    for name in ("readLog", "readLastLog"):
        operation = next(each for each in OPERATIONS.values() if each["operationId"] == name)
        told = [parameter["name"] for parameter in map(resolved, operation["parameters"]) if parameter["in"] == "query"]
        assert sorted(told) == sorted(asked)


def test_the_parameters_of_the_stream_are_those_that_are_read() -> None:
    asked: list[str] = []

    class Asked(dict[str, str]):
        def get(self, name: str, default: object = None) -> None:  # type: ignore[override]
            asked.append(name)

        def __contains__(self, name: object) -> bool:
            asked.append(str(name))
            return False

    queries.follow_request(Asked(), None)
    queries.hold_s(Asked(), 10)
    operation = OPERATIONS[f"GET {paths.BASE}/logs/{{fqn}}/stream/{{runId}}"]
    told = [parameter["name"] for parameter in map(resolved, operation["parameters"]) if parameter["in"] == "query"]
    assert sorted(told) == sorted(asked)


def test_the_cookie_and_types_of_batches_are_those_that_are_read() -> None:
    assert COMPONENTS["parameters"]["session"]["name"] == logs.COOKIE
    types = OPERATIONS[f"POST {paths.BASE}/logs/{{fqn}}/{{runId}}"]["requestBody"]["content"]
    assert set(types) == bodies._GZIP | bodies._PLAIN | {bodies._JSON}


def test_the_statuses_of_partitions_are_in_the_order_of_their_list() -> None:
    statuses = COMPONENTS["parameters"]["partitionStatus"]["schema"]["enum"]
    assert statuses == list(coordination.ORDER) and set(statuses) == set(Status)


@pytest.mark.parametrize("example", COMPONENTS["schemas"]["LogBatch"]["examples"])
def test_the_examples_of_a_batch_are_lines(example: dict[str, Any]) -> None:
    batch = bodies.read_batch({"body": json.dumps(example)}, {}, LINES, 1024)
    assert batch.body == b"one\ntwo\n"


@pytest.mark.parametrize(
    "wrong",
    [
        {"version": 1},
        {"start": "1"},
        {"end": 1.5},
        {"path": ""},
        {"where": ""},
        {"where": "Web"},
        {"what": "x" * 257},
        {"work_id": "null"},
        {"work_id": "a b"},
        {"work_id": "x" * 257},
        {"id": ""},
        {"id": "a\nb"},
        {"id": "x" * 513},
        {"hash": "G" * 32},
    ],
)
def test_metadata_that_the_model_refuses_is_none_of_the_document(wrong: dict[str, Any]) -> None:
    """The model validates with functions, of which its schema has the patterns and constants."""
    schema = COMPONENTS["schemas"]["Metadata"]
    document = schema["examples"][0] | wrong
    assert mistakes(schema, document)
    with pytest.raises(ValidationError):
        Metadata.model_validate(document)


def test_the_metadata_of_files_is_the_models() -> None:
    """The model validates with functions that no schema expresses, so only fields and nullability are compared."""
    told, model = COMPONENTS["schemas"]["Metadata"], Metadata.model_json_schema()
    derived = {"start_iso", "end_iso"}
    assert set(told["properties"]) - derived == set(model["properties"])
    assert set(told["required"]) - {"end"} == set(model["required"])
    for name, field in model["properties"].items():
        document = dict.fromkeys(model["properties"]) | COMPONENTS["schemas"]["Metadata"]["examples"][0] | {name: None}
        assert (mistakes(told, document) == []) == ({"type": "null"} in field.get("anyOf", [])), name


@pytest.mark.parametrize(
    ("is_valid", "more"),
    [
        (
            True,
            {"timestamp": None, "step": None, "level": "warn", "data": {"a": [1]}, "annotations": [{"position": 0, "note": {}}]},
        ),
        (False, {"message": 1}),
        (False, {"timestamp": -1}),
        (False, {"timestamp": MAX_TIMESTAMP_MS + 1}),
        (False, {"id": 1.5}),
        (False, {"step": "s" * 201}),
        (False, {"level": "l" * 41}),
        (False, {"data": []}),
        (False, {"annotations": [{"note": "n"}]}),
        (False, {"other": 1}),
    ],
)
def test_an_event_is_valid_in_the_document_if_it_is_stored(is_valid: bool, more: dict[str, Any]) -> None:
    """Functions check some lengths, which the model only documents."""
    event = {"message": "one"} | more
    assert (mistakes(COMPONENTS["schemas"]["NewEvent"], event) == []) == is_valid
    with nullcontext() if is_valid else pytest.raises((ValidationError, InvalidEventError)):
        measured_event(NewEvent.model_validate_json(json.dumps(event)), Loggable.of_run(Run("p", "r"), "runlake"))


@pytest.mark.parametrize("heartbeat_s", [-1, 0, 1, 9, 10, 86_400, 86_401])
def test_a_start_is_valid_in_the_document_if_the_model_accepts_it(heartbeat_s: int) -> None:
    is_documented = mistakes(COMPONENTS["schemas"]["RunStart"], {"heartbeatS": heartbeat_s}) == []
    with nullcontext() if is_documented else pytest.raises(ValidationError):
        StartBody.model_validate({"heartbeatS": heartbeat_s})


@pytest.mark.parametrize(
    ("is_valid", "body"),
    [
        (True, {"requestId": "a", "records": []}),
        (True, {"requestId": "a", "timestamp": 1, "records": [{"data": ""}, {}]}),
        (False, []),
        (False, {"records": []}),
        (False, {"requestId": 1, "records": []}),
        (False, {"requestId": "a"}),
        (False, {"requestId": "a", "records": {}}),
    ],
)
def test_a_delivery_is_valid_in_the_document_if_its_decoder_accepts_it(is_valid: bool, body: Any) -> None:
    """The decoder has checks of its own, because each record is refused by itself."""
    assert (mistakes(COMPONENTS["schemas"]["FirehoseDelivery"], body) == []) == is_valid
    with nullcontext() if is_valid else pytest.raises(InvalidEventError):
        firehose.decode(json.dumps(body), gzip.decompress)


def test_the_codes_of_rejected_items_are_those_of_their_results() -> None:
    codes = COMPONENTS["schemas"]["AgentItems"]["properties"]["errors"]["items"]["properties"]["code"]["enum"]
    assert set(codes) == set(agent_requests.STATUS.values()) - {200, 503}


# The page

PAGE = docs_page.page()


def test_the_page_is_small_and_asks_nobody_else() -> None:
    assert len(PAGE.encode()) < 15 * 1024
    assert re.findall(r"(?:https?|wss?):|[\"'(]//", PAGE) == []
    assert re.findall(r"<(?:script|img|iframe|link)[^>]*\bsrc=|@import|url\(", PAGE) == []
    assert re.findall(r"<link[^>]*>", PAGE) == ['<link rel="icon" href="data:,">']
    assert re.findall(r"fetch\((\W[^)]*)\)", PAGE) == ['"../../spec/"']
    assert "connect-src 'self'" in PAGE and re.findall(r"localStorage|sessionStorage|document\.cookie", PAGE) == []


def test_the_page_can_be_read_by_everybody() -> None:
    assert PAGE.startswith('<!doctype html>\n<html lang="en">')
    assert re.search(r"<title>[^<]+</title>", PAGE)
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in PAGE
    assert "prefers-color-scheme: dark" in PAGE and "<noscript>" in PAGE and "<h1>" in PAGE and "<main" in PAGE


def test_the_page_inserts_text_only() -> None:
    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", PAGE) == []


def test_the_pages_groups_are_the_documents() -> None:
    """The page lists operations by tag: one without a tag would be missing."""
    assert {tag["name"] for tag in DOCUMENT["tags"]} == {operation["tags"][0] for operation in OPERATIONS.values()}
    assert {method for item in DOCUMENT["paths"].values() for method in item} <= set(
        re.findall(r'"(\w+)"', re.search(r"const METHODS = \[(.*)\]", PAGE)[1])  # type: ignore[index]
    )


@pytest.mark.parametrize(
    ("row", "entry", "message"),
    [
        ({"document": "catalogue"}, {}, "operation getRun: no document 'catalogue' in openapi.RESOURCES"),
        ({"document": "service"}, {}, "operation getRun: no 'getRun' in openapi._SERVICE_OPERATIONS"),
        ({"id": "getOutcome"}, {}, "operation getOutcome: no 'getOutcome' in openapi_catalog.OPERATIONS"),
        ({"errors": (400, 422)}, {}, "operation getRun: no 422 in openapi_catalog.ERRORS"),
        ({}, {"responses": {200: "Runn"}}, "operation getRun: no 'Runn' in openapi_catalog.SCHEMAS"),
        ({}, {"parameters": ["fqn", "runid"]}, "operation getRun: no ['runid'] in PARAMETERS of a module openapi_…"),
    ],
)
def test_what_a_row_lacks_is_named(
    monkeypatch: pytest.MonkeyPatch, row: dict[str, Any], entry: dict[str, Any], message: str
) -> None:
    (run,) = (each for each in operations.OPERATIONS if each.id == "getRun")
    monkeypatch.setitem(openapi_catalog.OPERATIONS, "getRun", openapi_catalog.OPERATIONS["getRun"] | entry)
    with pytest.raises(IncompleteDocumentError, match=f"^{re.escape(message)}$"):
        openapi._operation(replace(run, **row))


def test_two_operations_with_one_address_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {each.id: each for each in operations.OPERATIONS}
    monkeypatch.setattr(openapi, "OPERATIONS", (rows["getRun"], replace(rows["grepRun"], path=rows["getRun"].path)))
    with pytest.raises(IncompleteDocumentError, match="operations getRun and grepRun have the same address: GET /v1/catalog"):
        openapi._paths.__wrapped__()


def test_each_operation_has_its_scopes() -> None:
    named = {scheme for requirement in DOCUMENT["security"] for scheme in requirement}
    assert named == set(COMPONENTS["securitySchemes"])
    for declared in operations.OPERATIONS:
        operation = OPERATIONS[f"{declared.method} {declared.path}"]
        if declared.is_public:
            assert operation["security"] == [] and "401" not in operation["responses"], declared.id
        else:
            assert "security" not in operation and "401" in operation["responses"], declared.id
            assert ("503" in operation["responses"]) == (declared.id != "streamLog"), declared.id
            assert operation["x-runlake-scopes"] == list(declared.scopes), declared.id
            assert ("403" in operation["responses"]) == bool(declared.scopes), declared.id
