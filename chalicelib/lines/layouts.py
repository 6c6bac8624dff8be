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
from chalicelib.lines.timestamps import ACCESS, APACHE, COMPACT, DAY_FIRST, ISO, JAVA, KLOG, MONTH, MONTH_YEAR, NO_ZONE, SHORT, TIME

_LEVEL = "(?P<level>[A-Za-z]{3,13}[1-5]?)"
_CAPITALS = "(?P<level>[A-Z]{3,9}[1-5]?)"
"""Levels that nothing else marks must be in capitals: "Error opening" is a sentence."""
_MARKED_LEVEL = rf"[\[(<*] *{_LEVEL} *[\])>*]"
_LOGGER = r"(?P<logger>[A-Za-z_$][\w.$/@-]*+)"
_END_OF_LOGGER = "(?:: | (?: *: |--? ))"
"""A colon behind any spaces, or a dash, or two as in Logback. Written so that each character decides what follows it: RE2 then reads it once."""
_THREAD = r"\[[^\[\]]*+(?:\[[^\[\]]*+\][^\[\]]*+)*\]"
"""A thread's name may contain brackets."""
_FILE = r"(?P<logger>[^\s:{}\[\]]++)(?::-?[0-9]+)?"
"""A source file and line number: the file is the logger."""


# Python, and programs written in Python.

_PYTHON = rf"(?: - \S++)?? - (?P<logger>\S++) - (?P<level>(?:{'|'.join(sorted(filter(str.isupper, filter(str.isalpha, LEVELS))))})[1-5]?) - "
"""Only known level names: a thread's name may precede the level, and a message may contain dashes."""
_LOGGER_FIRST = rf"{NO_ZONE} {_LOGGER}(?:\[[0-9]+\])?:? +\[?{_CAPITALS}\]?:? +(?:- )?"
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
COLONS = timestamped(ISO, rf" ?: ?{_CAPITALS} ?:(?: ?(?P<logger>[A-Za-z_][\w.]*+) ?:)? ?")
RAY = timestamped(ISO, rf"[ \t]{_CAPITALS}[ \t]{_FILE} -- ", sign=" -- ")
RAY_WORKER = timestamped(ISO, rf"[ \t]{_CAPITALS}[ \t]{_FILE} -- ", before=r"\((?:[^()\s]++ )?pid=[0-9]++(?:, [^()]*+)?\) ")
RAY_CORE = timestamped(ISO, rf" (?P<level>[A-Z]) [0-9]++ [0-9]++\] (?:\([^()\s]*+\) )?{_FILE}: ", before=r"\[", levels=LETTERS)
SINGER = timestamped(
    ISO, rf"(?: (?:name|logger)=(?P<logger>\S++))? level={_LEVEL} (?:message|msg)=", before="(?:time|timestamp|ts)="
)
OSLO = timestamped(ISO, rf" [0-9]+ {_LEVEL} {_LOGGER} (?:\[[^\]]*\] ?)?")
OSLO_COLLECTED = timestamped(ISO, rf" [0-9]+ {_LEVEL} {_LOGGER} (?:\[[^\]]*\] ?)?", before=r"\S+ ")


# Java: log4j, logback, and programs that use them.

_CODE = r"(?::[0-9]+)?(?: ?\([^()\s]*+(?:\([0-9]+\))?\)(?::[0-9]+)?)?"
"""Code location: ``:12``, `` (Main.java:main(12))``, ``(main):12``."""
_LOG4J = rf" (?:{_THREAD} )? *+{_LEVEL} ++(?:{_THREAD} ++)?{_LOGGER}(?:: | --? |{_CODE}(?: *{_THREAD})?{_END_OF_LOGGER})"


