"""Known layouts of text lines. docs/log-formats.md has an example of each; tests check the parsed columns."""

from __future__ import annotations

import re

from chalicelib.lines.layout import LineLayout, timestamped
from chalicelib.lines.levels import (
    CRITICAL,
    DEBUG,
    ERROR,
    INFO,
    LETTERS,
    LEVELS,
    SEVERITIES,
    TRACE,
    WARNING,
    spellings,
)
from chalicelib.lines.parsed import ParsedLine
from chalicelib.lines.timestamps import ACCESS, APACHE, COMPACT, ISO, KLOG, MONTH, SHORT, TIME

_LEVEL = "(?P<level>[A-Za-z]{3,13})"
_CAPITALS = "(?P<level>[A-Z]{3,9})"
"""Levels that nothing else marks must be in capitals: "Error opening" is a sentence."""
_LOGGER = r"(?P<logger>[A-Za-z_$][\w.$/@-]*+)"
_END_OF_LOGGER = "(?:: | (?: *: |- ))"
"""A colon behind any spaces, or a dash. Written so that each character decides what follows it: RE2 then reads it once."""
_THREAD = r"\[[^\[\]]*+(?:\[[^\[\]]*+\][^\[\]]*+)*\]"
"""A thread's name may contain brackets."""
_FILE = r"(?P<logger>[^\s:{}\[\]]++)(?::-?[0-9]+)?"
"""A source file and line number: the file is the logger."""


# Python, and programs written in Python.

_PYTHON = rf"(?: - \S++)?? - (?P<logger>\S++) - (?P<level>{'|'.join(sorted(filter(str.isupper, LEVELS)))}) - "
"""Only known level names: a thread's name may precede the level, and a message may contain dashes."""
_LOGGER_FIRST = rf" (?!UTC|GMT){_LOGGER}(?:\[[0-9]+\])?:? +\[?{_CAPITALS}\]?:? +(?:- )?"
_PIPES = rf" \| {_LEVEL} *\| (?:(?P<logger>[\w.$<>-]++)(?::[^\s:]++:[0-9]+)? - )?"
PYTHON = timestamped(ISO, _PYTHON)
PYTHON_TIME = timestamped(TIME, _PYTHON)
PYTHON_LEVEL_FIRST = timestamped(ISO, rf" - {_LEVEL} - (?P<logger>[\w.]+) - ")
PYTHON_LEVEL_ONLY = timestamped(ISO, rf" - {_LEVEL} - ")
PYTHON_LOGGER_FIRST = timestamped(ISO, _LOGGER_FIRST)
PYTHON_DEFAULT = LineLayout(rf"{_CAPITALS}:(?P<logger>[^\s:]+):")
OPENMETADATA = timestamped(ISO, rf"\] +{_LEVEL} +\{{(?P<logger>[^:{{}}]+)(?::[^{{}}]*)?\}} - ", before=r"\[")
AIRFLOW = timestamped(ISO, rf"\] +\{{{{?{_FILE}\}}}}? +{_LEVEL} +- ", before=r"\[")
PIPES = timestamped(ISO, _PIPES)
PIPES_TIME = timestamped(TIME, _PIPES)
GUNICORN = timestamped(ISO, rf"\] \[[0-9]+\] \[{_LEVEL}\] ", before=r"\[")
DBT = timestamped(TIME, rf" \[{_LEVEL} *\] {_THREAD}: ")


_NODE, _SOME = "[0-9]+ of [0-9]+", "0*+[1-9][0-9]*+"
_DBT_LEVELS = (
    (f"{_NODE} (?:ERROR|FAIL) ", ERROR),
    (f"{_NODE} WARN ", WARNING),
    (f"{_NODE} [A-Z-]{{2,8}} ", INFO),
    (rf"Completed with {_SOME} errors?\b", ERROR),
    (rf"Completed with (?:.*?[^0-9])?{_SOME} warnings?\b", WARNING),
    ("Completed with ", INFO),
    ("(?:[A-Z][a-z]+ Error|Failure) in [a-z]", ERROR),
    ("(?:[A-Z][a-z]+ Error|Encountered an error(?: while [a-z ]+)?)(?::|$)", ERROR),
    (r"Warning in [a-z]|\[WARNING\]", WARNING),
    (
        r"Running with dbt=|Registered adapter: |Found [0-9]+ |Concurrency: [0-9]+ |Finished running |Completed successfully|Done\. PASS=",
        INFO,
    ),
)
"""Of results: of a node, an invocation, or an exception's title. Other sentences are not from dbt."""
DBT_CONSOLE = timestamped(TIME, " {2}", message_levels=_DBT_LEVELS)
CELERY = timestamped(ISO, rf": {_LEVEL}/[^\]]+\] ", before=r"\[")
FLASK = timestamped(ISO, rf"\] {_LEVEL} in (?P<logger>[\w.]+): ", before=r"\[")
OSLO = timestamped(ISO, rf" [0-9]+ {_LEVEL} {_LOGGER} (?:\[[^\]]*\] ?)?")
OSLO_COLLECTED = timestamped(ISO, rf" [0-9]+ {_LEVEL} {_LOGGER} (?:\[[^\]]*\] ?)?", before=r"\S+ ")


