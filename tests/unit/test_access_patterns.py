"""Patterns of names against an independent model, and the time that matching takes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.access.grants import Grants, Scope
from chalicelib.access.patterns import MAX_PATTERN_CHARS, Patterns, matches, matches_principal
from chalicelib.access.policy import Policy
from chalicelib.errors import IdentityUnavailableError
from tests.sampling import examples

LETTERS = "ab./*?[]\\é "


def model(pattern: str, name: str) -> bool:
    """Meaning of a star, character by character: the beginnings of the name that each beginning of the pattern matches."""
    reached = [True] + [False] * len(name)
    for letter in pattern:
        if letter == "*":
            reached = [any(reached[: end + 1]) for end in range(len(name) + 1)]
        else:
            reached = [False] + [reached[end] and name[end] == letter for end in range(len(name))]
    return reached[-1]


@settings(max_examples=examples(3000), deadline=None)
@given(st.text(LETTERS, max_size=8), st.text(LETTERS.replace("*", ""), max_size=10))
def test_a_pattern_means_what_the_model_says(pattern: str, name: str) -> None:
    assert matches(pattern, name) is model(pattern, name)


@settings(max_examples=examples(1000), deadline=None)
@given(st.lists(st.text("ab", max_size=3), min_size=1, max_size=5), st.lists(st.text("abc", max_size=3), min_size=5, max_size=5))
def test_a_name_that_was_made_of_a_pattern_is_matched(pieces: list[str], between: list[str]) -> None:
    name = pieces[0] + "".join(filler + piece for filler, piece in zip(between, pieces[1:], strict=False))
    assert matches("*".join(pieces), name)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("svc_sales.*", "svc_sales.etl", True),
        ("svc_sales.*", "svc_sales.", True),
        ("svc_sales.*", "svc_sales", False),
        ("svc_sales.*", "svc_salesforce.etl", False),
        ("svc_sales.*", "SVC_SALES.etl", False),
        ("svc_sales.*", "x.svc_sales.etl", False),
        ("svc_sales.*", "svc_sales.a/../../svc_hr.etl", True),  # a name with such letters, and no other pipeline's
        ("svc_sales.*", '"svc_sales.a".b', False),
        ("*", "", True),
        ("", "", True),
        ("", "x", False),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("*b*", "abc", True),
        ("svc?sales", "svc_sales", False),
        ("svc[_]sales", "svc_sales", False),
        ("svc.*", "svc_x", False),
    ],
)
def test_examples(pattern: str, name: str, expected: bool) -> None:
    assert matches(pattern, name) is expected is model(pattern, name)


STS = "arn:aws:sts::111122223333:assumed-role"


@pytest.mark.parametrize(
    ("pattern", "principal", "expected"),
    [
        (f"{STS}/*-admin", f"{STS}/intern/me-admin", False),
        (f"{STS}/*-admin", f"{STS}/data-admin/me", True),
        (f"{STS}/sales-*", f"{STS}/sales-writer/session-1", True),
        (f"{STS}/sales-writer", f"{STS}/sales-writer/session-1", True),
        (f"{STS}/sales-writer", f"{STS}/sales-writer-2/session-1", False),
        (f"{STS}/sales-*/etl", f"{STS}/sales-writer/etl", True),
        (f"{STS}/sales-*/etl", f"{STS}/sales-writer/other", False),
        (f"{STS}/sales-*/etl", f"{STS}/sales-/x/etl", False),
        (f"{STS}/*/etl", f"{STS}/any/etl", True),
        (f"{STS}/*", f"{STS}/any/session", True),
        (STS, f"{STS}/any/session", False),
        ("arn:aws:sts::*", f"{STS}/any/session", False),
        ("*-admin", f"{STS}/intern/me-admin", False),
        ("*", f"{STS}/any/session", True),
        ("arn:aws:iam::111122223333:user/*", "arn:aws:iam::111122223333:user/bob", True),
        ("arn:aws:iam::111122223333:user/*", "arn:aws:iam::111122223333:user/team/bob", False),
        ("sales-*", "sales-etl/nightly", False),
        ("*:assumed-role/etl", f"{STS}/etl/x", False),  # a pattern of tokens' names
        ("*/deploy", f"{STS}/deploy/x", False),
        ("*/ann@example.com", "arn:aws:iam::999999999999:user/ann@example.com", False),
        ("a*:user/bob", "arn:aws:iam::111122223333:user/bob", False),
        ("*root", "arn:aws:iam::111122223333:root", False),
        ("arn:*root", "arn:aws:iam::111122223333:root", True),
    ],
)
def test_arn_of_a_principal_matches_by_role(pattern: str, principal: str, expected: bool) -> None:
    assert matches_principal(pattern, principal, is_signer=True) is expected


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("sales-*", "sales-etl/nightly", True),
        ("people:arn:*", f"people:{STS}/sales/x", True),
        ("*", f"{STS}/sales/x", True),
        (f"{STS}/sales", f"{STS}/sales/x", False),
        (f"{STS}/sales/x", f"{STS}/sales/x", False),
        ("*:assumed-role/sales*", f"{STS}/sales/x", False),
        ("arn:*", "arn:anything", False),
    ],
)
def test_name_of_a_token_is_no_arn(pattern: str, name: str, expected: bool) -> None:
    assert matches_principal(pattern, name, is_signer=False) is expected


@settings(max_examples=examples(1000), deadline=None)
@given(st.text("ab*-", min_size=1, max_size=6), st.text("ab-", min_size=1, max_size=6), st.text("ab-=,.@", min_size=2, max_size=8))
def test_session_name_changes_nothing_about_a_role(pattern: str, role: str, session: str) -> None:
    assert matches_principal(f"{STS}/{pattern}", f"{STS}/{role}/{session}", is_signer=True) is model(pattern, role)


def test_policy_grants_nothing_to_a_session_named_like_a_role() -> None:
    policy = Policy.parse(json.dumps({"principals": {f"{STS}/*-admin": {"logs:read": ["*"]}}}))
    assert policy.grants_of(f"{STS}/team-admin/session", is_signer=True).names
    assert not policy.grants_of(f"{STS}/intern/me-admin", is_signer=True).names


def denying(**denied: list[str]) -> Policy:
    return Policy.parse(json.dumps({"principals": {"*": {"logs:read": ["*"]}}, "denied": denied}))


@pytest.mark.parametrize(
    ("principal", "token_id", "expected"),
    [
        ("bot-7", "", True),
        ("bot-8", "", False),
        ("bot-8", "leaked", True),
        ("bot-8", "leaked-not", False),
        (f"{STS}/intern/anything", "", True),
        (f"{STS}/internal/anything", "", False),
        (f"{STS}/other/bad-session", "", True),
        (f"{STS}/guest/anything", "", True),
    ],
)
def test_deny_list_names_subjects_and_token_ids(principal: str, token_id: str, expected: bool) -> None:
    policy = denying(subjects=["bot-7", f"{STS}/intern", "*/bad-session", "*:assumed-role/guest"], token_ids=["leaked"])
    assert policy.denies(principal, token_id) is expected
    assert not Policy().denies(principal, token_id)


@pytest.mark.parametrize(
    ("subject", "role", "expected"),
    [
        ("arn:aws:iam::111122223333:role/etl", "etl", True),
        ("arn:aws:iam::111122223333:role/team/jobs/etl", "etl", True),
        ("arn:aws:iam::111122223333:role/team/*", "etl", True),
        ("arn:aws:iam::*:role/etl", "etl", True),
        ("arn:aws:iam::111122223333:role/etl", "etl-2", False),
        ("arn:aws:iam::111122223333:role/etl", "x/etl", False),
        ("arn:aws:iam::999999999999:role/etl", "etl", False),
        ("arn:aws:iam::111122223333:user/etl", "etl", False),
    ],
)
def test_role_is_denied_by_its_name_in_iam_too(subject: str, role: str, expected: bool) -> None:
    """Grants need the form of the signer; a denial that matched nobody would not be noticed."""
    assert denying(subjects=[subject]).denies(f"{STS}/{role}/session", "") is expected


def test_token_without_an_id_is_not_denied_by_ids() -> None:
    assert not denying(token_ids=["x"]).denies("bot", "")


@pytest.mark.parametrize(
    "denied", [[], "bot", {"subject": []}, {"subjects": "bot"}, {"subjects": [""]}, {"token_ids": [5]}, {"subjects": None}]
)
def test_deny_list_that_is_written_wrong_is_refused_whole(denied: object) -> None:
    """Half of a deny list would admit the subjects in the other half."""
    with pytest.raises(IdentityUnavailableError):
        Policy.parse(json.dumps({"principals": {}, "denied": denied}))


def test_no_pattern_is_made_slow_by_a_name() -> None:
    """Backtracking would take longer than the universe exists."""
    assert not matches("*a" * 250 + "b", "a" * 100_000)
    assert not matches("a*" * 250 + "b", "a" * 100_000)


@pytest.mark.parametrize("given", [None, 5, True, {"a": "b"}, [None, 7, "", "x" * (MAX_PATTERN_CHARS + 1), ["*"]]])
def test_malformed_pattern_matches_no_name(given: object) -> None:
    patterns = Patterns.parse(given)
    assert not patterns and "" not in patterns and "x" not in patterns


@pytest.mark.parametrize(
    "given",
    [
        None,
        5,
        True,
        [],
        {},
        "",
        "logs",
        "logs:",
        "LOGS:READ",
        "admin:read",
        {"logs:read": None},
        {"logs:read": {"*": 1}},
        {"read": ["*"]},
        [["*"]],
    ],
)
def test_malformed_grants_grant_nothing(given: object) -> None:
    grants = Grants.parse(given)
    assert not any("x" in grants[scope] for scope in Scope)


def test_ways_to_write_grants() -> None:
    assert [scope.value for scope in Scope if "any.name" in Grants.parse("openid logs:read  archive:write")[scope]] == [
        "logs:read",
        "archive:write",
    ]
    assert [scope.value for scope in Scope if "any.name" in Grants.parse(["admin", "x"])[scope]] == ["admin"]
    given = Grants.parse({"logs:read": ["a.*", "b.*"], "logs:write": "a.*", "unknown": ["*"]})
    assert ("b.x" in given[Scope.LOGS_READ], "b.x" in given[Scope.LOGS_WRITE], "a.x" in given[Scope.ADMIN]) == (True, False, False)


def test_no_scope_brings_another_with_it() -> None:
    for one in Scope:
        granted = Grants.parse({one.value: ["*"]})
        assert [scope for scope in Scope if "x" in granted[scope]] == [one]


def test_a_union_grants_what_either_does() -> None:
    both = Grants.parse({"logs:read": ["a"]}) | Grants.parse({"logs:read": ["b"], "admin": ["c"]})
    assert [
        ("a" in both[Scope.LOGS_READ]),
        ("b" in both[Scope.LOGS_READ]),
        ("c" in both[Scope.ADMIN]),
        ("a" in both[Scope.ADMIN]),
    ] == [True, True, True, False]
