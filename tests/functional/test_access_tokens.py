"""Invalid tokens, each by another attack: all get 401, nothing is stored, and no part of them is logged."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chalicelib import composition
from chalicelib.access import stale_if_error_cache
from chalicelib.access.keys import ALGORITHMS, IssuerKeys
from chalicelib.access.tokens import MAX_CACHED_TOKENS, MAX_TOKEN_CHARS, TokenVerifier
from chalicelib.errors import IdentityUnavailableError, InvalidConfigurationError
from chalicelib.routes.paths import DOCS_PAGE
from chalicelib.runlog.log_end import list_all
from tests.functional.gateway import Answer, call, get, installed, post
from tests.issuer import AUDIENCE, ISSUER, JWT, Issuer, basic, bearer
from tests.sampling import examples
from tests.world import World

GRANTS = {"logs:write": ["svc.*"], "logs:read": ["svc.*"]}


class House:
    """An API that trusts one issuer."""

    def __init__(self, world: World, issuer: Issuer) -> None:
        self.world, self.issuer = world, issuer

    def append(self, headers: dict[str, str]) -> Answer:
        return post("svc.pipe/run-1", "x\n", {"Content-Type": "text/plain", **headers})

    def read(self, token: str) -> Answer:
        return get("svc.pipe/run-1", headers=bearer(token))


@cache
def keys() -> dict[str, Any]:
    """Shared, because it takes 50 ms to generate one."""
    return Issuer("RS256").keys


@pytest.fixture
def house() -> Iterator[House]:
    issuer = Issuer("RS256", dict(keys()))
    with installed(World(), keys=issuer.read, **JWT) as world:
        yield House(world, issuer)


def segment(value: Any) -> str:
    return base64.urlsafe_b64encode(value if isinstance(value, bytes) else json.dumps(value).encode()).rstrip(b"=").decode()


def claims(**other: Any) -> dict[str, Any]:
    return {"iss": ISSUER, "aud": AUDIENCE, "sub": "me", "exp": int(time.time()) + 600, "runlake": GRANTS} | other


def unsigned(issuer: Issuer, algorithm: str = "none") -> str:
    return f"{segment({'alg': algorithm, 'kid': 'key-1'})}.{segment(claims())}."


def signed_with_the_public_key(issuer: Issuer, encoding: Encoding = Encoding.PEM) -> str:
    """HMAC with the public key as its secret."""
    kind = PublicFormat.SubjectPublicKeyInfo
    secret = issuer.keys["key-1"].public_key().public_bytes(encoding, kind)
    signed = f"{segment({'alg': 'HS256', 'kid': 'key-1'})}.{segment(claims())}"
    return f"{signed}.{segment(hmac.new(secret, signed.encode(), hashlib.sha256).digest())}"


def with_its_own_key(issuer: Issuer, name: str) -> str:
    """A token that contains its key, or the URL of one."""
    forger = Issuer("RS256")
    header = {"jwk": forger.jwk("key-1")} if name == "jwk" else {name: "https://forger.test/keys"}
    return forger.token("me", header=header, runlake=GRANTS)


def altered(issuer: Issuer) -> str:
    head, _, signature = issuer.token("me").split(".")
    return f"{head}.{segment(claims())}.{signature}"


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        ({}, 200),
        ({"iat": -3600, "exp": 0}, 200),
        ({"iat": -3600, "exp": 1}, 401),
        ({"iat": 0, "exp": 86_400}, 401),
        ({"iat": None, "exp": 60}, 401),
    ],
)
def test_token_valid_for_longer_than_the_limit_is_refused(claims: dict[str, int | None], status: int) -> None:
    """Times are in seconds, relative to ten seconds from now; the limit is an hour."""
    issuer, base_s = Issuer(), int(time.time()) + 10
    said = {name: None if seconds is None else base_s + seconds for name, seconds in claims.items()}
    with installed(World(), keys=issuer.read, jwt_max_lifetime_seconds=3600, **JWT):
        assert get("svc.pipe/run-1", headers=bearer(issuer.token("me", runlake=GRANTS, **said))).status == status


NOW = time.time
ATTACKS: dict[str, Callable[[Issuer], str]] = {
    "alg none": unsigned,
    "alg None": lambda issuer: unsigned(issuer, "None"),
    "alg NONE": lambda issuer: unsigned(issuer, "NONE"),
    "no alg": lambda issuer: f"{segment({'kid': 'key-1'})}.{segment(claims())}.",
    "alg a list": lambda issuer: f"{segment({'alg': ['RS256'], 'kid': 'key-1'})}.{segment(claims())}.{segment(b'x')}",
    "hmac with the public key": signed_with_the_public_key,
    "hmac with the public key, DER": lambda issuer: signed_with_the_public_key(issuer, Encoding.DER),
    "another's key under the same id": lambda issuer: Issuer("RS256").token("me", runlake=GRANTS),
    "its own key in jwk": lambda issuer: with_its_own_key(issuer, "jwk"),
    "its own key by jku": lambda issuer: with_its_own_key(issuer, "jku"),
    "its own key by x5u": lambda issuer: with_its_own_key(issuer, "x5u"),
    "claims put in place of others": altered,
    "signature left out": lambda issuer: issuer.token("me").rpartition(".")[0] + ".",
    "signature of another way than the key's": lambda issuer: issuer.token("me", header={"alg": "RS512"}),
    "another issuer": lambda issuer: issuer.token(iss="https://other.test/"),
    "an issuer that begins alike": lambda issuer: issuer.token(iss=ISSUER + "evil"),
    "no issuer": lambda issuer: issuer.token(iss=None),
    "another audience": lambda issuer: issuer.token(aud="other"),
    "no audience": lambda issuer: issuer.token(aud=None),
    "expired": lambda issuer: issuer.token(exp=int(NOW()) - 61),
    "no end": lambda issuer: issuer.token(exp=None),
    "an end that is no number": lambda issuer: issuer.token(exp="tomorrow"),
    "an end at infinity": lambda issuer: issuer.token(exp=float("inf")),
    "not valid yet": lambda issuer: issuer.token(nbf=int(NOW()) + 120),
    "issued in the future": lambda issuer: issuer.token(iat=int(NOW()) + 120),
    "no subject": lambda issuer: issuer.token(None),  # type: ignore[arg-type]
    "an empty subject": lambda issuer: issuer.token(""),
    "a subject that is no text": lambda issuer: issuer.token(5),  # type: ignore[arg-type]
    "a huge subject": lambda issuer: issuer.token("x" * 513),
    "an unknown key": lambda issuer: issuer.token(header={"kid": "key-9"}),
    "a key id that is no text": lambda issuer: f"{segment({'alg': 'RS256', 'kid': {'a': 1}})}.{segment(claims())}.{segment(b'x')}",
    "an unknown critical header": lambda issuer: issuer.token(header={"crit": ["future"], "future": 1}),
    "a huge token": lambda issuer: issuer.token("me", padding="x" * 9000),
    "a deep header": lambda issuer: f"{segment(b'[' * 5000)}.{segment(claims())}.x",
    "no token at all": lambda issuer: "",
    "two letters": lambda issuer: "..",
    "five parts": lambda issuer: "a.b.c.d.e",
    "no base64": lambda issuer: "!!!.???.***",
    "a header that is no object": lambda issuer: f"{segment([])}.{segment(claims())}.x",
    "not ascii": lambda issuer: issuer.token("me") + "é",
}


@pytest.mark.behavior("Forged, expired and foreign tokens are refused.")
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("way", [bearer, basic], ids=["bearer", "basic"])
def test_an_attack_is_refused(
    house: House,
    attack: str,
    way: Callable[[str], dict[str, str]],
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    token = ATTACKS[attack](house.issuer)
    if way is basic and not token.isascii():
        return
    capsys.readouterr()
    answer = house.append(way(token))
    assert (answer.status, answer.json["code"], answer.headers["WWW-Authenticate"]) == (401, 401, 'Bearer realm="runlake"')
    assert list(list_all(house.world.store, "")) == []
    printed = capsys.readouterr()
    told = [vars(each) for each in caplog.records if each.message == "access"]
    assert [(each["outcome"], each["principal"]) for each in told] == [("refused", "")]
    for part in token.split("."):
        assert len(part) < 8 or part not in printed.out + printed.err + answer.body + str(told)


@pytest.mark.parametrize(
    "header",
    ["", " ", "Bearer", "Bearer ", "bearer  ", "Basic", "Basic !!!", "Basic " + base64.b64encode(b"nocolon").decode(),
     "Basic " + base64.b64encode(b"user:").decode(), "Basic " + base64.b64encode("u:é".encode()).decode(), "Digest username=x",
     "AWS4-HMAC-SHA256 Credential=x", "Bearer a b", "Bearer " + "x" * 20_000, "x" * 20_000, "\x00", "Bearer \x00"],
)  # fmt: skip
def test_malformed_header_is_refused(house: House, header: str) -> None:
    answer = house.append({"Authorization": header})
    assert answer.status == 401 and answer.json["code"] == 401


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_way_to_sign_that_is_accepted(algorithm: str) -> None:
    issuer = Issuer(algorithm)
    with installed(World(), keys=issuer.read, **JWT) as world:
        assert House(world, issuer).append(bearer(issuer.granted(logs_write=["svc.*"]))).status == 200


@pytest.mark.parametrize("header", ["Bearer {}", "bearer {}", "BEARER   {}", " Bearer {} "])
def test_spellings_of_the_scheme_are_accepted(house: House, header: str) -> None:
    assert house.append({"Authorization": header.format(house.issuer.granted(logs_write=["svc.*"]))}).status == 200


def test_token_over_the_length_limit_is_refused_however_valid_it_is(house: House) -> None:
    for size, status in ((MAX_TOKEN_CHARS // 2, 200), (MAX_TOKEN_CHARS, 401)):
        token = house.issuer.token("me", runlake=GRANTS, groups="x" * size)
        assert (len(token) > MAX_TOKEN_CHARS) == (status == 401)
        assert house.read(token).status == status


def test_leeway_is_for_clocks(house: House) -> None:
    now_s = int(time.time())
    for claim in ({"exp": now_s - 30}, {"nbf": now_s + 30}):
        assert house.read(house.issuer.token("me", runlake=GRANTS, **claim)).status == 200


def test_a_token_is_refused_when_it_has_expired(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replay of a token that was valid."""
    token = house.issuer.token("me", runlake=GRANTS)
    assert house.read(token).status == 200

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.fromtimestamp(time.time() + 661, tz or UTC)

    later_s = time.time() + 661
    monkeypatch.setattr("jwt.api_jwt.datetime", Later)
    monkeypatch.setattr("chalicelib.access.tokens.time.time", lambda: later_s)
    answer = house.read(token)
    assert (answer.status, answer.json["message"]) == (401, "the token has expired: get another one")


