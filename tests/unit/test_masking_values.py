"""Configured values: every form of every value is masked in one pass, and the cost does not depend on the number of values."""

from __future__ import annotations

import base64
import html
import json
import random
import re
import string
from urllib.parse import quote, quote_plus, unquote

import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from chalicelib.masking.encodings import encoded_forms
from chalicelib.masking.mask import mask
from chalicelib.masking.masker import Masker
from chalicelib.masking.rules import parse_rules
from chalicelib.masking.shapes import finders
from chalicelib.masking.text import Automaton, Text
from chalicelib.masking.values import WINDOW_BYTES, ValueFinder
from tests.sampling import examples
from tests.spellings import base64_text, spelling
from tests.support.clock import ManualClock

QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
M = "***configured-value***"
SECRET = "S3cr#t pa/ss+wörd?~'\"\\"


def masked(text: str, *values: str) -> str:
    return mask(text.encode(), finders([], [value.encode() for value in values])).body.decode()


# Forms


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        quote(SECRET, safe=""),
        quote(SECRET),
        quote_plus(SECRET),
        re.sub(r"%..", lambda found: found[0].lower(), quote(SECRET, safe="")),
        re.sub(r"%..", lambda found: found[0].lower(), quote_plus(SECRET)),
        quote(SECRET, safe="!'()*"),
        quote_plus(SECRET, safe="*").replace("~", "%7E"),
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        repr(SECRET)[1:-1],
        ascii(SECRET)[1:-1],
        repr(SECRET.encode())[2:-1],
        SECRET.replace("\\", "\\\\"),  # in a text that has no double quotes
        "".join(f"&#{ord(each)};" for each in json.dumps(SECRET)[1:-1]),
    ],
)
def test_percent_encoded_in_both_cases_and_with_both_blanks_and_escaped(written: str) -> None:
    assert masked(f"a={written}&b=1", SECRET) == f"a={M}&b=1"


@pytest.mark.parametrize("at", [0, WINDOW_BYTES - 1, WINDOW_BYTES])
@pytest.mark.parametrize("preceding", [0, 1, 2])
def test_longest_form_at_a_border_is_masked(at: int, preceding: int) -> None:
    secret = "a value that is longer than each marker"
    form = base64.b64encode(b"x" * preceding + secret.encode()).decode()[(0, 2, 3)[preceding] :]
    assert masked(" " * at + form + " end", secret) == " " * at + M + " end"


@pytest.mark.behavior("Configured secrets are masked in base64, percent-encoded and escaped forms.")
@pytest.mark.sampled(default=80)
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("is_padded", [True, False])
@pytest.mark.parametrize("before", range(7))
@pytest.mark.parametrize("after", range(7))
@pytest.mark.parametrize("secret", ["hunter2-and-more", "gehe", "geheim", "\u00fe\u00ff\u00fe\u00ff>>>???"])
def test_base64_wherever_it_begins_standard_and_url_safe_padded_or_not(
    encode: object, is_padded: bool, before: int, after: int, secret: str
) -> None:
    raw = b"<" * before + secret.encode() + b">" * after
    text = encode(raw).decode()  # type: ignore[operator]
    text = text if is_padded else text.rstrip("=")
    found = masked(f"header {text}\n", secret)
    assert M in found
    rest = found.removeprefix("header ").removesuffix("\n").replace(M, "")
    assert len(rest) <= (before * 4 + 2) // 3 + (after * 4 + 2) // 3 + 2, "no letter that has a part of the secret is left"
    left, _, right = found.removeprefix("header ").removesuffix("\n").partition(M)
    assert text.startswith(left) and text.endswith(right)
    assert len(left) * 6 <= before * 8
    assert len(right.rstrip("=")) * 6 <= after * 8 + 4 or (after == 0 and right.strip("=") == "")


LETTERS = string.ascii_letters + string.digits + string.punctuation
OFTEN = "abdnrtux0149AF\"'\\\\/&<>%+= $;äé€😀\t"


@pytest.mark.behavior("Configured secrets are masked however a writer escapes them.")
@settings(QUIET, max_examples=examples(300))
@given(st.text(LETTERS, min_size=4, max_size=24) | st.text(OFTEN, min_size=4, max_size=20), st.randoms(use_true_random=False))
def test_value_in_any_spelling_is_masked(inner: str, chance: random.Random) -> None:
    value = f"a{inner}z"  # quotes and backslashes at the ends: below
    assume(len(html.unescape(unquote(value)).replace("\\", "")) >= 4)  # what is shorter without escapes is known as written only
    name, written = spelling(value, chance)
    note(f"{name}: {written}")
    assert masked(f"x {written} y", value) == f"x {M} y"


