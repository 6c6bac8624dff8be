"""The layouts of text that are known. An example of each stands in docs/log-formats.md, and what it says in the tests."""

from __future__ import annotations

import re

from chalicelib.lines.clock import ACCESS, APACHE, COMPACT, ISO, KLOG, MONTH, SHORT, TIME
from chalicelib.lines.layout import HEAD_CHARS, Layout, after
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
    spelled,
)
from chalicelib.lines.parsed import Parsed

_LEVEL = "(?P<level>[A-Za-z]{3,13})"
_CAPITALS = "(?P<level>[A-Z]{3,9})"
"""Where nothing else marks a level it is in capitals: "Error opening" is a sentence."""
_LOGGER = r"(?P<logger>[A-Za-z_$][\w.$/@-]*+)"
_THREAD = r"\[[^\[\]]*+(?:\[[^\[\]]*+\][^\[\]]*+)*\]"
"""A thread's name may have brackets of its own."""
_FILE = r"(?P<logger>[^\s:{}\[\]]++)(?::-?[0-9]+)?"
"""A source file and its line: the file is the logger."""


# Python, and what is written in it.

_PYTHON = rf"(?: - \S++)?? - (?P<logger>\S++) - (?P<level>{'|'.join(sorted(filter(str.isupper, LEVELS)))}) - "
"""The level by its names: a thread's name may stand first, and a message may have dashes."""
_LOGGER_FIRST = rf" (?!UTC|GMT){_LOGGER}(?:\[[0-9]+\])?:? +\[?{_CAPITALS}\]?:? +(?:- )?"
_PIPES = rf" \| {_LEVEL} *\| (?:(?P<logger>[\w.$<>-]++)(?::[^\s:]++:[0-9]+)? - )?"
PYTHON = after(ISO, _PYTHON)
PYTHON_TIME = after(TIME, _PYTHON)
PYTHON_LEVEL_FIRST = after(ISO, rf" - {_LEVEL} - (?P<logger>[\w.]+) - ")
PYTHON_LEVEL_ONLY = after(ISO, rf" - {_LEVEL} - ")
PYTHON_LOGGER_FIRST = after(ISO, _LOGGER_FIRST)
PYTHON_DEFAULT = Layout(rf"{_CAPITALS}:(?P<logger>[^\s:]+):")
OPENMETADATA = after(ISO, rf"\] +{_LEVEL} +\{{(?P<logger>[^:{{}}]+)(?::[^{{}}]*)?\}} - ", before=r"\[")
AIRFLOW = after(ISO, rf"\] +\{{{{?{_FILE}\}}}}? +{_LEVEL} +- ", before=r"\[")
PIPES = after(ISO, _PIPES)
PIPES_TIME = after(TIME, _PIPES)
GUNICORN = after(ISO, rf"\] \[[0-9]+\] \[{_LEVEL}\] ", before=r"\[")
DBT = after(TIME, rf" \[{_LEVEL} *\] {_THREAD}: ")


_DBT_LINE = re.compile(
    r"[0-9]+ of [0-9]+ (?P<status>[A-Z-]{2,8}) "
    r"|Completed with (?:(?P<errors>[0-9]++) errors?\b)?(?:(?:.*?[^0-9])?(?P<warnings>[0-9]++) warnings?\b)?"
    r"|(?P<error>(?:[A-Z][a-z]+ Error|Failure) in [a-z]|(?:[A-Z][a-z]+ Error|Encountered an error(?: while [a-z ]+)?)(?::|$))"
    r"|(?P<warning>Warning in [a-z]|\[WARNING\])"
    r"|Running with dbt=|Registered adapter: |Found [0-9]+ |Concurrency: [0-9]+ |Finished running |Completed successfully|Done\. PASS=",
    re.ASCII,
)
_DBT_STATUSES = {"ERROR": ERROR, "FAIL": ERROR, "WARN": WARNING}


def _dbt_level(parsed: Parsed) -> Parsed | None:
    """The level by the result: of a node, an invocation, or an exception's title. Other sentences are not dbt's own."""
    found = _DBT_LINE.match(parsed.message, 0, HEAD_CHARS)
    if found is None:
        return None
    level = _DBT_STATUSES.get(found["status"], INFO)
    if found["error"] or int(found["errors"] or 0):
        level = ERROR
    elif found["warning"] or int(found["warnings"] or 0):
        level = WARNING
    return parsed._replace(level=level)


