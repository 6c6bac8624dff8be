"""The formats of logs.

A run has one format (``chalicelib.lines.choice``). A line that it doesn't know is tried by the others, those that are sure of
themselves; what nobody knows is kept as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any

from chalicelib.lines import layouts
from chalicelib.lines.clock import FRACTION, ISO, ZONE, Clock
from chalicelib.lines.fields import parse_json_with, parse_logfmt_with
from chalicelib.lines.layout import Layout, Parse
from chalicelib.lines.parsed import Parsed

_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class Sign:
    """What a line must begin with to be worth a try: one of the characters of ``first``, then what a short ``look`` finds, then one of
    the characters of ``then``, where the look tells which one follows. Empty: anything."""

    first: str
    look: str = ""
    then: str = ""


@dataclass(frozen=True, slots=True)
class Format:
    """A way to write a log. It is pickled by its name.

    ``odds``: how many times more lines it must know, to be chosen, than formats that say more of a line. ``sure``: what it recognizes
    is a line of a log, in any run; an unsure format is asked only where it was chosen. ``rest`` reads, where the format was chosen, lines
    that neither it nor another knows.
    """

    name: str
    example: str
    bind: Callable[[Clock], Parse]
    sign: Sign
    odds: int = 1
    sure: bool = True
    rest: Callable[[Clock], Parse] | None = None

    def reader(self, clock: Clock | None = None) -> Parse:
        """What reads the lines of a run of this format: a line's text to what it says, None when nobody knows it."""
        clock = clock or Clock()
        own, others = self.bind(clock), _Others(self, clock)
        rest = self.rest(clock) if self.rest else None

        def read(text: str) -> Parsed | None:
            if (parsed := own(text)) is not None:
                return parsed
            for look, by_next, parses in others[text[:1]]:
                if look is not None:
                    if (seen := look(text)) is None:
                        continue
                    parses = by_next.get(seen["next"], parses) if by_next else parses
                for parse in parses:
                    if (parsed := parse(text)) is not None:
                        return parsed
            if text[:1] == _BYTE_ORDER_MARK:
                return read(text.lstrip(_BYTE_ORDER_MARK))
            return rest(text) if rest is not None else None

        return read

    def __reduce__(self) -> tuple[Callable[[str], Format], tuple[str]]:
        return format_named, (self.name,)


_Parses = tuple[Parse, ...]
_Tries = tuple[tuple[Callable[[str], re.Match[str] | None] | None, Mapping[str, _Parses], _Parses], ...]


class _Others(dict[str, _Tries]):
    """By a line's first character the other formats that are sure, in order, those with one look behind it. Made when first asked for."""

    def __init__(self, chosen: Format, clock: Clock) -> None:
        super().__init__()
        self._chosen, self._clock = chosen, clock

    def __missing__(self, first: str) -> _Tries:
        fitting = [each for each in FORMATS if each.sure and each is not self._chosen and first and first in each.sign.first]
        if not fitting:
            return ()  # and not kept: there are very many characters
        self[first] = tries = tuple(
            self._behind(look, tuple(group)) for look, group in groupby(fitting, key=lambda each: each.sign.look)
        )
        return tries

    def _behind(self, look: str, formats: Sequence[Format]) -> tuple[Any, Mapping[str, _Parses], _Parses]:
        bound = [(each.sign.then, each.bind(self._clock)) for each in formats]
        known = {character for then, _ in bound for character in then}
        by_next = {next_: tuple(parse for then, parse in bound if not then or next_ in then) for next_ in known}
        return re.compile(look, re.ASCII).match if look else None, by_next, tuple(parse for then, parse in bound if not then)


