"""Mutants of access control: tokens, grants, patterns, the policy, encrypted cursors."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_PATTERNS = "tests/unit/test_access_patterns.py"
_TOKENS = "tests/functional/test_access_tokens.py"
_AUTHENTICATORS = "tests/functional/test_access_authenticators.py"
_LISTS = "tests/functional/test_access_lists.py"

MUTANTS = (
    Mutant(
        "chalicelib.access.patterns:matches",
        find="not name.endswith(last)",
        replace="False",
        tests=_PATTERNS,
        why="a pattern grants names that only share its beginning",
    ),
    Mutant(
        "chalicelib.access.patterns:matches",
        find="len(name) < len(first) + len(last)",
        replace="False",
        tests=_PATTERNS,
        why="the same characters count as both ends of a pattern",
    ),
    Mutant(
        "chalicelib.access.patterns:matches_principal",
        find="len(pattern_parts) == len(parts) and all(map(matches, pattern_parts, parts))",
        replace="matches(pattern, principal)",
        tests=_PATTERNS,
        why="a star crosses slashes, and a session name passes for a role",
    ),
    Mutant(
        "chalicelib.access.patterns:Patterns.matches_all",
        find="ANY in self.patterns",
        replace="bool(self.patterns)",
        tests=_LISTS,
        why="a principal with permission for some names reads the lists of all names",
    ),
    Mutant(
        "chalicelib.access.grants:Grants.__getitem__",
        find="self.names.get(scope, Patterns())",
        replace="self.names.get(scope, Patterns((ANY,)))",
        tests=_PATTERNS,
        why="missing grants count as granted",
    ),
    Mutant(
        "chalicelib.access.policy:Policy.denies",
        find="token_id and token_id in self.denied_token_ids",
        replace="False",
        tests=_PATTERNS,
        why="a revoked token stays valid",
    ),
    Mutant(
        "chalicelib.access.policy:Policy.denies",
        find="matches_principal(pattern, principal) or matches(pattern, principal)",
        replace="matches_principal(pattern, principal)",
        tests=_PATTERNS,
        why="a session of a denied role stays valid",
    ),
    Mutant(
        "chalicelib.access.authenticators:TokenAuthenticator.authenticate",
        find="_check_denied(policy, name, token_id)",
        replace="None",
        tests=_AUTHENTICATORS,
        why="the deny list is ignored",
    ),
    Mutant(
        "chalicelib.access.authenticators:IamAuthenticator.authenticate",
        find="_check_denied(policy, arn, credentials.access_key)",
        replace="None",
        tests=_AUTHENTICATORS,
        why="the deny list is ignored for roles",
    ),
    Mutant(
        "chalicelib.access.authenticators:IamAuthenticator.identify",
        find="not credentials.user_arn",
        replace="False",
        tests=_AUTHENTICATORS,
        why="an unsigned request has a principal",
    ),
    Mutant(
        "chalicelib.access.tokens:TokenVerifier._decode",
        find="algorithm not in ALGORITHMS",
        replace="False",
        equivalent="a key is selected by its type and created for the algorithm, so another algorithm is refused there too, with another message",
    ),
    Mutant(
        "chalicelib.access.tokens:TokenVerifier.verify",
        find="len(token) > MAX_TOKEN_CHARS",
        replace="False",
        tests=f"{_TOKENS}::test_token_over_the_length_limit_is_refused_however_valid_it_is",
        why="a token of any length is parsed",
    ),
    Mutant(
        "chalicelib.access.tokens:TokenVerifier._decode",
        find="claims['exp']",
        replace="claims['iat']",
        tests=_TOKENS,
        why="a token may be valid for years",
    ),
    Mutant(
        "chalicelib.access.tokens:TokenVerifier._cached",
        find="self._keys.find(verified.key_id, verified.algorithm) is not verified.key",
        replace="False",
        tests=_TOKENS,
        why="a token stays valid after its key was withdrawn",
    ),
    Mutant(
        "chalicelib.access.tokens:TokenVerifier._cached",
        find="int(verified.claims['exp']) <= time.time() - self._leeway_s",
        replace="False",
        tests=_TOKENS,
        why="a cached token never expires",
    ),
    Mutant(
        "chalicelib.access.cursor_cipher:CursorCipher.decrypt",
        find="not compare_digest(A, B)",
        replace="False",
        tests=_LISTS,
        why="a cursor is decrypted for another principal or query",
    ),
)