DBT_CONSOLE = after(TIME, r" {2}(?=\S)", refine=_dbt_level)
CELERY = after(ISO, rf": {_LEVEL}/[^\]]+\] ", before=r"\[")
FLASK = after(ISO, rf"\] {_LEVEL} in (?P<logger>[\w.]+): ", before=r"\[")
OSLO = after(ISO, rf" [0-9]+ {_LEVEL} {_LOGGER} (?:\[[^\]]*\] ?)?")
OSLO_COLLECTED = after(ISO, rf" [0-9]+ {_LEVEL} {_LOGGER} (?:\[[^\]]*\] ?)?", before=r"\S+ ")


# Java: log4j, logback, and what they write for.

_CODE = r"(?::[0-9]+)?(?: ?\([^()\s]*+(?:\([0-9]+\))?\)(?::[0-9]+)?)?"
"""Where in the code: ``:12``, `` (Main.java:main(12))``, ``(main):12``."""
_LOG4J = rf"(?: {_THREAD})? ++{_LEVEL} ++(?:{_THREAD} ++)?{_LOGGER}(?:: |{_CODE}(?: *{_THREAD})?(?: *: | - ))"


_AT_THE_END = re.compile(r"\(((?:[\w$-]++\.)+[\w$-]++)(?::[0-9]+)?\)", re.ASCII)


def _logger_at_the_end(parsed: Parsed) -> Parsed | None:
    """Kafka's ``message (logger)``."""
    message = parsed.message
    start = message.rfind(" (") if message.endswith(")") else -1
    found = _AT_THE_END.fullmatch(message, start + 1) if start >= 0 else None
    return Parsed(parsed.timestamp, parsed.level, found[1], message[:start]) if found else None


LOG4J = after(ISO, _LOG4J)
LOG4J_SHORT = after(SHORT, _LOG4J)
LOG4J_TIME = after(TIME, _LOG4J)
LOG4J_COMPACT = after(COMPACT, rf" [0-9]+ {_LEVEL} {_LOGGER}: ")
SPRING = after(ISO, rf" +{_CAPITALS} +[0-9]+ --- (?:{_THREAD} )+ *{_LOGGER} *: ")
ZOOKEEPER = after(ISO, rf" - {_LEVEL} +\[(?:[^@]*:)?(?P<logger>[^@:]*)@-?[0-9]+\] - ")
"""Its thread may have colons; the class stands behind the last of them."""
KAFKA = after(ISO, rf"\] {_CAPITALS} +", before=r"\[", refine=_logger_at_the_end)
ELASTICSEARCH = after(ISO, rf"\]\[{_LEVEL} *\]\[(?P<logger>[^\s\]]+) *\] ?", before=r"\[")
CASSANDRA = after(ISO, rf" +{_FILE} - ", before=rf"{_CAPITALS} +{_THREAD} +")


# The system's log, and Kubernetes'.

_PRIORITIES = {str(number): SEVERITIES[number % 8] for number in range(192)}
_PRIORITY = "<(?P<level>[0-9]{1,3})>"
_HOST_AND_TAG = r"\S++ (?P<logger>[^\s:\[]++(?: [0-9][0-9.]*)?)(?:\[[^\]\s]*+\])?:(?: |$)"
_HOST_AND_PROCESS = r"\S++ (?P<logger>kernel(?=:)|[^\s:\[]++(?=\[[0-9]))(?:\[[0-9]++\])?:(?: |$)"
"""Behind an ISO stamp, which stands before anything, the tag is a process or the kernel."""
_ZAP_PLACE = r"[^\s:]+\.go:[0-9]+\t"
SYSLOG = after(MONTH, rf" (?:{_HOST_AND_TAG})?", before=f"(?:{_PRIORITY})?", levels=_PRIORITIES)
SYSLOG_ISO = after(ISO, rf" {_HOST_AND_PROCESS}", before=f"(?:{_PRIORITY})?", levels=_PRIORITIES)
SYSLOG_5424 = after(
    ISO,
    r" \S++ (?:-|(?P<logger>\S++)) \S++ \S++ (?:-|(?:\[(?:[^\]\"]++|\"(?:[^\"\\]++|\\.)*\")*\])+)(?: \ufeff?|$)",
    before=f"{_PRIORITY}1 ",
    levels=_PRIORITIES,
)
KLOG_LINE = after(KLOG, r" +[0-9]+ (?P<logger>[^\s:\]]++):[0-9]+\] ?", before="(?P<level>[IWEFD])", levels=LETTERS)
ZAP = after(ISO, rf"\t{_LEVEL}\t(?:{_ZAP_PLACE}|(?P<logger>[^\s:]+)\t(?:{_ZAP_PLACE})?)?")
CRI = after(ISO, " std(?:out|err) [FP] ")


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
_MYSQL = spelled(("note", "system"), INFO) | spelled(("warning",), WARNING) | spelled(("error",), ERROR)


