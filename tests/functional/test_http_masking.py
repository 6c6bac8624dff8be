"""Masking over HTTP: stored text, metrics and pages, and a retry that is recognized after any change of the rules (decision 0019)."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch
from urllib.parse import quote

import pytest
from pydantic import SecretStr

from chalicelib import composition
from chalicelib.errors import InvalidConfigurationError, InvalidNameError, UnavailableError
from chalicelib.masking.mask import Masked
from chalicelib.masking.masker import Masker
from chalicelib.masking.rules import SecretName
from chalicelib.masking.shapes import compared
from chalicelib.masking.token_formats import TokenFormat
from chalicelib.observability import LOGS_SENT, invocation, logger, note, record
from chalicelib.ports import Run
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.fingerprints import BatchFingerprints
from tests.functional.gateway import Context, call, get, installed, post
from tests.functional.test_no_secret_leaves import everything_said
from tests.issuer import JWT, Issuer, bearer
from tests.world import World

FQN, RUN_ID = "svc_sales.ingest", "run-1"
RUN, PATH = Run(FQN, RUN_ID), f"{FQN}/{RUN_ID}"
SECRET_LINE = "connect with password=hunter2 now"
MASKED_LINE = "connect with password=***password*** now"
ON: list[dict[str, object]] = [{"fqn": "svc_*"}]
LESS: list[dict[str, object]] = [{"fqn": "svc_*", "shapes": ["jwt"]}]
OFF = "off"
Rules = list[dict[str, object]] | str | None


@contextmanager
def masking(world: World, rules: Rules) -> Iterator[World]:
    given = {} if rules is None else {"masking": SecretStr(rules if isinstance(rules, str) else json.dumps(rules))}
    with installed(world, **given):
        yield world


def send(text: str, cookie: str | None = None, key: str | None = None) -> tuple[str, bool]:
    headers = ({"Cookie": cookie} if cookie else {}) | ({"Idempotency-Key": key} if key else {})
    answer = post(PATH, json.dumps(text), headers)
    assert answer.status == 200, answer.body
    return answer.cookie, answer.json.get("repeated", False)


def log() -> list[str]:
    return list(get(f"{PATH}?limit=10000").json["logs"].split("\n"))


@pytest.mark.behavior("Secrets of known shapes are masked before a line is stored.")
def test_stored_lines_are_masked_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    with masking(world, ON):
        capsys.readouterr()
        post(PATH, json.dumps(f"a\n{SECRET_LINE}\nb token=x eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2ln"))
        (line,) = map(json.loads, capsys.readouterr().out.splitlines())
        assert log() == ["a", MASKED_LINE, "b token=***password*** ***jwt***"]
    assert b"hunter2" not in world.body("segments/0000000000", RUN)
    assert sum(line["om_streamable_logs_masked_secrets"]) == 3
    assert line["om_streamable_logs_masked_secrets_password"] == [2]
    assert line["om_streamable_logs_masked_secrets_jwt"] == [1]
    assert "hunter2" not in json.dumps(line)


def test_value_is_masked_in_every_form_and_where_it_overlaps_another() -> None:
    rules: list[dict[str, object]] = [{"shapes": [], "values": ["geheim & co", "co-operation"]}]
    world = World()
    with masking(world, rules):
        line = f"a geheim & co-operation {b64encode(b'user:geheim & co').decode()} {quote('geheim & co')} geheim+%26+co z"
        send(line)
        marker = "***configured-value***"
        (stored,) = log()
        assert stored.startswith(f"a {marker} ") and stored.endswith(f" {marker} {marker} z")
        assert stored.count(marker) == 4 and b"geheim" not in world.body("segments/0000000000", RUN)


@pytest.mark.behavior("Known secrets are masked without a setting.")
@pytest.mark.parametrize(
    ("rules", "stored"),
    [
        (None, MASKED_LINE),
        ("", MASKED_LINE),
        ([], MASKED_LINE),
        ([{"fqn": "other.*", "shapes": []}], MASKED_LINE),
        (OFF, SECRET_LINE),
        ([{"fqn": "svc_*", "shapes": []}], SECRET_LINE),
        ([{"without": ["password"]}, {"fqn": "svc_*"}], SECRET_LINE),
        ([{"without": ["github-token"]}], MASKED_LINE),
        ([{"shapes": ["jwt"], "retired": True}], MASKED_LINE),
    ],
)
def test_all_is_masked_unless_a_rule_says_otherwise(rules: Rules, stored: str) -> None:
    with masking(World(), rules):
        send(SECRET_LINE)
        assert log() == [stored]


def test_packed_and_plain_bodies_are_masked_alike() -> None:
    with masking(World(), ON):
        post(PATH, gzip.compress(SECRET_LINE.encode()), {"Content-Type": "application/gzip"})
        post(PATH, SECRET_LINE, {"Content-Type": "text/plain"})
        assert log() == [MASKED_LINE] * 2


@pytest.mark.behavior("A retry is recognized after the masking rules changed.")
@pytest.mark.parametrize(("before", "after"), [(None, OFF), (ON, ON), (ON, OFF), (ON, LESS), (LESS, ON), (OFF, None)])
@pytest.mark.parametrize("idle_s", [0, 3600])
@pytest.mark.parametrize("others", [0, 1, 7])
def test_retry_is_recognized_after_a_change_of_the_rules(before: Rules, after: Rules, idle_s: int, others: int) -> None:
    """The response was lost, other writers appended, time passed, the rules changed, and the connector retries its batch."""
    world = World()
    with masking(world, before):
        cookie, _ = send("first")
        send(SECRET_LINE, cookie)
        for number in range(others):
            send(f"of another {number}")
    world.clock.advance(idle_s)
    with masking(world, after):
        assert send(SECRET_LINE, cookie)[1], "it was stored before"
        assert len(log()) == 2 + others


def _masked_by(pattern: str) -> Callable[..., Masked]:
    """Masks as a version with one other rule."""

    def masked(_: object, __: str, body: bytes, *, has_edits: bool = True) -> Masked:
        stored, count = re.subn(pattern.encode(), b"***of-before***", body)
        return Masked(stored, {"password": count} if count else {})

    return masked


@pytest.mark.behavior("A retry is recognized after an update changed what is masked.")
@pytest.mark.parametrize(
    ("line", "before"),
    [
        pytest.param("curl -u me:hunter2 https://x", "no-secret", id="widened"),
        pytest.param("export token=${API_TOKEN} next_token=abc", r"(?<=token=)\S+", id="narrowed"),
        pytest.param("export Authorization: Bearer $API_TOKEN", r"\$API_TOKEN", id="narrowed, a header"),
        pytest.param("dtypes [('token', 'string')]", r"(?<=token', ')string", id="narrowed, an argument"),
        pytest.param("got acme_0a1b2c3d4e5f", r"acme_\w+", id="removed"),
    ],
)
@pytest.mark.parametrize("idle_s", [0, 3600])
@pytest.mark.parametrize("others", [0, 7])
def test_retry_is_recognized_after_an_update(
    line: str, before: str, idle_s: int, others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decision 0059: the version before stored the batch, its response was lost, and this version gets the retry."""
    monkeypatch.setattr("chalicelib.masking.previous.FORMATS", (TokenFormat("acme", "acme_", "0-9a-f", 12),))
    compared.cache_clear()
    world = World()
    with masking(world, ON), patch.object(Masker, "mask", _masked_by(before)):
        cookie, _ = send("first")
        send(line, cookie)
        for number in range(others):
            send(f"of another {number}")
    world.clock.advance(idle_s)
    with masking(world, ON):
        assert send(line, cookie)[1], "it was stored before"
        assert len(log()) == 2 + others
    compared.cache_clear()


