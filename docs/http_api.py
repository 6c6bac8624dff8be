"""The sections of ``docs/http-api.md``, one for each operation, from the OpenAPI document and the rows of ``operations``.

``sections()`` has the text of each group of operations, by the name of its document; ``docs.generate`` writes it. What the page has shown, a
parameter, a schema or a long description, is a link afterwards. ``docs/examples/http-api.console`` has commands and what they print, below
``# operationId``; a test executes them in the order of the page. An operation without them has the examples of the document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from chalicelib.access.grants import Scope
from chalicelib.routes import openapi
from chalicelib.routes.operations import OPERATIONS, Operation

_EXAMPLES = Path(__file__).parent / "examples" / "http-api.console"
_JSON = "application/json"
_COMMON = frozenset({"#/components/parameters/fqn", "#/components/parameters/runId"})
"""Parameters that the page explains once, as it does ``cursor``."""
_LONG_CHARS = 100
"""Longer descriptions are not repeated."""
_FEW_WORDS = 7
"""Shorter descriptions of responses repeat the summary of the operation."""
_SEVERAL = 3
_LARGE = 10**10
"""Larger bounds are not shown."""


def anchor(heading: str) -> str:
    """The fragment of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def heading(operation: Operation) -> str:
    """The heading of an operation's section."""
    return f"{operation.method} {operation.path}"


@cache
def sections() -> Mapping[str, str]:
    """The sections of each document of ``operations``, in the order of the table, below the description of their tag."""
    page = _Page(openapi.document("/"), console_examples())
    tags = {resource.tag: name for name, resource in openapi.RESOURCES.items()}
    return {tags[each["name"]]: page.group(tags[each["name"]], each["description"]) for each in page.document["tags"]}


@cache
def console_examples() -> Mapping[str, str]:
    """Commands and what they print, by operation."""
    found = dict(re.findall(r"^# (\w+)\n((?:(?!# ).*\n)+)", _EXAMPLES.read_text(), re.MULTILINE))
    unknown = set(found) - {each.id for each in OPERATIONS}
    assert not unknown, f"examples of no operation: {unknown}"
    return found


