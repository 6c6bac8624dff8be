"""Masking of documents: texts, names, and values together with their names."""

from __future__ import annotations

import json
import tracemalloc
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from chalicelib.errors import InvalidNameError, UnavailableError
from chalicelib.events.batch import prepare_batch
from chalicelib.events.codecs.items import with_shared
from chalicelib.events.event import Annotation, Loggable, NewEvent
from chalicelib.events.masking import BatchMask, details, masked_details
from chalicelib.masking.fields import LONGEST_LABEL_CHARS, FieldMask, _unused
from chalicelib.masking.mask import Masked
from chalicelib.masking.masker import VALUES_AGE_MS, Masker
from chalicelib.masking.rules import MaskingRule, SecretName
from tests.sampling import examples
from tests.support.clock import ManualClock
from tests.world import RUN

VALUE = "geheim-12345"
RULES = [MaskingRule(fqn="*", values=(SecretStr(VALUE), SecretStr("12345678")))]
MARKER = "***configured-value***"
LOGGABLE = Loggable.of_run(RUN, "house-1")
WORDS = st.sampled_from(
    ["", "a", VALUE, f"x {VALUE} y", "password", "token", "hunter2", "12345678", "k=v", '{"password": "x\\"y"}', "é\n"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 10**9) | st.just(12345678) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


def masker(clock: ManualClock | None = None, rules: Any = RULES, read: Any = None) -> Masker:
    return Masker(rules, read, clock or ManualClock(0))


def fields() -> FieldMask:
    return FieldMask(partial(masker().mask, RUN.fqn))


class _CountedLookups(dict[str, object]):
    """Counts the lookups of names."""

    lookups = 0

    def __contains__(self, name: object) -> bool:
        self.lookups += 1
        return super().__contains__(name)


def test_many_equal_names_are_numbered_in_linear_time() -> None:
    taken, numbers = _CountedLookups({"x-3": None}), dict[str, int]()
    for _ in range(1_000):
        taken[_unused("x", taken, numbers)] = None
    assert list(taken)[:4] == ["x-3", "x", "x-2", "x-4"] and len(taken) == 1_001
    assert taken.lookups <= 3 * 1_000


def test_names_that_masking_makes_equal_keep_their_fields() -> None:
    assert fields().value({"token=a": 1, "token=b": 2, "token=c": 3}) == {
        "token=***password***": 1,
        "token=***password***-2": 2,
        "token=***password***-3": 3,
    }


def test_repeated_short_texts_are_masked_once() -> None:
    texts: list[bytes] = []
    mask = FieldMask(lambda text: texts.append(text) or masker().mask(RUN.fqn, text))  # type: ignore[func-returns-value]
    assert mask.value(["token=a"] * 1_000) == ["token=***password***"] * 1_000
    assert len(texts) <= 3 and mask.counts == {"password": 1_000}


def test_scan_of_many_secret_texts_ends_with_the_first() -> None:
    looked = 0

    def counted(text: bytes) -> Masked:
        nonlocal looked
        looked += len(text)
        return masker().mask(RUN.fqn, text)

    assert FieldMask(counted).has_secrets(["token=a"] * 10_000) and looked < 2_048
    assert not FieldMask(counted).has_secrets(["nothing"] * 10_000)
    assert FieldMask(counted).has_secrets([*["nothing"] * 10_000, VALUE])


@pytest.mark.slow
def test_list_of_a_long_name_takes_linear_time() -> None:
    """A small compressed body can have a large product of a name's length and its list's length."""
    sizes: list[int] = []

    def counted(text: bytes) -> Masked:
        sizes.append(len(text))
        return masker().mask(RUN.fqn, text)

    for name in ("pwd" * 3_000, "a" * 9_000, "é\0" * 3_000):
        sizes.clear()
        document = {name: list(range(1_000))}
        FieldMask(counted).has_secrets([document])
        FieldMask(counted).value(document)
        assert sum(sizes) < 8 * len(json.dumps(name)) + 2 * 1_000 * (6 * LONGEST_LABEL_CHARS + 10), name[:9]


def test_single_look_keeps_one_piece_in_memory() -> None:
    sizes: list[int] = []
    value = {"a" * 30_000: [0] * 11_000, "b": "x" * 500, "c": ["y" * 100] * 5_000}
    mask = FieldMask(lambda text: sizes.append(len(text)) or Masked(text, {}))  # type: ignore[func-returns-value]
    tracemalloc.start()
    assert not mask.has_secrets([value])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert max(sizes) <= 31_000 and peak < 1024 * 1024  # the long name is a piece of its own


KEY_PARTS = (
    "password", "pwd", "api_", "key", "pwd='", 'pwd="', "pwd=", "'", "x" * 70, "é" * 40, " ", "-----BEGIN PRIVATE KEY-----",
    "-----END PRIVATE KEY-----",
    "AKIAIOSFODNN7EXAMPLE", "authorization", "--token", "://a:", "\n", VALUE,
)  # fmt: skip
SCALARS = st.integers(-9, 10**8) | st.sampled_from(["", "/home", "hunter2", "x'y", 'x"y', "a" * 40, "pwd=\nx", "@b", VALUE, "=x"])


def label_of(name: str) -> str:
    """The text before a value in JSON."""
    return json.dumps(name, ensure_ascii=False) + ": "


def masked_behind(label: str, value: object) -> object:
    """The masked value after a text."""
    value = fields().text(value) if isinstance(value, str) else value
    masked = masker().mask(RUN.fqn, (label + json.dumps(value, ensure_ascii=False)).encode())
    if not masked.edits or masked.edits[-1].end <= len(label.encode()):
        return value
    before = sum(edit.length - (edit.end - edit.start) for edit in list(masked.edits)[:-1])
    first = masked.edits[-1].start + before
    return masked.body[first : first + masked.edits[-1].length].decode().strip('"')


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(1000))
@example(f"pwd='{'x' * 57}", 0)
@example(f"pwd='{'x' * 59}", "hunter2")
@example(f"-----BEGIN PRIVATE KEY-----{'x' * 70}pwd=", "hunter2")
@example(f"pwd={'x' * 70}pwd='pwd='", "hunter2")
@example(f"--token {'x' * 70}--token", 0)
@example(f"pwd='pwd='pwd=\"pwd=\"{'é' * 40}", 0)
@given(st.lists(st.sampled_from(KEY_PARTS), min_size=1, max_size=5).map("".join), SCALARS)
def test_value_behind_a_long_name_is_masked_as_behind_all_of_it(name: str, value: Any) -> None:
    label = label_of(name)
    expected, mask = masked_behind(label, value), fields()
    found, end = mask._value([value], mask._label(name)), label[-LONGEST_LABEL_CHARS:]
    if expected == value:
        # All of ``pwd=…pwd`` is the value of its first word, which the end alone does not contain.
        assert found == [value] or masked_behind(end, value) != value
    else:
        assert (found != [value]) and (found == [expected] or end != label)
    if found != [value]:
        assert fields().has_secrets([{name: [value]}])