def test_retry_is_recognized_after_a_value_was_retired() -> None:
    rule: dict[str, object] = {"values": ["geheim"], "shapes": []}
    world = World()
    with masking(world, [rule]):
        cookie, _ = send("first")
        send("it is geheim", cookie)
    world.clock.advance(3600)
    with masking(world, [rule | {"retired": True}]):
        assert send("it is geheim", cookie)[1]
        send("geheim again")
        assert post("geheim.p/r", "x", {"Content-Type": "text/plain"}).status == 200, "a name may contain it again"
        assert log() == ["first", "it is ***configured-value***", "geheim again"]


def test_retry_after_concurrent_appends_is_recognized() -> None:
    world = World()
    with masking(world, ON):
        cookie, _ = send("first")
        for number in range(5):
            send(f"of another {number}")
        send(SECRET_LINE, cookie)
    for rules in (ON, LESS, OFF):
        with masking(world, rules):
            assert send(SECRET_LINE, cookie)[1]
            assert len(log()) == 7


@pytest.mark.parametrize(("before", "after"), [(OFF, None), (ON, ON), (LESS, ON), (ON, OFF)])
def test_idempotency_key_is_recognized_too(before: Rules, after: Rules) -> None:
    world = World()
    with masking(world, before):
        assert not send(SECRET_LINE, key="k")[1]
    with masking(world, after):
        assert send(SECRET_LINE, key="k")[1]
        assert len(log()) == 1


def test_another_secret_is_another_batch() -> None:
    """Equal after masking, but sent with different contents."""
    world = World()
    with masking(world, ON):
        cookie, _ = send("first")
        send("password=one", cookie)
        assert not send("password=two", cookie)[1]
        assert log() == ["first", "password=***password***", "password=***password***"]
        send("password=one", key="k")
        answer = post(PATH, json.dumps("password=two"), {"Idempotency-Key": "k"})
        assert answer.status == 400


def test_stored_digest_does_not_reveal_the_secret() -> None:
    world = World()
    with masking(world, ON):
        send(SECRET_LINE)
        send("no secret")
    plain = Batch.from_text(SECRET_LINE)
    stored = [world.store.head(world.layout.segment(RUN, number)).metadata["digest"] for number in (0, 1)]
    assert plain.digest not in stored and len(stored[0]) == 33
    assert stored[1] == Batch.from_text("no secret").digest, "as it ever was"