# Java: log4j, logback, and programs that use them.

_CODE = r"(?::[0-9]+)?(?: ?\([^()\s]*+(?:\([0-9]+\))?\)(?::[0-9]+)?)?"
"""Code location: ``:12``, `` (Main.java:main(12))``, ``(main):12``."""
_LOG4J = rf" (?:{_THREAD} )? *+{_LEVEL} ++(?:{_THREAD} ++)?{_LOGGER}(?:: | - |{_CODE}(?: *{_THREAD})?{_END_OF_LOGGER})"


_AT_THE_END = re.compile(r"\(((?:[\w$-]++\.)+[\w$-]++)(?::[0-9]+)?\)", re.ASCII)


def _logger_at_the_end(parsed: ParsedLine) -> ParsedLine | None:
    """Kafka's ``message (logger)``."""
    message = parsed.message
    start = message.rfind(" (") if message.endswith(")") else -1
    match_ = _AT_THE_END.fullmatch(message, start + 1) if start >= 0 else None
    return ParsedLine(parsed.timestamp, parsed.level, match_[1], message[:start]) if match_ else None


LOG4J = timestamped(ISO, _LOG4J)
LOG4J_SHORT = timestamped(SHORT, _LOG4J)
LOG4J_TIME = timestamped(TIME, _LOG4J)
LOG4J_COMPACT = timestamped(COMPACT, rf" [0-9]+ {_LEVEL} {_LOGGER}: ")
SPRING = timestamped(ISO, rf" +{_CAPITALS} +[0-9]+ --- (?:{_THREAD} )+ *{_LOGGER} *: ")
ZOOKEEPER = timestamped(ISO, rf" - {_LEVEL} +\[(?:[^@]*:)?(?P<logger>[^@:]*)@-?[0-9]+\] - ")
"""The thread may contain colons; the class follows the last one."""
KAFKA = timestamped(ISO, rf"\] {_CAPITALS} +", before=r"\[", refine=_logger_at_the_end)
ELASTICSEARCH = timestamped(ISO, rf"\]\[{_LEVEL} *\]\[(?P<logger>[^\s\]]+) *\] ?", before=r"\[")
CASSANDRA = timestamped(ISO, rf" +{_FILE} - ", before=rf"{_CAPITALS} +{_THREAD} +")


# Syslog and Kubernetes.

_PRIORITIES = {str(number): SEVERITIES[number % 8] for number in range(192)}
_PRIORITY = "<(?P<level>[0-9]{1,3})>"
_HOST_AND_TAG = r"\S++ (?P<logger>[^\s:\[]++(?: [0-9][0-9.]*)?)(?:\[[^\]\s]*+\])?:(?: |$)"
_HOST_AND_PROCESS = r" \S++ (?P<logger>[^\s:\[]++)\[[0-9]++\]:(?: |$)"
_HOST_AND_KERNEL = r" \S++ (?P<logger>kernel):(?: |$)"
"""Any text may follow an ISO timestamp, so the tag must be a process with its id, or the kernel."""
_ZAP_PLACE = r"[^\s:]+\.go:[0-9]+\t"
SYSLOG = timestamped(MONTH, rf" (?:{_HOST_AND_TAG})?", before=f"(?:{_PRIORITY})?", levels=_PRIORITIES)
_SYSLOG_ISO_KERNEL = timestamped(ISO, _HOST_AND_KERNEL, before=f"(?:{_PRIORITY})?", levels=_PRIORITIES)
SYSLOG_ISO = timestamped(ISO, _HOST_AND_PROCESS, before=f"(?:{_PRIORITY})?", levels=_PRIORITIES, otherwise=_SYSLOG_ISO_KERNEL)
SYSLOG_5424 = timestamped(
    ISO,
    r" \S++ (?:-|(?P<logger>\S++)) \S++ \S++ (?:-|(?:\[(?:[^\]\"]++|\"(?:[^\"\\]++|\\.)*\")*\])+)(?: \ufeff?|$)",
    before=f"{_PRIORITY}1 ",
    levels=_PRIORITIES,
)
KLOG_LINE = timestamped(KLOG, r" +[0-9]+ (?P<logger>[^\s:\]]++):[0-9]+\] ?", before="(?P<level>[IWEFD])", levels=LETTERS)
ZAP = timestamped(ISO, rf"\t{_LEVEL}\t(?:{_ZAP_PLACE}|(?P<logger>[^\s:]+)\t(?:{_ZAP_PLACE})?)?")
CRI = timestamped(ISO, " std(?:out|err) [FP] ")


# Web servers and databases.