def test_end_of_a_private_key_is_seen_far_behind_other_texts() -> None:
    """In a text of its own all before it is masked, so the single scan must find it among others."""
    end = "MIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----"
    assert fields().text(end) != end
    assert fields().has_secrets(["plain text"] * 5_000 + [end])
    assert fields().has_secrets(["x" * 15_000, "y" * 15_000 + end])


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        ({"password": "hunter2"}, {"password": "***password***"}),
        ({f"{'x' * 70}password": "hunter2"}, {f"{'x' * 70}password": "***password***"}),
        ({f"pwd='{'xy' * 35}": [1, "y"]}, {"pwd='***password***": ["***password***", "***password***"]}),
        ({"password": ["hunter2", "x"]}, {"password": ["***password***", "***password***"]}),
        ({"password": [["hunter2"]]}, {"password": [["***password***"]]}),
        ({"args": ["mysql", "-h", "db", "-phunter2", {"k": 1}]}, {"args": ["mysql", "-h", "db", "-p***password***", {"k": 1}]}),
        ([["Cookie", "a=hunter2"], ["--password", "hunter2"]], [["Cookie", "a=***cookie***"], ["--password", "***password***"]]),
        (["curl -u me:", "x1y2"], ["curl -u me:", "x1y2"]),
        ({"password": 1234}, {"password": "***password***"}),
        ({"password": [1234, None, True]}, {"password": ["***password***", None, True]}),
        ({"password": [{"name": "x"}]}, {"password": [{"name": "***password***"}]}),
        ({"password": {"value": "x", "n": {"m": [7]}}}, {"password": {"value": "***password***", "n": {"m": ["***password***"]}}}),
        ({"env": [{"name": "DB_PASSWORD", "value": "x"}]}, {"env": [{"name": "DB_PASSWORD", "value": "***password***"}]}),
        ({"Key": "DB_PASSWORD", "Value": "x"}, {"Key": "DB_PASSWORD", "Value": "***password***"}),
        ({"labels": {"name": "team", "value": "x"}}, {"labels": {"name": "team", "value": "x"}}),
        ({"a": {"token": "x y"}}, {"a": {"token": "***password***"}}),
        ({"secret_name": "x", "n": 5}, {"secret_name": "x", "n": 5}),
        ([VALUE, {VALUE: 1}], [MARKER, {MARKER: 1}]),
        ({f"a{VALUE}": 1, f"a{VALUE}{VALUE}": 2}, {f"a{MARKER}": 1, f"a{MARKER}{MARKER}": 2}),
        ({VALUE: 1, VALUE.replace("-", "%2D"): 2}, {MARKER: 1, f"{MARKER}-2": 2}),
        ({"pin": 12345678, "all": [12345678]}, {"pin": MARKER, "all": [MARKER]}),
        (12345678, MARKER),
        ("password=hunter2", "password=***password***"),
    ],
)
def test_value_and_its_name_are_masked(value: Any, masked: Any) -> None:
    assert fields().value(value) == masked


