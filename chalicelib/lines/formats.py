"""Registry of log formats.

A run has one format (``chalicelib.lines.format_detection``). Lines that it does not parse are tried with all unambiguous formats;
lines that no format parses stay unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache, lru_cache, partial
from itertools import groupby
from typing import Any

from chalicelib.lines import layouts
from chalicelib.lines.fields import PrintedParser, parse_logfmt_with, parse_objects_with
from chalicelib.lines.layout import LineLayout, LineParser
from chalicelib.lines.notations import BEGINS_TIME
from chalicelib.lines.parsed import ParsedLine
from chalicelib.lines.text import later_states
from chalicelib.lines.timestamps import FRACTION, ISO, ZONE, TimestampParser, rewritten

_BYTE_ORDER_MARK = "\ufeff"
_MAX_ZONES = 8


@dataclass(frozen=True, slots=True)
class LinePrefix:
    """Precheck of a line, which saves parsing: it must begin with one of the characters of ``first``, then match the short pattern
    ``look``, then have one of the characters of ``then`` as the pattern's group ``next``. An empty field matches anything."""

    first: str
    look: str = ""
    then: str = ""


@dataclass(frozen=True, slots=True)
class LogFormat:
    """A log format. Pickled by its name.

    ``odds``: how many times more lines it must parse to be chosen over formats that extract more columns. ``unambiguous``: a match is a
    log line in any run; ambiguous formats are used only in runs for which they were chosen. ``rest``: in those runs, parses lines that
    neither this nor another format parses. ``layout``: what ``bind`` parses with, for parsers of many lines at once.
    """

    name: str
    example: str
    bind: Callable[[TimestampParser], LineParser]
    prefix: LinePrefix
    odds: int = 1
    unambiguous: bool = True
    rest: LineLayout | None = None
    layout: LineLayout | None = field(default=None, compare=False)

    def reader(self, time_parser: TimestampParser | None = None) -> LineParser:
        """The parser for lines of a run in this format: a line's text to its columns, None if no format parses it."""
        time_parser = time_parser or TimestampParser()
        own, others = self.bind(time_parser), _FallbackParsers(self, time_parser)
        rest = self.rest.parse_with(time_parser) if self.rest else None

        def read(text: str, is_state: bool = False) -> ParsedLine | None:
            if "\r" in text and not is_state:
                return _of_states(partial(read, is_state=True), text)
            if (parsed := own(text)) is not None:
                return parsed
            for look, by_next, parses in others[text[:1]]:
                if look is not None:
                    if (seen := look(text)) is None:
                        continue
                    parses = by_next.get(seen["next"], parses) if by_next else parses
                for parse in parses:
                    if (parsed := parse(text)) is not None:
                        if _may_have_other_time(parsed, text) and (other := rewritten(text)) is not None:
                            timed = read(other)
                            return timed if timed is not None and timed.timestamp is not None else parsed
                        return parsed
            if text[:1] in BEGINS_TIME and (other := rewritten(text)) is not None and (parsed := read(other)) is not None:
                return parsed
            if text[:1] == _BYTE_ORDER_MARK:
                return read(text.lstrip(_BYTE_ORDER_MARK), is_state)
            return rest(text) if rest is not None else None

        return read

    def __reduce__(self) -> tuple[Callable[[str], LogFormat], tuple[str]]:
        return format_named, (self.name,)


def _of_states(read: LineParser, text: str) -> ParsedLine | None:
    """The last state of a line that a format parses, or else the line. A record with a time is replaced by such a record only; an object
    by none."""
    parsed = read(text)
    if parsed is not None and text[:1] == "{":
        return parsed
    for state in later_states(text):
        if (later := read(state)) is not None:
            return later if parsed is None or parsed.timestamp is None or later.timestamp is not None else parsed
    return parsed


def _may_have_other_time(parsed: ParsedLine, text: str) -> bool:
    """Whether a line without a time may have one in another notation behind its level."""
    return parsed.timestamp is None and parsed.level is not None and (text[:1] == "[" or text[1:2].isupper())


_Parses = tuple[LineParser, ...]
_Tries = tuple[tuple[Callable[[str], re.Match[str] | None] | None, Mapping[str, _Parses], _Parses], ...]