JAVA_UTIL_LOGGING = LineLayout(rf"(?P<second>{JAVA.pattern}) (?P<logger>[A-Za-z_$][\w$]*+\.[\w.$]++) ?(?=\S*$)", JAVA)
"""The first of the two lines of a record: its class or logger, and its method. The second begins with the level (``events``)."""


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
SPRING = timestamped(
    ISO,
    rf" +{_CAPITALS} +(?:\[[^\[\]]*+\] +)?(?:[0-9]++ +)?--- (?:{_THREAD} )*(?P<logger>[^\s:\[][^\s:]*+) *:(?: |$)",
    sign=" --- ",
)
"""The brackets before the process have what Sleuth adds, those behind it the application, the thread and the trace."""
LOG4J_WORDS = timestamped(ISO, rf" +{_CAPITALS} +{_THREAD} (?P<logger>(?:[\w$-]+\.){{2,}}[\w$-]+) ", sign="] ")
JBOSS = timestamped(ISO, rf" +{_CAPITALS} +\[(?P<logger>[A-Za-z_$][\w.$-]*+)\] \([^()]*+(?:\([^()]*+\)[^()]*+)*\) ", sign="] (")
AIRBYTE = timestamped(
    ISO,
    rf" \[?[a-z][\w-]*+\]? > {_CAPITALS}:?(?: (?:[\w-]++ )?(?P<logger>[A-Za-z_$][\w.$-]*+)\([^()\s]*+\)(?::[0-9]++)?:?(?: -)?)?(?: +|$)",
    sign=" > ",
)
JENKINS = timestamped(ISO, rf" \[id=[0-9]++\]\t{_LEVEL}\t(?P<logger>[^\s:]++): ", sign="[id=")
TRINO = timestamped(ISO, rf"\t *{_LEVEL}\t[^\t]++\t(?P<logger>(?:[a-z]\w*+\.){{2}}[\w.$-]++)\t")
ZOOKEEPER = timestamped(ISO, rf" - {_LEVEL} +\[(?:[^@]*:)?(?P<logger>[^@:]*)@-?[0-9]+\] - ")
"""The thread may contain colons; the class follows the last one."""
KAFKA = timestamped(ISO, rf"\] {_CAPITALS} +", before=r"\[", refine=_logger_at_the_end)
ELASTICSEARCH = timestamped(ISO, rf"\](?:\[[0-9]++\])?\[{_LEVEL} *\]\[(?P<logger>[^\s\]]+) *\] ?", before=r"\[")
"""Envoy has its thread before the level."""
CASSANDRA = timestamped(ISO, rf" +{_FILE} - ", before=rf"{_CAPITALS} +{_THREAD} +")


# Other languages and their libraries.

_PHP_LEVELS = {
    "Parse error": ERROR,
    "Fatal error": CRITICAL,
    "Recoverable fatal error": ERROR,
    "Warning": WARNING,
    "Notice": INFO,
    "Deprecated": INFO,
    "Strict Standards": INFO,
}
_PHP = "PHP (?P<level>[A-Z][A-Za-z ]{5,25}): +"
_DOTNET_WORDS = {"trce": TRACE, "dbug": DEBUG, "info": INFO, "warn": WARNING, "fail": ERROR, "crit": CRITICAL}
_DOTNET = r"(?P<level>[a-z]{4}): (?P<logger>[A-Za-z_][\w.`+<>,-]*+)\[-?[0-9]++\](?: +|$)"
RUST = timestamped(ISO, rf" +{_CAPITALS} +(?:[a-z_]\w*+\{{[^{{}}]*+\}}:)* ?(?P<logger>[a-z_]\w*+(?:::\w++)+): ", sign="::")
"""Of tracing: spans with their fields, then the module."""
IN_BRACKETS_LEVEL_WITHIN = timestamped(ISO, rf" +{_CAPITALS}(?: +(?P<logger>[A-Za-z_][\w:.-]*+))? *\] ?", before=r"\[")
TIME_LEVEL_WITHIN = timestamped(TIME, rf" +{_CAPITALS}(?: +(?P<logger>[A-Za-z_][\w:.-]*+))? *\] ?", before=r"\[")
RUBY = timestamped(
    ISO, r" #[0-9]++\] +(?:ANY|(?P<level>[A-Z]{4,5})) -- (?P<logger>[^\s:]++(?:::[^\s:]++)*)?: ?", before=r"[DIWEFA], \["
)
PHP = timestamped(ISO, rf"\] {_PHP}", before=r"\[", levels=_PHP_LEVELS)
PHP_UNTIMED = LineLayout(_PHP, levels=_PHP_LEVELS)
DOTNET = LineLayout(_DOTNET, levels=_DOTNET_WORDS)
DOTNET_ISO = timestamped(ISO, f" +{_DOTNET}", levels=_DOTNET_WORDS, sign="]")
_LOGRUS_LEVELS = {
    word.upper()[:4]: level
    for word, level in LEVELS.items()
    if word in ("trace", "debug", "info", "warn", "error", "fatal", "panic")
}
LOGRUS = LineLayout(
    r"(?P<level>[A-Z]{4})\[[0-9]{4,}\] +",
    levels=_LOGRUS_LEVELS,
    otherwise=timestamped(ISO, r"\] +", before=r"(?P<level>[A-Z]{4})\[", levels=_LOGRUS_LEVELS),
)
NLOG = timestamped(ISO, rf"\|(?:[0-9]*+\|)?{_LEVEL} *\|(?:(?P<logger>[^\s|]++)?\|)?")
PENTAHO = timestamped(ISO, r" - (?P<logger>[^\s-]\S*+(?: [^\s-]\S*+)*) - (?P<level>ERROR) \(version [^()]*+\) ?: ")