def test_names_that_become_equal_are_all_there() -> None:
    rules = [MaskingRule(fqn="*", values=(SecretStr("secret-one"), SecretStr("secret-two")))]
    mask = FieldMask(partial(masker(rules=rules).mask, RUN.fqn))
    assert mask.value({"secret-one": 1, "secret-two": 2, "x": 3}) == {MARKER: 1, f"{MARKER}-2": 2, "x": 3}


@settings(deadline=None, max_examples=examples(300))
@given(JSON)
def test_single_look_sees_all_that_is_masked_field_by_field(value: Any) -> None:
    """Otherwise a batch with a secret would pass unmasked."""
    mask = fields()
    if mask.value(value) != value:
        assert mask.has_secrets([value])


@settings(deadline=None, max_examples=examples(200))
@given(JSON)
def test_masked_twice_is_masked_once(value: Any) -> None:
    once = fields().value(value)
    assert fields().value(once) == once and VALUE not in repr(once) and "12345678" not in repr(once)


def test_every_field_of_an_event_is_masked() -> None:
    event = NewEvent(
        message="m", step=f"s {VALUE}", level=f"L {VALUE}", data={"k": VALUE}, annotations=(Annotation(position=0, note=VALUE),)
    )
    masked = masked_details(event, fields())
    assert VALUE not in repr(masked) and (masked.step, masked.level) == (f"s {MARKER}", f"L {MARKER}")
    assert set(NewEvent.model_fields) == {"message", "timestamp", "id", "step", "level", "data", "annotations"}, (
        "a new field is masked too"
    )
    alone = [{"step": VALUE}, {"level": VALUE}, {"data": {"k": VALUE}}, {"annotations": (Annotation(position=0, note=VALUE),)}]
    assert all(fields().has_secrets(details(NewEvent(message="m", **each))) for each in alone)


@pytest.mark.parametrize("value", [VALUE, f"a {VALUE}", {"x": VALUE, "password": "hunter2"}, [VALUE], 12345678])
def test_name_of_another_installation_is_masked_like_other_data(value: Any) -> None:
    foreign = {"instanceId": value}
    events = [NewEvent(message="m", data=foreign)]
    (noted,) = prepare_batch(events, LOGGABLE, "w", 1, partial(masker().mask, RUN.fqn)).entries
    assert VALUE not in repr(noted.data) and "12345678" not in repr(noted.data) and noted.data != foreign


def test_step_that_grows_too_long_is_the_marker() -> None:
    step = "*" * 190 + VALUE
    assert masked_details(NewEvent(message="", step=step), fields()).step == MARKER


# Names, logs and answers


def test_rejection_of_a_name_does_not_repeat_the_value() -> None:
    check = masker().check_names
    check("svc.a", "svc.a", "run", "password=hunter2")  # shapes do not apply to names
    for name in (VALUE, f"run-{VALUE}-1", VALUE.replace("-", "%2D"), "é" + VALUE):
        with pytest.raises(InvalidNameError) as caught:
            check("svc.a", "svc.a", name)
        assert VALUE not in str(caught.value)
    other = masker(rules=[MaskingRule(fqn="other.*", values=(SecretStr(VALUE),))])
    other.check_names("svc.a", VALUE)
    with pytest.raises(InvalidNameError):
        other.check_names("other.a", VALUE)


