"""Masking: findings of all shapes, unmasked text, lines, rules and values."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.errors import InvalidConfigurationError, StoreUnavailableError
from chalicelib.masking.mask import Edit, Edits, mask
from chalicelib.masking.masker import VALUES_AGE_MS, Masker
from chalicelib.masking.private_keys import LONGEST_KEY_BYTES
from chalicelib.masking.rules import SecretName, parse_rules
from chalicelib.masking.scan import WINDOW_BYTES
from chalicelib.masking.shapes import SHAPES, finders
from tests.support.clock import ManualClock

ALL = finders(SHAPES)
ID, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dGhlIHNpZ25hdHVyZQ"


M = "***private-key***"


def masked(text: str) -> str:
    return mask(text.encode(), ALL).body.decode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # AWS
        (f"key {ID} used", "key ***aws-access-key-id*** used"),
        (f"{ID},{SECRET}", "***aws-access-key-id***,***aws-secret-key***"),
        (f'{ID}" | "{SECRET}"', '***aws-access-key-id***" | "***aws-secret-key***"'),
        (f"AWS_SECRET_ACCESS_KEY={SECRET}", "AWS_SECRET_ACCESS_KEY=***aws-secret-key***"),
        (f'{{"SecretAccessKey": "{SECRET}"}}', '{"SecretAccessKey": "***aws-secret-key***"}'),
        # tokens
        (f"got {JWT}.", "got ***jwt***"),
        (f"Authorization: Bearer {JWT}", "Authorization: Bearer ***jwt***"),
        ("authorization: bearer 0123456789abcdef", "authorization: bearer ***bearer-token***"),
        ('{"Authorization": "Basic dXNlcjpwYXNz", "a": 1}', '{"Authorization": "Basic ***bearer-token***", "a": 1}'),
        ("Authorization: dXNlcjpwYXNz", "Authorization: ***bearer-token***"),
        ("with Bearer abcdefghijklmnopqrstuvwxyz/+== .", "with Bearer ***bearer-token*** ."),
        # URLs
        ("postgresql://me:hunter2@db:5432/x", "postgresql://me:***connection-string***@db:5432/x"),
        ("postgresql+psycopg2://me:p@ss@db/x", "postgresql+psycopg2://me:***connection-string***@db/x"),
        ("redis://:hunter2@cache:6379", "redis://:***connection-string***@cache:6379"),
        ("redis://:hun/ter2@cache:6379", "redis://:***connection-string***@cache:6379"),
        ("'mongodb://u:p@h1:27017,h2:27017/db'", "'mongodb://u:***connection-string***@h1:27017,h2:27017/db'"),
        # pairs
        ("password=hunter2", "password=***password***"),
        ("Server=db;Password=hunter2;Timeout=3", "Server=db;Password=***password***;Timeout=3"),
        ("?access_token=abc&page=2", "?access_token=***password***&page=2"),
        ("a=1,passwd=x,y,b=2", "a=1,passwd=***password***,b=2"),
        ('{"password": "hun\\"ter2", "user": "me"}', '{"password": "***password***", "user": "me"}'),
        ('"{\\"password\\": \\"hunter2\\", \\"n\\": 1}"', '"{\\"password\\": \\"***password***\\", \\"n\\": 1}"'),
        ("{'client_secret': 'a b c', 'x': 1}", "{'client_secret': '***password***', 'x': 1}"),
        ("password: hunter2 # of staging", "password: ***password*** # of staging"),
        ("connect(user=me, password=hunter2)", "connect(user=me, password=***password***)"),
        ("run --db-password hunter2 --verbose", "run --db-password ***password*** --verbose"),
        ("run --token --password --token abc", "run --token --password --token ***password***"),
        ("bearer bearer 0123456789abcdef", "bearer bearer ***bearer-token***"),
        ("http://u:://me:hunter2@h", "http://u:***connection-string***@h"),
        ("run --token=abc", "run --token=***password***"),
        ("DB_PASS=hunter2", "DB_PASS=***password***"),
        ("api_key: abc, api-key = abc", "api_key: ***password***, api-key = ***password***"),
        ("AccountKey=abc==;EndpointSuffix=x", "AccountKey=***password***;EndpointSuffix=x"),
        ("token => abc", "token => ***password***"),
        ("token: Bearer abc", "token: Bearer ***password***"),
        ('password="never closed and long', 'password="***password***'),
        ("?key=1&app_key=abc", "?key=1&app_key=***password***"),
        ('.option("password", "hunter2")', '.option("password", "***password***")'),
        ('token: str = "abc"', 'token: str = "***password***"'),
        ("<db-password>hunter2</db-password>", "<db-password>***password***</db-password>"),
        ('<add key="DbPassword" value="hunter2"/>', '<add key="DbPassword" value="***password***"/>'),
        ("password=b'hunter2' N'x', secret = f\"a b\"", "password=b'***password***' N'x', secret = f\"***password***\""),
        ("token='' password = SecretStr('a b'), x", "token='' password = SecretStr('***password***'), x"),
        ("x = 'a', password='it''s me', b", "x = 'a', password='***password***', b"),
        ('password = """hunter2"""', 'password = "***password***"'),
        ('  + password                        = "x"', '  + password                        = "***password***"'),
        (
            "os.environ['DB_PASSWORD'] = 'x'; user[password]=y",
            "os.environ['DB_PASSWORD'] = '***password***'; user[password]=***password***",
        ),
        ("DB_PASSWORD_PROD=x token_v2: y", "DB_PASSWORD_PROD=***password*** token_v2: ***password***"),
        ("UID=sa;PWD={a;b}", "UID=sa;PWD={***password***}"),
        ("SECRET_ACCESS_KEY 'x', SECRET 'y'", "SECRET_ACCESS_KEY '***password***', SECRET '***password***'"),
        ("aws configure set aws_secret_access_key x", "aws configure set aws_secret_access_key ***password***"),
        ("<name>fs.s3a.secret.key</name><value>x</value>", "<name>fs.s3a.secret.key</name><value>***password***</value>"),
        ('{"pass": "x", "n": {\\"pass\\":\\"y\\"}}', '{"pass": "***password***", "n": {\\"pass\\":\\"***password***\\"}}'),
        ('{"auths": {"r": {"auth": "bWU6aHVudGVyMg=="}}}', '{"auths": {"r": {"auth": "***password***"}}}'),
        (f"curl -u me:{'0aB1' * 400} x", "curl -u me:***password*** x"),
        (f"t hvs.{'0aB1c2' * 900} x", "t ***vault-token*** x"),
        ('  ~ password = "a" -> "b"', '  ~ password = "***password***" -> "***password***"'),
        ("create user me identified by x;", "create user me identified by ***password***;"),
        ("keytool -storepass x -keypass 'y'", "keytool -storepass ***password*** -keypass '***password***'"),
        ("openssl rsa -in k -passin pass:x", "openssl rsa -in k -passin pass:***password***"),
        ('{"password": 12345678, \\"password\\":12.5}', '{"password": "***password***", \\"password\\":\\"***password***\\"}'),
        ("{'Authorization': b'Basic bWU6eA=='}", "{'Authorization': b'Basic ***bearer-token***'}"),
        ('{"a": "{\\"b\\": \\"mysql -phunter2\\"}"}', '{"a": "{\\"b\\": \\"mysql -p***password***\\"}"}'),
        ('{"a": "curl -u \\"me:x y\\" h"}', '{"a": "curl -u \\"me:***password***\\" h"}'),
        ('token = "token = "x1y2" z"', 'token = "token = "***password***" z"'),
        ("secretKey: minioadmin\n", "secretKey: ***password***\n"),
        ("pin=1, password=1111111111", "pin=1, password=***password***"),
        ("SET PASSWORD FOR me = PASSWORD('x')", "SET PASSWORD FOR me = PASSWORD('***password***')"),
        (
            "bcp x -U me -P x1y2; ldapadd -w x1y2; helm registry login -p x1y2",
            "bcp x -U me -P ***password***; ldapadd -w ***password***; helm registry login -p ***password***",
        ),
        ("curl -b a=x1y2 -b jar.txt", "curl -b a=***password*** -b jar.txt"),
        ("impdp me/x1y2@db full=y", "impdp me/***password***@db full=y"),
        ("get(u, auth=('me', 'x1y2')) auth: 10:15", "get(u, auth=('me', '***password***')) auth: 10:15"),
        ("BASIC_AUTH=me:x1y2 basic.auth.user.info=k:x1y2", "BASIC_AUTH=me:***password*** basic.auth.user.info=k:***password***"),
        # lists and objects
        (
            '[["cookie","a=x1; b=y2"],["Authorization","Basic eDpq"]]',
            '[["cookie","a=***cookie***; b=***cookie***"],["Authorization","Basic ***bearer-token***"]]',
        ),
        (
            '{"name":"Cookie","value":"a=x1"} HTTP_COOKIE=a=x1',
            '{"name":"Cookie","value":"a=***cookie***"} HTTP_COOKIE=a=***cookie***',
        ),
        (
            '{"name": "Authorization", "value": "x1y2"} ["Authorization", "Accept"]',
            '{"name": "Authorization", "value": "***bearer-token***"} ["Authorization", "Accept"]',
        ),
        ('{"token": ["a", 12.5]}', '{"token": ["***password***", "***password***"]}'),
        ("['psql', '--password', 'x y', '-q']", "['psql', '--password', '***password***', '-q']"),
        ("['mysql', '-phunter2', 'db']", "['mysql', '-p***password***', 'db']"),
        ('["curl", "-u", "me:x"]', '["curl", "-u", "me:***password***"]'),
        (
            '{"Name": "/db/password", "Type": "SecureString", "Value": "x"}',
            '{"Name": "/db/password", "Type": "SecureString", "Value": "***password***"}',
        ),
        ('{"token": ["abc", "d"], "n": 1}', '{"token": ["***password***", "***password***"], "n": 1}'),
        ('{"password": {"value": "x", "v": [12, null]}}', '{"password": {"value": "***password***", "v": [***password***, null]}}'),
        ("{'secrets': 1, 'secret': {'a': ['b c']}}", "{'secrets': 1, 'secret': {'a': ['***password***']}}"),
        ('"{\\"token\\": [\\"abc\\"], \\"n\\": 1}"', '"{\\"token\\": [\\"***password***\\"], \\"n\\": 1}"'),
        (
            '[{"name": "DB_PASSWORD", "value": "x"}, {"name": "A", "value": "y"}]',
            '[{"name": "DB_PASSWORD", "value": "***password***"}, {"name": "A", "value": "y"}]',
        ),
        # addresses, headers, commands and statements
        ("https://0a1b2c3d4e5f6a7b8c9d@ingest.io/1", "https://***connection-string***@ingest.io/1"),
        ("jdbc:oracle:thin:scott/tiger1@//db:1521/x", "jdbc:oracle:thin:scott/***password***@//db:1521/x"),
        ("Cookie: a=1; session=xyz", "Cookie: a=***cookie***; session=***cookie***"),
        ("Set-Cookie: JSESSIONID=1a; Path=/; Secure", "Set-Cookie: JSESSIONID=***cookie***; Path=/; Secure"),
        (f"?X-Amz-Signature={'0a1b' * 16}&x=1", "?X-Amz-Signature=***signature***&x=1"),
        (f"?sv=2026&sig={'aB3%2B' * 8}%3D&se=1", "?sv=2026&sig=***signature***&se=1"),
        ("curl -su 'me:hunter2' --user you:pw2 https://x", "curl -su 'me:***password***' --user you:***password*** https://x"),
        ("mysqldump -h db -uroot -phunter2 sales", "mysqldump -h db -uroot -p***password*** sales"),
        ("sshpass -p hunter2 ssh x; redis-cli -a abc ping", "sshpass -p ***password*** ssh x; redis-cli -a ***password*** ping"),
        ("sqlplus -S scott/tiger1@db", "sqlplus -S scott/***password***@db"),
        ("CREATE USER me IDENTIFIED BY 'x y'", "CREATE USER me IDENTIFIED BY '***password***'"),
        ("ALTER ROLE me WITH PASSWORD 'x'", "ALTER ROLE me WITH PASSWORD '***password***'"),
    ],
)
def test_a_secret_is_masked(text: str, expected: str) -> None:
    assert masked(text) == expected
    assert masked(masked(text)) == expected, "what is masked stays as it is"
    assert masked(f"2026-11-21 INFO {text}\nnext line\n") == f"2026-11-21 INFO {expected}\nnext line\n"


@pytest.mark.parametrize(
    "text",
    [
        "AKIA is a prefix, AKIAIOSFODNN7EXAMPL too short, AKIAIOSFODNN7EXAMPLEX too long, xAKIAIOSFODNN7EXAMPLE in a word",
        "commit da39a3ee5e6b4b0d3255bfef95601890afd80709",  # 40 letters, as a secret key has
        "token_count=3 max_tokens: 17 password_file=/x monkey=1 keyboard: us turkey=2 primary_key=id sort key: 7",
        "the password is wrong; wrong password for user me; tokens: 12; unexpected token: }",
        "secret: {",
        'password="" token=',
        "PWD=/home/me OLDPWD=/",
        "http://host:8080/a@b https://host/x:y@z http://h:80?a@b s3://bucket/key:a@b",
        "eyJ is no token, nor is eyJhbGciOiJIUzI1NiJ9 or eyJhbGciOiJIUzI1NiJ9.x or a.eyJ.b",
        "bearer of bad news; Bearer realm",
        "password=${DB_PASSWORD} token: $TOKEN api_key={{ key }} secret=<your-secret> pwd=**** --token $(cat x) password=null",
        "next_token=abc nextPageToken: x continuation-token=y idempotency_key=9 cache key: a/b partition_key=4 account_key=4711",
        "the token: [main] started; token: {}; secret: []; unexpected token: }; io.jsonwebtoken:api",
        "password=self.password a.account_key = b.account_key token = get_token(client) password=os.getenv('X') secret=arn:aws:ssm:1",
        "root |-- token: string (nullable) struct<token:string,api_key:array<string>> [('password', 'varchar(20)')]",
        '{"password": [[1], 2], "authorization": {"a": 1}, "authorization": 1}',
        '{"token": 512, "pass": 3, "auth": "basic", "auth": "0a1b2", "auth": "a=b"}',
        "ext_orders_customer_addresses_history_snapshot_daily_full_load_2026_11_21.parquet",
        f"AKIA{'X' * 16} key = AKIAXXXXXXXXXXXXXXXX; api_key='rdme_{'X' * 70}' API_KEY=\"glc_{'1' * 41}=\" --user xxx:yyy",
        "publicToken = 9Cnzj4p4; - secretKey: api-key\n  remoteRef:\n    key: a\n",
        "Authorization: basic {base64(me:password)} token = '<xsd:element name='",
        f"xoxp-572370529330-573807301142-572331691188-{'#' * 20} xoxe.xoxp-1-SlackAppConfigurationAccessTokenHere",
        "/img/video_box.ico-7a388b69018576d24b59331fd60aab0c.png sgp_78Ad84a5B6e8A2fE5B_4085FB0ccaDDd29DB66Fd7FE9bA2C1cdCE8400CD",
        "  + password = (sensitive value) token = (known after apply) password: !Ref Pw",
        "https://someone@host/x abfss://raw-data-2026-landing@account/x git@github.com:a/b.git http://averylongusername@h",
        "cookie: yes, please; cookies=3; signature=f(x); method signature: (int) -> str; sig=5",
        "curl -u $USER:$PASS x; curl -u me https://x; mysql -P3306 -p db; rows identified by name; <password/>",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
    ],
)
def test_text_without_secrets_is_unchanged(text: str) -> None:
    assert masked(text) == text


def test_value_on_other_lines_is_masked() -> None:
    for text, expected in {
        "<token>\n  abc\n</token>\n": "<token>\n  ***password***\n</token>\n",
        "use <token>\nrows 3\nof </a>\n": "use <token>\nrows 3\nof </a>\n",
        '"token": [\n  "a",\n  "b"\n]\n': '"token": [\n  "***password***",\n  "***password***"\n]\n',
        '"token":\n  "a"\n': '"token":\n  "***password***"\n',
        "env:\n- name: DB_PASSWORD\n  value: a\n": "env:\n- name: DB_PASSWORD\n  value: ***password***\n",
        "password: |\n  a b\n  c\nx: 1\n": "password: |\n  ***password***\n***password***\nx: 1\n",
        "  password: |\n    a\n\n  user: me\n": "  password: |\n    ***password***\n\n  user: me\n",
        "  + secret = <<-EOT\n      a\n    EOT\n": "  + secret = <<-EOT\n      ***password***\n    EOT\n",
        "- --password\n- a\n": "- --password\n- ***password***\n",
        "run --password \\\n  a\n": "run --password \\\n  ***password***\n",
        "Private-Lines: 2\nAAAA\nBBBB\nPrivate-MAC: 0\n": "Private-Lines: 2\n***private-key***\n***private-key***\nPrivate-MAC: 0\n",
        f"{M}\n{'MIIB' * 16}\nAAA=\n{M}\nab\n{M}\n": f"{M}\n{M}\n{M}\n{M}\nab\n{M}\n",
        "curl -X POST \\\n  -u me:a x\n": "curl -X POST \\\n  -u me:***password*** x\n",
    }.items():
        assert masked(text) == expected
        assert masked(expected) == expected


def key(kind: str = "RSA PRIVATE KEY", newline: str = "\n", lines: int = 3) -> str:
    return newline.join([f"-----BEGIN {kind}-----", *["MIIEpAIBAAKCAQEA" * 4] * lines, "abc=", f"-----END {kind}-----"])


@pytest.mark.parametrize(
    "kind", ["PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "PGP PRIVATE KEY BLOCK"]
)
def test_a_private_key_goes_line_by_line(kind: str) -> None:
    assert masked(f"a {key(kind)} b\nc\n") == f"a {M}\n{M}\n{M}\n{M}\n{M}\n{M} b\nc\n"
    assert masked(f"a\r\n{key(kind, chr(13) + chr(10), 0)}\r\nb\r\n") == f"a\r\n{M}\r\n{M}\r\n{M}\r\nb\r\n"


def test_a_private_key_in_json() -> None:
    assert masked(json.dumps({"private_key": key(), "id": 1})) == json.dumps({"private_key": M, "id": 1})


def test_a_key_that_is_split_over_two_batches() -> None:
    whole = f"before\n{key()}\nafter\n"
    lines = whole.splitlines(keepends=True)
    for cut in range(2, len(lines) - 1):
        first, second = "".join(lines[:cut]), "".join(lines[cut:])
        assert masked(first) + masked(second) == masked(whole), cut


def test_middle_of_a_key_in_three_batches_is_not_masked() -> None:
    """As stated in docs/masking.md: a body without a marker looks like any base64."""
    body = "MIIEpAIBAAKCAQEA" * 4 + "\n"
    assert masked(body * 3) == body * 3


def test_a_marker_alone_hides_no_more_than_the_longest_key() -> None:
    line = "x" * 99 + "\n"
    rest = line * 1000
    begun = masked(f"-----BEGIN RSA PRIVATE KEY----- is expected\n{rest}")
    assert begun.count(M) <= LONGEST_KEY_BYTES // len(line) + 2 and begun.endswith(line * 800)
    assert masked(f"{rest}no -----END RSA PRIVATE KEY-----\n{rest}") == f"{rest}no -----END RSA PRIVATE KEY-----\n{rest}", (
        "too far from the start"
    )


def test_only_selected_shapes_are_masked() -> None:
    text = f"{JWT} password=x"
    assert mask(text.encode(), finders(["jwt"])).body == b"***jwt*** password=x"
    assert mask(text.encode(), finders([])).body == text.encode()


def test_counts_are_of_secrets() -> None:
    found = mask(f"{ID} {ID} password=a token=b {JWT}\n{key()}\n".encode(), ALL)
    assert found.counts == {"aws-access-key-id": 2, "password": 2, "jwt": 1, "private-key": 1}
    plain = b"nothing here\n"
    assert mask(plain, ALL).counts == {} and mask(plain, ALL).body is plain


# Rules and values


def masker(clock: ManualClock | None = None, read: object = None, **rule: object) -> Masker:
    return Masker(parse_rules(json.dumps([rule])), read, clock or ManualClock(0))  # type: ignore[arg-type]


def test_a_rule_is_for_the_pipelines_of_its_pattern() -> None:
    rules = [{"fqn": "svc_sales.*", "shapes": ["jwt"]}, {"fqn": "*.crm", "shapes": [], "values": ["geheim"]}]
    by_rules = Masker(parse_rules(json.dumps(rules)), None, ManualClock(0))
    text = f"{JWT} geheim password=x".encode()
    assert by_rules.mask("other", text).body == b"***jwt*** geheim password=***password***", "no rule: all shapes"
    assert by_rules.mask("svc_sales.erp", text).body == b"***jwt*** geheim password=x"
    assert by_rules.mask("other.crm", text).body == JWT.encode() + b" ***configured-value*** password=x"
    assert by_rules.mask("svc_sales.crm", text).body == b"***jwt*** ***configured-value*** password=x", "rules add up"


def test_values_are_masked_wherever_they_stand() -> None:
    by_rules = masker(values=["topsecret", "secretplus", "two\nlines here"], shapes=[])
    assert by_rules.mask("any", b"xtopsecretx topsecretplus lines here\n").body == (
        b"x***configured-value***x ***configured-value*** ***configured-value***\n"
    )


def test_values_by_name_are_read_once_in_a_while_and_outlive_an_outage() -> None:
    clock, answers, asked = ManualClock(1000), ["first-value", "second-value"], []

    def read(name: SecretName) -> str:
        asked.append((name.service, name.name, name.field))
        if not answers:
            raise StoreUnavailableError("away")
        return answers.pop(0)

    by_rules = masker(clock, read, values_from=["secretsmanager:prod/db#password"], shapes=[])
    text = b"first-value second-value"
    assert by_rules.mask("a", text).body == by_rules.mask("b", text).body == b"***configured-value*** second-value"
    assert asked == [("secretsmanager", "prod/db", "password")]
    clock.advance(VALUES_AGE_MS / 1000)
    assert by_rules.mask("a", text).body == b"first-value ***configured-value***"
    clock.advance(VALUES_AGE_MS / 1000)
    assert by_rules.mask("a", text).body == by_rules.mask("a", text).body == b"first-value ***configured-value***", (
        "it does not answer: the last one holds"
    )
    assert len(asked) == 3
    clock.advance(30)
    answers.append("third-value")
    assert by_rules.mask("a", b"third-value").body == b"***configured-value***"


def test_no_line_is_stored_until_a_value_was_read() -> None:
    def read(_: SecretName) -> str:
        raise StoreUnavailableError("away")

    with pytest.raises(StoreUnavailableError):
        masker(ManualClock(0), read, values_from=["ssm:/a"]).mask("a", b"line\n")


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("no json", ""),
        ("OFF", ""),
        ('[{"shapes": ["Password"]}]', "0.shapes"),
        ('{"fqn": "*"}', ""),
        ('[{"fqn": ""}]', "0.fqn"),
        ('[{"shapes": ["jwt", "nope"]}]', "0.shapes"),
        ('[{"without": ["nope"]}]', "0.without"),
        ('[{}, {"values": ["hush"], "more": "hush"}]', "1.more"),
        ('[{"values": ["shh"]}]', "0.values"),
        ('[{"values_from": ["http://hush"]}]', "0.values_from"),
    ],
)
def test_error_of_a_rule_contains_no_value(text: str, field: str) -> None:
    with pytest.raises(InvalidConfigurationError) as caught:
        parse_rules(text)
    assert str(caught.value).endswith(f"docs/masking.md variable=RUNLAKE_MASKING field={field}")
    assert "Password" in str(caught.value) or "Password" not in text, "names keep their case"
    assert "hush" not in str(caught.value) and "shh" not in str(caught.value)


# Against a model: the shapes as one would write them in a hurry, by backtracking expressions over a line

PIECES = st.sampled_from([
    " ", "  ", "\n", "\r\n", "x", "=", ":", ",", ";", "&", '"', "'", "\\", "@", "/", ".", "-", "_", "(", ")", "{", "}", "é",
    "password", "token=", "secret: ", "api_key=", "a=1", "hunter2", '"password": "', "--token ", "Bearer ", "Authorization: ",
    '"token": [', '{"a": ', "]", "Cookie: ", "curl -u ", "<token>", "</", "***password***", "value=", "name=", "https://", "|\n",
    "postgresql://", "http://h:80/", "me:pw@", ID, SECRET, JWT, "eyJ", "AKIA",
    "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "-----", "QUJD\n",
])  # fmt: skip
TEXTS = st.lists(PIECES, max_size=40).map("".join)
APART = st.lists(st.tuples(PIECES.map(str.strip), st.sampled_from(" \n")).map("".join), max_size=40).map("".join)
"""Where the end of one secret touches the begin of another, the marker between may let a third one be seen."""


@given(APART | st.binary(max_size=200).map(lambda raw: raw.decode("latin-1")))
def test_masked_twice_is_masked_once(text: str) -> None:
    once = masked(text)
    assert masked(once) == once


@given(TEXTS | st.binary(max_size=200).map(lambda raw: raw.decode("latin-1")))
def test_lines_stay_lines_and_what_is_no_secret_stays_byte_for_byte(text: str) -> None:
    raw = text.encode()
    once = mask(raw, ALL)
    assert once.body.count(b"\n") == raw.count(b"\n")
    kept = re.sub(rb"\*\*\*[a-z-]+\*\*\*", b"\0", once.body).split(b"\0")
    assert re.fullmatch(b".*?".join(map(re.escape, kept)), raw, re.DOTALL), "what is not masked is there in order, byte for byte"
    if not once.counts:
        assert once.body == raw


MODEL = {
    "aws-access-key-id": re.compile(r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    "jwt": re.compile(r"(?<![\w-])eyJ[\w-]{7,}\.[\w-]{2,}\.[\w-]*(?:\.[\w-]*){0,2}", re.ASCII),
    "bearer-token": re.compile(r"bearer[ \t]{1,8}([\w.~+/=-]{16,})", re.ASCII | re.IGNORECASE),
    "connection-string": re.compile(r"://[^\s/?#\"'<>:@]{0,255}:([^\s/?#\"'<>]*)@"),
}
SEEN_BY_MODEL = {"aws-access-key-id", "jwt", "connection-string"}


@given(TEXTS)
def test_findings_of_a_simple_model_are_masked(text: str) -> None:
    """Every character of the model's secrets is masked."""
    after = masked(text)
    for name, pattern in MODEL.items():
        for found in pattern.finditer(text):
            secret = found[found.lastindex or 0]
            if len(secret) >= 12 and text.count(secret) == 1:
                assert secret not in after, name


