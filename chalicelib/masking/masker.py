"""The door: which rules are for a pipeline, their values read from where they are kept, and a batch masked by them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from threading import Lock

from chalicelib.errors import InvalidNameError, RunlakeError, UnavailableError
from chalicelib.masking.joined import joined_names
from chalicelib.masking.mask import Masked, mask
from chalicelib.masking.rules import Rule, SecretName, value_lines
from chalicelib.masking.shapes import NAMES, SHAPES, Finder, finders, values_finder
from chalicelib.masking.values import Values
from chalicelib.ports import Clock

VALUES_AGE_MS = 300_000
"""How long a value that was read from its parameter is used before it is read again."""
_RETRY_MS = 30_000
"""And how long when it could not be read again."""
_KEPT_PIPELINES = 256
"""Pipelines whose rules are looked up once. Fields of events are masked one by one."""
_KEPT_FINDERS = 16
"""Sets of values whose finders are kept: as many as there are sorts of pipelines, and what was before the last change."""

_Known = dict[str, tuple[int, tuple[bytes, ...]]]
"""By the name of a parameter: until when its values are used, and its values."""
SecretReader = Callable[[SecretName], str]
"""Reads a parameter or secret. Raises UnavailableError: then nothing of the batch is stored, masked or not."""


class Masker:
    """Masks by rules; several for one pipeline add up. Holds what it read of parameters, and nothing of batches."""

    def __init__(self, rules: Sequence[Rule], read: SecretReader | None, clock: Clock) -> None:
        self._rules, self._read, self._clock = tuple(rules), read, clock
        self._given = {id(rule): tuple(_lines_of_values(rule)) for rule in self._rules}
        self._known: _Known = {}
        """Replaced, never changed: what was made of it is known to be old by identity."""
        self._redacting: tuple[_Known | None, Values | tuple[()]] = None, ()
        """The finder of all values, and what it was made of."""
        self._retry_ms: dict[str, int] = {}
        self._finders_of: OrderedDict[tuple[tuple[bytes, ...], ...], Values] = OrderedDict()
        self._lock = Lock()
        self._rules_for = lru_cache(_KEPT_PIPELINES)(self._rules_of)

    def mask(self, fqn: str, body: bytes) -> Masked:
        """A batch of a pipeline, as it may be stored. Raises UnavailableError when a value cannot be read."""
        rules, shapes = self._rules_for(fqn)
        return mask(body, (*shapes, *finders((), self._values(rules)))) if rules and body else Masked(body, {})

    def check_names(self, fqn: str, *names: str) -> None:
        """Raises InvalidNameError where a name of the pipeline holds a configured value, or several do together, as parts of one key (shapes
        are not looked for: names are no text), and UnavailableError when a value cannot be read. Two names that differ in a secret would be
        one if they were masked."""
        rules, _ = self._rules_for(fqn)
        values = self._values(rules)
        if not values:
            return
        text = "\n".join([*names, *joined_names(*names)])  # no value has a newline
        if mask(text.encode(errors="replace"), finders((), values)).counts:
            raise InvalidNameError("a name holds a value that is configured to be masked")

    def check_joined(self, *names: str) -> None:
        """The same for names of no pipeline, together, and the values of all rules as far as they are known."""
        text = "\n".join(joined_names(*names))
        if self.redact(text) != text:
            raise InvalidNameError("names hold a value that is configured to be masked")

    def refresh(self) -> None:
        """Read the values of all rules for ``redact`` where they are missing or old. Never raises: what cannot be read is not known."""
        for name in {name for rule in self._rules for name in rule.values_from}:
            if self._clock.now_ms() >= self._retry_ms.get(name, 0):
                try:
                    self._lines_of(name)
                except RunlakeError:
                    self._retry_ms[name] = self._clock.now_ms() + _RETRY_MS

    def redact(self, text: str) -> str:
        """A text for log lines, metrics and error answers: the configured values of all rules masked, as far as they are known. Makes no
        request and never raises."""
        known, values = self._redacting
        if known is not self._known:
            known = self._known
            values = self._finder(tuple(lines for rule in self._rules for lines in self._known_lines(rule, known) if lines))
            self._redacting = known, values
        if not values or not text:
            return text
        masked = mask(text.encode(errors="surrogatepass"), finders((), values))
        return masked.body.decode(errors="surrogatepass") if masked.counts else text

    def may_vary(self, body: bytes) -> bool:
        """Whether some rules would have masked this batch, and others not: all shapes, and the values of all rules that are known now."""
        everything = finders(tuple(SHAPES), self._values(self._rules))
        return bool(mask(body, everything).counts)

    def _rules_of(self, fqn: str) -> tuple[Sequence[Rule], tuple[tuple[str, Finder], ...]]:
        """A pipeline's rules, and the finders of their shapes."""
        rules = [rule for rule in self._rules if rule.is_for(fqn)]
        shapes = {shape for rule in rules for shape in rule.shapes}
        return rules, finders([name for name in NAMES if name in shapes])

    def _values(self, rules: Sequence[Rule]) -> Values | tuple[()]:
        """The finder of what rules name now. Made when their values change."""
        return self._finder(tuple(group for rule in rules for group in self._lines(rule) if group))

    def _finder(self, groups: tuple[tuple[bytes, ...], ...]) -> Values | tuple[()]:
        if not groups:
            return ()
        with self._lock:
            found = self._finders_of.get(groups)
            if found is None:
                found = self._finders_of[groups] = values_finder(sorted({line for group in groups for line in group}))
                if len(self._finders_of) > _KEPT_FINDERS:
                    self._finders_of.popitem(last=False)
            self._finders_of.move_to_end(groups)
        return found

    def _lines(self, rule: Rule) -> Iterator[tuple[bytes, ...]]:
        yield self._given[id(rule)]
        for name in rule.values_from:
            yield self._lines_of(name)

    def _known_lines(self, rule: Rule, known: _Known) -> Iterator[tuple[bytes, ...]]:
        yield self._given[id(rule)]
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
        """Until when it holds, and what it is. What was read before goes on masking while its place does not answer."""
        assert self._read, "values_from needs somewhere to read from"
        try:
            return now_ms + VALUES_AGE_MS, value_lines(self._read(SecretName.parse(name)))
        except UnavailableError:
            if name not in self._known:
                raise
            return now_ms + _RETRY_MS, self._known[name][1]


def _lines_of_values(rule: Rule) -> Iterator[bytes]:
    return (line for value in rule.values for line in value_lines(value.get_secret_value()))