def test_names_that_hold_a_value_together_are_rejected() -> None:
    check = masker(rules=[MaskingRule(fqn="*", values=(SecretStr("alpha/beta-secret"),))]).check_names
    check("svc", "svc", "alpha", "x", "beta-secret")
    check("svc", "alphabeta-secret", "alpha-beta-secret")
    for names in (("alpha", "beta-secret"), ("svc.alpha.beta-secret", "r"), ("svc", "alpha", "beta-secret-1")):
        with pytest.raises(InvalidNameError):
            check(names[0], *names)


class Parameters:
    """A parameter store that can be ``away``."""

    def __init__(self, **values: str) -> None:
        self.values, self.away, self.reads = values, False, 0

    def __call__(self, name: SecretName) -> str:
        self.reads += 1
        if self.away:
            raise UnavailableError("away")
        return self.values[name.name]


def test_redaction_makes_no_request_and_knows_what_was_read() -> None:
    parameters, clock = Parameters(db=VALUE), ManualClock(0)
    mine = masker(
        clock,
        [MaskingRule(fqn="svc.*", values_from=("ssm:db",)), MaskingRule(fqn="x.*", values=(SecretStr("own-value"),))],
        parameters,
    )
    assert mine.redact(f"{VALUE} own-value") == f"{VALUE} {MARKER}" and parameters.reads == 0
    mine.refresh()
    assert mine.redact(f"{VALUE} own-value\udce9") == f"{MARKER} {MARKER}\udce9" and parameters.reads == 1
    mine.refresh()
    assert parameters.reads == 1
    clock.advance(VALUES_AGE_MS / 1000)
    mine.refresh()
    assert parameters.reads == 2


def test_failed_refresh_waits_before_the_next_read() -> None:
    parameters, clock = Parameters(db=VALUE), ManualClock(0)
    mine = masker(clock, [MaskingRule(fqn="*", values_from=("ssm:db",))], parameters)
    parameters.away = True
    for _ in range(3):
        mine.refresh()
    assert parameters.reads == 1 and mine.redact(VALUE) == VALUE
    with pytest.raises(UnavailableError):
        mine.check_names("svc.a", "svc.a")
    parameters.away = False
    clock.advance(30)
    mine.refresh()
    assert mine.redact(VALUE) == MARKER


def test_check_names_reads_what_it_needs() -> None:
    mine = masker(rules=[MaskingRule(fqn="*", values_from=("ssm:db",))], read=Parameters(db=VALUE))
    with pytest.raises(InvalidNameError):
        mine.check_names("svc.a", f"run-{VALUE}")


def test_what_events_share_is_masked_once_and_counted_in_each() -> None:
    shared = {"token": "x" * 300, "deep": [VALUE, {"a": f"{VALUE} " * 200}]}
    events = [with_shared(NewEvent(message="m", data={"own": f"{VALUE} {number}"}), {"resource": shared}) for number in range(5)]
    masks: list[bytes] = []
    counted = FieldMask(lambda text: masks.append(text) or masker().mask(RUN.fqn, text))  # type: ignore[func-returns-value]
    batch_mask = BatchMask(counted)
    first = batch_mask.masked(events[0])
    looked = len(masks)
    masked = [first, *map(batch_mask.masked, events[1:])]
    alone = fields()
    assert [each.data for each in masked] == [masked_details(each, alone).data for each in events]
    assert counted.counts == alone.counts
    assert len({id(each.data["resource"]) for each in masked}) == 1
    assert len(masks) - looked < looked, "four events took less than the first"


def test_another_value_of_the_same_name_is_masked_by_itself() -> None:
    values = [{"a": VALUE}, {"a": "nothing"}, {"b": VALUE}, "x" * 300, f"{VALUE} " * 100, {"a": VALUE}]
    events = [NewEvent(message="m", data={"k": value}) for value in values]
    batch_mask, alone = BatchMask(fields()), fields()
    assert [batch_mask.masked(each).data for each in events] == [masked_details(each, alone).data for each in events]
