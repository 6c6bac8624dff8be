"""The mutants that are curated can be applied, and the patterns that address them do what their description says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutants.curated import areas
from tests.mutants.mutant import Mutant, group
from tests.mutants.runner import ROOT, mutated
from tests.mutants.syntax import PatternError, mutate

CURATED = areas()
SOURCE = """\
class Store:
    def put(self, key, body):
        \"\"\"Ü: columns are bytes.\"\"\"
        x = "ü"; self.write(key, body, condition=self.etag)
        if body and key:
            self.log(key)
            return True
        return False

def put(key):
    return key
"""


@pytest.mark.parametrize("area", CURATED)
def test_curated_mutants_apply(area: str) -> None:
    assert [failed for mutant in CURATED[area] for failed in _failure_of(mutant)] == []


def _failure_of(mutant: Mutant) -> Iterator[str]:
    try:
        compile(mutated(mutant), mutant.where, "exec")
    except (PatternError, SyntaxError) as error:
        yield f"{mutant.where}: {error}"


@pytest.mark.parametrize("area", CURATED)
def test_curated_mutants_name_existing_tests(area: str) -> None:
    for mutant in CURATED[area]:
        paths = [argument.partition("::")[0] for argument in mutant.tests.split() if argument.startswith(("tests/", "client/"))]
        assert bool(paths) != bool(mutant.equivalent), mutant.where
        assert all(Path(ROOT, path).exists() for path in paths), paths


def test_expression_is_replaced_with_captured_parts() -> None:
    changed = mutate(SOURCE, "Store.put", "self.write(A, B, condition=C)", "self.write(B, A)")
    assert changed == SOURCE.replace("self.write(key, body, condition=self.etag)", "(self.write(body, key))")


def test_statement_with_any_body_is_replaced() -> None:
    changed = mutate(SOURCE, "Store.put", "if A and B:\n    ...", "if A:\n    ...")
    assert "        if body:\n            self.log(key)\n            return True\n        return False\n" in changed


def test_call_is_replaced_by_nothing() -> None:
    assert mutate(SOURCE, "Store.put", "self.log(A)", "None") == SOURCE.replace("self.log(key)", "(None)")


def test_statement_takes_the_place_of_a_call() -> None:
    assert mutate(SOURCE, "Store.put", "self.log(A)", "pass") == SOURCE.replace("self.log(key)", "pass")


def test_only_the_named_definition_is_searched() -> None:
    with pytest.raises(PatternError, match="0 occurrences"):
        mutate(SOURCE, "put", "self.log(A)", "None")
    assert mutate(SOURCE, "put", "return A", "return None").endswith("def put(key):\n    return None\n")


def test_nth_occurrence_is_in_source_order() -> None:
    assert mutate(SOURCE, "Store.put", "return A", "return None", nth=1).count("return None") == 1
    assert "        return None\n" in mutate(SOURCE, "Store.put", "return A", "return None", nth=1)


def test_same_letter_matches_the_same_expression_only() -> None:
    assert mutate("a = b + b\n", "", "A + A", "A") == "a = (b)\n"
    with pytest.raises(PatternError, match="0 occurrences"):
        mutate("a = b + c\n", "", "A + A", "A")


@pytest.mark.parametrize("name", ["missing", "Store.missing", "Store.put.inner"])
def test_unknown_definition_is_an_error(name: str) -> None:
    with pytest.raises(PatternError, match="no definition"):
        mutate(SOURCE, name, "A", "None")


def test_mutation_without_effect_is_an_error() -> None:
    with pytest.raises(PatternError, match="changes nothing"):
        mutate(SOURCE, "put", "return A", "return A")


def test_mutant_without_tests_needs_a_reason() -> None:
    with pytest.raises(ValueError, match="equivalent"):
        Mutant("app:", "A", "None")


def test_row_has_the_tests_of_its_group_unless_it_names_others() -> None:
    row = ("f", "A", "None", "a reason")
    mutants = group("app", "tests/a.py", row, (*row, "::test_one"), (*row, "tests/b.py"))
    assert [mutant.tests for mutant in mutants] == ["tests/a.py", "tests/a.py::test_one", "tests/b.py"]
    assert mutants[0] == Mutant("app:f", "A", "None", tests="tests/a.py", why="a reason")