# Systems for CI.

_CI_MARK = (
    r"(?:##\[|::|##vso\[task\.logissue (?:[a-z]++=[^;\]]*+;)*?type=)"
    r"(?P<level>[a-z]{5,7})(?:(?:;[^\]]*+)?\]|(?: [^:]*+)?::) ?"
)
_CI_LEVELS = {"error": ERROR, "warning": WARNING, "notice": INFO, "debug": DEBUG}
CI_MARK = LineLayout(_CI_MARK, levels=_CI_LEVELS)
CI_MARK_ISO = timestamped(ISO, f" {_CI_MARK}", levels=_CI_LEVELS)


# Syslog and Kubernetes.

_PRIORITIES = {str(number): SEVERITIES[number % 8] for number in range(192)}
_PRIORITY = "<(?P<level>[0-9]{1,3})>"
OPTIONAL_PRIORITY, PRIORITY_AND_VERSION = f"(?:{_PRIORITY})?", f"{_PRIORITY}1 "
_HOST = r":*[^\s\[:]+(?::+[^\s\[:]+)*"
"""Not a tag: without a colon at its end."""
_HOST_AND_TAG = rf"{_HOST} (?P<logger>[^\s:\[]++(?: [0-9][0-9.]*)?)(?:\[[^\]\s]*+\])?:(?: |$)"
_PROCESS = r"(?P<logger>[^\s:\[]+)\[[0-9]+\]:(?: |$)"
_ISO_PROCESS, _ISO_KERNEL = r"(?P<logger>[^\s:\[]++)\[[0-9]++\]:(?: |$)", "(?P<logger>kernel):(?: |$)"
"""Any text may follow an ISO timestamp, so the tag must be a process with its id, or the kernel."""
_ZAP_PLACE = r"[^\s:]+\.go:[0-9]+\t"
SYSLOG = timestamped(MONTH, f"{NO_ZONE} {_HOST_AND_TAG}", before=OPTIONAL_PRIORITY, levels=_PRIORITIES)
SYSLOG_YEAR = timestamped(MONTH_YEAR, f"{NO_ZONE} {_HOST_AND_TAG}", before=OPTIONAL_PRIORITY, levels=_PRIORITIES)
SYSLOG_PROCESS = timestamped(MONTH, f" {_PROCESS}", before=OPTIONAL_PRIORITY, levels=_PRIORITIES)
SYSLOG_ANYTHING = timestamped(MONTH, f"{NO_ZONE}:? ", before=OPTIONAL_PRIORITY, levels=_PRIORITIES)


def _syslog_iso(tail: str, sign: str, otherwise: LineLayout | None) -> LineLayout:
    return timestamped(ISO, f"{NO_ZONE} {tail}", before=OPTIONAL_PRIORITY, levels=_PRIORITIES, otherwise=otherwise, sign=sign)


_SYSLOG_ISO_KERNEL = _syslog_iso(rf"\S++ {_ISO_KERNEL}", "kernel:", _syslog_iso(_ISO_KERNEL, "kernel:", None))
SYSLOG_ISO = _syslog_iso(rf"\S++ {_ISO_PROCESS}", "]:", _syslog_iso(_ISO_PROCESS, "]:", _SYSLOG_ISO_KERNEL))
"""With a host before the tag, or without."""
_BEHIND_LOGGER = r" \S++ \S++ (?:-|(?:\[(?:[^\]\"]++|\"(?:[^\"\\]++|\\.)*\")*\])+)(?: \ufeff?|$)"


