"""The rules: known kinds of failures, by what their messages say.

Patterns search the message of a line: its text without time, level and logger. The first rule that matches names the family. No pattern can
take more than linear time: repetitions are bounded or possessive.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class FamilyRule:
    """``score``: of a line without a level that matches, near the end of a log. ``about``: for the documentation."""

    name: str
    family: str
    pattern: str
    score: float
    about: str

    @cached_property
    def search(self) -> re.Pattern[str]:
        """The compiled pattern."""
        return re.compile(self.pattern)


RULES = (
    FamilyRule("out-of-memory", "memory",
         r"OutOfMemoryError|\bMemoryError\b|GC overhead limit|Java heap space|[Oo]ut of memory|\bOOM(?:Killed|[ -]kill| command)"
         r"|(?:exceed(?:ed|ing)|beyond) (?:the )?(?:\w+ )?(?:physical |virtual )?"
         r"memory (?:limit|quota)|Cannot allocate memory|std::bad_alloc|heap out of memory|memory limits?\. [0-9.]+ [MGK]B of"
         r"|running beyond (?:the )?\S+ (?:virtual|physical)? ?memory"
         r"|Unable to allocate [0-9.]+ [KMGTP]iB|DefaultCPUAllocator: not enough memory|CUDA out of memory"
         r"|Memory limit \(?.{0,40}exceeded|MEMORY_LIMIT_EXCEEDED|Runtime exited with error: signal: killed",
         0.85, "memory of a process, container or heap is used up"),
    FamilyRule("killed", "killed",
         r"(?:^|[:\d] |\] )Killed(?:$| {2,}|\s*\()|SIGKILL|\bexit(?:ed)? (?:code|status|with code)[: ]*137\b|signal 9\b"
         r"|signal: killed",
         0.8, "a process was killed, usually for its memory"),
    FamilyRule("disk-full", "disk",
         r"[Nn]o space left on device|[Dd]isk (?:is )?full|[Dd]isk quota exceeded|ENOSPC|EFBIG|File too large|not enough (?:disk )?space"
         r"|could not extend file|[Ff]ile system is full|DiskOutOfSpace|DiskErrorException",
         0.85, "a disk or its quota is full"),
    FamilyRule("throttled", "throttling",
         r"Throttling|[Tt]hrottled|TooManyRequests|[Tt]oo [Mm]any [Rr]equests|\b429\b.{0,40}(?:Client|error|status|Too)"
         r"|(?:status|code|HTTP)\S{0,12} 429\b|SlowDown|[Rr]ate (?:limit|exceeded)|RequestLimitExceeded"
         r"|ProvisionedThroughputExceeded|rateLimitExceeded|RESOURCE_EXHAUSTED|LimitExceededException"
         r"|[Qq]uota (?:has been )?exceeded|exceeded your current quota|QuotaExceeded|[Rr]educe your request rate",
         0.8, "a service refuses more requests"),
    FamilyRule("authentication", "authentication",
         r"[Aa]uthentication (?:has )?(?:failed|error|failure|required)|AuthenticationE(?:rror|xception)"
         r"|[Aa]uthenticationFailed|\b401\b(?: Client Error)?[:,)]? ?Unauthorized|HTTP\S{0,8} 401\b"
         r"|status(?: ?code)?[=: ]+401\b|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken"
         r"|NoCredentials|[Uu]nable to locate credentials|[Ii]nvalid (?:credentials|token|api key|API key|username or password"
         r"|password)|[Ii]ncorrect username or password|UnrecognizedClientException|InvalidClientTokenId"
         r"|password authentication failed|no password supplied|Login failed"
         r"|[Aa]ccess denied for user|Permission denied \((?:publickey|password)|could not read Username|[Bb]ad credentials"
         r"|UNAUTHENTICATED|[Tt]oken (?:has |is )?expired|invalid_grant|invalid_client|ORA-01017|Kerberos|GSSException"
         r"|DefaultCredentialsError|[Ll]ogin (?:was )?(?:denied|incorrect)|no pg_hba\.conf entry|[Cc]redentials (?:have |are "
         r"|were )?(?:expired|invalid|missing|not found)|denied: requested access|NOAUTH|WRONGPASS|[Uu]nauthorized",
         0.83, "credentials are missing, wrong or expired"),
    FamilyRule("name-resolution", "network",
         r"Name or service not known|Temporary failure in name resolution|[Cc]ould not resolve (?:host|hostname)"
         r"|UnknownHostException|nodename nor servname|getaddrinfo|ENOTFOUND|EAI_AGAIN"
         r"|no such host|could not translate host name|NameResolutionError|[Cc]annot resolve host"
         r"|[Uu]nknown (?:MySQL server )?host\b|unable to resolve host|Name does not resolve|NXDOMAIN",
         0.85, "a host's name cannot be resolved"),
    FamilyRule("certificate", "tls",
         r"CERTIFICATE_VERIFY_FAILED|SSLError|SSLHandshakeException|PKIX path|SSL certificate problem"
         r"|certificate (?:has expired|verify failed|is not yet valid|signed by unknown)|invalid peer certificate|x509: "
         r"|Host key verification failed|unable to get local issuer"
         r"|self[- ]signed certificate|SSL_ERROR|SSL routines|SSLEOFError|SSL SYSCALL|CertificateException|[Hh]ostname mismatch|tls: ",
         0.85, "a TLS certificate or handshake fails"),
    FamilyRule("connection-refused", "network",
         r"[Cc]onnection refused|ECONNREFUSED|ConnectionRefusedError|Connect(?:ion)?Exception: |[Nn]o route to host"
         r"|[Nn]etwork is unreachable|EHOSTUNREACH|ENETUNREACH|NoBrokersAvailable|[Cc]ould not connect to"
         r"|[Ff]ailed to connect to|[Uu]nable to connect to|[Cc]an(?:'t|not) connect to|Failed to establish a new connection"
         r"|NoHostAvailable|ServiceUnavailable|[Nn]o (?:reachable servers|listener\b)|[Bb]roker transport failure"
         r"|Communications link failure|connection to (?:the )?server (?:at .{1,200} failed"
         r"|on socket .{1,200} failed|was lost)",
         0.82, "a server cannot be reached"),
    FamilyRule("connection-lost", "network",
         r"[Cc]onnection (?:was )?(?:reset|aborted|closed unexpectedly|lost|timed out by)|ECONNRESET|ConnectionResetError"
         r"|RemoteDisconnected|server closed the connection|[Ll]ost connection to|IncompleteRead"
         r"|ConnectionAbortedError|EndpointConnectionError|terminating connection due to|SSL connection has been closed"
         r"|NoHttpResponseException|ProtocolError\('Connection|unexpected EOF|UNAVAILABLE:|The connection to the server",
         0.78, "a connection broke"),
    FamilyRule("timeout", "timeout",
         r"[Tt]imed[- ]?out|TimeoutE(?:rror|xception)|(?:Read|Connect|Socket|Lock|Sensor|Task|Wait|Query|Pool)Timeout\w*"
         r"|[Tt]imeout (?:expired|exceeded|reached|of|after|waiting|period|while|error|limit)"
         r"|^timeout: sending signal|ETIMEDOUT|[Dd]eadline[ _-]?[Ee]xceeded|DEADLINE_EXCEEDED|(?:due to|because of) (?:\w+ )?timeout"
         r"|statement timeout"
         r"|exceeded (?:the )?(?:\w+ )?(?:timeout|time limit|run ?time)|TIME LIMIT|[Tt]ime limit exceeded|maximum execution time|Snap! Sensor",
         0.8, "something took too long"),
    FamilyRule("permission", "permission",
         r"[Pp]ermission(?:s)? (?:was )?[Dd]enied|Access ?[Dd]enied|access denied|AccessControlException|PermissionError"
         r"|\bEACCES\b|\bEPERM\b|Operation not permitted|\b403\b(?: Client Error)?[:,)]? ?Forbidden|HTTP\S{0,8} 403\b"
         r"|status(?: ?code)?[=: ]+403\b|Status Code: 403|\(Forbidden\)|[Nn]ot [Aa]uthorized"
         r"|[Ii]nsufficient[ _]?(?:[Pp]rivilege|[Pp]ermission|rights)|UnauthorizedOperation|must be owner of|PERMISSION_DENIED"
         r"|[Ll]acks? (?:the )?(?:\S+ )?permission|does not have (?:\S+ ){0,3}(?:permission|access|privilege)"
         r"|Read-only file system|EROFS|is not allowed to|[Ff]orbidden|command denied to user|ORA-01031|INSUFFICIENT_"
         r"|dubious ownership",
         0.83, "an action is not allowed"),
    FamilyRule("missing-command", "missing",
         r"command not found|: not found$|: (?:line )?[0-9]+: [^:\s]{1,200}: not found|executable file not found"
         r"|is not recognized as an internal|env: .{1,200}: No such file|No rule to make target|exec format error"
         r"|cannot execute|bad interpreter|No such command|unknown (?:command|subcommand)|[Uu]nrecognized (?:command"
         r"|subcommand)",
         0.83, "a program is not installed"),
    FamilyRule("missing-module", "dependency",
         r"No module named|ModuleNotFoundError|ImportError|ClassNotFoundException|NoClassDefFoundError|NoSuchMethodError"
         r"|Cannot find (?:module|package)|cannot import name|[Cc]ould not find or load main class|cannot open shared object"
         r"|UnsupportedClassVersionError|ERR_MODULE_NOT_FOUND|cannot load such file|Can't locate \S+ in @INC|there is no package called"
         r"|error while loading shared libraries|UnsatisfiedLinkError|undefined (?:reference to|symbol)|[Ff]ailed to find data source"
         r"|Can't resolve '|Failed to find (?:the )?(?:class|data source)|DATA_SOURCE_NOT_FOUND|[Nn]o suitable driver",
         0.83, "a module, class or library is missing"),
    FamilyRule("dependency", "dependency",
         r"No matching distribution found|Could not find a version that satisfies|ResolutionImpossible"
         r"|[Cc]onflicting dependencies|ERESOLVE|E404|404 Not Found - GET|[Cc]ould not resolve (?:dependencies|all files"
         r"|all dependencies|dependency)|[Cc]ould not find artifact|Could not find \S+:\S+:\S+\.?|unresolved dependency"
         r"|unable to resolve dependency|Missing script|DistributionNotFound|VersionConflict|cannot find package"
         r"|no required module provides|[Ff]ailed to query available provider|requires a different Python|ETARGET|notarget"
         r"|[Uu]nable to locate package|has no installation candidate|[Cc]ould not find gem|OUTDATED_LOCKFILE"
         r"|[Cc]ould not find a package configuration file|PackagesNotFound|UnsatisfiableError|has requirement|pip's dependency resolver",
         0.83, "a package cannot be installed"),
    FamilyRule("missing-file", "missing",
         r"No such file(?: or directory)?|FileNotFound(?:Error|Exception)|NoSuchFileException|ENOENT|NoSuchKey|NoSuchBucket"
         r"|[Pp]ath does not exist|PATH_NOT_FOUND|[Ff]ile (?:\S+ )?(?:does not exist|not found|is missing)|The specified (?:key"
         r"|bucket|blob|container) does not exist|pathspec .{1,200} did not match|[Cc]annot find (?:the )?(?:file|path)"
         r"|BlobNotFound|Input path does not exist|No files? (?:found|matching|match)|[Nn]o \S{1,200} found (?:at|in)"
         r"|couldn't find remote ref|can't open file"
         r"|Not a directory|NotADirectoryError|Is a directory|IsADirectoryError|TemplateNotFound|unable to (?:open|read"
         r"|find) (?:the )?file|[Cc]annot (?:open|stat|access) |SparkFileNotFoundException|FILE_NOT_EXIST",
         0.82, "a file, object or bucket is missing"),
    FamilyRule("schema", "schema",
         r"(?:relation|table|column|schema|database|view|function|type|role|index|sequence"
         r"|operator) \"?[^\"\n]{1,200}\"? does not exist|UNRESOLVED_COLUMN|UNRESOLVED_|TABLE_OR_VIEW_NOT_FOUND"
         r"|AnalysisException|no such (?:table|column|function)|[Uu]nknown (?:column|table|database|field)|[Ii]nvalid (?:column"
         r"|object) name|[Cc]olumn(?:s)? (?:\S+ ){0,3}(?:not found|does not exist|not exist|missing|is missing"
         r"|cannot be resolved|could not be resolved|mismatch)"
         r"|[Tt]able (?:or view )?(?:\S+ ){0,3}(?:not found|doesn't exist|does not exist|already exists)"
         r"|[Ss]chema (?:\S+ )?(?:mismatch|not found|does not match|incompatib|evolution)|[Tt]ype mismatch|DATATYPE_MISMATCH"
         r"|datatype mismatch|INCOMPATIBLE_|ORA-0094[12]|ORA-00904|SCHEMA_NOT_FOUND|NoSuchTableException|UndefinedTable"
         r"|UndefinedColumn|[Cc]annot resolve (?:column|'|`|\")|not in index|[Uu]secols do not match|KeyError: ['\"(]"
         r"|SchemaError|NOT_FOUND: (?:Table|Dataset)|Not found: (?:Table|Dataset|Job)|depends on a (?:node|source) named"
         r"|MISSING_COLUMN|COLUMN_NOT_FOUND|index_not_found|UNKNOWN_TOPIC|is an undefined name|[Nn]o such variable"
         r"|missing (?:required )?(?:\w+ )?columns?|ambiguous column|AMBIGUOUS_REFERENCE"
         r"|is of type \S{1,60}(?: \w+){0,3} but expression|cannot cast|CAST_INVALID_INPUT|already exists"
         r"|[Uu]nexpected columns?|No such (?:struct )?field|Unrecognized name|ParquetDecodingException"
         r"|Parquet column cannot be converted|column cannot be converted|MISSING_TABLE|TableNotFound",
         0.82, "a table, column or type is not as expected"),
    FamilyRule("constraint", "data",
         r"violates (?:\S+ ){0,4}constraint|[Dd]uplicate (?:key|entry)|UNIQUE constraint failed|NOT NULL constraint"
         r"|IntegrityError|ConstraintViolation|value too long for|out of range for type|[Cc]annot insert (?:the value )?NULL"
         r"|ORA-00001|ORA-01400|Data too long|Data truncat|numeric field overflow|foreign key constraint|DUPLICATE_KEY"
         r"|CHECK constraint",
         0.83, "data violate a constraint"),
    FamilyRule("syntax", "syntax",
         r"[Ss]yntax ?[Ee]rror|SyntaxError|IndentationError|TabError|PARSE_SYNTAX_ERROR|ParseException|ParserException"
         r"|mismatched input|unexpected token|JSONDecodeError|JsonParseException|ORA-0093[36]|YAMLError|yaml\.\w+\.\w*Error"
         r"|Expecting (?:value|property|',' delimiter)|parse error|SQL compilation error|unexpected end of file|MalformedJson"
         r"|error parsing|could not parse|TemplateSyntaxError|TemplateAssertionError|Compilation Error|COMPILATION ERROR"
         r"|cannot start any token|mapping values are not allowed"
         r"|expected <block end>|unterminated|Unterminated|Unsupported block type|Invalid HCL|cannot find symbol|\berror: (?:expected "
         r"|.{0,60}(?:undeclared|expected))",
         0.8, "a program, query or document cannot be parsed"),
    FamilyRule("invalid-data", "data",
         r"invalid input (?:syntax|value)|could not convert|invalid literal for|[Cc]ould not convert string"
         r"|NumberFormatException|UnicodeDecodeError|UnicodeEncodeError|codec can't (?:de|en)code|DateTimeParseException"
         r"|does not match format|[Ee]rror tokenizing data|ArrowInvalid|ArithmeticException|ZeroDivisionError"
         r"|[Dd]ivi(?:sion|de) by zero|DIVIDE_BY_ZERO|bad CRC|CRC (?:[Ff]ailed|error)|[Dd]ata [Ii]ntegrity error|validity error"
         r"|not a valid value|[Mm]alformed|validation errors? for|ValidationError|BadRecordException|MALFORMED"
         r"|[Cc]orrupt(?:ed)?\b|invalid byte sequence|[Cc]hecksum (?:mismatch|failed)|BadZipFile|not in gzip format"
         r"|[Uu]nexpected end of (?:ZLIB|JSON|file|stream)|is not a Parquet file|bad magic|bad decrypt|moov atom not found|no start line"
         r"|Hunk #\d+ FAILED|mapper_parsing|invalid (?:date|number|timestamp"
         r"|value|record|row)|Unparseable",
         0.78, "data are not valid"),
    FamilyRule("data-quality", "data",
         r"AssertionError|[Gg]ot [0-9,]+ results?, configured to fail|[Dd]ata ?[Qq]uality|[Ee]xpectations? (?:\S+ )?(?:failed"
         r"|was not met|not met)|assertion (?:[`'].{1,200}[`'] )?failed|Assertion failed"
         r"|\bexpect_(?:column|table|multicolumn|compound|select|query)\w*|, want\b|\[FAILED\]$|^expect\(.{1,100}\)\.|[Vv]alidation (?:has )?failed"
         r"|[Rr]ow count (?:\S+ ){0,3}(?:mismatch|below|differs|too)|[Cc]heck failed|checks? failed|[Tt]oo many (?:bad|invalid"
         r"|rejected|malformed|failed)|test failures?|[0-9]+ failed\b.{0,30}(?:passed|in [0-9])",
         0.75, "a check of data or a test failed"),
    FamilyRule("crash", "crash",
         r"[Ss]egmentation fault|SIGSEGV|SIGABRT|SIGBUS|Bus error|core dumped|Fatal Python error"
         r"|A fatal error has been detected by the Java Runtime|^panic: |goroutine \d+ \[running|panicked at|StackOverflowError"
         r"|RecursionError|Illegal instruction|double free|(?:free|malloc|realloc|munmap_chunk)\(\): |stack smashing detected"
         r"|AddressSanitizer: |runtime error: |Assertion `.{1,200}' failed",
         0.83, "a process crashed"),
    FamilyRule("terminated", "killed",
         r"(?:^|[:\d] |\] )(?:Terminated|Hangup)(?:$| {2,})|SIGTERM|signal 15|Received signal|KeyboardInterrupt|Evicted|evicted"
         r"|[Pp]reempted|spot instance|heartbeat (?:\w+ )?(?:timeout|lost|missing)|Detected zombie|ExecutorLostFailure"
         r"|[Ww]orker (?:was )?lost|node was low on resource|[Ii]nterrupted by|DeadlineExceeded",
         0.7, "a process was ended from outside"),
    FamilyRule("locked", "conflict",
         r"[Dd]eadlock|[Ll]ock wait timeout|could not obtain lock|database is locked|ConcurrentModification|ConcurrentAppend"
         r"|could not serialize access|ConditionalCheckFailed|ConflictException|\b409\b.{0,30}Conflict"
         r"|CommitFailedException|address already in use|Address already in use|EADDRINUSE|BindException|resource busy"
         r"|LockTimeout|failed to get lock|acquiring the state lock|state (?:is )?locked",
         0.8, "others hold a resource"),
    FamilyRule("not-found", "missing",
         r"\b404\b(?: Client Error)?[:,)]? ?(?:Not Found|page)|HTTP\S{0,8} 404\b|status(?: ?code)?[=: ]+404\b|Status Code: 404"
         r"|\(NotFound\)|ResourceNotFoundException|ResourceNotFound|EntityNotFound|NoSuchEntity"
         r"|[Rr]epository (?:\S+ )?not found|manifest (?:\S+ )?(?:unknown|not found)"
         r"|[Ii]mage (?:\S+ )?not found|pull access denied|NotFoundException|could not be found|entity instance for",
         0.78, "what a service is asked for does not exist"),
    FamilyRule("server-error", "server",
         r"\b50[0-4]\b(?: Server Error)?[:,)]? ?(?:Internal Server Error|Bad Gateway|Service Unavailable|Gateway Time-?out"
         r"|Server Error)|HTTP\S{0,8} 50[0-9]\b|status(?: ?code)?[=: ]+50[0-9]\b|Status Code: 50[0-9]|InternalServerError"
         r"|InternalFailure|[Ii]nternal [Ss]erver [Ee]rror|[Bb]ad [Gg]ateway|[Ss]ervice (?:is )?(?:temporarily )?[Uu]navailable"
         r"|ServiceUnavailable",
         0.75, "a service answers with an error of its own"),
    FamilyRule("pod-state", "container",
         r"ImagePullBackOff|ErrImagePull|CrashLoopBackOff|CreateContainerConfigError|InvalidImageName|FailedScheduling"
         r"|Insufficient (?:cpu|memory)",
         0.58, "the state of a container that does not start"),
    FamilyRule("bad-request", "request",
         r"\b400\b(?: Client Error)?[:,)]? ?Bad Request|HTTP\S{0,8} 4[0-9]{2}\b|BadRequestException|[Bb]ad [Rr]equest"
         r"|InvalidRequest|MalformedPolicy|ValidationException|InvalidParameter\w*|InvalidArgument\w*|ParamValidationError"
         r"|\b422\b.{0,30}Unprocessable|An error occurred \(\w+\) when calling",
         0.75, "a service rejects a request"),
    FamilyRule("configuration", "configuration",
         r"unbound variable|parameter (?:null or )?not set|[Ee]nvironment variable \S+ (?:is )?(?:not set|missing|required|undefined"
         r"|not found)|(?:is "
         r"|must be |was |been )(?:required|not set|not configured|undefined)\b|[Mm]issing (?:required )?(?:option|argument"
         r"|parameter|setting|environment|configuration|key|value|variable|property)|[Uu]nrecognized (?:option|argument)"
         r"|unrecognized arguments|[Ii]nvalid (?:option|argument|configuration|choice|value for|setting|parameter)"
         r"|[Uu]nknown (?:option|flag|key|parameter|variable|setting)|[Nn]o value for required variable"
         r"|Invalid maximum heap size|[Uu]nsupported (?:argument|option|Terraform)|Reference to undeclared|[Nn]o (?:such )?(?:profile"
         r"|connection|config)"
         r"|[Cc]ould not find (?:profile|config)|conn_id .{1,100} isn't defined|AirflowNotFoundException"
         r"|the following arguments are required|ConfigException|ConfigurationE(?:rror|xception)|[Cc]onfiguration error"
         r"|Undefined variable|is undefined|Variable \S+ does not exist|Usage: |KeyError: ['\"]?[A-Z][A-Z0-9_]{3,}",
         0.75, "a setting or argument is missing or wrong"),
    FamilyRule("tool-error", "",
         r"^(?:\S{1,60}: )?(?:fatal(?: error)?|FATAL|panic|CRITICAL): \S|^(?:[│╷╵|] *)?Error: \S|^psql:|^ORA-\d{5}"
         r"|^error(?:\[\w+\])?: \S|^ERROR:? {1,3}\S|: (?:\w+ ){0,2}error(?: \w+)? ?: \S| - error \w+: \S|^npm (?:ERR!"
         r"|error) (?!A complete)\S|^(?:Error (?:in|from server|response from daemon)|[A-Z]\w+ [Ee]rror in)\b|^ERROR! \S|^FAILURE \S"
         r"|^failed: \[|^%? ?ERROR: \S|^FATAL: +\S|^[0-9A-F]{6,}:error:[0-9A-F]+:|^\S{1,20} error: \S|^\[?(?:ERROR|FATAL)\]? \S"
         r"|^Msg \d+, Level 1[1-9]|Error response from daemon|^E {3,}\S|^E: \S|^\[E::\w+\] \S|^CONFLICT \(|^e: \S|^PHP (?:Fatal|Parse) error: "
         r"|^(?:\(error\) )?(?:\S{1,40}: |.{1,60} -> )?(?:WRONGTYPE|ERR|MOVED|CLUSTERDOWN|CROSSSLOT|LOADING|READONLY|MISCONF|NOSCRIPT"
         r"|EXECABORT) [A-Za-z]|^ ?! \[(?:remote )?rejected\]"
         r"|^error - |^(?:curl|rsync"
         r"|tar|cp|mv|rm|ls|cat|mkdir|scp"
         r"|ssh|wget|aws|gsutil|az|sed|awk|grep|sort|unzip|gzip|jq|sqlplus|mysql|pg_dump|pg_restore|dbt|git|docker|kubectl|helm"
         r"|python[0-9.]*|java|node|bash|sh|spark-submit|find|chmod|chown|ln|dd|mount|umount|psql|lua[0-9.]*|ruby|perl|php|tclsh|Rscript|redis-cli"
         r"|redis-server|nginx|[gm]awk|openssl|gpg|zstd|xz|bzip2|gunzip|cmake|ninja|rclone|sudo|su|touch|tee|head"
         r"|tail|cut|join|paste|split|uniq|wc|xargs|diff|patch|install|stat|du|df|kill|ping|nc|sqlite3|xmllint|pdftotext|ffmpeg|convert|bq|gcloud"
         r"|vault): (?!line \d+: *$)\S|^(?:Uncaught"
         r"|Unhandled) (?:[Ee]xception|error|rejection)|^FAILED: |^> (?:Could not|A problem|Cannot)|\[[Ee]rror/|^[0-9]+:[0-9]+ +error +\S"
         r"|^[^\s:]{1,200}\.\w{1,5}:[0-9]+:[0-9]+: (?!note|warning|info|style)\S|.\bat \S{1,200} line [0-9]+(?:, <\S{0,20}> (?:line"
         r"|chunk) [0-9]+)?\.$"
         r"|^\S{1,200}: line \d+: \S",
         0.62, "the message of a program of the command line"),
    FamilyRule("exception-line", "",
         r"^(?:[A-Za-z_][\w$]*+\.)*+[A-Za-z_$][\w$]*(?:Error|Exception|Exit|Interrupt|Failure|Fault|Warning)(?:: \S|$)"
         r"|^(?:[A-Za-z_][\w$]*+\.)++(?:Failure|Error|Exception|Fault): \S|^Exception in thread \S{1,200} \S|^Fatal error: exception \S"
         r"|^\*\* \([A-Z][\w.]*\) \S|:\d+:in .{1,300} \((?:[A-Z]\w*::)*[A-Z]\w*\)$",
         0.62, "an exception without a stack trace"),
    FamilyRule("failure-word", "",
         r"(?i:\b(?:cannot|can't|could not|couldn't|unable to|failed to|failure:|failed:|error:|error while|error in"
         r"|error (?:reading|writing|loading|executing|processing|creating)|exceeded|not found|does not exist|missing"
         r"|unexpected|invalid|refused|denied|unsupported|illegal|aborted|corrupt|unreachable|not allowed|too many|too large"
         r"|rejected|undefined|mismatch|violat|no such))",
         0.45, "words of a failure"),
)  # fmt: skip
