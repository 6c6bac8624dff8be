"""What the documents refer to in inline code, checked against the project: paths, commands and their options, routes, scopes, settings,
metrics, identifiers.

A reference is recognized by its form alone, so pages may be rewritten freely. ``problem`` says what is wrong with one, or nothing. Other
projects' words are in ``FOREIGN``, each under the name of whose they are.
"""

from __future__ import annotations

import argparse
import ast
import fnmatch
import importlib
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from io import StringIO
from pathlib import Path
from urllib.parse import urlsplit

import click

import app
from chalicelib.access.grants import Scope
from chalicelib.masking.shapes import NAMES as SHAPES
from chalicelib.settings import Settings
from docs import generate
from runlake.__main__ import runlake
from tests.docs.pages import PROJECT

FOREIGN = {
    "agents and their settings (docs/agents.md links each one's documentation)": """
        OTEL_BLRP_MAX_EXPORT_BATCH_SIZE bulk_max_size chunk_limit_records chunk_limit_size chunk_size max_chunk_bytes flattened flat_object
        json_date_format iso8601 kubernetes retryable_response_codes send_batch_max_size SizeInMBs""",
    "the datalake client and its queue": "DATALAKE_CONFIG DATALAKE_HTTP_URL DATALAKE_QUEUE_DIR DATALAKE_STORAGE_URL AWS_S3_HOST uploader add_files",
    "OpenMetadata": "hostPort successThreshold",
    "Jenkins (JEP-212)": """
        AnnotatedLargeText ConsoleNote LogStorage LogStorageFactory createWriter getLog getLogFile getLogInputStream getLogReader jenkinsId
        overallLog stepLog writeEvent maxLines""",
    "AWS": """
        AmazonAPIGatewayPushToCloudWatchLogs sequencer AKIAIOSFODNN7EXAMPLE AccountKey HttpPutResponseHopLimit taskRoleArn executionRoleArn
        JobFlowRole EnableApplicationScopedIAMRole""",
    "issuers of tokens": "requestedAccessTokenVersion",
    "standards (JOSE, netrc)": "jku jwk x5u NETRC",
    "Python, its logging and packages": "HTTPHandler SMTPHandler SocketHandler pytz pyahocorasick hyperscan",
    "examples' own names": "with_role API_URL QUEUE_ARN ROLE_ARN WRN a_b abcdefgh beef defgh functional svc_a team_hr_payroll",
    "the issues' names for what differs here": "multipart_uploads pending_part_uploads",
}
ENDINGS = frozenset({"py", "md", "yaml", "yml", "json", "ts", "lock", "toml", "svg", "cjs", "sh"})
EXAMPLE_FILES = frozenset({"taskinstance.py", "target.json"})
"""Of a line that Airflow logs; a file that readers write."""
PYTHON = ".venv/bin/python"
_PLACEHOLDER = re.compile(r"[{}…*]|\b[A-Z]{1,}\b")
_METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD")
_ROUTE = re.compile(rf"(?:({'|'.join(_METHODS)}) )?((?:\$API|/api|…)?/(?:v\d|spec|docs|health)(?:/\S*|\?\S*)?|(?:…/|logs/)\S+)")
_LOGS = "/v1/services/ingestionPipelines/logs/"
OPENMETADATA_ROUTES = frozenset({"/api/v1/system/config/jwks"})
_MODULES = ("chalicelib", "glue_jobs", "local", "bench", "deploy", "docs", "tests", "client")
_OWN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def problem(text: str) -> str | None:
    """What is wrong with a span of inline code; None where nothing is, or where it refers to nothing of the project."""
    for rule in (_command, _route, _scope, _metric, _path, _dotted, _identifier):
        said = rule(text)
        if said is not None:
            return said or None
    return None


# Each rule answers None where it does not apply, "" where the reference is good, else what is wrong.
def _command(text: str) -> str | None:
    if not re.match(r"(\S+=\S+ )*(make|python -m|runlake|bin/\S+|\.venv/bin/python -m) ", text + " ") or text in (
        "make",
        "runlake",
    ):
        return None
    return command_problem(text) or ""


def _route(text: str) -> str | None:
    matched = _ROUTE.fullmatch(text)
    if not matched or text in OPENMETADATA_ROUTES:
        return None
    method, path = matched.groups()
    is_request = method or path.startswith(("$API", "/api", "/v", "/spec", "/docs", "/health", "…/v"))
    return "" if not is_request or _is_route(method, path) else f"no route of the API: {text}"


def _scope(text: str) -> str | None:
    if not re.fullmatch(r"(logs|archive|events|pipelines|admin):\w+", text):
        return None
    return "" if text in {scope.value for scope in Scope} else f"no scope: {text}"


def _metric(text: str) -> str | None:
    if not text.startswith("om_"):
        return None
    return "" if text in _metrics() else f"no metric: {text}"