def _syslog_5424(logger: str, otherwise: LineLayout | None) -> LineLayout:
    return timestamped(
        ISO, rf" \S++ {logger}{_BEHIND_LOGGER}", before=PRIORITY_AND_VERSION, levels=_PRIORITIES, otherwise=otherwise
    )


SYSLOG_5424 = _syslog_5424(r"(?P<logger>[^\s-]\S*+|-\S++)", _syslog_5424("-", None))
KLOG_LINE = timestamped(KLOG, r" +[0-9]+ (?P<logger>[^\s:\]]++):[0-9]+\] ?", before="(?P<level>[IWEFD])", levels=LETTERS)
ZAP = timestamped(ISO, rf"\t{_LEVEL}\t(?:{_ZAP_PLACE}|(?P<logger>[^\s:]+)\t(?:{_ZAP_PLACE})?)?")
CRI = timestamped(ISO, " std(?:out|err) [FP] ", sign=" std")


# Web servers and databases.

_STATUSES = {"1": INFO, "2": INFO, "3": INFO, "4": WARNING, "5": ERROR}
_REQUEST = r"\"(?:[^\"\\]++|\\.)*\""
_APACHE_LEVELS = LEVELS | dict.fromkeys([f"trace{number}" for number in range(1, 9)], TRACE)
_POSTGRES = {
    **dict.fromkeys(("LOG", "INFO", "NOTICE"), INFO),
    **dict.fromkeys(("DETAIL", "HINT", "STATEMENT", "CONTEXT", "QUERY", "LOCATION", "BACKTRACE"), INFO),
    **dict.fromkeys(["DEBUG", *(f"DEBUG{number}" for number in range(1, 6))], DEBUG),
    "WARNING": WARNING,
    "ERROR": ERROR,
    "FATAL": CRITICAL,
    "PANIC": CRITICAL,
}
_REDIS = {".": DEBUG, "-": DEBUG, "*": INFO, "#": WARNING}
_MYSQL = spellings(("note", "system"), INFO) | spellings(("warning",), WARNING) | spellings(("error",), ERROR)


