"""Finds a pattern in Python source and replaces it, preserving every other character.

Patterns are Python: a single capital letter is a variable that matches any expression; ``...`` as the only statement of a body matches
any statements.
"""

from __future__ import annotations

import ast
import copy
import textwrap
from collections.abc import Iterator
from typing import Any

Bindings = dict[str, Any]
_BODY = "..."
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IGNORED_FIELDS = frozenset({"ctx", "kind", "type_comment", "type_ignores"})


class PatternError(ValueError):
    """The named definition does not exist, or does not contain the pattern."""


def mutate(source: str, qualified_name: str, find: str, replace: str, nth: int = 0) -> str:
    """``source`` with the nth occurrence of ``find`` inside ``qualified_name`` replaced. Raises PatternError."""
    scope = _scope(ast.parse(source), qualified_name)
    pattern = _pattern(find, replace)
    matches = [(node, bound) for node in _nodes(scope) if (bound := _match(pattern, node)) is not None]
    if nth >= len(matches):
        raise PatternError(f"{len(matches)} occurrences of {find!r} in {qualified_name or 'the module'}, requested number {nth}")
    node, bound = matches[nth]
    mutated = _splice(source, node, _filled(replace, bound))
    if ast.dump(ast.parse(mutated)) == ast.dump(ast.parse(source)):
        raise PatternError(f"{replace!r} changes nothing in {qualified_name or 'the module'}")
    return mutated


def _scope(tree: ast.AST, qualified_name: str) -> ast.AST:
    scope = tree
    for name in filter(None, qualified_name.split(".")):
        inner = (node for node in ast.walk(scope) if isinstance(node, _DEFINITIONS) and node.name == name)
        scope = next(inner, None)  # type: ignore[assignment]
        if scope is None:
            raise PatternError(f"no definition named {qualified_name}")
    return scope


def _pattern(find: str, replace: str) -> ast.AST:
    """An expression; or, if the replacement is a statement, the statement that consists of the expression."""
    statements = ast.parse(textwrap.dedent(find)).body
    if len(statements) != 1:
        raise PatternError(f"a pattern is one expression or one statement: {find!r}")
    is_replaced_by_statement = not isinstance(ast.parse(textwrap.dedent(replace)).body[0], ast.Expr)
    only = statements[0]
    return only.value if isinstance(only, ast.Expr) and not is_replaced_by_statement else only


def _nodes(scope: ast.AST) -> Iterator[ast.AST]:
    nodes = (node for node in ast.walk(scope) if isinstance(node, (ast.expr, ast.stmt)))
    return iter(sorted(nodes, key=lambda node: (node.lineno, node.col_offset)))


def _match(pattern: Any, node: Any) -> Bindings | None:
    bound: Bindings = {}
    return bound if _matches(pattern, node, bound) else None


def _matches(pattern: Any, node: Any, bound: Bindings) -> bool:
    if (name := _variable(pattern)) is not None:
        return isinstance(node, ast.expr) and _binds(name, node, bound)
    if isinstance(pattern, list):
        return _lists_match(pattern, node, bound)
    if isinstance(pattern, ast.AST):
        fields = (field for field in pattern._fields if field not in _IGNORED_FIELDS)
        return type(pattern) is type(node) and all(_matches(getattr(pattern, f), getattr(node, f), bound) for f in fields)
    return type(pattern) is type(node) and bool(pattern == node)


def _lists_match(pattern: list[Any], nodes: Any, bound: Bindings) -> bool:
    if not isinstance(nodes, list):
        return False
    if _is_any_body(pattern):
        return bool(nodes) and isinstance(nodes[0], ast.stmt) and _binds(_BODY, nodes, bound)
    return len(pattern) == len(nodes) and all(_matches(p, n, bound) for p, n in zip(pattern, nodes, strict=True))


def _binds(name: str, node: Any, bound: Bindings) -> bool:
    before = bound.setdefault(name, node)
    return before is node or (isinstance(before, ast.AST) and ast.dump(before) == ast.dump(node))


def _variable(node: Any) -> str | None:
    if isinstance(node, ast.Name) and len(node.id) == 1 and node.id.isupper():
        return node.id
    return None


def _is_any_body(statements: list[Any]) -> bool:
    only = statements[0] if len(statements) == 1 else None
    return isinstance(only, ast.Expr) and isinstance(only.value, ast.Constant) and only.value.value is Ellipsis


class _Filler(ast.NodeTransformer):
    def __init__(self, bound: Bindings) -> None:
        self._bound = bound

    def visit_Name(self, node: ast.Name) -> ast.AST:
        name = _variable(node)
        if name is None:
            return node
        if name not in self._bound:
            raise PatternError(f"{name} is in the replacement and not in the pattern")
        return copy.deepcopy(self._bound[name])  # type: ignore[no-any-return]

    def generic_visit(self, node: ast.AST) -> ast.AST:
        body = getattr(node, "body", None)
        if isinstance(body, list) and _is_any_body(body) and _BODY in self._bound:
            node.body = copy.deepcopy(self._bound[_BODY])  # type: ignore[attr-defined]
        return super().generic_visit(node)


def _filled(replace: str, bound: Bindings) -> str:
    filled = _Filler(bound).visit(ast.parse(textwrap.dedent(replace)))
    return ast.unparse(ast.fix_missing_locations(filled))


def _splice(source: str, node: Any, text: str) -> str:
    """AST columns are bytes of UTF-8, so the source is cut as bytes."""
    lines = source.encode().splitlines(keepends=True)
    begin = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    data = source.encode()
    if isinstance(node, ast.stmt):
        indent = " " * node.col_offset
        replacement = textwrap.indent(text, indent).removeprefix(indent)
    else:
        replacement = f"({text})"
    return (data[:begin] + replacement.encode() + data[end:]).decode()