def _path(text: str) -> str | None:
    path, _, test = text.partition("::")
    if not re.fullmatch(r"[\w.{}…*-]+(/[\w.{}…*-]+)*/?", path) or path.startswith("{"):
        return None
    first, ending = path.split("/")[0], path.rstrip("/").rpartition(".")[2]
    if first in ("build", ".local") and "/" in path:
        return "" if _is_produced(path) else f"nothing makes it: {path}"
    if not ("/" in path and (PROJECT / first).exists()) and (ending not in ENDINGS or "." not in path):
        return None
    if path in EXAMPLE_FILES or first.startswith("_") or _is_named_in_code(path):
        return ""
    if _PLACEHOLDER.search(path):
        path = path[: _PLACEHOLDER.search(path).start()].rpartition("/")[0]  # type: ignore[union-attr]
        return "" if not path or (PROJECT / path).exists() else f"no such folder: {path}"
    if not _is_file(path):
        return f"no such path: {path}"
    return "" if not test or _defines(path, test) else f"no such test: {text}"


def _dotted(text: str) -> str | None:
    parts = text.removesuffix("()").split(".")
    if len(parts) < 2 or parts[0] not in _MODULES or not all(map(_OWN.fullmatch, parts)):
        return None
    for length in range(len(parts), 0, -1):
        path = PROJECT.joinpath(*parts[:length])
        if path.is_dir() or path.with_suffix(".py").exists():
            source = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
            rest = parts[length:]
            return "" if not rest or (source.exists() and rest[0] in source.read_text()) else f"no such name: {text}"
    return f"no such module: {text}"


def _identifier(text: str) -> str | None:
    """A name alone, or ``NAME=value``: of a setting, a parameter, a field, a class, an error code."""
    name, _, _ = text.partition("=")
    is_name = _OWN.fullmatch(name) and (re.search(r"[a-z][A-Z]|_", name) or name.isupper())
    if not is_name or " " in name:
        return None
    return "" if name in _identifiers() else f"occurs nowhere in the code: {name} (renamed? another project's goes into FOREIGN)"


def command_problem(command: str) -> str | None:
    """What is wrong with a command line of the project: the target or module is missing, or its parser refuses the arguments."""
    words = _words(command)
    while words and re.fullmatch(r"\w+=.*", words[0]):
        words.pop(0)
    if not words:
        return None
    name, *arguments = words
    if name == "make":
        return _make_problem(arguments)
    if name == "runlake":
        return _runlake_problem(arguments)
    if name == "bin/runlake-pipelines" and arguments:
        return _parser_problem("local.run_pipelines", arguments)
    if name.startswith("bin/"):
        return None if (PROJECT / name).exists() else f"no such command: {name}"
    if name.rpartition("/")[2] == "python" and arguments[:1] == ["-m"]:
        if name != PYTHON and arguments[1].partition(".")[0] in _MODULES:
            return f"the packages are in the project's own environment: write {PYTHON} -m {arguments[1]}"
        return _module_problem(arguments[1], arguments[2:])
    return None


def _words(command: str) -> list[str]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    words: list[str] = []
    with suppress(ValueError):  # a quotation that goes on in the next line
        for word in lexer:
            if word[:1] in "|&;<>":
                break
            words.append(word)
    return words[2:] if words[:1] == ["with_role"] else words