_POSTGRES_LEVEL = "(?P<level>[A-Z]{3,9}[1-5]?)"


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
SQUID = timestamped(ISO, r" +(?=[0-9]+ \S+ [A-Z_]+/(?P<level>[0-5])[0-9]{2} [0-9]+ )", levels=_STATUSES | {"0": INFO})
NGINX_ERROR = timestamped(ISO, rf" \[{_LEVEL}\] [0-9]+#[0-9]+: ", sign="#")
APACHE_ERROR = LineLayout(
    rf"\[[A-Z][a-z]{{2}} (?P<second>{APACHE.pattern})\] "
    r"\[(?:(?P<logger>\w+)?:)?(?P<level>[a-z]{3,6}[1-8]?)\] (?:\[pid [^\]]*+\] )?",
    APACHE,
    _APACHE_LEVELS,
)
POSTGRES = timestamped(
    ISO,
    rf" \[[0-9]++\] [^\s@]++@\S++ {_POSTGRES_LEVEL}: +",
    levels=_POSTGRES,
    otherwise=timestamped(ISO, rf" \[[0-9]++\] {_POSTGRES_LEVEL}: +", levels=_POSTGRES, sign=": "),
    sign=": ",
)
RDS = timestamped(ISO, rf":[^\s@]*+@[^\s@:]*+:\[[0-9]++\]:{_POSTGRES_LEVEL}: +", levels=_POSTGRES)
_ANY_PREFIX = timestamped(
    ISO,
    NO_ZONE + r"(?: [A-Z]{3,5})?"
    r"(?: +(?:[a-z_][^\s=@\[(<{:,|-]*+ +){0,4}(?:[0-9\[(<{|]|[:,-] |[^\s=@\[(<{:,|-]*+[=@])|\||[:,][^0-9]|[:,-][0-9a-f]++\.[0-9a-f])"
    rf"[^\"';!?]*?[] :,|>-]{_POSTGRES_LEVEL}: {{2}}",
    levels=_POSTGRES,
    sign=":  ",
)
"""Any ``log_line_prefix`` with a number, a bracket, an assignment or a user of a database before text: two spaces follow the level. What
it begins with can belong neither to the fraction nor to the zone of the time."""
POSTGRES_PREFIX = timestamped(
    ISO,
    rf" \[[0-9-]++\]:? (?:\[[0-9-]++\]:? )?[a-z]++=[^\s,]*+(?:,[a-z]++=[^\s,]*+)* {_POSTGRES_LEVEL}: {{2}}",
    levels=_POSTGRES,
    otherwise=_ANY_PREFIX,
    sign=":  ",
)
"""With the names of pgBadger's prefixes, or another one."""
POSTGRES_ANGLES = timestamped(ISO, NO_ZONE + rf"(?: [^<>]*+)?> ?{_POSTGRES_LEVEL}: {{2}}", before="< ?", levels=_POSTGRES)
_CLICKHOUSE = rf" \[ *[0-9]++ *\] (?:\{{[^{{}}]*+\}} )?<{_LEVEL}> "
_CLICKHOUSE_LEVELS = LEVELS | {"Test": TRACE}
CLICKHOUSE = timestamped(
    ISO,
    rf"{_CLICKHOUSE}(?P<logger>[^\s:][^:]*+): ",
    levels=_CLICKHOUSE_LEVELS,
    otherwise=timestamped(ISO, rf"{_CLICKHOUSE}(?P<logger>[^\s:][^:]*+(?:::[^:]*+)*): ", levels=_CLICKHOUSE_LEVELS, sign="::"),
    sign="> ",
)
SQL_SERVER = timestamped(
    ISO,
    r" (?P<logger>spid[0-9]++s?|Server|Logon|Backup) {2,}",
    message_levels=((r"Error: [0-9]++, Severity: (?:1[1-9]|2[0-9])", ERROR), ("", INFO)),
)
REDIS = timestamped(DAY_FIRST, " (?P<level>[.*#-]) ", before=r"(?:[0-9]+:[A-Z]|\[[0-9]+\]) ", levels=_REDIS)
MYSQL = timestamped(ISO, r" [0-9]+ \[(?P<level>[A-Za-z]+)\] (?:\[MY-[0-9]+\] )?(?:\[(?P<logger>\w+)\] )?", levels=_MYSQL, sign="] ")


# Lambda runtimes.

LAMBDA_PYTHON = timestamped(ISO, r"\t[0-9a-f-]{36}\t", before=rf"\[{_LEVEL}\]\t")
LAMBDA_NODE = timestamped(ISO, rf"\t[0-9a-f-]{{36}}\t{_LEVEL}\t")


# General layouts.

