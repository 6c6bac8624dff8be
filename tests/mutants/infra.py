"""Mutants of deployment and access."""

from tests.mutants.mutant import group

_PATTERNS = "tests/unit/test_access_patterns.py"
_COMMANDS = "tests/unit/test_local_commands.py"
_AUTHENTICATORS = "tests/functional/test_access_authenticators.py"
_DENIED = (
    f"{_AUTHENTICATORS}::test_denied_credentials_are_refused_whatever_they_grant"
    f" {_AUTHENTICATORS}::test_denied_role_or_access_key_is_refused_whatever_its_session"
)

MUTANTS = (
    *group("local.serve", f"{_COMMANDS}::test_stack_that_is_stopped_before_it_serves_leaves_no_emulator",
        ("StopSignals._take", "not self._is_holding", "True", "an emulator that is being started or stopped is left running"),
        ("StopSignals.release", "self._has_come", "False", "a signal during the start of the emulator is lost")),
    *group("deploy.artifacts", "tests/unit/test_deploy_artifacts.py",
        ("ArtifactsBucket.__init__", 'self._address = {"Bucket": name, "ExpectedBucketOwner": owner}',
            'self._address = {"Bucket": name}', "a bucket that another account created first is used"),
        ("ArtifactsBucket._has", 'found.get("ChecksumSHA256") == checksum', "True", "a planted object is deployed"),
        ("ArtifactsBucket._has", 'found.get("ChecksumSHA256") == checksum', "False", "each deployment sends all jobs' packages again"),
        ("ArtifactsBucket.ensure", 'error.response["ResponseMetadata"]["HTTPStatusCode"] != 404', "False",
            "a denied request counts as a missing bucket")),
    *group("deploy.canary", "tests/integration/test_deployer.py::test_every_role_has_the_boundary_and_the_path",
        ("shift", '("Path", "PermissionsBoundary")', '("Path",)', "a stage that shifts its API has a role without the boundary")),
    *group("deploy.teardown", "tests/unit/test_deploy_change_sets.py",
        ("Clients.address", '{"Bucket": A, "ExpectedBucketOwner": self.account}', '{"Bucket": A}',
            "objects of a bucket that now belongs to another account are deleted"),
        ("_is_of", 'made_by.get("aws:cloudformation:stack-id", stack_id) == stack_id', "True",
            "a bucket that another stack has made since is deleted"),
        ("destroy", 'described.get("EnableTerminationProtection")', "False",
            "the tables of a protected stack lose their protection")),
    *group("deploy.rules", "tests/unit/test_deploy_command_line.py",
        ("check_events", '"Events" not in parameters', "True", "an invalid value is deployed"),
        ("check_events", '"Events" not in parameters', "False", "a browser whose options are on the stack cannot be deployed again")),
    *group("deploy.changes", "tests/unit/test_deploy_changes.py",
        ("_refers_to_steady", 'all(cause.partition(".")[0] in steady for cause in causes)', "True",
            "a replacement is not displayed")),
    *group("deploy.rules", "tests/unit/test_deploy_rules.py",
        ("check", '_holds(assertion["Assert"], values)', "True", "a deployment that must fail is started")),
    *group("chalicelib.access.patterns", _PATTERNS,
        ("matches_arn", "parts = parts[:_PARTS_OF_A_ROLE]", "parts = parts[:1] + parts[2:]",
            "a session's name counts as the role's"),
        ("matches_arn", "len(pattern_parts) == len(parts) and all(map(matches, pattern_parts, parts))",
            "matches(pattern, arn)", "a star crosses the slash before a session's name")),
    *group("chalicelib.access.policy", _PATTERNS,
        ("Policy.denies", "token_id and token_id in self.denied_token_ids", "False", "a stolen token is valid until it expires"),
        ("Policy.denies", "matches_arn(pattern, principal) or matches(pattern, principal)", "matches(pattern, principal)",
            "a role that is denied gets in by any session"),
        ("Policy.grants_of", "matches_principal(pattern, principal, is_signer=is_signer)", "matches(pattern, principal)",
            "a role names its session like another role")),
    *group("chalicelib.access.authenticators", _DENIED,
        ("TokenAuthenticator.authenticate", "_check_denied(policy, name, token_id)", "None", "the deny list is ignored for tokens"),
        ("IamAuthenticator.authenticate", "_check_denied(policy, arn, credentials.access_key)", "None",
            "the deny list is ignored for roles")),
    *group("chalicelib.access.tokens",
        "tests/functional/test_access_tokens.py::test_token_valid_for_longer_than_the_limit_is_refused",
        ("TokenVerifier._decode", 'int(claims["exp"]) - int(claims["iat"]) > self._max_lifetime_s', "False",
            "a token is valid for years"),
        ("TokenVerifier._decode", '["iat"] if self._max_lifetime_s else []', "[]",
            "a token that does not say when it was issued has no lifetime to limit")),
    *group("chalicelib.settings", "tests/unit/test_settings.py",
        ("Settings.cursor_signing_keys", "self.cursor_keys or self.position_keys", "self.position_keys",
            "one key serves two purposes")),
    *group("chalicelib.runlog.position", "tests/unit/test_position.py",
        ("PositionSigner._check", "not self._has_keys", "False", "a process without the API's secrets stores batches unmasked")),
    *group("local.wheels", "tests/unit/test_supply_chain.py::test_package_without_a_digest_is_refused",
        ("download", '"--require-hashes"', '"--no-deps"', "a package index chooses what is deployed")),
)  # fmt: skip