class _FallbackParsers(dict[str, _Tries]):
    """By a line's first character: unambiguous formats other than the run's, in order, those with the same ``look`` grouped. Built on first use."""

    def __init__(self, chosen: LogFormat, time_parser: TimestampParser) -> None:
        super().__init__()
        self._chosen, self._clock = chosen, time_parser

    def __missing__(self, first: str) -> _Tries:
        fitting = [
            each for each in FORMATS if each.unambiguous and each is not self._chosen and first and first in each.prefix.first
        ]
        if not fitting:
            return ()  # not cached: there are very many characters
        self[first] = tries = tuple(
            self._behind(look, tuple(group)) for look, group in groupby(fitting, key=lambda each: each.prefix.look)
        )
        return tries

    def _behind(self, look: str, formats: Sequence[LogFormat]) -> tuple[Any, Mapping[str, _Parses], _Parses]:
        bound = [(each.prefix.then, each.bind(self._clock)) for each in formats]
        known = {character for then, _ in bound for character in then}
        by_next = {next_: tuple(parse for then, parse in bound if not then or next_ in then) for next_ in known}
        return re.compile(look, re.ASCII).match if look else None, by_next, tuple(parse for then, parse in bound if not then)


_DIGITS = "0123456789"
_CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LETTERS = _CAPITALS + _CAPITALS.lower()
_OBJECT = LinePrefix("{")
_KEY = LinePrefix(_LETTERS + "_@")
_LOGGER = _LETTERS + "_$"
NEXT = "(?P<next>.)?"
_ISO_LOOK = f"{ISO.pattern}{FRACTION}{ZONE} *{NEXT}"
_ISO = LinePrefix(_DIGITS, _ISO_LOOK)
_ISO_DASH = LinePrefix(_DIGITS, _ISO_LOOK, "-")
_ISO_PIPE = LinePrefix(_DIGITS, _ISO_LOOK, "|")
_ISO_TAB = LinePrefix(_DIGITS, _ISO_LOOK, "\t")
_ISO_BRACKET = LinePrefix(_DIGITS, _ISO_LOOK, "[")
_ISO_MARK = LinePrefix(_DIGITS, _ISO_LOOK, "[(<*-")
_ISO_FIELD = LinePrefix(_DIGITS, _ISO_LOOK, "[({")
_ISO_COLON = LinePrefix(_DIGITS, _ISO_LOOK, ":")
_ISO_SMALL = LinePrefix(_DIGITS, _ISO_LOOK, _LETTERS.lower())
_ISO_NAME = LinePrefix(_DIGITS, _ISO_LOOK, _LETTERS.lower() + "[")
_ISO_SIGN = LinePrefix(_DIGITS, _ISO_LOOK, "#:")
_ISO_NUMBER = LinePrefix(_DIGITS, _ISO_LOOK, _DIGITS)
_ISO_S = LinePrefix(_DIGITS, _ISO_LOOK, "s")
_ISO_SOURCE = LinePrefix(_DIGITS, _ISO_LOOK, "sSLB")
_ISO_CAPITAL_OR_TAB = LinePrefix(_DIGITS, _ISO_LOOK, _CAPITALS + "\t")
_ISO_LOGGER = LinePrefix(_DIGITS, _ISO_LOOK, _LOGGER)
_ISO_WORD = LinePrefix(_DIGITS, _ISO_LOOK, _LETTERS + "[")
_ISO_CAPITAL = LinePrefix(_DIGITS, _ISO_LOOK, _CAPITALS + "-|\t")
_ISO_CAPITAL_OR_COLON = LinePrefix(_DIGITS, _ISO_LOOK, _CAPITALS + "-|\t:")
_IN_BRACKETS = LinePrefix("[", r"\[[0-9]{4}[-/.]")
_SHORT = LinePrefix(_DIGITS, "[0-9]{2}/[0-9]{2}/[0-9]{2} ")
_COMPACT = LinePrefix(_DIGITS, "[0-9]{6} [0-9]{6} ")
_TIME = LinePrefix(_DIGITS, "[0-9]{2}:[0-9]{2}:")
_TIME_IN_BRACKETS = LinePrefix("[", r"\[[0-9]{2}:[0-9]{2}:")
_WORKER = LinePrefix("(", r"\([^()]*pid=")
_SIGN = LinePrefix("#:", r"##\[|::|##vso")
_SMALL = LinePrefix("tdiwfc", "[a-z]{4}: |t[a-z]*=[0-9]")
_WEEKDAY = LinePrefix("[", r"\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ")
_MONTH = LinePrefix("JFMASOND<", r"(?:<[0-9]{1,3}>)?[A-Z][a-z][a-z] [ 0-9][ 0-9]")
_MONTH_YEAR = LinePrefix("JFMASOND<" + _DIGITS, r"(?:<[0-9]{1,3}>)?(?:[0-9]{4} [A-Z]|[A-Z][a-z][a-z] [ 0-9]{1,3} [0-9]{4} )")
_MONTH_COMMA = LinePrefix("JFMASOND", "[A-Z][a-z][a-z] [0-9]{2}, ")
_DAY = LinePrefix("[" + _DIGITS, r"(?:[0-9]+:[A-Z]|\[[0-9]+\]) [0-9]")
_PRIORITY = LinePrefix("<", "<[0-9]{1,3}>1 ")
_ANGLE = LinePrefix("<", "< ?[0-9]{4}-")
_LOGRUS = LinePrefix("TDIWEFP", r"[A-Z]{4}\[[0-9]{4}")
_LETTER = LinePrefix("IWEFDA", r"[IWEFD][0-9]{4}|[IWEFDA], \[")
_CLIENT = LinePrefix(_DIGITS + ":" + _LETTERS, r"\S++ \S++ [^\[\]\"]*+\[[0-9]{2}/")
_LEVEL = LinePrefix("TDIWECFSNAPV[", r"\[?[A-Z]{3,9}[1-5]?[\] :]")
_LEVEL_ALONE = LinePrefix("TDIWECFSNAPV", r"[A-Z]{3,9}[1-5]?(?:[ \t]|$)")
_LEVEL_BOX = LinePrefix("[", r"\[ *[A-Za-z]{3,13}[1-5]? *\]")
_ANYTHING = LinePrefix("")