_LEVELS_BEHIND_FIELDS = {
    **{f"{opening}{word}": level for word, level in LEVELS.items() for opening in ("[", "[ ", "(", "<")},
    **LEVELS,
    "LOG": INFO,
    "NOISE": DEBUG,
}
"""Levels in brackets with their opening, those in capitals, and PgBouncer's."""
_WORDS = (
    "(?:[Tt]race|[Dd]ebug|[Ii]nfo(?:rmation)?|[Nn]otice|[Ww]arn(?:ing)?|[Ee]rr(?:or)?|[Cc]rit(?:ical)?|[Ff]atal|[Ss]evere|[Aa]lert|[Ee]merg(?:ency)?"
    "|TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERR(?:OR)?|CRIT(?:ICAL)?|FATAL|SEVERE|ALERT|EMERG(?:ENCY)?)"
)
_LEVEL_AND_LOGGER = rf" +\[ *{_LEVEL} *\] +{_LOGGER}{_END_OF_LOGGER}"
_AFTER_LEVEL = r":?(?:[ \t]+(?:- )?|$)"
_BRACKETED_LEVEL = rf"(?:- )?{_MARKED_LEVEL}{_AFTER_LEVEL}"
_BARE_LEVEL = rf"(?:- |\| )?{_CAPITALS}(?:[+-][0-9]{{1,3}})?(?:: *|[ \t]+(?:- |\| )?|$)"
"""With the offset that Go's slog appends."""
_FIELD_IN_BRACKETS = r"(?:\[[^\[\]]*+\]|\{[^{}]*+\}|\([^()]*+\)):?[ \t]*+"
_FIELD = rf"(?:{_FIELD_IN_BRACKETS}|(?:[0-9]++:?|[a-z_][\w.-]*+=[^\s\]]*+)[ \t]++)"
"""What programs write between time and level: process, thread, request, as numbers, in brackets or with a name."""
_LEVEL_BEHIND_FIELDS = rf"(?:- )?(?P<level>[A-Z]{{3,9}}[1-5]?|[\[(<] ?{_WORDS}[1-5]?)(?: *[\])>])?{_AFTER_LEVEL}"
_SMALL_LEVEL = "(?P<level>trace|debug|verbose|info|notice|warn(?:ing)?|err(?:or)?|crit(?:ical)?|fatal)"
_PROCESS_OF_PINO = r"(?:\((?:[\w.-]++/)?[0-9]++(?: on [\w.-]++)?\): )?"
_ANYTHING = r"(?: +(?:- +)?|: +|\t|$)"
ISO_LEVEL_AND_LOGGER = timestamped(ISO, _LEVEL_AND_LOGGER)
ISO_BRACKETED_LEVEL = timestamped(ISO, f" +{_BRACKETED_LEVEL}", levels=LEVELS | {"Note": INFO})
ISO_LEVEL = timestamped(ISO, f":?[ \\t]+{_BARE_LEVEL}")
ISO_SMALL_LEVEL = timestamped(ISO, f" +{_SMALL_LEVEL}: +", sign=": ")
ISO_FIELDS_LEVEL = timestamped(
    ISO, f"{NO_ZONE} +{_FIELD_IN_BRACKETS}{_FIELD}{{0,5}}?{_LEVEL_BEHIND_FIELDS}", levels=_LEVELS_BEHIND_FIELDS
)
ISO_PROCESS_LEVEL = timestamped(ISO, f" +[0-9]++:?[ \\t]+{_LEVEL_BEHIND_FIELDS}", levels=_LEVELS_BEHIND_FIELDS)
ISO_ANYTHING = timestamped(ISO, NO_ZONE + _ANYTHING)
IN_BRACKETS_LEVEL_AND_LOGGER = timestamped(ISO, rf"\]{_LEVEL_AND_LOGGER}", before=r"\[")
IN_BRACKETS_CHANNEL = timestamped(ISO, rf"\] (?P<logger>[\w-]+)\.{_CAPITALS}: ", before=r"\[")
IN_BRACKETS_BRACKETED_LEVEL = timestamped(ISO, rf"\] *{_BRACKETED_LEVEL}", before=r"\[")
IN_BRACKETS_LEVEL = timestamped(ISO, rf"\]:? +{_BARE_LEVEL}{_PROCESS_OF_PINO}", before=r"\[")
IN_BRACKETS_FIELDS_LEVEL = timestamped(
    ISO, rf"\][ \t]*+{_FIELD}{{1,6}}?{_LEVEL_BEHIND_FIELDS}", before=r"\[", levels=_LEVELS_BEHIND_FIELDS
)
IN_BRACKETS_ANYTHING = timestamped(ISO, rf"\]{_ANYTHING}", before=r"\[")
SHORT_LEVEL = timestamped(SHORT, f" +{_BARE_LEVEL}")
TIME_IN_BRACKETS_LEVEL = timestamped(TIME, rf"\] +\[?{_CAPITALS}\]?:?(?: +(?:- )?{_PROCESS_OF_PINO}|$)", before=r"\[")
TIME_LEVEL = timestamped(TIME, f" +{_BARE_LEVEL}")
TIME_BRACKETED_LEVEL = timestamped(TIME, f" +{_BRACKETED_LEVEL}")
TIME_ANYTHING = timestamped(TIME, NO_ZONE + _ANYTHING)
LEVEL_THEN_LOGGER = timestamped(ISO, rf"{NO_ZONE}\]? {_LOGGER}{_END_OF_LOGGER}", before=rf"\[?{_CAPITALS}\]?:? +\[?")
LEVEL_THEN_ISO = timestamped(ISO, rf"{NO_ZONE}\]?{_ANYTHING}", before=rf"\[?{_CAPITALS}\]?:? +\[?")
LEVEL_COLON = LineLayout(rf"{_CAPITALS}: *")
LEVEL_BRACKETED = LineLayout(rf"\[ *{_LEVEL} *\]:?(?: +|$)")
LEVEL_BARE = LineLayout(rf"{_CAPITALS}(?: +(?:- )?|\t|$)")