_DIGITS = "0123456789"
_CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LETTERS = _CAPITALS + _CAPITALS.lower()
_OBJECT = Sign("{")
_KEY = Sign(_LETTERS + "_@")
_LOGGER = _LETTERS + "_$"
_ISO_LOOK = f"{ISO.pattern}{FRACTION}{ZONE} *(?P<next>.)?"
_ISO = Sign(_DIGITS, _ISO_LOOK)
_ISO_DASH = Sign(_DIGITS, _ISO_LOOK, "-")
_ISO_PIPE = Sign(_DIGITS, _ISO_LOOK, "|")
_ISO_TAB = Sign(_DIGITS, _ISO_LOOK, "\t")
_ISO_BRACKET = Sign(_DIGITS, _ISO_LOOK, "[")
_ISO_NUMBER = Sign(_DIGITS, _ISO_LOOK, _DIGITS)
_ISO_S = Sign(_DIGITS, _ISO_LOOK, "s")
_ISO_ZONE = Sign(_DIGITS, _ISO_LOOK, _CAPITALS + "[")
_ISO_LOGGER = Sign(_DIGITS, _ISO_LOOK, _LOGGER)
_ISO_WORD = Sign(_DIGITS, _ISO_LOOK, _LETTERS + "[")
_ISO_CAPITAL = Sign(_DIGITS, _ISO_LOOK, _CAPITALS + "-|")
_IN_BRACKETS = Sign("[", r"\[[0-9]{4}[-/]")
_SHORT = Sign(_DIGITS, "[0-9]{2}/[0-9]{2}/[0-9]{2} ")
_COMPACT = Sign(_DIGITS, "[0-9]{6} [0-9]{6} ")
_TIME = Sign(_DIGITS, "[0-9]{2}:[0-9]{2}:")
_WEEKDAY = Sign("[", r"\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ")
_MONTH = Sign("JFMASOND<", r"(?:<[0-9]{1,3}>)?[A-Z][a-z][a-z] [ 0-9][0-9] ")
_PRIORITY = Sign("<", "<[0-9]{1,3}>1 ")
_LETTER = Sign("IWEFD", "[IWEFD][0-9]{4}")
_CLIENT = Sign(_DIGITS + ":" + _LETTERS, r"\S++ \S++ [^\[\]\"]*+\[[0-9]{2}/")
_LEVEL = Sign("TDIWECFSNAPV[", r"\[?[A-Z]{3,9}[\] :]")
_LEVEL_BOX = Sign("[", r"\[[A-Za-z]{3,13} *\]")
_ANYTHING = Sign("")


def _known(name: str, layout: Layout, sign: Sign, example: str) -> Format:
    return Format(name, example, layout.parse_with, sign)


def _general(name: str, layout: Layout, sign: Sign, example: str) -> Format:
    """It finds a level, and no logger."""
    return Format(name, example, layout.parse_with, sign, odds=3)


def _catch_all(name: str, layout: Layout, sign: Sign, example: str) -> Format:
    """It finds a time, whatever follows."""
    return Format(name, example, layout.parse_with, sign, odds=50)


def _unsure(name: str, layout: Layout, sign: Sign, example: str, odds: int = 1) -> Format:
    """Lines of other programs look like it by accident."""
    return Format(name, example, layout.parse_with, sign, odds=odds, sure=False)


def _nothing_with(clock: Clock) -> Parse:
    return lambda text: None


PLAIN = Format("plain", "anything", _nothing_with, _ANYTHING)
"""Nothing is known. Lines of other formats may still stand between."""

