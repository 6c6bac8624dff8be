"""Cost of masking: processor time for plain logs, for logs with secrets, and for adversarial lines."""

from __future__ import annotations

import random
import statistics
import string

from bench.bench_world import MIB, Function
from bench.measure import Measure, cpu_s, reported
from bench.workload import LINE
from chalicelib.masking.mask import mask
from chalicelib.masking.shapes import SHAPES, Finders, finders, values_finder

_SECRET = '2026-11-21 03:12:46 DEBUG {db} connect postgresql://etl:hunter2@db/sales {"password": "hunter2", "token_count": 3}\n'
_CRAFTED = [
    "token=",
    "://",
    "://a:b@",
    "eyJ",
    "AKIA",
    "key",
    "-----BEGIN ",
    "bearer ",
    '"secret":"',
    "password ",
    "\\",
    "a@b:c=d,e&",
    "sk-",
    ":AA",
    '"token":["',
    "curl -u a:b ",
    "sig=",
    "cookie: a=",
    "<token>",
    "%41",
    "\\n",
    "&amp;lt;",
    "%5C%6e",
    "it%27s+secret ",
    "pwd=a;",
    "--secret key a ",
    "secretkey-",
    '("pwd","a")',
    "name: secret_key, value: a",
    "A" * 22,
    "Q~",
]
_FINDERS = finders(SHAPES)
_ESCAPED_VALUE = b"it's secret"


def masking(_: Function, size: int = 4 * MIB) -> list[Measure]:
    """All shapes, with configured values in crafted lines; the best of three each."""
    plain, some = LINE * (size // len(LINE)), (LINE * 99 + _SECRET) * (size // (99 * len(LINE) + len(_SECRET)))
    crafted, chosen = size // 4, finders(SHAPES, values_finder([*values(9), _ESCAPED_VALUE]))
    worst_s, worst = max(
        (_cpu_s(each * (crafted // len(each)), chosen) * MIB / (crafted // len(each) * len(each)), each) for each in _CRAFTED
    )
    added = {batch: _cpu_s(LINE * (batch // len(LINE))) * 1000 for batch in (4400, 65_536)}
    speeds = f"{_speed(plain):.0f}; {_speed(some):.0f}"
    return [
        Measure(
            "masking, MiB a second of processor time: no secrets; one line in 100 with two",
            "at least 60",
            speeds,
            _speed(some) >= 60,
        ),
        Measure(
            "masking of the slowest of crafted lines",
            "at least 2 MiB/s",
            f"{1 / worst_s:.1f} MiB/s ({worst!r} again and again)",
            worst_s <= 0.5,
        ),
        reported(
            "processor time that masking adds to an append of 4,400 bytes; of 64 KiB",
            f"{added[4400]:.2f} ms; {added[65_536]:.2f} ms",
        ),
        _of_values(plain),
    ]


def _of_values(plain: str) -> Measure:
    """All shapes plus configured values in all encodings."""
    spent = {count: _values_ms(plain.encode(), count) for count in (0, 10, 1000)}
    return Measure(
        "masking of a MiB with 0, 10, 1,000 configured values",
        "linear in the text: 1,000 at most twice 10",
        "; ".join(f"{each:.1f} ms" for each in spent.values()),
        spent[1000] <= 2 * spent[10],
    )


def values(count: int) -> list[bytes]:
    """``count`` secrets of 12 to 40 characters."""
    chance, letters = random.Random(7), string.ascii_letters + string.digits + "+/&"
    return ["".join(chance.choices(letters, k=chance.randint(12, 40))).encode() for _ in range(count)]


def _values_ms(body: bytes, count: int) -> float:
    chosen = finders(SHAPES, values_finder(values(count)) if count else ())
    spent = statistics.median(cpu_s(lambda: mask(body, chosen)) for _ in range(5))
    return spent * 1000 * MIB / len(body)


def _speed(text: str) -> float:
    return len(text) / MIB / _cpu_s(text)


def _cpu_s(text: str, chosen: Finders = _FINDERS) -> float:
    body = text.encode()
    return min(cpu_s(lambda: mask(body, chosen)) for _ in range(3))