class _Page:
    """Sections in order, with the anchors of what was shown already."""

    def __init__(self, document: Mapping[str, Any], console: Mapping[str, str]) -> None:
        self.document = document
        self._console = console
        self._schemas: Mapping[str, Any] = document["components"]["schemas"]
        self._bases: set[str] = set()
        self._shown: dict[str, str] = {}  # anchors, by the reference of a component or by a text
        self._operations: list[tuple[str, Mapping[str, Any]]] = []

    def group(self, document: str, about: str) -> str:
        """The sections of one document."""
        operations = (each for each in OPERATIONS if each.document == document)
        return "\n\n".join([about, *(part for each in operations for part in self._section(each))])

    def _section(self, declared: Operation) -> Iterator[str]:
        operation = self.document["paths"][declared.path][declared.method.lower()]
        here = anchor(heading(declared))
        yield f"### {heading(declared)}"
        model = self._model(operation)
        yield " ".join(self._about(operation, model, here))
        if not model:
            yield _facts(declared, operation)
        yield from self._parameters(operation, here, is_short=bool(model))
        if not model:
            yield from self._body(declared, operation, here)
            yield from self._responses(declared, operation, here)
        if declared.id in self._console:
            yield f"```console\n{self._console[declared.id]}```"
        self._operations.append((here, operation))

    def _model(self, operation: Mapping[str, Any]) -> str:
        """The anchor of the last operation that has the same body and responses and the same texts."""
        parts = ("tags", "summary", "description", "requestBody", "responses")
        same = (there for there, each in reversed(self._operations) if all(each.get(part) == operation.get(part) for part in parts))
        return next(same, "")

    def _about(self, operation: Mapping[str, Any], model: str, here: str) -> Iterator[str]:
        yield operation["summary"] + "."
        description = operation.get("description", "")
        if model:
            yield f"As [above](#{model})."
        elif len(description) > _LONG_CHARS and description in self._shown:
            yield f"The notes [above](#{self._shown[description]}) apply."
        elif description:
            self._shown[description] = here
            yield _line(description)

    def _parameters(self, operation: Mapping[str, Any], here: str, *, is_short: bool) -> Iterator[str]:
        shared = self.document["components"]["parameters"]
        known = [each["$ref"] for each in operation.get("parameters", ()) if each["$ref"] not in _COMMON]
        named = [(key, each) for key in known if (each := shared[key.rpartition("/")[2]])["name"] != "cursor"]
        new = [each for key, each in named if key not in self._shown]
        old: dict[str, list[str]] = {}
        for key, each in named:
            if key in self._shown:
                old.setdefault(self._shown[key], []).append(f"`{each['name']}`")
            else:
                self._shown[key] = here
        if new:
            rows = ((_place(each), self._values(each), cell(each["description"])) for each in new)
            yield table(("parameter", "values", "meaning"), rows)
        if old and not is_short:
            links = (f"[{', '.join(names)}](#{there})" for there, names in old.items())
            yield f"Also {', '.join(links)}."

    def _values(self, parameter: Mapping[str, Any]) -> str:
        schema = parameter["schema"]
        notes = ["required"] if parameter.get("required") and parameter["in"] != "path" else []
        return "; ".join(each for each in (*notes, _short(self._type(schema)), _default(schema)) if each)

    def _body(self, declared: Operation, operation: Mapping[str, Any], here: str) -> Iterator[str]:
        body = operation.get("requestBody")
        if not body:
            return
        if there := self._shown.get(json.dumps(body)):
            yield f"**Body**: as [above](#{there})."
            return
        self._shown[json.dumps(body)] = here
        types: dict[str, list[str]] = {}
        for name, content in body["content"].items():
            types.setdefault(self._type(content.get("schema") or {}), []).append(f"`{name}`")
        forms = (", ".join(names) + (f" ({form})" if form not in ("", "string") else "") for form, names in types.items())
        about = [f"**Body**{'' if body.get('required') else ' (optional)'}: {', '.join(forms)}."]
        schema = body["content"].get(_JSON, {}).get("schema", {})
        yield " ".join([*about, *self._texts(body.get("description", ""), schema)])
        yield from self._tables(schema, here, is_request=True)
        if declared.id not in self._console:
            yield from _first_example(body["content"])

    def _responses(self, declared: Operation, operation: Mapping[str, Any], here: str) -> Iterator[str]:
        answers = {status: each for status, each in operation["responses"].items() if status < "308"}
        known = {status: there for status, each in answers.items() if (there := self._shown.get(json.dumps(each)))}
        for anchor_ in dict.fromkeys(known.values()):
            yield f"{', '.join(f'**{status}**' for status in known if known[status] == anchor_)}: as [above](#{anchor_})."
        for status, answer in answers.items():
            content = answer.get("content", {})
            schema = content.get(_JSON, {}).get("schema", {})
            if status == "202" and schema == answers.get("200", {}).get("content", {}).get(_JSON, {}).get("schema"):
                continue
            if status in known:
                continue
            self._shown[json.dumps(answer)] = here
            is_new = not any(name in self._shown for name in self._parts(schema))
            yield " ".join(self._answer("200 or 202" if "202" in answers else status, answer, schema))
            yield from self._tables(schema, here, is_request=False)
            if is_new and not self._prints(declared, schema):
                yield from _first_example(content)

    def _answer(self, status: str, answer: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
        others = [f"`{name}`" for name in answer.get("content", {}) if name != _JSON]
        shown = self._type(schema)
        kinds = ", ".join([*([shown] if shown else []), *others])
        texts = self._texts(answer["description"], schema)
        yield f"**{status}**{f' {kinds}' if kinds else ''}{':' if texts else '.'}"
        yield from texts
        if headers := [f"`{name}`" for name, each in answer.get("headers", {}).items() if "description" in each]:
            yield f"Header{'s' * (len(headers) > 1)} {', '.join(headers)}."

    def _texts(self, own: str, schema: Mapping[str, Any]) -> list[str]:
        """The description of a body, and that of its schema if the page has not shown it."""
        described = {name: self._schemas[name]["description"] for name in _references(schema)[:1]}
        known = {text for name, text in described.items() if name in self._shown}
        texts = (_line(text) for text in dict.fromkeys([own, *described.values()]) if text not in known)
        return [text for text in texts if len(text.split()) >= _FEW_WORDS]

    def _prints(self, declared: Operation, schema: Mapping[str, Any]) -> bool:
        """Whether a command of the example prints a response that shows the schema; any command does for one that is not JSON."""
        if not schema:
            return declared.id in self._console
        required = self._resolved(schema).get("required", ())
        for line in self._console.get(declared.id, "").splitlines():
            try:
                printed = json.loads(line)
            except ValueError:
                continue
            if isinstance(printed, dict) and "code" not in printed and set(required) <= set(printed) and [] not in printed.values():
                return True
        return False

    def _tables(self, schema: Mapping[str, Any], here: str, *, is_request: bool) -> Iterator[str]:
        """The fields of a schema and of those that it contains, unless they were shown."""
        pending = [("", schema)] if "properties" in schema else []
        pending += [(name, self._schemas[name]) for name in _references(schema)]
        first = True
        while pending:
            name, each = pending.pop(0)
            if name and name in self._shown:
                continue
            if name:
                self._shown[name] = here
            rows = list(self._rows(each, "", is_request))
            if name and not first:
                description = _line(each["description"])
                yield f"`{name}`:{f' {description}' if len(description.split()) >= _FEW_WORDS or not rows else ''}"
            if any(meaning for _, _, meaning in rows):
                yield table(("field", "type", "meaning"), rows)
            elif rows:
                yield f"Fields: {'; '.join(f'{names} ({kind})' if kind else names for names, kind, _ in _grouped(rows))}."
            first = False
            pending += [(found, self._schemas[found]) for found in self._parts(each)]

    def _parts(self, schema: Mapping[str, Any]) -> list[str]:
        """The names of the schemas that another one consists of."""
        if base := self._base(schema):
            return [base, *_references({**schema, "properties": _own(schema, self._schemas[base])})]
        return _references(schema)

    def _rows(self, schema: Mapping[str, Any], above: str, is_request: bool) -> Iterator[tuple[str, str, str]]:
        properties = schema.get("properties", {})
        if base := self._base(schema):
            self._bases.add(base)
            yield f"`{above}…`", self._type({"$ref": f"/{base}"}), "its fields"
            properties = _own(schema, self._schemas[base])
        required = schema.get("required", ())
        same, shared = self._same(schema, properties) if not above else ("", ())
        if same:
            note = "; required" if is_request and set(shared) <= set(required) else ""
            yield ", ".join(f"`{name}`" for name in shared), self._type({"$ref": f"/{same}"}) + note, "as there"
        for name, field in properties.items():
            if name == "cursor" or name in shared:
                continue
            kind = self._type(field)
            is_marked = (name in required) == is_request
            notes = ["required" if is_request else "optional"] if is_marked else []
            kind = "; ".join(each for each in (_short(kind), *notes, _default(field)) if each)
            if field.get("description") or "properties" not in field.get("items", field):
                yield f"`{above}{name}`", kind, cell(field.get("description", ""))
            inner = field.get("items", field) if isinstance(field.get("items", field), dict) else {}
            for each in [inner, *inner.get("anyOf", ())]:
                if "properties" in each:
                    yield from self._rows(each, f"{above}{name}{'[]' if 'items' in field else ''}.", is_request)

    def _base(self, schema: Mapping[str, Any]) -> str:
        """The name of the largest schema whose fields are all fields of this one; "" if there is none."""
        mine = schema.get("properties", {})
        bases = [
            (len(fields), name)
            for name, each in self._schemas.items()
            if _SEVERAL < len(fields := each.get("properties", {})) < len(mine)
            and all(mine.get(key) == value for key, value in fields.items())
        ]
        name = max(bases, default=(0, ""))[1]
        return name if name in self._shown or not self._same(schema, mine)[0] else ""

    def _same(self, schema: Mapping[str, Any], properties: Mapping[str, Any]) -> tuple[str, Sequence[str]]:
        """A schema that the page has shown, and its fields among these of another schema, if they are several."""
        if any(schema is self._schemas[name] for name in self._bases):
            return "", ()
        shared = [
            (sum(properties.get(key) == value for key, value in each.get("properties", {}).items()), name)
            for name, each in self._schemas.items()
            if name in self._shown and each is not schema
        ]
        count, name = max(shared, default=(0, ""))
        if count < _SEVERAL:
            return "", ()
        return name, [key for key, value in self._schemas[name]["properties"].items() if properties.get(key) == value]

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema

    def _type(self, schema: Mapping[str, Any]) -> str:
        """A type in a few words."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return f"[`{name}`](#{self._shown[name]})" if name in self._shown else f"`{name}`"
        if "const" in schema:
            return f"`{json.dumps(schema['const'])}`"
        if "enum" in schema:
            return ", ".join(f"`{each}`" if isinstance(each, str) else json.dumps(each) for each in schema["enum"])
        if either := schema.get("anyOf") or schema.get("oneOf"):
            kinds = list(dict.fromkeys(self._type(each) for each in either if each.get("type") != "null"))
            return " or ".join(kinds) + "?" * ({"type": "null"} in either)
        kinds = [schema["type"]] if isinstance(schema.get("type"), str) else list(schema.get("type", ()))
        is_nullable = "null" in kinds
        kinds = [kind for kind in kinds if kind != "null"]
        if "array" in kinds:
            inner = self._type(schema.get("items", {}))
            return f"list of {inner}" if " " in inner else f"{inner}[]" if inner else "list"
        form = {"date-time": "ISO 8601", "uri": "address"}.get(schema.get("format", ""))
        kinds = [form if form and kind == "string" else kind for kind in kinds]
        bounds = _bounds(schema)
        is_counted = kinds == ["integer"] and "maximum" in schema and bounds and not is_nullable
        return ", ".join(bounds if is_counted else [*([" or ".join(kinds) + "?" * is_nullable] if kinds else []), *bounds])


def _facts(declared: Operation, operation: Mapping[str, Any]) -> str:
    """Scopes, limit of the body, errors."""
    scopes = [f"`{scope}`" for scope in declared.scopes]
    if declared.is_public:
        access = "Open"
    elif Scope.LOGS_READ in declared.scopes and len(scopes) > 1:
        access = f"Scope {scopes[0]}, or {scopes[1]} for the log of a run"
    else:
        access = f"Scope {', '.join(scopes)}" if scopes else "Any caller with a token"
    facts = [access]
    if "requestBody" in operation:
        facts.append(f"body up to {size(declared.budget.body_bytes)}")
    if declared.errors:
        facts.append(f"errors {', '.join(str(code) if isinstance(code, int) else f'`{code}`' for code in declared.errors)}")
    return "; ".join(facts) + "."


def size(number: int) -> str:
    """A number of bytes with its unit."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if number >= unit and number % unit == 0:
            return f"{number // unit} {name}"
    return f"{number:,} bytes"


def _bounds(schema: Mapping[str, Any]) -> list[str]:
    least, most = (value if abs(value or 0) < _LARGE else None for value in (schema.get("minimum"), schema.get("maximum")))
    bounds = []
    if most is not None and least is not None:
        bounds.append(f"{least:,} to {most:,}")
    elif least and least > 1:
        bounds.append(f"at least {least:,}")
    if "maxLength" in schema:
        bounds.append(f"up to {schema['maxLength']:,} characters")
    if "pattern" in schema:
        bounds.append(f"`{cell(schema['pattern'])}`")
    return bounds


def _references(node: Any) -> list[str]:
    """The names of the components that a schema refers to, in order."""
    if isinstance(node, dict):
        own = [node["$ref"].rpartition("/")[2]] if isinstance(node.get("$ref"), str) else []
        inner = [found for key, value in node.items() if key not in ("examples", "discriminator") for found in _references(value)]
        return list(dict.fromkeys(own + inner))
    if isinstance(node, list):
        return list(dict.fromkeys(found for each in node for found in _references(each)))
    return []


def _own(schema: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    return {name: field for name, field in schema["properties"].items() if name not in base["properties"]}


def _place(parameter: Mapping[str, Any]) -> str:
    place = parameter["in"]
    return f"`{{{parameter['name']}}}`" if place == "path" else f"{'' if place == 'query' else place + ' '}`{parameter['name']}`"


def _first_example(content: Mapping[str, Any]) -> Iterator[str]:
    """The first example."""
    for name, given in content.items():
        values = [given["example"]] if "example" in given else [each["value"] for each in given.get("examples", {}).values()]
        if values and name == _JSON:
            yield f"```json\n{json.dumps(values[0], separators=(',', ':'), ensure_ascii=False)}\n```"
        elif values:
            yield f"```text\n{values[0].rstrip()}\n```"
        if values:
            return


def _default(schema: Mapping[str, Any]) -> str:
    """The default, unless it is the value that a reader expects."""
    default = schema.get("default")
    return "" if default in (None, "", 0, False) else f"default `{default}`"


def _short(kind: str) -> str:
    """A type without the word for a string."""
    return "" if kind == "string" else kind.removeprefix("string, ")


def _line(text: str) -> str:
    return " ".join(text.split())


def cell(text: str) -> str:
    """A text as the cell of a table."""
    return _line(text).replace("|", "\\|")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table."""
    names = list(head)
    return "\n".join(f"|{'|'.join(line)}|" for line in [names, ["---"] * len(names), *_grouped(rows)])


def _grouped(rows: Iterable[Iterable[str]]) -> Iterator[list[str]]:
    """Rows that differ only in their names are one row."""
    names: dict[tuple[str, ...], list[str]] = {}
    for name, *rest in rows:
        names.setdefault(tuple(rest), []).append(name)
    return ([", ".join(each), *rest] for rest, each in names.items())