def _known(name: str, layout: LineLayout, prefix: LinePrefix, example: str) -> LogFormat:
    return LogFormat(name, example, layout.parse_with, prefix, layout=layout)


def _general(name: str, layout: LineLayout, prefix: LinePrefix, example: str, odds: int = 3) -> LogFormat:
    """A format with a level and no logger."""
    return LogFormat(name, example, layout.parse_with, prefix, odds=odds, layout=layout)


def _catch_all(name: str, layout: LineLayout, prefix: LinePrefix, example: str) -> LogFormat:
    """A format that parses a time and accepts any text after it."""
    return LogFormat(name, example, layout.parse_with, prefix, odds=50, layout=layout)


def _vague(name: str, layout: LineLayout, prefix: LinePrefix, example: str, odds: int = 1) -> LogFormat:
    """A format that lines of other programs match by accident."""
    return LogFormat(name, example, layout.parse_with, prefix, odds=odds, unambiguous=False, layout=layout)


def _nothing_with(time_parser: TimestampParser) -> LineParser:
    return lambda text: None


def parse_json_with(time_parser: TimestampParser) -> LineParser:
    """Parses one JSON object per line; see ``fields.parse_objects_with``."""
    return parse_objects_with(time_parser, _parse_printed_with(time_parser))


CONTAINER = rf"{ISO.pattern}\S{{0,40}} std(?:out|err) "
"""A line of a runtime in that of another is text, so that the work on a line is bounded."""
_CONTAINER = re.compile(CONTAINER, re.ASCII)


class NoZone(tzinfo):
    """Of times that are not valid without a zone."""

    def utcoffset(self, at: datetime | None) -> timedelta | None:
        raise ValueError("the time states no zone")

    dst = utcoffset

    def tzname(self, at: datetime | None) -> str | None:
        """None, so that abbreviations in a text are those of the table."""