def test_rotated_key_recognizes_fingerprints_of_the_old_key() -> None:
    batch = Batch.from_text("password=a").stored_as(b"password=***password***\n")
    old, new, other = BatchFingerprints(["old"]), BatchFingerprints(["new", "old"]), BatchFingerprints(["other"])
    assert new.matches(batch, old.digest(batch)) and new.digest(batch) != old.digest(batch)
    assert not other.matches(batch, old.digest(batch))
    assert old.matches(batch, batch.digest), "stored before there were rules"


def test_masking_adds_no_request() -> None:
    """A retry that checks other batches: HEADs for those of its size only."""
    heads = []
    for rules in (OFF, ON):
        world = World()
        with masking(world, rules):
            cookie, _ = send("first")
            for number in range(7):
                send(f"of another that is long {number}")
            world.clock.advance(3600)
            world.store.calls.clear()
            send("no secret", cookie)
            heads.append(world.store.calls["head"])
    assert heads[0] == heads[1]


def test_invalid_rules_are_reported_at_start() -> None:
    with pytest.raises(InvalidConfigurationError, match="variable=RUNLAKE_MASKING"), masking(World(), [{"fqn": ""}]):
        composition.services().prepare("masker")


def test_log_line_of_an_error_holds_no_secret() -> None:
    """A store's error contains the key, and a run may be older than a rule."""
    world = World()
    with masking(world, [{"values": ["hunter2-old"]}]), everything_said() as lines:
        logger.warning(
            "a store call failed", extra={"error": "no such key=hunter2-old", "keys": ["x/hunter2-old"], "hunter2-old": 5}
        )
    said = lines.getvalue()
    assert "a store call failed" in said and "hunter2" not in said and "***configured-value***" in said


def test_metadata_of_metrics_contains_no_secret() -> None:
    with masking(World(), [{"values": ["hunter2-old"]}]), everything_said() as lines, invocation("http", Context()):
        note(fqn="svc.hunter2-old", lines=5, names=["hunter2-old"])
        record(LOGS_SENT, 1)
    (line,) = map(json.loads, lines.getvalue().splitlines())
    assert (line["fqn"], line["lines"], line["names"]) == ("svc.***configured-value***", 5, ["***configured-value***"])


def test_writer_and_run_named_by_a_value_are_rejected() -> None:
    with masking(World(), [{"values": ["hunter2-old"]}]) as world:
        events = composition.services().events
        with pytest.raises(InvalidNameError):
            events.writers.open(Run("svc.a", "r"), "w-hunter2-old")
        with pytest.raises(InvalidNameError):
            events.writers.close(Run("svc.a", "hunter2-old"), "w", 0)
        with pytest.raises(InvalidNameError):
            events.log.append(Run("svc.hunter2-old", "r"), [])
        assert not [key for key in world.names(Run("svc.a", "r")) if "hunter2" in key]


def test_agents_item_of_a_run_with_a_secret_is_rejected_by_itself() -> None:
    """Before its permission is checked, which would log the name, even one where the value was truncated."""
    name = "x" * 195 + "hunter2-old"
    records = [{"message": "a", "runlake": {"fqn": fqn, "run_id": "r"}} for fqn in ("svc.a", name)]
    issuer = Issuer()
    with (
        installed(World(), masking=SecretStr('[{"values": ["hunter2-old"]}]'), keys=issuer.read, **JWT),
        everything_said() as lines,
    ):
        token = bearer(issuer.granted("w", logs_write=["svc.*"]))
        answer = call("POST", "/v1/agents/fluent", json.dumps(records), {"Content-Type": "application/json", **token})
    assert answer.json["accepted"] == 1 and answer.json["errors"][0]["code"] == 400
    assert "items of an agent" in lines.getvalue() and "hunt" not in answer.body + lines.getvalue()


def test_public_request_reads_no_value() -> None:
    """Anyone can send one, so it must not cost requests to the store of secrets."""
    read: list[SecretName] = []
    with installed(World(), masking=SecretStr('[{"values_from": ["ssm:x"]}]')):
        composition.services().masker._read = lambda name: str(read.append(name))
        assert call("GET", "/v1/health").status == 200 and not read
        get("svc.a/r")
        assert read


def test_unreadable_value_does_not_block_reads() -> None:
    def away(name: SecretName) -> str:
        raise UnavailableError("away")

    world = World()
    with installed(world):
        assert post("svc.a/r", json.dumps("a")).status == 200
    rules = SecretStr('[{"fqn": "svc.*", "values_from": ["ssm:x"]}]')
    with installed(world, masking=rules):
        composition.services().masker._read = away
        assert get("svc.a/r").json["logs"] == "a"
        assert post("svc.a/r", json.dumps("b")).status == 503
        assert post("other.a/r", json.dumps("b")).status == 200
