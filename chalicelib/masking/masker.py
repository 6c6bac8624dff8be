"""Entry point of masking: selects a pipeline's rules, reads their values from parameters and secrets, and masks batches."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from threading import Lock
from typing import TYPE_CHECKING

from chalicelib.errors import InvalidNameError, RunlakeError, UnavailableError
from chalicelib.masking.joined import joined_names
from chalicelib.masking.mask import Masked, mask
from chalicelib.masking.rules import DEFAULT_RULE, MaskingRule, SecretName, value_lines
from chalicelib.masking.shapes import Finders, compared, finders, names_of, values_finder
from chalicelib.ports import Clock

if TYPE_CHECKING:
    from chalicelib.masking.values import ValueFinder

VALUES_AGE_MS = 300_000
"""How long a value that was read from a parameter is used before it is read again."""
_RETRY_MS = 30_000
"""Delay before another attempt after a failed read."""
_CACHED_PIPELINES = 256
"""Pipelines whose rules are cached: each field of an event is masked with a separate call."""
_CACHED_FINDERS = 16
"""Sets of values whose finders are cached: one for each group of pipelines with the same rules, and those before the last change."""

_SHAPES, _WITHOUT = attrgetter("shapes"), attrgetter("without")

_Known = dict[str, tuple[int, tuple[bytes, ...]]]
"""Parameter name to (expiry of its values, values)."""
SecretReader = Callable[[SecretName], str]
"""Reads a parameter or secret. Raises UnavailableError; then no part of the batch is stored."""


class Masker:
    """Masks by rules. All rules that match a pipeline apply; if none does, all shapes are masked. Caches parameter values, no contents of
    batches."""

    def __init__(self, rules: Sequence[MaskingRule], read: SecretReader | None, clock: Clock) -> None:
        self._rules, self._read, self._clock = tuple(rules), read, clock
        self._active = tuple(rule for rule in self._rules if not rule.retired)
        self._static_values = {id(rule): tuple(_lines_of_values(rule)) for rule in (*self._rules, DEFAULT_RULE)}
        self._known: _Known = {}
        """Replaced, never mutated, so identity shows whether a derived finder is outdated."""
        self._redacting: tuple[_Known | None, ValueFinder | tuple[()]] = None, ()
        """The values that the finder was built from, and the finder."""
        self._retry_ms: dict[str, int] = {}
        self._finders_of: OrderedDict[tuple[tuple[bytes, ...], ...], ValueFinder] = OrderedDict()
        self._lock = Lock()
        self._rules_for = lru_cache(_CACHED_PIPELINES)(self._rules_of)

    def mask(self, fqn: str, body: bytes, *, has_edits: bool = True) -> Masked:
        """Masks a batch of a pipeline for storage, see ``mask``. Raises UnavailableError if a value cannot be read."""
        rules, shapes = self._rules_for(fqn)
        return mask(body, shapes._replace(values=self._values(rules)), has_edits=has_edits) if body else Masked(body, {})

    def check_names(self, fqn: str, *names: str) -> None:
        """Raises InvalidNameError if a name of the pipeline, or several joined as parts of one key, contain a configured value, and
        UnavailableError if a value cannot be read. Names are rejected because masking could make two of them equal. Shapes do not
        apply to names."""
        rules, _ = self._rules_for(fqn)
        values = self._values(rules)
        if not values:
            return
        text = "\n".join([*names, *joined_names(*names)])  # no value has a newline
        if mask(text.encode(errors="replace"), finders((), values)).counts:
            raise InvalidNameError("a name contains a value that is configured to be masked")

    def check_joined_names(self, *names: str) -> None:
        """Like ``check_names`` for names without a pipeline, joined, against the values of all rules that have been read."""
        text = "\n".join(joined_names(*names))
        if self.redact(text) != text:
            raise InvalidNameError("joined names contain a value that is configured to be masked")

    def refresh(self) -> None:
        """Reads missing and expired values for ``redact``. Never raises: unreadable values stay unknown or outdated."""
        for name in {name for rule in self._active for name in rule.values_from}:
            if self._clock.now_ms() >= self._retry_ms.get(name, 0):
                try:
                    self._lines_of(name)
                except RunlakeError:
                    self._retry_ms[name] = self._clock.now_ms() + _RETRY_MS

    def redact(self, text: str) -> str:
        """Masks the known configured values of all rules but retired ones in a text for log lines, metrics and error responses. Makes no
        request and never raises."""
        known, values = self._redacting
        if known is not self._known:
            known = self._known
            values = self._finder(tuple(lines for rule in self._active for lines in self._known_lines(rule, known) if lines))
            self._redacting = known, values
        if not values or not text:
            return text
        masked = mask(text.encode(errors="surrogatepass"), finders((), values))
        return masked.body.decode(errors="surrogatepass") if masked.counts else text

    def may_contain_secrets(self, body: bytes) -> bool:
        """Whether other rules, or the version before this one, could have stored this batch differently: it matches any shape, or a current
        value of any rule."""
        return bool(mask(body, Finders(compared(), self._values(self._rules))).counts)

    def _rules_of(self, fqn: str) -> tuple[Sequence[MaskingRule], Finders]:
        """The rules of a pipeline, and the finders of their shapes."""
        rules = [rule for rule in self._active if rule.applies_to(fqn)] or [DEFAULT_RULE]
        masked, switched_off = (names_of(name for rule in rules for name in each(rule)) for each in (_SHAPES, _WITHOUT))
        return rules, finders(masked - switched_off)

    def _values(self, rules: Sequence[MaskingRule]) -> ValueFinder | tuple[()]:
        """The finder of the rules' current values. Built again when the values change."""
        return self._finder(tuple(group for rule in rules for group in self._lines(rule) if group))

    def _finder(self, groups: tuple[tuple[bytes, ...], ...]) -> ValueFinder | tuple[()]:
        if not groups:
            return ()
        with self._lock:
            found = self._finders_of.get(groups)
            if found is None:
                found = self._finders_of[groups] = values_finder(sorted({line for group in groups for line in group}))
                if len(self._finders_of) > _CACHED_FINDERS:
                    self._finders_of.popitem(last=False)
            self._finders_of.move_to_end(groups)
        return found

    def _lines(self, rule: MaskingRule) -> Iterator[tuple[bytes, ...]]:
        yield self._static_values[id(rule)]
        for name in rule.values_from:
            yield self._lines_of(name)

    def _known_lines(self, rule: MaskingRule, known: _Known) -> Iterator[tuple[bytes, ...]]:
        yield self._static_values[id(rule)]
        for name in rule.values_from:
            yield known.get(name, (0, ()))[1]

    def _lines_of(self, name: str) -> tuple[bytes, ...]:
        now_ms = self._clock.now_ms()
        with self._lock:
            until_ms, lines = self._known.get(name, (0, ()))
            if now_ms >= until_ms:
                until_ms, lines = self._read_again(name, now_ms)
                self._known = {**self._known, name: (until_ms, lines)}
        return lines

    def _read_again(self, name: str, now_ms: int) -> tuple[int, tuple[bytes, ...]]:
        """(expiry, values). If the parameter is unavailable, the values of the last read stay in use."""
        assert self._read, "values_from needs a reader"
        try:
            return now_ms + VALUES_AGE_MS, value_lines(self._read(SecretName.parse(name)))
        except UnavailableError:
            if name not in self._known:
                raise
            return now_ms + _RETRY_MS, self._known[name][1]


def _lines_of_values(rule: MaskingRule) -> Iterator[bytes]:
    return (line for value in rule.values for line in value_lines(value.get_secret_value()))
