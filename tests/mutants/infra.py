"""Mutants of deployment and access."""

from tests.mutants.mutant import Mutant

_PATTERNS, _AUTHENTICATORS = "tests/unit/test_access_patterns.py", "tests/functional/test_access_authenticators.py"
_ARTIFACTS, _CHANGES, _RULES = (
    "tests/unit/test_deploy_artifacts.py",
    "tests/unit/test_deploy_changes.py",
    "tests/unit/test_deploy_rules.py",
)

_LIFETIME = "tests/functional/test_access_tokens.py::test_token_valid_for_longer_than_the_limit_is_refused"
_DENIED = " ".join(
    f"{_AUTHENTICATORS}::{name}"
    for name in (
        "test_denied_credentials_are_refused_whatever_they_grant",
        "test_denied_role_or_access_key_is_refused_whatever_its_session",
    )
)

_COMMANDS = "tests/unit/test_local_commands.py"

MUTANTS = (
    Mutant(
        "local.serve:StopSignals._take",
        find="not self._is_holding",
        replace="True",
        tests=f"{_COMMANDS}::test_stack_that_is_stopped_before_it_serves_leaves_no_emulator",
        why="an emulator that is being started or stopped is left running",
    ),
    Mutant(
        "local.serve:StopSignals.release",
        find="self._has_come",
        replace="False",
        tests=f"{_COMMANDS}::test_stack_that_is_stopped_before_it_serves_leaves_no_emulator",
        why="a signal during the start of the emulator is lost",
    ),
    Mutant(
        "local.forward:_check_there",
        find="_getter(facts_address(A, B), C)('', {})",
        replace="None",
        tests=f"{_COMMANDS}::test_run_that_does_not_exist_is_not_forwarded",
        why="an unknown run is followed forever",
    ),
    Mutant(
        "deploy.artifacts:ArtifactsBucket.__init__",
        find='self._address = {"Bucket": name, "ExpectedBucketOwner": owner}',
        replace='self._address = {"Bucket": name}',
        tests=_ARTIFACTS,
        why="a bucket that another account created first is used",
    ),
    Mutant(
        "deploy.artifacts:ArtifactsBucket.put",
        find="self._s3.put_object(**A, Key=B, Body=C, ChecksumSHA256=D)",
        replace="None",
        tests=_ARTIFACTS,
        why="an object planted under the digest is deployed",
    ),
    Mutant(
        "deploy.artifacts:ArtifactsBucket.ensure",
        find='error.response["ResponseMetadata"]["HTTPStatusCode"] != 404',
        replace="False",
        tests=_ARTIFACTS,
        why="a denied request counts as a missing bucket",
    ),
    Mutant(
        "deploy.teardown:destroy",
        find='{"Bucket": A, "ExpectedBucketOwner": clients.account}',
        replace='{"Bucket": A}',
        tests="tests/unit/test_deploy_change_sets.py",
        why="objects of a bucket that now belongs to another account are deleted",
    ),
    Mutant(
        "deploy.teardown:destroy",
        find='described.get("EnableTerminationProtection")',
        replace="False",
        tests="tests/unit/test_deploy_change_sets.py",
        why="the tables of a protected stack lose their protection",
    ),
    Mutant(
        "deploy.changes:_refers_to_steady",
        find='all(cause.partition(".")[0] in steady for cause in causes)',
        replace="True",
        tests=_CHANGES,
        why="a replacement is not displayed",
    ),
    Mutant(
        "deploy.rules:check",
        find='_holds(assertion["Assert"], values)',
        replace="True",
        tests=_RULES,
        why="a deployment that must fail is started",
    ),
    Mutant(
        "chalicelib.access.patterns:matches_principal",
        find="parts = parts[:_PARTS_OF_A_ROLE]",
        replace="parts = parts[:1] + parts[2:]",
        tests=_PATTERNS,
        why="a session's name counts as the role's",
    ),
    Mutant(
        "chalicelib.access.patterns:matches_principal",
        find="len(pattern_parts) == len(parts) and all(map(matches, pattern_parts, parts))",
        replace="matches(pattern, principal)",
        tests=_PATTERNS,
        why="a star crosses the slash before a session's name",
    ),
    Mutant(
        "chalicelib.access.policy:Policy.denies",
        find="token_id and token_id in self.denied_token_ids",
        replace="False",
        tests=_PATTERNS,
        why="a stolen token is valid until it expires",
    ),
    Mutant(
        "chalicelib.access.policy:Policy.denies",
        find="matches_principal(pattern, principal) or matches(pattern, principal)",
        replace="matches(pattern, principal)",
        tests=_PATTERNS,
        why="a role that is denied gets in by any session",
    ),
    Mutant(
        "chalicelib.access.policy:Policy.grants_of",
        find="matches_principal(pattern, principal)",
        replace="matches(pattern, principal)",
        tests=_PATTERNS,
        why="a role names its session like another role",
    ),
    Mutant(
        "chalicelib.access.authenticators:TokenAuthenticator.authenticate",
        find="_check_denied(policy, name, token_id)",
        replace="None",
        tests=_DENIED,
        why="the deny list is ignored for tokens",
    ),
    Mutant(
        "chalicelib.access.authenticators:IamAuthenticator.authenticate",
        find="_check_denied(policy, arn, credentials.access_key)",
        replace="None",
        tests=_DENIED,
        why="the deny list is ignored for roles",
    ),
    Mutant(
        "chalicelib.access.tokens:TokenVerifier._decode",
        find='int(claims["exp"]) - int(claims["iat"]) > self._max_lifetime_s',
        replace="False",
        tests=_LIFETIME,
        why="a token is valid for years",
    ),
    Mutant(
        "chalicelib.access.tokens:TokenVerifier._decode",
        find='["iat"] if self._max_lifetime_s else []',
        replace="[]",
        tests=_LIFETIME,
        why="a token that does not say when it was issued has no lifetime to limit",
    ),
    Mutant(
        "chalicelib.settings:Settings.cursor_signing_keys",
        find="self.cursor_keys or self.position_keys",
        replace="self.position_keys",
        tests="tests/unit/test_settings.py",
        why="one key serves two purposes",
    ),
    Mutant(
        "chalicelib.runlog.position:PositionSigner._check",
        find="not self._has_keys",
        replace="False",
        tests="tests/unit/test_position.py",
        why="a process without the API's secrets stores batches unmasked",
    ),
    Mutant(
        "local.wheels:download",
        find='"--require-hashes"',
        replace='"--no-deps"',
        tests="tests/unit/test_supply_chain.py::test_package_without_a_digest_is_refused",
        why="a package index chooses what is deployed",
    ),
)
