# Copied from chalicelib/masking/token_formats.py by docs.generate.
"""Tokens that vendors mark with a literal text: a table of facts from their documents, and the finder of its rows.

A row states what distinguishes a token from other text; the finder reads on from the literal for a bounded number of characters. Where a
vendor says that lengths may grow, or documents none, only the smallest counts. Checksums are not verified: what was changed or invented is
masked too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, partial
from typing import NamedTuple

from runlake._redaction.scan import Deferred, Find
from runlake._redaction.text import RunPattern, Span, Text, run_pattern

MOST_LETTERS = 1024
"""Read after a literal, at most, until it is known to begin a token."""
_LONGEST_REST = 15 * 1024
_DISTINCT = 6
_WORD_LETTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")

_ESCAPES = frozenset((rb"\n", rb"\r", rb"\t"))
_EXAMPLE = re.compile(rb"([A-Za-z])\1{9}|(?:[Tt]oken|[Kk]ey|[Ss]ecret)_?[Hh]ere$")
_LETTER = re.compile(rb"[A-Za-z]")
_FULL_STOP = ord(".")

_DIGITS, _HEX, _UPPER, _LOWER = "0-9", "0-9a-f", "A-Z0-9", "a-z0-9"
_ALNUM = "A-Za-z0-9"
_WORD, _URL = _ALNUM + "_", _ALNUM + r"_\-"
_DOTTED = _URL + ".="
_BASE64 = _ALNUM + "+/="
_PATH = _URL + "/@.%"


class TokenFormat(NamedTuple):
    """``fewest`` to ``most`` characters of ``alphabet`` follow ``literal``; ``most`` 0: any number. ``before``: how many characters of
    ``alphabet_before`` precede it. ``is_public``: the literal, an address, stays. ``checksum``: published for the format. ``distinct``: the
    fewest different characters besides the literal; ``xxxx…`` in an example has fewer."""

    vendor: str
    literal: str
    alphabet: str
    fewest: int
    most: int = 0
    before: tuple[int, int] = (0, 0)
    alphabet_before: str = _ALNUM
    is_public: bool = False
    checksum: str = ""
    distinct: int = _DISTINCT

    @property
    def name(self) -> str:
        """Of the marker, and of the rule that can be switched off."""
        return f"{self.vendor}-token"


def _rows(vendor: str, literals: str, alphabet: str, fewest: int, most: int = 0, **more: object) -> Iterator[TokenFormat]:
    return (TokenFormat(vendor, literal, alphabet, fewest, most, **more) for literal in literals.split())  # type: ignore[arg-type]


FORMATS: tuple[TokenFormat, ...] = (
    # code and packages
    *_rows("github", "ghp_ gho_ ghu_ ghs_ ghr_", _ALNUM, 36, checksum="crc32"),
    *_rows("github", "github_pat_", _WORD, 82),
    *_rows("gitlab", "glpat- gldt- glrt- glrtr- glft- glsoat- glffct- glwt-", _DOTTED, 20),
    *_rows("gitlab", "glcbt- glptt- glimt- glagent- gloas-", _DOTTED, 24),
    *_rows("gitlab", "GR1348941", _URL, 20),
    *_rows("gitlab", "_gitlab_session=", _ALNUM, 32, is_public=True),
    *_rows("atlassian", "ATATT3 ATCTT3", _DOTTED, 100),
    *_rows("atlassian", "ATBB", _ALNUM, 32, 32),
    *_rows("npm", "npm_", _ALNUM, 36, checksum="crc32"),
    *_rows("pypi", "pypi-AgE", _URL, 50),
    *_rows("rubygems", "rubygems_", _HEX, 48),
    *_rows("clojars", "CLOJARS_", _LOWER, 60),
    *_rows("nuget", "oy2", _LOWER, 43, 43),
    *_rows("docker", "dckr_pat_ dckr_oat_", _URL, 27),
    *_rows("docker", "eyJhdXRocyI6 ewoJImF1dGhzIjog ewogICJhdXRocyI6", _BASE64, 20),
    *_rows("artifactory", "AKCp", _ALNUM, 69, 69),
    *_rows("artifactory", "cmVmd", _ALNUM, 59, 59),
    *_rows("circleci", "CCIPAT_ CCIPRJ_", _WORD, 40),
    *_rows("buildkite", "bkua_", _HEX, 40),
    *_rows("sonarqube", "sqp_ squ_ sqa_", _HEX, 40),
    *_rows("sourcegraph", "sgp_", _HEX + "A-F_", 40, 57),
    *_rows("sourcegraph", "sgp_local_", _HEX + "A-F", 40, 40),
    *_rows("sentry", "sntrys_eyJ", _ALNUM + "+/=_", 80),
    *_rows("sentry", "sntryu_", _HEX, 64, 64),
    *_rows("harness", "pat. sat.", _DOTTED, 66),
    *_rows("octopus", "API-", _UPPER, 26, 26),
    *_rows("pulumi", "pul-", _HEX, 40, 40),
    *_rows("infracost", "ico-", _ALNUM, 32, 32, distinct=17),
    *_rows("encoded-jwt", "ZXlK", _BASE64 + r"_\-", 60),
    *_rows("encoded-key", "LS0tLS1CRUdJTiBQUklWQVRF LS0tLS1CRUdJTiBSU0EgUFJJVkFUR LS0tLS1CRUdJTiBFQyBQUklWQVRF", _BASE64, 40),
    *_rows("encoded-key", "LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZBVEUg LS0tLS1CRUdJTiBFTkNSWVBURUQgUFJJVkFUR", _BASE64, 40),
    *_rows("encoded-key", "eyJ0eXBlIjogInNlcnZpY2VfYWNjb3VudCIs ewogICJ0eXBlIjogInNlcnZpY2VfYWNjb3VudCIs", _BASE64, 40),
    *_rows("encoded-key", "eyJ0eXBlIjoic2VydmljZV9hY2NvdW50Iiw", _BASE64, 40),
    # clouds and hosts
    *_rows("aws", "ABSK", _BASE64, 109),
    *_rows("aws", "bedrock-api-key-", _BASE64, 28),
    *_rows("aws", "IQoJb3JpZ2lu FwoGZXIvYXdz FQoGZXIvYXdz", _BASE64 + "%", 100),
    *_rows("google", "AIza", _URL, 35, 35),
    *_rows("google", "ya29.", _URL, 40),
    *_rows("google", "GOCSPX-", _URL, 28),
    *_rows("google", "1//0", _URL, 40),
    *_rows("azure", "Q~", _URL + "~.", 31, 34, before=(4, 4), alphabet_before=_URL + "~."),
    *_rows("azure", "AZDO", _ALNUM, 4, 4, before=(76, 76)),
    *_rows("azure", "+ASt ACDb", _BASE64, 8, 8, before=(76, 76), alphabet_before=_BASE64),
    *_rows("azure", "AzFu AzSe", _URL + "=", 6, 8, before=(42, 44), alphabet_before=_URL),
    *_rows("azure", "+ASb +AEh +AIoT AzCa", _BASE64, 6, 8, before=(33, 42), alphabet_before=_BASE64),
    *_rows("azure", "JQQJ9", _ALNUM + "=", 27, 31, before=(52, 52)),
    *_rows("azure", ".webhook.office.com/webhookb2/", _PATH, 40, is_public=True, distinct=0),
    *_rows("alibaba", "LTAI", _ALNUM, 16, 24),
    *_rows("tencent", "AKID", _ALNUM, 32, 36),
    *_rows("yandex", "AQVN", _URL, 35),
    *_rows("yandex", "YC", _URL, 38, 38),
    *_rows("yandex", "t1.", _DOTTED, 80),
    *_rows("digitalocean", "dop_v1_ doo_v1_ dor_v1_", _HEX, 64, 64),
    *_rows("cloudflare", "v1.0-", _HEX + "-", 120),
    *_rows("heroku", "HRKU-", _URL, 36),
    *_rows("fly", "fo1_", _URL, 43),
    *_rows("fly", "fm1a_ fm1r_ fm2_", _BASE64, 100),
    *_rows("vercel", "vcp_ vci_ vca_ vcr_ vck_", _ALNUM, 24),
    *_rows("netlify", "nfp_ nfc_ nfo_ nfb_ nfu_", _ALNUM, 36),
    *_rows("render", "rnd_", _ALNUM, 28),
    *_rows("scalingo", "tk-us-", _URL, 48),
    *_rows("openshift", "sha256~", _URL, 43, 43),
    *_rows("tailscale", "tskey-", _URL, 20),
    *_rows("defined-networking", "dnkey-", _DOTTED, 79),
    # secrets and infrastructure
    *_rows("vault", "hvs. hvb. hvr.", _URL, 24),
    *_rows("terraform", ".atlasv1.", _DOTTED, 60, before=(14, 14)),
    *_rows("doppler", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", _DOTTED, 40),
    *_rows("1password", "ops_eyJ", _BASE64 + r"_\-", 200),
    *_rows("1password", "A3-", _UPPER + "-", 36, 37),
    *_rows("age", "AGE-SECRET-KEY-1", _UPPER, 58, distinct=0),
    # data
    *_rows("databricks", "dapi dkea dose", _HEX + "-", 32, 34),
    *_rows("snowflake", "ver:1-hint: ver:2-hint: ver:3-hint:", _BASE64 + "-", 40),
    *_rows("dbt", "dbtc_ dbtu_ dbts_", _ALNUM + "_=.+/-", 32),
    *_rows("confluent", "cflt", _ALNUM + "+/", 60, 60),
    *_rows("clickhouse", "4b1d", _ALNUM, 38, 38),
    *_rows("mongodb", "mdb_sa_sk_", _URL, 40),
    *_rows("planetscale", "pscale_pw_ pscale_tkn_ pscale_oauth_", _DOTTED, 32),
    *_rows("supabase", "sbp_", _WORD, 40),
    *_rows("supabase", "sb_secret_", _URL, 31),
    *_rows("neon", "napi_", _LOWER, 60),
    *_rows("airtable", "pat", _ALNUM + ".", 79, 79),
    *_rows("prefect", "pnu_ pnb_", _ALNUM, 36),
    *_rows("contentful", "CFPAT-", _URL, 43),
    # models
    *_rows("openai", "sk-proj- sk-svcacct- sk-admin- sk-service-", _URL, 40),
    *_rows("openai", "sk-", _ALNUM, 32),
    *_rows("anthropic", "sk-ant-", _URL, 80),
    *_rows("openrouter", "sk-or-", _URL, 60),
    *_rows("huggingface", "hf_", _ALNUM, 34, 37),
    *_rows("huggingface", "api_org_", _ALNUM, 34, 34),
    *_rows("perplexity", "pplx-", _ALNUM, 48),
    *_rows("groq", "gsk_", _ALNUM, 48),
    *_rows("xai", "xai-", _ALNUM, 70),
    *_rows("replicate", "r8_", _ALNUM, 37, 37),
    *_rows("langsmith", "lsv2_pt_ lsv2_sk_", _WORD, 42),
    *_rows("pinecone", "pcsk_", _WORD, 50),
    *_rows("nvidia", "nvapi-", _URL, 60),
    # observability
    *_rows("new-relic", "NRAK-", _UPPER + "a-z", 27, 27),
    *_rows("new-relic", "NRJS-", _HEX, 19, 19),
    *_rows("new-relic", "NRII-", _URL, 32, 32),
    *_rows("new-relic", "NRAL", "", 0, 0, before=(36, 36), alphabet_before=_HEX),
    *_rows("grafana", "glsa_", _WORD, 41),
    *_rows("grafana", "glc_", _BASE64, 32),
    *_rows("grafana", "eyJrIjoi", _ALNUM + "=", 70),
    *_rows("dynatrace", "dt0c01. dt0s01. dt0s02. dt0s16.", _ALNUM + ".", 80),
    *_rows("honeycomb", "hcaik_ hcbik_ hcamk_", _LOWER, 40),
    # messages and mail
    *_rows("slack", "xoxb- xoxp- xoxa- xoxo- xoxr- xoxs- xoxc-", _URL, 24),
    *_rows("slack", "xoxe- xoxe.xoxb-1- xoxe.xoxp-1-", _ALNUM + "-", 60),
    *_rows("slack", "xoxd-", _ALNUM + r"%+/=_\-", 60),
    *_rows("slack", "xapp-", _ALNUM + "-", 70),
    *_rows("slack", "hooks.slack.com/services/ hooks.slack.com/workflows/ hooks.slack.com/triggers/", _PATH, 40, is_public=True, distinct=0),
    *_rows("discord", "discord.com/api/webhooks/ discordapp.com/api/webhooks/", _PATH, 60, is_public=True, distinct=0),
    *_rows("zapier", "hooks.zapier.com/hooks/catch/", _PATH, 10, is_public=True, distinct=0),
    *_rows("telegram", ":AA", _URL, 33, 33, before=(8, 10), alphabet_before=_DIGITS),
    *_rows("twilio", "SK", _HEX + "A-F", 32, 32),
    *_rows("sendgrid", "SG.", _DOTTED, 66),
    *_rows("mailgun", "key- pubkey-", _HEX, 32, 32),
    *_rows("brevo", "xkeysib- xsmtpsib-", _ALNUM + "-", 70),
    # payments and shops
    *_rows("stripe", "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_", _ALNUM, 10),
    *_rows("stripe", "whsec_", _ALNUM + "+/=", 32),
    *_rows("square", "sq0atp- sq0csp-", _URL, 22),
    *_rows("square", "EAAA", _URL, 60, 60),
    *_rows("shopify", "shpat_ shpca_ shppa_ shpss_ shptka_", _HEX, 32),
    *_rows("razorpay", "rzp_live_ rzp_test_", _ALNUM, 14),
    *_rows("plaid", "access-sandbox- access-development- access-production-", _HEX + "-", 36),
    *_rows("flutterwave", "FLWSECK_TEST- FLWSECK- FLWPUBK_TEST- FLWPUBK-", _ALNUM + "-", 12),
    *_rows("easypost", "EZAK EZTK", _ALNUM, 54, 54),
    *_rows("shippo", "shippo_live_ shippo_test_", _HEX, 40),
    *_rows("duffel", "duffel_test_ duffel_live_", _URL + "=", 43),
    *_rows("meta", "EAAC EAAM", _ALNUM, 100),
    *_rows("x", "A" * 22, _ALNUM + "%", 80),
    # work
    *_rows("linear", "lin_api_ lin_oauth_", _ALNUM, 40),
    *_rows("notion", "ntn_", _ALNUM, 46, 46),
    *_rows("figma", "figd_ figo_", _URL, 40),
    *_rows("postman", "PMAK-", _HEX + "-", 59),
    *_rows("typeform", "tfp_", _DOTTED, 59),
    *_rows("readme", "rdme_", _LOWER, 70),
    *_rows("frameio", "fio-u-", _URL + "=", 64),
    *_rows("authress", ".acc_ .acc-", _DOTTED + "+/", 41, before=(11, 46), alphabet_before=_WORD + "."),
    *_rows("settlemint", "sm_aat_ sm_pat_ sm_sat_", _ALNUM, 16, 16),
    *_rows("launchdarkly", "sdk-", _HEX + "-", 36, 36),
    *_rows("adobe", "p8e-", _LOWER, 32, 32),
    *_rows("intra42", "s-s4t2ud- s-s4t2af-", _HEX, 64, 64),
    *_rows("maxmind", "_mmk", "", 0, 0, before=(36, 36), alphabet_before=_WORD),
)  # fmt: skip


def finders_of_tokens(formats: Iterable[TokenFormat] = FORMATS) -> Iterator[tuple[str, bytes, Find]]:
    """(name, literal, finder) of each literal."""
    return ((each.name, each.literal.encode(), Deferred(partial(_finder, each))) for each in formats)


@cache  # compiled on first use
def _pattern(alphabet: str) -> RunPattern:
    return run_pattern(alphabet.encode() or rb"^\x00-\xff")


@cache
def _letters(alphabet: str) -> bytes:
    return bytes(letter for letter in range(128) if _pattern(alphabet).fullmatch(bytes([letter])))


def _finder(form: TokenFormat) -> Find:
    """Finds a token at its literal: as long as its vendor says, not within a longer word, and of many different characters."""
    literal, most, (_fewest_before, most_before) = form.literal.encode(), form.most, form.before
    size, shortest, rest = len(literal), len(literal) + form.fewest, (most or MOST_LETTERS) + 1 - form.fewest
    beginning = _beginning(form)
    step = size if _WORD_LETTERS.issuperset(literal) else 1
    """An occurrence that overlaps another begins within a word."""

    def tokens(text: Text, at: int, _: int, spans: list[Span]) -> int:
        body, start, behind = text.body, at, at + step
        if not text.match(beginning, at, shortest):
            return behind
        if most_before:
            start = text.run_back(_letters(form.alphabet_before), at, most_before)
            if _is_in_a_word(body, start, literal):
                return behind
        stop = text.run(_pattern(form.alphabet), at + shortest, rest)
        if most and (stop - at - size > most or body[stop : stop + 1].isalnum()):
            return stop
        is_token = not form.distinct or _is_random(body[start:at] + body[at + size : stop], form.distinct)
        if stop == at + shortest + rest:
            stop = text.run(_pattern(form.alphabet), stop, _LONGEST_REST)
        if is_token:
            if stop > at + shortest and body[stop - 1] == _FULL_STOP:
                stop -= 1
            spans.append((at + size if form.is_public else start, stop))
        return max(stop, behind)

    return tokens


def _beginning(form: TokenFormat) -> re.Pattern[bytes]:
    """The literal and the smallest number of characters after it, not within a word, which the ``n`` of an escaped line break is not."""
    fewest, most = form.before
    before = f"(?<=[{form.alphabet_before}]{{{fewest}}})(?<![{form.alphabet_before}]{{{most + 1}}})" if most else ""
    if not before and not form.is_public and ord(form.literal[0]) in _WORD_LETTERS:
        before = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrt]))"
    after = f"[{form.alphabet}]{{{form.fewest}}}" if form.fewest else ""
    return re.compile(f"{before}{re.escape(form.literal)}{after}".encode())


def _is_random(letters: bytes, distinct: int) -> bool:
    """Whether a token is no example, such as ``xxxx`` and ``YourTokenHere``, and more than digits."""
    return len(set(letters)) >= distinct and bool(_LETTER.search(letters)) and not _EXAMPLE.search(letters)


def _is_in_a_word(body: bytes, start: int, literal: bytes) -> bool:
    """Whether a literal continues the word before it, which is not the ``n`` of an escaped line break."""
    return start > 0 and {literal[0], body[start - 1]} <= _WORD_LETTERS and body[max(start - 2, 0) : start] not in _ESCAPES