def _parse_printed_with(time_parser: TimestampParser) -> PrintedParser:
    """Parses the text that a program printed, within the line of a container's runtime, in any format. The text's time counts if it states its
    zone, else the runtime's."""
    parsers = cache(lambda: (parse_objects_with(time_parser), _any_with(time_parser)))

    def parse(text: str, timestamp: int | None) -> ParsedLine | None:
        if _CONTAINER.match(text):
            return None
        parse_object, parse_text = parsers() if timestamp is None else _zoned_parsers()
        printed = (parse_object if text[:1] == "{" else parse_text)(text)
        return printed if printed is None or printed.timestamp is not None else printed._replace(timestamp=timestamp)

    return parse


@cache
def _zoned_parsers() -> tuple[LineParser, LineParser]:
    time_parser = TimestampParser(NoZone())
    return parse_objects_with(time_parser), _any_with(time_parser)


_parse_printed = _parse_printed_with(TimestampParser())


def with_printed(parsed: ParsedLine) -> ParsedLine:
    """The line of a container's runtime with the columns of the text that was printed."""
    return _parse_printed(parsed.message, parsed.timestamp) or parsed


PLAIN = LogFormat("plain", "anything", _nothing_with, _ANYTHING)
"""No known format. Single lines may still be in other formats."""