@settings(QUIET, max_examples=examples(100))
@given(st.text(LETTERS, min_size=8, max_size=100), st.randoms(use_true_random=False))
def test_base64_in_lines_is_masked(value: str, chance: random.Random) -> None:
    before, encoded, after = base64_text(value, chance)
    found = masked(encoded, value)
    left = re.sub(r"\s", "", found.replace(M, ""))
    assert M in found and len(left) <= (before * 4 + 2) // 3 + (after * 4 + 2) // 3 + 2
    assert found.count("\n") == encoded.count("\n")


def test_base64_of_json_with_an_escaped_value_is_masked() -> None:
    encoded = base64.b64encode(json.dumps({"k": 'it is "secret" \u00e9'}).encode()).decode()
    assert M in masked(encoded, 'is "secret"') and M in masked(encoded, 't" \u00e9')


def test_token_in_lines_is_masked() -> None:
    token = "".join(random.Random(7).choices(LETTERS[:62], k=100))
    for columns in (64, 76):
        text = "\n".join([token[:columns], token[columns:]])
        assert masked(f"{text}\n", token) == f"{M}\n{M}\n"
        assert masked(json.dumps(text), token) == f'"{M}"'
    assert masked("x " + token[:40] + "\n" + token[40:], token) == "x " + token[:40] + "\n" + token[40:], "no line of base64"


@pytest.mark.parametrize(
    "value", ['"quoted"', '"first', "'quoted'", "\\backslashes\\", 'at the end\\"', '\\"at the start', "\\\\host\\share"]
)
def test_json_with_a_masked_value_stays_valid(value: str) -> None:
    document = json.dumps({"k": value})
    assert json.loads(masked(document, value)) == {"k": M}
    assert json.loads(json.loads(masked(json.dumps(document), value))) == {"k": M}


def test_all_forms_of_plain_letters_are_four() -> None:
    assert len(encoded_forms(b"hunter2-and-more")) == 4


def test_the_blanks_of_a_form() -> None:
    assert masked("user=a+b+c+d user=a%20b%20c%20d a b c d", "a b c d") == f"user={M} user={M} {M}"


# Overlaps


def test_longest_first() -> None:
    assert masked("topsecretplus topsecret secretplus", "topsecret", "topsecretplus", "secret") == f"{M} {M} {M}plus"


def test_overlapping_values_are_masked_completely() -> None:
    assert masked("xabcdefghx", "abcdef", "defgh", "cdefg") == f"x{M}x"
    assert masked("aaaaaaa", "aaaa") == M


def test_values_of_several_lines_are_their_lines() -> None:
    by_rules = Masker(parse_rules(json.dumps([{"shapes": [], "values": ["first line\nsecond line\nno"]}])), None, ManualClock(0))
    assert by_rules.mask("any", b"x second line y first line\nno\n").body.decode() == f"x {M} y {M}\nno\n"


def test_a_value_over_the_border_of_a_window() -> None:
    for at in range(WINDOW_BYTES - 12, WINDOW_BYTES + 2):
        text = "." * at + "hunter2-hunter2" + "." * 9
        assert masked(text, "hunter2-hunter2") == "." * at + M + "." * 9


# Existing markers


def test_existing_markers_are_not_cut() -> None:
    text = "password=***password*** jwt ***jwt***"
    assert masked(text, "password") == f"{M}=***password*** jwt ***jwt***"
    assert masked(masked(text, "password"), "password", "value", "configured") == f"{M}=***password*** jwt ***jwt***"
    for at in range(WINDOW_BYTES - 16, WINDOW_BYTES + 2):
        long = "." * at + "***password***"
        assert masked(long, "password", "word") == long


def test_value_across_a_marker_masks_the_marker_too() -> None:
    assert masked("a ***jwt***-tail b", "***-tail") == f"a {M} b"
    assert masked("a head-***jwt*** b", "head-***j") == f"a {M} b"


# Against a plain model

SECRETS = st.lists(
    st.text(st.sampled_from("ab1 /+&é"), min_size=4, max_size=9).filter(lambda text: len(text.strip()) >= 4), max_size=6
)


@pytest.mark.behavior("Configured secrets leave no part in the text, also where they overlap.")
@QUIET
@given(SECRETS, st.text(st.sampled_from("ab1 /+&é%\n=x"), max_size=120), st.randoms(use_true_random=False))
def test_nothing_of_any_value_is_left(secrets: list[str], noise: str, chance: random.Random) -> None:
    values = [secret.strip() for secret in secrets]
    pieces = [noise, *values, *(quote(value) for value in values), *(base64.b64encode(value.encode()).decode() for value in values)]
    chance.shuffle(pieces)
    text = "".join(pieces)
    found = masked(text, *values)
    covered = bytearray(len(text.encode()))
    for value in values:
        for form in encoded_forms(value.encode()):
            at = text.encode().find(form.text)
            while at >= 0:
                covered[at : at + len(form.text)] = b"\1" * len(form.text)
                at = text.encode().find(form.text, at + 1)
    kept = [piece.encode() for piece in found.split(M)]
    assert sum(map(len, kept)) <= covered.count(0), "at least what a search for each form finds is gone"
    assert re.fullmatch(b".+?".join(map(re.escape, kept)), text.encode(), re.DOTALL), "and the rest is there, in order"
    if not any(covered):
        assert found == text
    assert found.count("\n") == text.count("\n")