def _client_first(parsed: Parsed) -> Parsed:
    """The client is no logger: it goes before the request."""
    return Parsed(parsed.timestamp, parsed.level, None, f"{parsed.logger} {parsed.message}")


ACCESS_LOG = after(
    ACCESS,
    rf"\] (?={_REQUEST} (?P<level>[1-5])[0-9]{{2}}(?: |$))",
    before=r"(?:[^\s:]++:[0-9]+ )?(?P<logger>[!-~]++) \S++ [^\[\]\"]*+\[",
    levels=_STATUSES,
    refine=_client_first,
)
NGINX_ERROR = after(ISO, rf" \[{_LEVEL}\] [0-9]+#[0-9]+: ")
APACHE_ERROR = Layout(
    rf"\[[A-Z][a-z]{{2}} (?P<second>{APACHE.pattern})\] "
    r"\[(?:(?P<logger>\w*):)?(?P<level>[a-z]{3,6}[1-8]?)\] (?:\[pid [^\]]*+\] )?",
    APACHE,
    _APACHE_LEVELS,
)
POSTGRES = after(ISO, r"(?: [A-Z]{3,4})? \[[0-9]+\](?: [^\s@]++@\S++)? (?P<level>[A-Z]+[1-5]?): +", levels=_POSTGRES)
MYSQL = after(ISO, r" [0-9]+ \[(?P<level>[A-Za-z]+)\] (?:\[MY-[0-9]+\] )?(?:\[(?P<logger>\w+)\] )?", levels=_MYSQL)


# Functions: what Lambda's runtimes write.

LAMBDA_PYTHON = after(ISO, r"\t[0-9a-f-]{36}\t", before=rf"\[{_LEVEL}\]\t")
LAMBDA_NODE = after(ISO, rf"\t[0-9a-f-]{{36}}\t{_LEVEL}\t")


# What is left where nothing better is known.

_LEVEL_AND_LOGGER = rf" +\[{_LEVEL} *\] +{_LOGGER}(?: *: | - )"
_BRACKETED_LEVEL = rf" +\[{_LEVEL} *\]:?(?: +(?:- )?|$)"
_BARE_LEVEL = rf" +(?:- |\| )?{_CAPITALS}(?:: *| +(?:- |\| )?|$)"
_ANYTHING = r"(?: +- +|:? +|\t|$)"
ISO_LEVEL_AND_LOGGER = after(ISO, _LEVEL_AND_LOGGER)
ISO_BRACKETED_LEVEL = after(ISO, _BRACKETED_LEVEL)
ISO_LEVEL = after(ISO, _BARE_LEVEL)
ISO_ANYTHING = after(ISO, _ANYTHING)
IN_BRACKETS_LEVEL_AND_LOGGER = after(ISO, rf"\]{_LEVEL_AND_LOGGER}", before=r"\[")
IN_BRACKETS_CHANNEL = after(ISO, rf"\] (?P<logger>[\w-]+)\.{_CAPITALS}: ", before=r"\[")
IN_BRACKETS_BRACKETED_LEVEL = after(ISO, rf"\]{_BRACKETED_LEVEL}", before=r"\[")
IN_BRACKETS_LEVEL = after(ISO, rf"\]{_BARE_LEVEL}", before=r"\[")
IN_BRACKETS_ANYTHING = after(ISO, rf"\]{_ANYTHING}", before=r"\[")
SHORT_LEVEL = after(SHORT, _BARE_LEVEL)
TIME_LEVEL = after(TIME, _BARE_LEVEL)
TIME_ANYTHING = after(TIME, _ANYTHING)
LEVEL_THEN_LOGGER = after(ISO, rf"\]? {_LOGGER}(?: *: | - )", before=rf"\[?{_CAPITALS}\]?:? +\[?")
LEVEL_THEN_ISO = after(ISO, rf"\]?{_ANYTHING}", before=rf"\[?{_CAPITALS}\]?:? +\[?")
LEVEL_COLON = Layout(rf"{_CAPITALS}: *")
LEVEL_BRACKETED = Layout(rf"\[{_LEVEL} *\]:?(?: +|$)")
LEVEL_BARE = Layout(rf"{_CAPITALS}(?: +(?:- )?|\t|$)")