def test_repeated_token_is_verified_once_while_its_key_is_listed(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []
    decode = jwt.decode
    monkeypatch.setattr(
        "chalicelib.access.tokens.jwt.decode", lambda token, *rest, **more: decoded.append(token) or decode(token, *rest, **more)
    )
    token, other = house.issuer.token(runlake=GRANTS), house.issuer.token("other", runlake=GRANTS)
    assert [house.read(each).status for each in (token, token, other, token)] == [200] * 4
    assert decoded == [token, other]
    house.world.clock.advance(stale_if_error_cache.FRESH_MS / 1000)
    assert house.read(token).status == 200
    assert decoded == [token, other, token], "the keys were read anew"


def test_remembered_tokens_are_bounded(house: House) -> None:
    keys = IssuerKeys(house.issuer.read, house.world.clock, lambda error: None)
    checked = TokenVerifier(keys, ISSUER, [], 0)
    for number in range(3 * MAX_CACHED_TOKENS):
        checked.verify(house.issuer.token(f"subject-{number}"))
    assert len(checked._verified) <= MAX_CACHED_TOKENS


def test_audiences(house: House) -> None:
    issuer = house.issuer
    for audience, statuses in (("a, b", (401, 200, 200, 401)), ("*", (200, 200, 200, 200))):
        with installed(World(), keys=issuer.read, **JWT | {"jwt_audience": audience}):
            tokens = (issuer.token(aud=aud, runlake=GRANTS) for aud in ("c", "b", ["c", "a"], None))
            assert tuple(house.read(token).status for token in tokens) == statuses


def test_a_claim_of_another_name(house: House) -> None:
    with installed(World(), keys=house.issuer.read, **JWT | {"jwt_claim": "scope"}):
        assert house.read(house.issuer.token(scope="openid logs:read")).status == 200
        assert house.read(house.issuer.token(runlake=GRANTS)).status == 403


# ---------------------------------------------------------------- the issuer's keys


@pytest.mark.slow
def test_forged_key_ids_do_not_hammer_the_issuer(house: House) -> None:
    for number in range(300):
        assert house.read(house.issuer.token(header={"kid": f"forged-{number}"})).status == 401
    assert house.issuer.reads == 1, "what was just read is not read again"
    house.world.clock.advance(stale_if_error_cache.MIN_READ_INTERVAL_MS / 1000)
    for number in range(300):
        assert house.read(house.issuer.token(header={"kid": f"forged-{number}"})).status == 401
    assert house.issuer.reads == 2


def test_a_new_key_is_learned_of_by_its_first_token(house: House) -> None:
    assert house.read(house.issuer.token(runlake=GRANTS)).status == 200
    house.issuer.add("key-2")
    house.world.clock.advance(stale_if_error_cache.MIN_READ_INTERVAL_MS / 1000)
    assert house.read(house.issuer.token(runlake=GRANTS)).status == 200
    assert house.read(house.issuer.token(key_id="key-1", runlake=GRANTS)).status == 200, "the old one is listed still"
    assert house.issuer.reads == 2


def test_withdrawn_key_is_refused_once_the_keys_are_stale(house: House) -> None:
    token = house.issuer.token(runlake=GRANTS)
    assert house.read(token).status == 200
    house.issuer.add("key-2")
    del house.issuer.keys["key-1"]
    house.world.clock.advance(stale_if_error_cache.FRESH_MS / 1000)
    assert house.read(token).status == 401


def test_stale_keys_are_used_for_a_while_if_the_issuer_is_down(house: House) -> None:
    token = house.issuer.token(exp=int(time.time()) + 100_000, runlake=GRANTS)
    assert house.read(token).status == 200
    house.issuer.failure = IdentityUnavailableError("the issuer does not respond")
    for _ in range(11):
        house.world.clock.advance(stale_if_error_cache.FRESH_MS / 1000)
        assert house.read(token).status == 200
    house.world.clock.advance(stale_if_error_cache.FRESH_MS / 1000)
    answer = house.read(token)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1"), "an hour after the last good read"
    house.issuer.failure = None
    house.world.clock.advance(stale_if_error_cache.MIN_READ_INTERVAL_MS / 1000)
    assert house.read(token).status == 200


def test_an_issuer_that_is_down_from_the_start_lets_nobody_in_and_is_not_hammered(house: House) -> None:
    house.issuer.failure = IdentityUnavailableError("the issuer does not respond")
    for _ in range(20):
        assert house.read(house.issuer.token(runlake=GRANTS)).status == 503
    assert house.issuer.reads == 1


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"keys": []}', b'{"keys": 5}', b'{"keys": [5]}', b"[" * 100_000, b"\xff",
                                  b'{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "key-1"}]}'])  # fmt: skip