FORMATS: tuple[LogFormat, ...] = (
    LogFormat("json", '{"timestamp":"2026-11-21T03:12:45.123Z","level":"info","logger":"orders","message":"42 rows"}', parse_json_with, _OBJECT),
    _known("openmetadata", layouts.OPENMETADATA, _IN_BRACKETS, "[2026-11-21 03:12:45] INFO     {metadata.Ingestion:ingestion:12} - 42 rows"),
    _known("airflow", layouts.AIRFLOW, _IN_BRACKETS, "[2026-11-21T03:12:45.123+0000] {taskinstance.py:1157} INFO - 42 rows"),
    _known("gunicorn", layouts.GUNICORN, _IN_BRACKETS, "[2026-11-21 03:12:45 +0000] [1234] [INFO] Listening at: http://127.0.0.1:8000"),
    _known("celery", layouts.CELERY, _IN_BRACKETS, "[2026-11-21 03:12:45,123: INFO/MainProcess] Task orders succeeded in 0.5s"),
    _known("flask", layouts.FLASK, _IN_BRACKETS, "[2026-11-21 03:12:45,123] ERROR in app: Exception on /orders [GET]"),
    _known("elasticsearch", layouts.ELASTICSEARCH, _IN_BRACKETS, "[2026-11-21T03:12:45,123][INFO ][o.e.n.Node               ] [node-1] started"),
    _known("monolog", layouts.IN_BRACKETS_CHANNEL, _IN_BRACKETS, "[2026-11-21T03:12:45.123456+00:00] orders.INFO: 42 rows [] []"),
    _known("kafka", layouts.KAFKA, _IN_BRACKETS, "[2026-11-21 03:12:45,123] INFO [Log partition=orders-0] 42 rows (kafka.log.Log)"),
    _known("ray-core", layouts.RAY_CORE, _IN_BRACKETS, "[2026-11-21 03:12:45,123 I 1234 1236] (raylet) main.cc:12: 42 rows"),
    _known("brackets-level-logger", layouts.IN_BRACKETS_LEVEL_AND_LOGGER, _IN_BRACKETS, "[2026-11-21T03:12:45.123] [INFO] orders - 42 rows"),
    _known("php", layouts.PHP, _IN_BRACKETS, "[2026-11-21 03:12:45 UTC] PHP Warning:  Undefined variable $rows in /srv/orders.php on line 12"),
    _general("brackets-level", layouts.IN_BRACKETS_LEVEL, _IN_BRACKETS, "[2026-11-21 03:12:45] INFO: 42 rows"),
    _general("brackets-bracketed-level", layouts.IN_BRACKETS_BRACKETED_LEVEL, _IN_BRACKETS, "[2026-11-21 03:12:45] [INFO] 42 rows"),
    _general("level-in-brackets", layouts.IN_BRACKETS_LEVEL_WITHIN, _IN_BRACKETS, "[2026-11-21T03:12:45Z INFO  orders::load] 42 rows"),
    _general("brackets-fields-level", layouts.IN_BRACKETS_FIELDS_LEVEL, _IN_BRACKETS, "[2026-11-21 03:12:45] [1234] INFO: 42 rows"),
    _catch_all("brackets", layouts.IN_BRACKETS_ANYTHING, _IN_BRACKETS, "[2026-11-21 03:12:45] 42 rows"),
    _general("time-in-brackets-level", layouts.TIME_LEVEL_WITHIN, _TIME_IN_BRACKETS, "[03:12:45 INF] 42 rows"),
    _general("time-in-brackets", layouts.TIME_IN_BRACKETS_LEVEL, _TIME_IN_BRACKETS, "[03:12:45] INFO     42 rows"),
    _known("python", layouts.PYTHON, _ISO_DASH, "2026-11-21 03:12:45,123 - orders.load - INFO - 42 rows"),
    _known("python-level-first", layouts.PYTHON_LEVEL_FIRST, _ISO_DASH, "2026-11-21 03:12:45,123 - INFO - orders.load - 42 rows"),
    _known("zookeeper", layouts.ZOOKEEPER, _ISO_DASH, "2026-11-21 03:12:45,123 - INFO  [main:QuorumPeer@774] - Notification time out: 3200"),
    _known("pentaho", layouts.PENTAHO, _ISO_DASH, "2026/11/21 03:12:45 - orders.0 - ERROR (version 9.4.0.0-343, build 0) : 42 rows"),
    _known("python-level-only", layouts.PYTHON_LEVEL_ONLY, _ISO_DASH, "2026-11-21 03:12:45,123 - INFO - 42 rows"),
    _known("pipes", layouts.PIPES, _ISO_PIPE, "2026-11-21 03:12:45.123 | INFO     | orders.load:main:12 - 42 rows"),
    _known("spring", layouts.SPRING, _ISO_CAPITAL, "2026-11-21T03:12:45.123Z  INFO 1234 --- [orders] [main] c.example.Orders  : 42 rows"),
    _known("nlog", layouts.NLOG, _ISO_PIPE, "2026-11-21 03:12:45.1234|INFO|Orders.Load|42 rows"),
    _known("colons", layouts.COLONS, _ISO_COLON, "2026-11-21 03:12:45,123:INFO:orders.load:42 rows"),
    _known("oslo", layouts.OSLO, _ISO_NUMBER, "2026-11-21 03:12:45.123 1234 INFO nova.manager [req-1 - - - -] 42 rows"),
    _known("squid", layouts.SQUID, _ISO_NUMBER, "2026-11-21T03:12:45.123Z    112 192.0.2.7 TCP_MISS/200 1234 GET http://shop/ - HIER_NONE/- -"),
    _known("nginx-error", layouts.NGINX_ERROR, _ISO_BRACKET, '2026/11/21 03:12:45 [error] 12#34: *9 open() "/x" failed (2: No such file)'),
    _known("postgres", layouts.POSTGRES, _ISO_BRACKET, "2026-11-21 03:12:45.123 UTC [1234] etl@orders LOG:  duration: 12.3 ms"),
    _known("rds", layouts.RDS, _ISO_COLON, "2026-11-21 03:12:45 UTC:192.0.2.7(49654):etl@orders:[1234]:LOG:  duration: 12.3 ms"),
    _known("mysql", layouts.MYSQL, _ISO_NUMBER, "2026-11-21T03:12:45.123456Z 0 [Warning] [MY-010068] [Server] 42 rows"),
    _known("log4j", layouts.LOG4J, _ISO_WORD, "2026-11-21 03:12:45,123 INFO [main] org.example.Orders: 42 rows"),
    _known("jboss", layouts.JBOSS, _ISO_CAPITAL, "2026-11-21 03:12:45,123 INFO  [org.example.Orders] (main) 42 rows"),
    _known("log4j-words", layouts.LOG4J_WORDS, _ISO_CAPITAL, "2026-11-21 03:12:45,123 INFO [main] org.example.orders.Load 42 rows"),
    _known("rust", layouts.RUST, _ISO_CAPITAL, "2026-11-21T03:12:45.123456Z  INFO request{id=7}: orders::load: 42 rows"),
    _known("ray", layouts.RAY, _ISO_CAPITAL_OR_TAB, "2026-11-21 03:12:45,123\tINFO worker.py:1724 -- Started a local Ray instance."),
    _known("level-logger", layouts.ISO_LEVEL_AND_LOGGER, _ISO_BRACKET, "2026-11-21 03:12:45,123 [INFO] orders.load: 42 rows"),
    _known("trino", layouts.TRINO, _ISO_TAB, "2026-11-21T03:12:45.123Z\tINFO\tmain\tio.trino.server.Server\t42 rows"),
    _known("zap", layouts.ZAP, _ISO_TAB, "2026-11-21T03:12:45.123Z\tINFO\torders\tload/main.go:12\t42 rows"),
    _known("lambda-node", layouts.LAMBDA_NODE, _ISO_TAB, "2026-11-21T03:12:45.123Z\t6f1a0c1e-8a55-4d3c-9d9b-0f6a2f1b7c11\tINFO\t42 rows"),
    _known("syslog-iso", layouts.SYSLOG_ISO, _ISO, "2026-11-21T03:12:45.123456+00:00 web1 sshd[1234]: Accepted publickey for etl"),
    _known("cri", replace(layouts.CRI, refine=with_printed), _ISO_S, "2026-11-21T03:12:45.123456789Z stdout F 42 rows"),
    _known("python-logger-first", layouts.PYTHON_LOGGER_FIRST, _ISO_LOGGER, "2026-11-21 03:12:45,123 orders.load INFO 42 rows"),
    _general("bracketed-level", layouts.ISO_BRACKETED_LEVEL, _ISO_MARK, "2026-11-21T03:12:45.123456Z [info     ] 42 rows      table=orders"),
    _general("level", layouts.ISO_LEVEL, _ISO_CAPITAL_OR_COLON, "2026-11-21 03:12:45 INFO 42 rows"),
    _known("airbyte", layouts.AIRBYTE, _ISO_NAME, "2026-11-21 03:12:45 source > INFO i.a.i.s.p.PostgresSource(main):123 42 rows"),
    _known("jenkins", layouts.JENKINS, _ISO_BRACKET, "2026-11-21 03:12:45.123+0000 [id=16]\tINFO\thudson.model.Orders#load: 42 rows"),
    _known("clickhouse", layouts.CLICKHOUSE, _ISO_BRACKET, "2026-11-21 03:12:45.123456 [ 1234 ] {0b1c2d3e} <Information> executeQuery: Read 42 rows"),
    _known("sql-server", layouts.SQL_SERVER, _ISO_SOURCE, "2026-11-21 03:12:45.12 spid51      Error: 18456, Severity: 14, State: 8."),
    _known("ci-mark-time", layouts.CI_MARK_ISO, _ISO_SIGN, "2026-11-21T03:12:45.1234567Z ##[error]42 rows"),
    _known("dotnet-time", layouts.DOTNET_ISO, _ISO_SMALL, "2026-11-21 03:12:45 info: Orders.Load[0] 42 rows"),
    _general("small-level", layouts.ISO_SMALL_LEVEL, _ISO_SMALL, "2026-11-21T03:12:45.123Z info: 42 rows"),
    _general("process-level", layouts.ISO_PROCESS_LEVEL, _ISO_NUMBER, "2026-11-21 03:12:45 1234 INFO: 42 rows"),
    _general("fields-level", layouts.ISO_FIELDS_LEVEL, _ISO_FIELD, "2026-11-21 03:12:45 [worker-1] [1234] INFO 42 rows", odds=4),
    _general("postgres-prefix", layouts.POSTGRES_PREFIX, _ISO, "2026-11-21 03:12:45 UTC [1234]: [3-1] user=etl,db=orders,app=psql LOG:  42 rows"),
    _catch_all("iso", layouts.ISO_ANYTHING, _ISO, "2026-11-21T03:12:45.123Z 42 rows"),
    _known("spark", layouts.LOG4J_SHORT, _SHORT, "26/11/21 03:12:45 INFO DAGScheduler: Job 0 finished: collect at orders.py:12, took 0.5 s"),
    _general("spark-level", layouts.SHORT_LEVEL, _SHORT, "26/11/21 03:12:45 INFO 42 rows"),
    _known("hdfs", layouts.LOG4J_COMPACT, _COMPACT, "261121 031245 148 INFO dfs.DataNode$PacketResponder: Received block blk_38"),
    _general("postgres-angles", layouts.POSTGRES_ANGLES, _ANGLE, "< 2026-11-21 03:12:45.123 UTC >LOG:  42 rows"),
    _known("syslog-5424", layouts.SYSLOG_5424, _PRIORITY, '<165>1 2026-11-21T03:12:45.123Z web1 orders 1234 ID47 [origin ip="192.0.2.7"] 42 rows'),
    _known("syslog", layouts.SYSLOG, _MONTH, "<38>Nov 21 03:12:45 web1 sshd[1234]: Accepted publickey for etl"),
    _known("syslog-without-host", layouts.SYSLOG_PROCESS, _MONTH, "<38>Nov 21 03:12:45 sshd[1234]: Accepted publickey for etl"),
    _catch_all("syslog-text", layouts.SYSLOG_ANYTHING, _MONTH, "Nov 21 03:12:45 web1 last message repeated 2 times"),
    _known("syslog-year", layouts.SYSLOG_YEAR, _MONTH_YEAR, "<38>Nov 21 2026 03:12:45 web1 sshd[1234]: Accepted publickey for etl"),
    _known("java-util-logging", layouts.JAVA_UTIL_LOGGING, _MONTH_COMMA, "Nov 21, 2026 3:12:45 AM com.example.Orders load"),
    _known("redis", layouts.REDIS, _DAY, "1234:M 21 Nov 2026 03:12:45.123 * Ready to accept connections"),
    _known("apache-error", layouts.APACHE_ERROR, _WEEKDAY, "[Sat Nov 21 03:12:45.123456 2026] [core:error] [pid 12:tid 34] File does not exist: /x"),
    _known("ruby", layouts.RUBY, _LETTER, "I, [2026-11-21T03:12:45.123456 #1234]  INFO -- orders: 42 rows"),
    _known("klog", layouts.KLOG_LINE, _LETTER, "I1121 03:12:45.123456    1234 controller.go:12] 42 rows"),
    _known("access", layouts.ACCESS_LOG, _CLIENT, '192.0.2.7 - etl [21/Nov/2026:03:12:45 +0000] "GET /orders HTTP/1.1" 200 2326 "-" "curl/8.5.0"'),
    _known("lambda-python", layouts.LAMBDA_PYTHON, _LEVEL_BOX, "[INFO]\t2026-11-21T03:12:45.123Z\t6f1a0c1e-8a55-4d3c-9d9b-0f6a2f1b7c11\t42 rows"),
    _known("cassandra", layouts.CASSANDRA, _LEVEL, "INFO  [main] 2026-11-21 03:12:45,123 StorageService.java:12 - 42 rows"),
    _known("level-time-logger", layouts.LEVEL_THEN_LOGGER, _LEVEL, "INFO  [2026-11-21 03:12:45,123] com.example.Orders: 42 rows"),
    _general("level-time", layouts.LEVEL_THEN_ISO, _LEVEL, "INFO 2026-11-21 03:12:45,123 42 rows"),
    _known("ray-worker", layouts.RAY_WORKER, _WORKER, "(load pid=1234, ip=192.0.2.7) 2026-11-21 03:12:45,123 INFO orders.py:12 -- 42 rows"),
    _general("logrus", layouts.LOGRUS, _LOGRUS, "INFO[0012] 42 rows                                       table=orders"),
    _known("php-untimed", layouts.PHP_UNTIMED, _LEVEL, "PHP Warning:  Undefined variable $rows in /srv/orders.php on line 12"),
    _known("dotnet", layouts.DOTNET, _SMALL, "info: Orders.Load[0]"),
    _known("singer", layouts.SINGER, _SMALL, "time=2026-11-21 03:12:45 name=tap_orders level=INFO message=42 rows"),
    _known("ci-mark", layouts.CI_MARK, _SIGN, "##[error]42 rows"),
    _known("python-default", layouts.PYTHON_DEFAULT, _LEVEL, "INFO:orders.load:42 rows"),
    _general("level-colon", layouts.LEVEL_COLON, _LEVEL, "INFO:     192.0.2.7:4711 - \"GET /orders HTTP/1.1\" 200 OK"),
    _general("bracketed-level-only", layouts.LEVEL_BRACKETED, _LEVEL_BOX, "[INFO] BUILD SUCCESS"),
    LogFormat("logfmt", 'time="2026-11-21T03:12:45Z" level=info logger=orders msg="42 rows" table=orders', parse_logfmt_with, _KEY),
    LogFormat("dbt-console", "03:12:45  1 of 3 START sql table model shop.orders .... [RUN]", layouts.DBT_CONSOLE.parse_with, _TIME, odds=3,
           rest=layouts.TIME_ANYTHING, layout=layouts.DBT_CONSOLE),
    _vague("python-time", layouts.PYTHON_TIME, _TIME, "03:12:45,123 - orders.load - INFO - 42 rows"),
    _vague("log4j-time", layouts.LOG4J_TIME, _TIME, "03:12:45.123 [main] INFO  com.example.Orders - 42 rows"),
    _vague("pipes-time", layouts.PIPES_TIME, _TIME, "03:12:45.123 | INFO    | prefect.engine - Created flow run"),
    _vague("dbt", layouts.DBT, _TIME, "03:12:45.123456 [info ] [MainThread]: Completed successfully"),
    _vague("oslo-collected", layouts.OSLO_COLLECTED, _ANYTHING, "nova-compute.log 2026-11-21 03:12:45.123 1234 INFO nova.manager [req-1 -] 42 rows"),
    _vague("time-bracketed-level", layouts.TIME_BRACKETED_LEVEL, _TIME, "03:12:45.123 [info] 42 rows", odds=3),
    _vague("time-level", layouts.TIME_LEVEL, _TIME, "03:12:45 INFO 42 rows", odds=3),
    _vague("time", layouts.TIME_ANYTHING, _TIME, "03:12:45  42 rows", odds=50),
    _vague("level-only", layouts.LEVEL_BARE, _LEVEL_ALONE, "INFO 42 rows", odds=3),
)  # fmt: skip
"""In order of precedence: the first format that parses a line is used."""