@QUIET
@given(SECRETS, st.text(st.sampled_from("ab1 x\n"), max_size=80))
def test_plain_values_are_masked_byte_for_byte_as_a_model_says(secrets: list[str], text: str) -> None:
    """All occurrences of all forms, overlapping ones merged, each replaced by a marker."""
    values = [secret.strip() for secret in secrets if secret.isascii()]
    every = {form.text for value in values for form in encoded_forms(value.encode())}
    spans = sorted((at, at + len(each)) for each in every for at in range(len(text)) if text.encode().startswith(each, at))
    united: list[list[int]] = []
    for first, last in spans:
        if united and first < united[-1][1]:
            united[-1][1] = max(united[-1][1], last)
        else:
            united.append([first, last])
    is_plain = not any(
        form.before or form.after for value in values for form in encoded_forms(value.encode()) if form.text in text.encode()
    )
    wanted, at = "", 0
    for first, last in united:
        wanted += text[at:first] + M
        at = last
    if is_plain:
        assert masked(text, *values) == wanted + text[at:]


# Cost


class Counted(Text):
    """Counts the searched bytes and the matches."""

    __slots__ = ("finds", "looks")

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self.looks = self.finds = 0

    def occurrences(self, of: Automaton, start: int, end: int) -> list[tuple[int, int, int]]:
        found = super().occurrences(of, start, end)
        self.looks += min(end, len(self)) - start
        self.finds += len(found)
        return found


def secrets_of(count: int, seed: int = 7) -> list[bytes]:
    chance = random.Random(seed)
    return ["".join(chance.choices(string.ascii_letters + string.digits, k=chance.randint(12, 40))).encode() for _ in range(count)]


def cost(text: bytes, values: list[bytes]) -> tuple[int, int]:
    counted = Counted(text)
    list(ValueFinder(values)(counted))
    return counted.looks, counted.finds


def test_bytes_looked_at_grow_with_the_text_and_not_with_the_secrets() -> None:
    line = b"2026-11-21 03:12:45 INFO  processed table warehouse.public.orders rows=1048576 in 132 ms\n"
    for size in (1, 4):
        text = line * (size * 100_000 // len(line))
        looked = [cost(text, secrets_of(count))[0] for count in (1, 10, 1000)]
        windows = len(text) // WINDOW_BYTES + 1
        assert all(len(text) <= each <= len(text) + windows * 100 for each in looked)


NESTED = {
    "each in the next": [b"a" * length for length in range(4, 300)],
    "ends of one": [(secrets_of(1)[0] * 8)[-length:] for length in range(4, 200)],
    "beginnings of one": [(secrets_of(1)[0] * 8)[:at] for at in range(4, 200)],
    "parts of one": [secrets_of(1)[0][first:last] for first in range(20) for last in range(first + 4, 32)],
}


@pytest.mark.parametrize("name", NESTED)
def test_values_within_values_cost_no_more(name: str) -> None:
    """The worst text for each: the text bounds the number of matches, for any nesting of values."""
    values = NESTED[name]
    longest = max(values, key=len)
    for text in (longest * (20_000 // len(longest)), b"a" * 20_000):
        looks, finds = cost(text, values)
        assert looks <= len(text) + 2 * WINDOW_BYTES
        assert finds <= 2 * (1 + len(longest).bit_length()) * len(text)
        assert finds <= 3 * len(text), "in practice"


@settings(QUIET, max_examples=examples(50))
@given(st.lists(st.text("ab", min_size=4, max_size=24), min_size=1, max_size=40), st.text("ab", min_size=100, max_size=400))
def test_finds_are_bounded_whatever_the_values_are(values: list[str], text: str) -> None:
    _, finds = cost(text.encode(), [value.encode() for value in values])
    assert finds <= 2 * (1 + 5) * len(text)


def test_a_finder_is_made_once_for_many_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr("chalicelib.masking.masker.values_finder", lambda values: made.append(values) or ValueFinder(values))
    by_rules = Masker(
        parse_rules(json.dumps([{"values": ["geheim"]}, {"fqn": "b.*", "values": ["anderes"]}])), None, ManualClock(0)
    )
    for _ in range(3):
        assert by_rules.mask("a.x", b"geheim anderes").body.startswith(b"***")
        by_rules.mask("b.x", b"geheim")
        assert by_rules.may_contain_secrets(b"geheim")
    assert len(made) == 2