def _make_problem(arguments: list[str]) -> str | None:
    makefile = (PROJECT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    variables = set(re.findall(r"\b([A-Z]{3,})\b", makefile))
    assigned = dict(each.split("=", 1) for each in arguments if re.match(r"[A-Z]+=", each))
    for each in arguments:
        if each not in targets and each.split("=")[0] not in variables:
            return f"make has no target or variable: {each}"
    if arguments[:1] == ["job"] and "NAME" in assigned:
        return _module_problem("glue_jobs." + assigned["NAME"], shlex.split(assigned.get("ARGS", "")))
    benches = {"bench": "bench", "bench-spark": "bench.spark", "bench-live": "bench.live", "soak": "bench.soak"}
    if arguments[:1] and arguments[0] in benches and "ARGS" in assigned:
        return _module_problem(benches[arguments[0]], shlex.split(assigned["ARGS"]))
    return None


def _module_problem(module: str, arguments: list[str]) -> str | None:
    path = PROJECT / module.replace(".", "/")
    if module in ("pytest", "venv", "pip"):
        return None
    source = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__main__.py"
    if not source.exists():
        return f"no such module: {module}"
    if module.partition(".")[0] in ("local", "deploy", "glue_jobs") and "_parser(" in source.read_text():
        return _parser_problem(module, arguments)
    options = {each.partition("=")[0] for each in arguments if re.match(r"--[a-z]", each)}
    missing = options - _options_in(source) - _options_in(PROJECT / "bench" / "command.py")
    return f"{module} has no option {', '.join(sorted(missing))}" if missing else None


def _options_in(source: Path) -> set[str]:
    nodes = ast.walk(ast.parse(source.read_text()))
    return {
        node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value[:2] == "--"
    }


def _parser_problem(module: str, arguments: list[str]) -> str | None:
    loaded = importlib.import_module(module if module != "deploy" and module != "local" else module + ".__main__")
    parser: argparse.ArgumentParser = loaded._parser()
    said = StringIO()
    try:
        with redirect_stderr(said), redirect_stdout(StringIO()):
            parser.parse_args(arguments)
    except SystemExit as end:
        return said.getvalue().strip().rpartition("\n")[2] if end.code else None
    return None


def _runlake_problem(arguments: list[str]) -> str | None:
    """Of the client's command line, or a span that shows its form: ``runlake tail FQN [RUN]``."""
    arguments = [each.strip("[]") for each in arguments]
    if not arguments or arguments[0].startswith("-"):
        return None
    command = runlake.commands.get(arguments[0])
    if command is None:
        return f"runlake has no command {arguments[0]}"
    if isinstance(command, click.Group) and len(arguments) > 1:
        if arguments[1] not in command.commands:
            return f"runlake {arguments[0]} has no command {arguments[1]}"
        command = command.commands[arguments[1]]
    own = arguments[1 : arguments.index("--")] if "--" in arguments else arguments[1:]
    options = {option for each in [*command.params, *runlake.params] if isinstance(each, click.Option) for option in each.opts}
    missing = {each.partition("=")[0] for each in own if re.match(r"-", each)} - options - {"-h", "--help"}
    return f"runlake {arguments[0]} has no option {', '.join(sorted(missing))}" if missing and arguments[0] != "exec" else None


def _is_route(method: str | None, path: str) -> bool:
    path = urlsplit(path.removeprefix("$API").removeprefix("/api")).path
    if path.startswith("logs/"):
        path = _LOGS + path.removeprefix("logs/")
    if path.rstrip("/") in ("/v0", "/v1"):
        return True
    pieces = path.strip("/").split("/")
    anywhere = pieces[0] == "…"
    return any(
        (method is None or method in methods)
        and _matches(pieces[1:] if anywhere else pieces, route.strip("/").split("/"), anywhere)
        for route, methods in app.app.routes.items()
    )


def _matches(pieces: list[str], route: list[str], anywhere: bool) -> bool:
    if pieces[-1:] == ["…"]:
        pieces, route = pieces[:-1], route[: len(pieces) - 1]
    if anywhere:
        route = route[-len(pieces) :]
    return len(pieces) == len(route) and all(own[:1] == "{" or own == each for each, own in zip(pieces, route, strict=True))


def _is_file(path: str) -> bool:
    if (PROJECT / path).exists():
        return True
    return "/" not in path.rstrip("/") and any(each.rpartition("/")[2] == path for each in tracked())


def _is_produced(path: str) -> bool:
    """Whether the commands name it that make ``build/`` and ``.local/``."""
    name = path.rstrip("/").split("/")[-1]
    return any(name in (PROJECT / each).read_text() for each in tracked() if re.match(r"(local|deploy)/.*\.py$", each))


def _is_named_in_code(path: str) -> bool:
    """Whether it is an object's name, which stands in the code as a text."""
    return "/" not in path and any(f'{path}"' in text for text in _sources())


@cache
def _sources() -> tuple[str, ...]:
    return tuple((PROJECT / each).read_text() for each in tracked() if each.endswith(".py") and _is_code(each))


def _defines(path: str, test: str) -> bool:
    nodes = ast.walk(ast.parse((PROJECT / path).read_text()))
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == test for node in nodes)


def _metrics() -> set[str]:
    shapes = {f"om_streamable_logs_masked_secrets_{shape.replace('-', '_')}" for shape in SHAPES}
    return {*generate.metric_names().values(), *shapes}


@cache
def tracked() -> tuple[str, ...]:
    """Paths of the project's files."""
    return tuple(subprocess.run(["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout.splitlines())


@cache
def _identifiers() -> frozenset[str]:
    """Every word of the code without its tests and documents, of the settings' names, and of ``FOREIGN``."""
    own = set(_of_settings()) | _metrics()
    for path in tracked():
        if _is_code(path):
            own |= set(re.findall(r"\w+", (PROJECT / path).read_text(errors="replace")))
    return frozenset(own | {name for names in FOREIGN.values() for name in names.split()} | _tests())


def _is_code(path: str) -> bool:
    outside = ("tests/*", "client/tests/*", "viewer/tests/*", "docs/*.md", "*.lock", "*.png", "*.json", "*.md", "*.woff2")
    return not any(fnmatch.fnmatch(path, each) for each in outside)


def _of_settings() -> Iterator[str]:
    for name, field in Settings.model_fields.items():
        yield from (name, f"RUNLAKE_{name.upper()}", re.sub(r"_(\w)", lambda each: each[1].upper(), name), str(field.alias))
    from runlake.settings import NAMES

    yield from (f"RUNLAKE_{name.upper()}" for name in NAMES)


def _tests() -> set[str]:
    """Names of tests, and what only tests read. Not of the tests of documents: they name what must not pass."""
    names: set[str] = set()
    for path in tracked():
        if re.search(r"(^|/)tests/(?!docs/).*\.py$", path):
            names |= set(re.findall(r"\b(test_\w+|RUNLAKE_\w+)", (PROJECT / path).read_text()))
    return names