_STATUSES = {"1": INFO, "2": INFO, "3": INFO, "4": WARNING, "5": ERROR}
_REQUEST = r"\"(?:[^\"\\]++|\\.)*\""
_APACHE_LEVELS = LEVELS | dict.fromkeys([f"trace{number}" for number in range(1, 9)], TRACE)
_POSTGRES = {
    **dict.fromkeys(("LOG", "INFO", "NOTICE", "DETAIL", "HINT", "STATEMENT", "CONTEXT", "QUERY"), INFO),
    **dict.fromkeys([f"DEBUG{number}" for number in range(1, 6)], DEBUG),
    "WARNING": WARNING,
    "ERROR": ERROR,
    "FATAL": CRITICAL,
    "PANIC": CRITICAL,
}
_MYSQL = spellings(("note", "system"), INFO) | spellings(("warning",), WARNING) | spellings(("error",), ERROR)


def _client_first(parsed: ParsedLine) -> ParsedLine:
    """The client is not a logger: it is moved before the request."""
    return ParsedLine(parsed.timestamp, parsed.level, None, f"{parsed.logger} {parsed.message}")


ACCESS_LOG = timestamped(
    ACCESS,
    rf"\] (?={_REQUEST} (?P<level>[1-5])[0-9]{{2}}(?: |$))",
    before=r"(?:[^\s:]++:[0-9]+ )?(?P<logger>[!-~]++) \S++ [^\[\]\"]*+\[",
    levels=_STATUSES,
    refine=_client_first,
)
NGINX_ERROR = timestamped(ISO, rf" \[{_LEVEL}\] [0-9]+#[0-9]+: ")
APACHE_ERROR = LineLayout(
    rf"\[[A-Z][a-z]{{2}} (?P<second>{APACHE.pattern})\] "
    r"\[(?:(?P<logger>\w+)?:)?(?P<level>[a-z]{3,6}[1-8]?)\] (?:\[pid [^\]]*+\] )?",
    APACHE,
    _APACHE_LEVELS,
)
POSTGRES = timestamped(ISO, r"(?: [A-Z]{3,4})? \[[0-9]+\](?: [^\s@]++@\S++)? (?P<level>[A-Z]+[1-5]?): +", levels=_POSTGRES)
MYSQL = timestamped(ISO, r" [0-9]+ \[(?P<level>[A-Za-z]+)\] (?:\[MY-[0-9]+\] )?(?:\[(?P<logger>\w+)\] )?", levels=_MYSQL)


# Lambda runtimes.

LAMBDA_PYTHON = timestamped(ISO, r"\t[0-9a-f-]{36}\t", before=rf"\[{_LEVEL}\]\t")
LAMBDA_NODE = timestamped(ISO, rf"\t[0-9a-f-]{{36}}\t{_LEVEL}\t")


# General layouts.

_LEVEL_AND_LOGGER = rf" +\[{_LEVEL} *\] +{_LOGGER}{_END_OF_LOGGER}"
_BRACKETED_LEVEL = rf" +\[{_LEVEL} *\]:?(?: +(?:- )?|$)"
_BARE_LEVEL = rf" +(?:- |\| )?{_CAPITALS}(?:: *| +(?:- |\| )?|$)"
_ANYTHING = r"(?: +(?:- +)?|: +|\t|$)"
ISO_LEVEL_AND_LOGGER = timestamped(ISO, _LEVEL_AND_LOGGER)
ISO_BRACKETED_LEVEL = timestamped(ISO, _BRACKETED_LEVEL)
ISO_LEVEL = timestamped(ISO, _BARE_LEVEL)
ISO_ANYTHING = timestamped(ISO, _ANYTHING)
IN_BRACKETS_LEVEL_AND_LOGGER = timestamped(ISO, rf"\]{_LEVEL_AND_LOGGER}", before=r"\[")
IN_BRACKETS_CHANNEL = timestamped(ISO, rf"\] (?P<logger>[\w-]+)\.{_CAPITALS}: ", before=r"\[")
IN_BRACKETS_BRACKETED_LEVEL = timestamped(ISO, rf"\]{_BRACKETED_LEVEL}", before=r"\[")
IN_BRACKETS_LEVEL = timestamped(ISO, rf"\]{_BARE_LEVEL}", before=r"\[")
IN_BRACKETS_ANYTHING = timestamped(ISO, rf"\]{_ANYTHING}", before=r"\[")
SHORT_LEVEL = timestamped(SHORT, _BARE_LEVEL)
TIME_LEVEL = timestamped(TIME, _BARE_LEVEL)
TIME_ANYTHING = timestamped(TIME, _ANYTHING)
LEVEL_THEN_LOGGER = timestamped(ISO, rf"\]? {_LOGGER}{_END_OF_LOGGER}", before=rf"\[?{_CAPITALS}\]?:? +\[?")
LEVEL_THEN_ISO = timestamped(ISO, rf"\]?{_ANYTHING}", before=rf"\[?{_CAPITALS}\]?:? +\[?")
LEVEL_COLON = LineLayout(rf"{_CAPITALS}: *")
LEVEL_BRACKETED = LineLayout(rf"\[{_LEVEL} *\]:?(?: +|$)")
LEVEL_BARE = LineLayout(rf"{_CAPITALS}(?: +(?:- )?|\t|$)")