@given(TEXTS)
def test_a_shape_alone_is_the_model(text: str) -> None:
    for name in SEEN_BY_MODEL:
        pattern = MODEL[name]
        mine = mask(text.encode(), finders([name])).body.decode()
        wanted, at = "", 0
        for found in pattern.finditer(text):
            group = found.lastindex or 0
            if found.start(group) < found.end(group):
                wanted += text[at : found.start(group)] + f"***{name}***"
                at = found.end(group)
        if name != "connection-string" or not re.search(
            r"://[^\s/?#\"'<>:@]*:[^\s/?#\"'<>@]*[/?#]", text
        ):  # a slash in a password: not in the model
            assert mine == wanted + text[at:], name


@given(
    st.lists(
        st.sampled_from([ID, f"{ID},{SECRET}", "token=a", "password", "=", f"Bearer {JWT}", "://a:b@", "\n", " x "]), max_size=12
    )
)
def test_secrets_at_the_border_of_two_windows_are_masked(parts: list[str]) -> None:
    text = "\n" + "".join(parts)
    for size in range(WINDOW_BYTES - 40, WINDOW_BYTES + 1, 7):
        assert masked("." * size + text) == "." * size + masked(text)


def test_edits_are_a_compact_sequence() -> None:
    edits = [Edit(0, 4, 14), Edit(10, 12, 3), Edit(20, 30, 0)]
    assert list(Edits(edits)) == edits and len(Edits(edits)) == 3
    assert (Edits(edits)[-1], Edits(edits)[:-1], Edits(edits)[5:]) == (edits[-1], edits[:-1], [])
    with pytest.raises(IndexError):
        Edits(edits)[3]
    (edit,) = mask(b"a password=secret", ALL).edits
    assert edit == Edit(11, 17, len("***password***"))