def test_an_answer_that_is_no_set_of_keys_does_not_put_known_keys_out_of_use(house: House, body: bytes) -> None:
    token = house.issuer.token(runlake=GRANTS)
    answers = iter([house.issuer.read(), body])
    with installed(World(), keys=lambda: next(answers), **JWT) as world:
        assert house.read(token).status == 200
        world.clock.advance(stale_if_error_cache.FRESH_MS / 1000)
        assert house.read(token).status == 200
        assert next(answers, None) is None
    with installed(World(), keys=lambda: body, **JWT):
        assert house.read(token).status == 503


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["kty", "kid", "alg", "use", "n", "e", "crv", "x", "y", "k"]),
            st.one_of(
                st.none(), st.integers(), st.text(max_size=5), st.sampled_from(["RSA", "EC", "OKP", "oct", "key-1", "sig", "ES256"])
            ),
        ),
        max_size=4,
    )
)
def test_token_of_another_key_is_refused_for_any_key_document(listed: list[dict[str, Any]]) -> None:
    forged = FORGER.token(runlake=GRANTS)
    with installed(World(), keys=json.dumps({"keys": listed}).encode, **JWT):
        assert get("svc.pipe/run-1", headers=bearer(forged)).status in (401, 503)


FORGER = Issuer()


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=60),
    st.binary(max_size=60),
    st.binary(max_size=40),
    st.sampled_from(["{}.{}.{}", "{}.{}", "{}{}{}", "{}.{}.{}."]),
)
def test_no_token_breaks_anything(house: House, header: bytes, payload: bytes, signature: bytes, form: str) -> None:
    token = form.format(*map(segment, (header, payload, signature)))
    assert house.read(token).status == 401


# ---------------------------------------------------------------- settings that cannot let anybody in


@pytest.mark.parametrize("setting", ["jwt_issuer", "jwt_audience", "jwt_jwks_url"])
def test_tokens_need_their_issuer(setting: str) -> None:
    with installed(World(), keys=Issuer().read, **JWT | {setting: None}):
        assert get("svc.pipe").status == 500


@pytest.mark.behavior("The API does not start on AWS without authentication.")
def test_start_on_aws_without_identity_settings_fails() -> None:
    with installed(World(), auth="none", is_emulated=False):
        with pytest.raises(InvalidConfigurationError, match="variable=RUNLAKE_AUTH value='none'"):
            composition.services().prepare("authenticator")
        assert get("svc.pipe").status == 500


@pytest.mark.parametrize("auth", ["jwt", "iam"])
def test_public_routes_need_no_identity(auth: str) -> None:
    """Even with settings for authentication."""

    with installed(World(), auth=auth):
        assert [call("GET", path).status for path in ("/v1/health", "/health/", "/spec/", DOCS_PAGE)] == [200] * 4
        assert [call("GET", path).status for path in ("/", "/docs/")] == [302] * 2