class _UnsureParsers(dict[str, _Parses]):
    """By a line's first character: ambiguous formats, in order."""

    def __init__(self, time_parser: TimestampParser) -> None:
        super().__init__()
        self._bound = [(each.prefix.first, each.bind(time_parser)) for each in FORMATS if not each.unambiguous]

    def __missing__(self, first: str) -> _Parses:
        fitting = tuple(parse for known, parse in self._bound if not known or first in known)
        if first.isascii():
            self[first] = fitting
        return fitting


def _any_with(time_parser: TimestampParser) -> LineParser:
    unambiguous = PLAIN.reader(time_parser)
    unsure = _UnsureParsers(time_parser)

    def parse(text: str) -> ParsedLine | None:
        if (parsed := unambiguous(text)) is not None:
            return parsed
        return _of_states(parse_unsure, text) if "\r" in text else parse_unsure(text)

    def parse_unsure(text: str) -> ParsedLine | None:
        for parse in unsure[text[:1]]:
            if (parsed := parse(text)) is not None:
                return parsed
        return None

    return parse


class _AnyFormat(LogFormat):
    """Its parser is built once per process and zone, since it reads many small pieces."""

    def reader(self, time_parser: TimestampParser | None = None) -> LineParser:
        return any_reader(time_parser.zone if time_parser else UTC)


@lru_cache(_MAX_ZONES)
def any_reader(zone: tzinfo = UTC) -> LineParser:
    """The parser of ``ANY`` for a zone of times without one."""
    return _any_with(TimestampParser(zone))


ANY = _AnyFormat("any", "anything", _any_with, _ANYTHING)
"""All formats, including ambiguous ones, for pieces of logs whose format is unknown. Completes no dates."""

_BY_NAME = {each.name: each for each in (*FORMATS, PLAIN)}


def format_named(name: str) -> LogFormat:
    """The format with this name. Raises KeyError."""
    return _BY_NAME[name]