FORMATS: tuple[Format, ...] = (
    Format("json", '{"timestamp":"2026-11-21T03:12:45.123Z","level":"info","logger":"orders","message":"42 rows"}', parse_json_with, _OBJECT),
    _known("openmetadata", layouts.OPENMETADATA, _IN_BRACKETS, "[2026-11-21 03:12:45] INFO     {metadata.Ingestion:ingestion:12} - 42 rows"),
    _known("airflow", layouts.AIRFLOW, _IN_BRACKETS, "[2026-11-21T03:12:45.123+0000] {taskinstance.py:1157} INFO - 42 rows"),
    _known("gunicorn", layouts.GUNICORN, _IN_BRACKETS, "[2026-11-21 03:12:45 +0000] [1234] [INFO] Listening at: http://127.0.0.1:8000"),
    _known("celery", layouts.CELERY, _IN_BRACKETS, "[2026-11-21 03:12:45,123: INFO/MainProcess] Task orders succeeded in 0.5s"),
    _known("flask", layouts.FLASK, _IN_BRACKETS, "[2026-11-21 03:12:45,123] ERROR in app: Exception on /orders [GET]"),
    _known("elasticsearch", layouts.ELASTICSEARCH, _IN_BRACKETS, "[2026-11-21T03:12:45,123][INFO ][o.e.n.Node               ] [node-1] started"),
    _known("monolog", layouts.IN_BRACKETS_CHANNEL, _IN_BRACKETS, "[2026-11-21T03:12:45.123456+00:00] orders.INFO: 42 rows [] []"),
    _known("kafka", layouts.KAFKA, _IN_BRACKETS, "[2026-11-21 03:12:45,123] INFO [Log partition=orders-0] 42 rows (kafka.log.Log)"),
    _known("brackets-level-logger", layouts.IN_BRACKETS_LEVEL_AND_LOGGER, _IN_BRACKETS, "[2026-11-21T03:12:45.123] [INFO] orders - 42 rows"),
    _general("brackets-level", layouts.IN_BRACKETS_LEVEL, _IN_BRACKETS, "[2026-11-21 03:12:45] INFO: 42 rows"),
    _general("brackets-bracketed-level", layouts.IN_BRACKETS_BRACKETED_LEVEL, _IN_BRACKETS, "[2026-11-21 03:12:45] [INFO] 42 rows"),
    _catch_all("brackets", layouts.IN_BRACKETS_ANYTHING, _IN_BRACKETS, "[2026-11-21 03:12:45] 42 rows"),
    _known("python", layouts.PYTHON, _ISO_DASH, "2026-11-21 03:12:45,123 - orders.load - INFO - 42 rows"),
    _known("python-level-first", layouts.PYTHON_LEVEL_FIRST, _ISO_DASH, "2026-11-21 03:12:45,123 - INFO - orders.load - 42 rows"),
    _known("zookeeper", layouts.ZOOKEEPER, _ISO_DASH, "2026-11-21 03:12:45,123 - INFO  [main:QuorumPeer@774] - Notification time out: 3200"),
    _known("python-level-only", layouts.PYTHON_LEVEL_ONLY, _ISO_DASH, "2026-11-21 03:12:45,123 - INFO - 42 rows"),
    _known("pipes", layouts.PIPES, _ISO_PIPE, "2026-11-21 03:12:45.123 | INFO     | orders.load:main:12 - 42 rows"),
    _known("spring", layouts.SPRING, _ISO_CAPITAL, "2026-11-21T03:12:45.123Z  INFO 1234 --- [orders] [main] c.example.Orders  : 42 rows"),
    _known("oslo", layouts.OSLO, _ISO_NUMBER, "2026-11-21 03:12:45.123 1234 INFO nova.manager [req-1 - - - -] 42 rows"),
    _known("nginx-error", layouts.NGINX_ERROR, _ISO_BRACKET, '2026/11/21 03:12:45 [error] 12#34: *9 open() "/x" failed (2: No such file)'),
    _known("postgres", layouts.POSTGRES, _ISO_ZONE, "2026-11-21 03:12:45.123 UTC [1234] etl@orders LOG:  duration: 12.3 ms"),
    _known("mysql", layouts.MYSQL, _ISO_NUMBER, "2026-11-21T03:12:45.123456Z 0 [Warning] [MY-010068] [Server] 42 rows"),
    _known("log4j", layouts.LOG4J, _ISO_WORD, "2026-11-21 03:12:45,123 INFO [main] org.example.Orders: 42 rows"),
    _known("level-logger", layouts.ISO_LEVEL_AND_LOGGER, _ISO_BRACKET, "2026-11-21 03:12:45,123 [INFO] orders.load: 42 rows"),
    _known("zap", layouts.ZAP, _ISO_TAB, "2026-11-21T03:12:45.123Z\tINFO\torders\tload/main.go:12\t42 rows"),
    _known("lambda-node", layouts.LAMBDA_NODE, _ISO_TAB, "2026-11-21T03:12:45.123Z\t6f1a0c1e-8a55-4d3c-9d9b-0f6a2f1b7c11\tINFO\t42 rows"),
    _known("syslog-iso", layouts.SYSLOG_ISO, _ISO, "2026-11-21T03:12:45.123456+00:00 web1 sshd[1234]: Accepted publickey for etl"),
    _known("cri", layouts.CRI, _ISO_S, "2026-11-21T03:12:45.123456789Z stdout F 42 rows"),
    _known("python-logger-first", layouts.PYTHON_LOGGER_FIRST, _ISO_LOGGER, "2026-11-21 03:12:45,123 orders.load INFO 42 rows"),
    _general("bracketed-level", layouts.ISO_BRACKETED_LEVEL, _ISO_BRACKET, "2026-11-21T03:12:45.123456Z [info     ] 42 rows      table=orders"),
    _general("level", layouts.ISO_LEVEL, _ISO_CAPITAL, "2026-11-21 03:12:45 INFO 42 rows"),
    _catch_all("iso", layouts.ISO_ANYTHING, _ISO, "2026-11-21T03:12:45.123Z 42 rows"),
    _known("spark", layouts.LOG4J_SHORT, _SHORT, "26/11/21 03:12:45 INFO DAGScheduler: Job 0 finished: collect at orders.py:12, took 0.5 s"),
    _general("spark-level", layouts.SHORT_LEVEL, _SHORT, "26/11/21 03:12:45 INFO 42 rows"),
    _known("hdfs", layouts.LOG4J_COMPACT, _COMPACT, "261121 031245 148 INFO dfs.DataNode$PacketResponder: Received block blk_38"),
    _known("syslog-5424", layouts.SYSLOG_5424, _PRIORITY, '<165>1 2026-11-21T03:12:45.123Z web1 orders 1234 ID47 [origin ip="192.0.2.7"] 42 rows'),
    _known("syslog", layouts.SYSLOG, _MONTH, "<38>Nov 21 03:12:45 web1 sshd[1234]: Accepted publickey for etl"),
    _known("apache-error", layouts.APACHE_ERROR, _WEEKDAY, "[Sat Nov 21 03:12:45.123456 2026] [core:error] [pid 12:tid 34] File does not exist: /x"),
    _known("klog", layouts.KLOG_LINE, _LETTER, "I1121 03:12:45.123456    1234 controller.go:12] 42 rows"),
    _known("access", layouts.ACCESS_LOG, _CLIENT, '192.0.2.7 - etl [21/Nov/2026:03:12:45 +0000] "GET /orders HTTP/1.1" 200 2326 "-" "curl/8.5.0"'),
    _known("lambda-python", layouts.LAMBDA_PYTHON, _LEVEL_BOX, "[INFO]\t2026-11-21T03:12:45.123Z\t6f1a0c1e-8a55-4d3c-9d9b-0f6a2f1b7c11\t42 rows"),
    _known("cassandra", layouts.CASSANDRA, _LEVEL, "INFO  [main] 2026-11-21 03:12:45,123 StorageService.java:12 - 42 rows"),
    _known("level-time-logger", layouts.LEVEL_THEN_LOGGER, _LEVEL, "INFO  [2026-11-21 03:12:45,123] com.example.Orders: 42 rows"),
    _general("level-time", layouts.LEVEL_THEN_ISO, _LEVEL, "INFO 2026-11-21 03:12:45,123 42 rows"),
    _known("python-default", layouts.PYTHON_DEFAULT, _LEVEL, "INFO:orders.load:42 rows"),
    _general("level-colon", layouts.LEVEL_COLON, _LEVEL, "INFO:     192.0.2.7:4711 - \"GET /orders HTTP/1.1\" 200 OK"),
    _general("bracketed-level-only", layouts.LEVEL_BRACKETED, _LEVEL_BOX, "[INFO] BUILD SUCCESS"),
    Format("logfmt", 'time="2026-11-21T03:12:45Z" level=info logger=orders msg="42 rows" table=orders', parse_logfmt_with, _KEY),
    Format("dbt-console", "03:12:45  1 of 3 START sql table model shop.orders .... [RUN]", layouts.DBT_CONSOLE.parse_with, _TIME, odds=3,
           rest=layouts.TIME_ANYTHING.parse_with),
    _unsure("python-time", layouts.PYTHON_TIME, _TIME, "03:12:45,123 - orders.load - INFO - 42 rows"),
    _unsure("log4j-time", layouts.LOG4J_TIME, _TIME, "03:12:45.123 [main] INFO  com.example.Orders - 42 rows"),
    _unsure("pipes-time", layouts.PIPES_TIME, _TIME, "03:12:45.123 | INFO    | prefect.engine - Created flow run"),
    _unsure("dbt", layouts.DBT, _TIME, "03:12:45.123456 [info ] [MainThread]: Completed successfully"),
    _unsure("oslo-collected", layouts.OSLO_COLLECTED, _ANYTHING, "nova-compute.log 2026-11-21 03:12:45.123 1234 INFO nova.manager [req-1 -] 42 rows"),
    _unsure("time-level", layouts.TIME_LEVEL, _TIME, "03:12:45 INFO 42 rows", odds=3),
    _unsure("time", layouts.TIME_ANYTHING, _TIME, "03:12:45  42 rows", odds=50),
    _unsure("level-only", layouts.LEVEL_BARE, _LEVEL, "INFO 42 rows", odds=3),
)  # fmt: skip
"""In order of trust: of two that know a line the first one has it."""


def _any_with(clock: Clock) -> Parse:
    sure = PLAIN.reader(clock)
    unsure = [(each.sign.first, each.bind(clock)) for each in FORMATS if not each.sure]

    def parse(text: str) -> Parsed | None:
        if (parsed := sure(text)) is not None:
            return parsed
        fitting = (parse for first, parse in unsure if not first or text[:1] in first)
        return next((parsed for parse in fitting if (parsed := parse(text)) is not None), None)

    return parse


class _AnyFormat(Format):
    """What reads its lines is made once in a process: it is for many small pieces."""

    def reader(self, clock: Clock | None = None) -> Parse:
        return _any_reader()


@cache
def _any_reader() -> Parse:
    return _any_with(Clock())


ANY = _AnyFormat("any", "anything", _any_with, _ANYTHING)
"""Every format, where the run's is not known: what is unsure of itself too. Without the day of stamps that have none."""

_BY_NAME = {each.name: each for each in (*FORMATS, PLAIN)}


def format_named(name: str) -> Format:
    """The format of this name. Raises KeyError."""
    return _BY_NAME[name]
