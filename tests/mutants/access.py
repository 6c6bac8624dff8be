"""Mutants of access control: tokens, grants, patterns, the policy, encrypted cursors."""

from tests.mutants.mutant import Mutant, group

_PATTERNS = "tests/unit/test_access_patterns.py"
_LISTS = "tests/functional/test_access_lists.py"

MUTANTS = (
    *group("chalicelib.access.patterns", _PATTERNS,
        ("matches", "not name.endswith(last)", "False", "a pattern grants names that only share its beginning"),
        ("matches", "len(name) < len(first) + len(last)", "False", "the same characters count as both ends of a pattern"),
        ("matches_principal", "len(pattern_parts) == len(parts) and all(map(matches, pattern_parts, parts))",
            "matches(pattern, principal)", "a star crosses slashes, and a session name passes for a role"),
        ("Patterns.matches_all", "ANY in self.patterns", "bool(self.patterns)",
            "a principal with permission for some names reads the lists of all names", _LISTS)),
    *group("chalicelib.access.grants", _PATTERNS,
        ("Grants.__getitem__", "self.names.get(scope, Patterns())", "self.names.get(scope, Patterns((ANY,)))",
            "missing grants count as granted")),
    *group("chalicelib.access.policy", _PATTERNS,
        ("Policy.denies", "token_id and token_id in self.denied_token_ids", "False", "a revoked token stays valid"),
        ("Policy.denies", "matches_principal(pattern, principal) or matches(pattern, principal)",
            "matches_principal(pattern, principal)", "a session of a denied role stays valid")),
    *group("chalicelib.access.authenticators", "tests/functional/test_access_authenticators.py",
        ("TokenAuthenticator.authenticate", "_check_denied(policy, name, token_id)", "None", "the deny list is ignored"),
        ("IamAuthenticator.authenticate", "_check_denied(policy, arn, credentials.access_key)", "None",
            "the deny list is ignored for roles"),
        ("IamAuthenticator.identify", "not credentials.user_arn", "False", "an unsigned request has a principal")),
    *group("chalicelib.access.authenticators", "tests/functional/test_access_issuers.py",
        ("TokenAuthenticator._name", "not issuer.prefix and any(A)", "False", "a bot takes the name of a person"),
        ("TokenAuthenticator._name", "issuer.prefix + subject", "subject", "a person has the permissions of a bot of the same name"),
        ("TokenAuthenticator.authenticate", "issuer.claim", "'runlake'", "grants are read from the claim of another issuer")),
    *group("chalicelib.routes.logs", "tests/functional/test_http_runs.py",
        ("_permitted_pipeline", "gate.require_scope(Scope.LOGS_READ, pipeline.fqn, requested=request.names['fqn'])",
            "gate.require_scope(Scope.LOGS_READ, request.names['fqn'])",
            "the id of a pipeline is readable without permission for its name")),
    *group("chalicelib.access.tokens", "tests/functional/test_access_tokens.py",
        ("_check_size", "len(token) > MAX_TOKEN_CHARS", "False",
            "a token of any length is parsed", "::test_token_over_the_length_limit_is_refused_however_valid_it_is"),
        ("TokenVerifier._decode", "claims['exp']", "claims['iat']", "a token may be valid for years"),
        ("TokenVerifier._cached", "self._keys.find(verified.key_id, verified.algorithm) is not verified.key", "False",
            "a token stays valid after its key was withdrawn"),
        ("TokenVerifier._cached", "int(verified.claims['exp']) <= time.time() - self._leeway_s", "False",
            "a cached token never expires")),
    Mutant("chalicelib.access.tokens:TokenVerifier._decode", "algorithm not in ALGORITHMS", "False",
        equivalent="a key is selected by its type and created for the algorithm, so another algorithm is refused there too, with another message"),
    *group("chalicelib.access.cursor_cipher", _LISTS,
        ("CursorCipher.decrypt", "not compare_digest(A, B)", "False", "a cursor is decrypted for another principal or query")),
)  # fmt: skip
