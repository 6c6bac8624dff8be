"""Lines that report a failure without its cause: wrappers, consequences, retries, and sentences without details."""

from __future__ import annotations

import re

_JAVA_WRAPPERS = (
    "InvocationTargetException|ExecutionException|UndeclaredThrowable(?:Exception)?|CompletionException|PrivilegedActionException"
    "|ExceptionInInitializerError|Py4JJavaError|Py4JError|Py4JNetworkError|RemoteTraceback|UncheckedExecutionException|WrappedException"
    "|ServletException|UncheckedIOException|NestedServletException|UnhandledException"
)
WRAPPING_EXCEPTION = re.compile(
    rf"[:\s]*+(?:Caused by: )?(?:Exception in thread .{{0,100}} )?(?:[\w$]++\.)*+(?:(?:{_JAVA_WRAPPERS})\b(?!: +[a-z].* [a-z]|: Exception )"
    r"|RuntimeException: (?:[a-z]\w*+\.)++\w+(?:Exception|Error)\b"
    r"|NoClassDefFoundError: Could not initialize class|PodLaunchFailedException"
    r"|SparkException: (?:Job aborted\.?|Writing job aborted\.?|Task failed while writing rows\.?[^:]*+|\[TASK_WRITE_FAILED\].*+"
    r"|\[WRITING_JOB_ABORTED\].*+|Exception thrown in awaitResult:?|Job [0-9]+ cancelled.*+|Application \S+ finished with failed status)\s*$"
    r"|PythonException:?\s*$|Exception: ?$|(?:Base)?ExceptionGroup: |SystemExit\b|CalledProcessError\b"
    r"|AirflowException: (?:Bash command failed|Dag '|Cannot execute|Pod |Job |SSH |.{0,200}(?:[Ee]rror code is|exit code|returned a failure))"
    r"|SourceConnectionException: Failed to run|WorkflowExecutionError: .{0,200}reported errors)"
)  # fmt: skip
"""Exceptions that only carry another one."""
WRAPPER = re.compile(
    r"(?:An exception was thrown from (?:the Python worker|a UDF)"
    r"|^-+ End of (?:inner|stack)|One or more errors occurred"
    r"|Task failed with exception|Task failed with error|Marking task as|Task exited with return code|Bash command failed"
    r"|returned (?:a )?non-?zero (?:exit )?(?:code|status)|non-zero exit (?:code|status)"
    r"|[Cc]ommand (?:exited|returned|failed|terminated|.{0,400}failed) (?:with )?(?:exit |return )?(?:code|status|value)?:? ?-?[0-9]+"
    r"|\b(?:exited|exit|exits|finished|failed|completed|terminated|ended|returned)(?: \w+)?:? (?:with|due to) (?:an? )?(?:non-?zero )?"
    r"(?:exit|return|status|error|result) ?(?:code|status|value)?:? ?\(?-?[0-9x]+(?! and )"
    r"|\b(?:exit|return)(?:ed)? ?(?:code|status|value)s?\b ?[=:]? ?-?[0-9]+|\bexitCode[=:] ?[0-9]+|\(exit [0-9]+\)|[Ee]xiting with [0-9]+$"
    r"|^(?:g?make|make\[[0-9]+\]|gmake|ninja): (?:\*\*\* (?:\[|Waiting)|Target .{1,400} not remade)"
    r"|^ninja: build stopped|rsync error: |^(?:\w+: )?Error is not recoverable"
    r"|Exiting with failure status"
    r"|##\[error\]Process completed|Process completed with exit code|ELIFECYCLE|A complete log of this run|npm (?:ERR!|error)\s*$"
    r"|npm (?:ERR!|error) (?:code \w+|errno|path |command |syscall|A complete log|Lifecycle script|workspace "
    r"|location |in workspace|aliases: |Usage:|Options:|Run \"|To see a list)"
    r"|error: subprocess-exited-with-error|metadata-generation-failed|note: This error originates|^See above for output"
    r"|error: command .* failed with exit"
    r"|Failed to execute goal(?!.{0,300}(?:[Cc]ould not|[Cc]annot) )|BUILD FAIL(?:URE|ED)|re-run Maven|\[Help [0-9]+\]"
    r"|FAILURE: Build failed with an exception"
    r"|Execution failed for task|Compilation failed; see"
    r"|Done\. PASS=|Completed with [0-9]+ error|Encountered an error:?\s*$|^Failure in (?:test|unit_test) \S+"
    r"|[0-9]+ of [0-9]+ (?:ERROR(?! STALE)|FAIL)\b|dbt command failed"
    r"|^(?:Database|Compilation|Runtime|Parsing) Error(?: in .*)?\s*$"
    r"|Workflow terminated with uncaught exception|Workflow finished with failures|^Workflow Success %"
    r"|Fatal error running step \[[^\]]{0,100}\]:?\s*$"
    r"|The above exception was|During handling of the above|Traceback \(most recent call last\):?$|^Driver stacktrace|JVM stacktrace"
    r"|current transaction is aborted|failed [0-9]+ times; aborting job|externally set to failed|Failed to load plugin"
    r"|Use --stacktrace|^_{3,} .{1,200} _{3,}$|^[\w./-]+\.py:\d+: \w+$|^[0-9]+ (?:failed|errors?)\b.{0,60} in [0-9.]+s\b|^(?:ERROR|FAILED) \S+::\S+$"
    r"|ImportError while loading conftest|Error while importing test module|most recent call first"
    r"|[Ff]inished with errors?\b|Script (?:failed|terminated)|Flow run encountered|Finished in state Failed|Task run encountered an exception"
    r"|Pod .* returned a failure|error: executable .* exited|Container .* exited|failed to create (?:task|shim|container)(?!.*: )"
    r"|did not complete successfully|^Error encountered in \S+$|failed: non-zero return code$|JAVA_GATEWAY_EXITED|^-- Configuring incomplete"
    r"|\bNo files to upload$|No test report files were found|\b[Ww]orkers? failed to (?:boot|start)\b|^Shutting down: \w+$"
    r"|^[\w.:/-]{1,40}(?: [\w.-]{1,20})?: (?:status|exit|rc|code)\W{0,3}\d{1,3}$"
    r"|error: Recipe|error: script|ld returned [0-9]+ exit status|linker command failed|^Automatic merge failed"
    r"|^FAILED: (?:\[code=\d+\] )?[^\s:]+\s*$|\bThis job failed:$|\bhook declined\)$"
    r"|^Execution halted|Task attempt \S+ aborted|Exception in task [0-9.]+ in stage|Block run completed"
    r"|[0-9]+ (?:out )?of [0-9]+ \w+(?: \w+)? failed$|invocation could not be completed"
    r"|aborting due to [0-9]+ previous|could not compile `|^\[?error\]? \([^()]{1,200}\) "
    r"|\b(?:failed|exited|finished|ended|terminated) with (?:code|status|rc)[ :=]*-?[0-9]+\.?$"
    r"|failed to push some refs|Error: (?:Resource (?:pre|post)condition failed|Check block assertion failed|Invalid value for variable)$"
    r"|test failed, to rerun pass|resulted in (?:a )?failure\b|\bExecution of (?:run|step)(?: for)? \S+ failed|\bDependencies for step \S+ failed"
    r"|^(?:=+ |Tests?:? +|Test (?:Suites|Files):? +).{0,80}[0-9]+ (?:failed|errors?)\b"
    r"|\bFound [0-9]+ (?:\w+ )?(?:errors?|dependenc|problems?|issues?)"
    r"|[Ss]ee (?:the )?(?:logs?|output|above|stderr"
    r"|details)\b|^(?:Error|ERROR|error|FATAL|Exception"
    r"|Failed|FAILED|FAILURE|Failure|fatal error|\[ERROR\])[:.!]?\s*$|^[0-9]+ tests?, [0-9]+ passed)"
)  # fmt: skip
"""Never a cause by itself."""
CONSEQUENCE = re.compile(
    r"(?:Exception ignored in|Error in atexit|--- Logging error ---|exception was never retrieved|future: <(?:Task|Future)"
    r"|shutdown[- ]hook|ShutdownHook"
    r"|[Bb]roken ?pipe|CancelledError|InterruptedException|KeyboardInterrupt\b|[Cc]leanup|[Cc]leaning up|[Rr]oll(?:ing"
    r"|ed)? ?back|while (?:closing|stopping|shutting)"
    r"|(?:[Ee]rror|[Ff]ailed|[Ee]xception|[Uu]nable|[Cc]ould not|[Cc]annot|[Cc]an't)(?: \w+){0,3}? (?:to )?(?:clos(?:e|ing)|stop|stopping|delet(?:e"
    r"|ing)"
    r"|remov(?:e|ing)|unlock|unmount|releas(?:ing|e (?:the|its|lock))|disconnect|shut)"
    r"|\b(?:unlink|rmdir|rmtree)\b|[Cc]onnection (?:is )?(?:already )?closed|[Ss]kipping (?:due to|because)|[Ss]kipped due|upstream_failed"
    r"|depends_on_past"
    r"|after (?:stage|job|task) (?:was )?cancelled|SparkContext (?:was|has been) (?:shut ?down|stopped)"
    r"|SparkContext was shut down|because SparkContext|Could not find CoarseGrainedScheduler"
    r"|LiveListenerBus|AsyncEventQueue|Error (?:sending|posting) (?:result|message)|ConnectionResetError.{0,80}(?:teardown"
    r"|close)|TransportClient|RpcOutboxMessage"
    r"|\bwas (?:interrupted|cancell?ed)\b|[Uu]nclosed |\bkill: .{0,60}No such process|ResourceWarning|coroutine .* was never awaited"
    r"|[Cc]ouldn't delete|on_failure_callback|failure callback"
    r"|send(?:ing)? (?:alert|notification|metrics|telemetry)|telemetry"
    r"|^Removing .{1,100} of failed|^SLF4J: |^log4j:|\b[Aa]ppender\b|TaskKilled|Stage cancelled|task (?:was )?killed|another attempt succeeded)"
)
"""What follows a failure, or does not end a run."""
SIDE_REPORT = re.compile(
    r"(?i:^\W{0,4}(?:\w+: )?(?:send|mail|tell|inform|notify|post|page|announc)(?:ing|ed|s)? (?:\w+ ){0,3}(?:to|by) |\b(?:comment|ticket|chat)\b)|"
    r"(?:[Cc]ould not|[Cc]annot|[Cc]an't|[Ff]ailed to|[Uu]nable to) (?:report|notify|post|announce) (?:the )?(?:run|status|result|failure|outcome"
    r"|team"
    r"|channel|scheduler|job)\b|(?:[Cc]ould not|[Cc]annot|[Ff]ailed to|[Uu]nable to|not) (?:notify|notified|alert|page) "
)
"""The report of a run's end that does not arrive."""
_SIDES = (
    r"(?:metrics?|telemetry|lineage|data ?hub|spans?|traces?|tracing|audit|notifications?|digest|web ?hooks?|e-?mails?|alerts?|warm-?up"
    r"|health[ -]?checks?"
    r"|usage statistics|event ?log|profiles?|dashboard|samples|gauges|counters)"
)
SIDE = re.compile(
    rf"\b(?:push|send|sent|emit|export|flush|report|publish|post|deliver|ship|record|writ)\w{{0,5}}\b.{{0,40}}\b{_SIDES}\b"
    rf"|\b{_SIDES}\b.{{0,20}}\b(?:could not|cannot|failed|unreachable|timed out|was not|is not writable|answered)\b"
    r"|\b(?:statsd|graphite|push ?gateway|datadog|open ?lineage|sentry|open ?telemetry|otel|otlp|heart[ -]?beats?|keep[ -]?alive|slack|pager ?duty"
    r"|smtp"
    r"|update check|spark ?ui|autoscal\w+|filebeat|fluent-?(?:bit|d)|envoy|istio\S*|sidecar|token renewal|renewal of (?:\w+ )?token)\b"
    r"|MetricsSystem|Reporter\b",
    re.IGNORECASE,
)
"""Messages on what a run does beside its work, and goes on without."""
SIDE_SOURCE = re.compile(
    r"metric|telemetry|statsd|graphite|prometheus|datadog|lineage|datahub|sentry|otel|tracing|tracer|heart[-_]?beat|keep[-_]?alive|health|audit|notif"
    r"|slack|webhook|e?mail|smtp|alert|pager|warm|ntp|renew|analytics|profil|autoscal|filebeat|fluent|listener|prob(?:e|ing)|trac(?:er|ker)"
    r"|beacon|\bhook\b|\bapm\b|\bping\b|reporter|\busage\b|agent|sampler|keeper|shipper|exporter|poll(?:er|ing)|watch(?:er)?\b|proxy"
    r"|harvest|envoy|istio|sidecar|watchdog|flags?$",
    re.IGNORECASE,
)
"""Loggers and containers of such activities."""
COUNT = re.compile(
    r"\b[0-9]+ (?:\w+(?:\(s\))?[ -]){0,2}?(?:errors?|failures?|problems?|issues?|failed|failing|unsuccessful)\b(?!: )"
    r"|\b(?:errors|failures|failed|problems)\b[ :=(]+[0-9]+(?=\s*(?:$|[,;).|]))|^\W*[0-9]+ \w+(?:, [0-9]+ \w+)+\W*$"
    r"|\b[0-9]+ (?:of|out of|/) [0-9]+ (?:\w+ ){0,3}?(?:not|fail\w*|errors?|reject\w*|abort\w*|miss\w*)\b|\bwith errors?\b"
    r"|\b(?:some|several|not all) \w+(?: \w+)? (?:were|was|have|has|could|are|did|failed)\b|\berrors? (?:above|occurred)\b"
    r"|\b[0-9]+ (?:\w+ )?(?:checked|processed|read|validated|total|passed|ok|loaded|written)\b.{0,30}\b[0-9]+ (?:invalid|bad|rejected"
    r"|skipped|missing)\b"
    r"|\(pre-receive hook declined\)$",
    re.IGNORECASE,
)
"""A message that counts failures or sums them up."""
TEST_DETAIL = re.compile(
    r"^E {3,}\S|^not ok \d+(?!.*# (?:TODO|SKIP))"
    r"|AssertionError\b|AssertionFailedError|^expect\(|^Expected\b|\bexpected:? .{1,200}(?:but (?:was|got)|received)"
    r"|_test\.go:[0-9]+: .{0,200}\b(?:want|got|expected|unexpected|error|fail|should|not)"
    r"|^assertion `|panicked at '|^ASSERT FAILED|ComparisonFailure|^FAILED \S+::\S+ - \S"
)
"""What a test framework says of a failed test."""
ADVICE = re.compile(
    r"(?:\S{1,40}: )?(?:hint|help|tip|usage|try|see(?: also)?|to fix|to see|to get|for (?:more|further|details|help)|did you mean|re-?run|run with"
    r"|use (?:the |--)"
    r"|if you|if the|consider|make sure|please (?:see|refer|read|check|visit)|you (?:can|may|might|should|need)|maybe you|perhaps you"
    r"|https?://)\b(?!.{0,300}\b(?:error|exception): )|.{0,200}\bfor (?:more |further )?(?:help|information|details|documentation)\b",
    re.IGNORECASE,
)
"""What a program advises."""
COMMAND = re.compile(
    r"\$ \S|[a-z][\w./-]{0,40} (?:\S{1,60} ){0,2}?-{1,2}[a-zA-Z]|[a-z][\w./-]{0,40} .{0,200}?(?:&& |\|\| | >{1,2} ?[\w./-]|2>&1|\$[({\w]|\| \w+ )"
)
"""The echo of a command that make, a runner or a scheduler is about to run."""
STRICT = re.compile(
    r"\bwarnings?\b.{0,40}\b(?:as errors?|strict|abort\w*|fail\w*|not allowed|too many)\b|(?:abort|fail|problem)\w* .{0,30}[1-9]\d* warnings?\b",
    re.IGNORECASE,
)
"""The end of a run that counts warnings as errors."""
CONCLUSION = re.compile(
    r"^still (?:\w+ ){0,2}not\b|\b(?:giving up|gave up|aborting|exiting|bailing out|terminating|stopping)\b", re.IGNORECASE
)
"""Records of a run's own decision to end: what it gave up for stands before, if they don't say it."""
SPECIFIC = re.compile(r"(?:\S+ ){5}\S|[\d,:'\"`=/()«»‘“]")
"""What messages have that say more than that something failed."""
LAST_WORDS = re.compile(r"ERROR \d{1,5} \(\w{5}\) at line \d+: ")
"""Messages with which a program ends. What it had printed before may follow: where its output is no terminal, that waits in a buffer."""
LAST_COMMAND = re.compile(r"\++ \S")
"""A command that a shell traces before it runs it. Nothing after it: it failed without a message."""
BAD_NEWS = re.compile(
    r"\b(?:bad|wrong|not|no|never|empty|only|refus(?:es|ed|ing)|too|without|lost|less|more|unknown|expected|instead)\b",
    re.IGNORECASE,
)
"""Words that lines without any word of a failure use for one."""
MILD = re.compile(
    r"^Use of uninitialized value |^Argument \".{0,100}\" isn't numeric |^(?:[\w./-]{1,100}(?::[0-9]+){0,2}: |PHP )?(?:[Ww]arn(?:ing|ung)"
    r"|[Nn]otice|[Dd]eprecated|[Aa]vertissement|[Aa]dvertencia|[Aa]viso|[Aa]ttenzione"
    r"|[Ww]aarschuwing|[Oo]strzeżenie|[Пп]редупреждение|警告|경고) ?[:：] ?|\[[Ww]arning[]/]|^(?:\S{1,200}:)?[0-9]+:[0-9]+:? +[Ww]arning\b"
)
"""Messages of programs that go on."""
CLEANING = re.compile(
    r"(?:\W*+\w[\w.-]*+\W++){0,2}?(?:clean(?:ing|ed|s)?(?:[ -]?up)?|roll(?:ing|ed|s)? ?back|shut(?:ting|s)? ?down|stop(?:s|ping|ped)?|clos(?:ing"
    r"|ed)|exit(?:ing|ed)?"
    r"|tear(?:ing)? ?down|remov(?:ing|ed)|delet(?:ing|ed)|unmount(?:ing|ed)?|releas(?:ing|ed)|abort(?:ing|ed)?|terminat(?:ing|ed)|disconnect(?:ing"
    r"|ed)"
    r"|upload(?:ing|ed|s)? (?:\w+ ){0,2}(?:logs?|artifacts?|reports?)|post[ -](?:job|run|actions?)|after_script|saving cache)\b",
    re.IGNORECASE,
)
"""The begin of a message on what runs do after they failed, and not only then."""
RETRY = re.compile(
    r"(?:(?<!to )[Rr]etry(?:ing)?\b|[Rr]etries (?:left|remaining)|[Tt]rying again|[Ww]ill (?:be )?retr(?:y|ied)"
    r"|[Aa]ttempt [0-9]+ ?(?:of|/) ?[0-9]+|[Rr]econnecting"
    r"|\b\w+ed again\b|[Nn]ext try|[Ff]alling back|[Ii]gnor(?:ing|ed)\b|(?<!before )[Cc]ontinuing"
    r"|skipp(?:ing|ed)\b|[Dd]eprecat|non-fatal|partial parsing|Starting full |recovered)"
)
"""A failure that the run answers itself."""
NO_ERROR = re.compile(
    r"(?:\b(?:0|[Nn]o|without(?: any)?) (?:\w+ )?(?:errors?|failures?|failed|exceptions?)\b|\b(?:errors?|failures?|failed"
    r"|exceptions?|fail|error_count|num_errors)\"?\s*+[=:]\s*+\"?(?:0(?![.0-9])|null|None|false|\[\]|\"\")"
    r"|\[PASS(?:ED)?\]|(?i:errors?) (?:rate|count|log|handler|policy)[ :=]+0|\b(?:fail_?)?[Oo]n_?[Ee]rrors?\s*[=:]|set -e|[Ee]rror [Rr]ate: 0"
    r"|Success %|: (?:ok|OK|passed|PASSED|done|success)\W*$)", re.ASCII,
)  # fmt: skip
GENERIC = re.compile(
    r"(?:\W*(?:an? |the |this |your |some )?(?:[\w'\".:/-]+ ){0,5}?(?:sub-?)?(?:job|task|pipeline|workflow|step|process|build|run|script"
    r"|stage|flow|ingestion|operation|program|"
    r"execution|import|export|loader|extractor|sync|load|etl|dag|test|tests|deployment|command|validation|checks?|backup"
    r"|migration|query|request|application|container)s?(?: [\w'\".:/-]+){0,3}?"
    r" (?:has |have |was |were |is )?(?:failed|failing|aborted|aborting|cancell?ed|terminated|unsuccessful|exited|finished with (?:errors?"
    r"|failures?)|errored|killed|stopped|crashed)"
    r"(?: (?:after|in) [\w.:]+(?: \w+)?| with errors?| unexpectedly| abnormally| to (?:start|finish|complete|run))?\W*"
    r"|\W*(?:an )?(?:unexpected |unknown |internal |fatal |unhandled )?(?:error|exception"
    r"|failure)s?(?: (?:has )?occurr?ed)?(?: (?:while|during|in) [\w ]{1,40})?\W*"
    r"|\W*(?:exiting|aborting|aborted|giving up|terminating|stopping|failed|terminated|quitting)(?: [\w ]{1,30})?\W*"
    r"|(?:error|failed|failure) (?:on|at|in|near) line [0-9]+\W*"
    r"|(?!.{0,120}Reason: ).{0,120}? (?-i:FAILED)\W*|FAILED [^-:]{0,120})", re.IGNORECASE,
)  # fmt: skip
"""Whole sentences that state only that something failed."""
TRIVIAL = re.compile(
    r"(?:[\w.]*\.)?(?:KeyError|IndexError|AttributeError|StopIteration|StopAsyncIteration|LookupError|ModuleNotFoundError"
    r"|ImportError|CancelledError|Empty|Full"
    r"|BlockingIOError|NotImplementedError|DoesNotExist|NoResultFound|GeneratorExit)\b|[\w.]+:?\s*$"
)
"""Exceptions that programs often handle with another, which then says more."""
WEAK_CAUSE = re.compile(
    r"(?:[\w$]++\.)*+(?:EOFException|(?:Asynchronous)?Clos(?:ed|e)\w*Exception|InterruptedException|CancellationException)\s*$"
)
"""What does not replace an exception that it caused: it says less."""
VAGUE_EXCEPTION = re.compile(
    r"(?:[\w$]++\.)*+(?:RuntimeError|RuntimeException|Exception|IllegalStateException|SystemError)(?:: |$)"
)
"""Exceptions that programs raise after they have reported the cause."""
NAMED_EXCEPTION = re.compile(r"(?:Exception|Error|Throwable|Failure|Fault|Rejection)\b|^[A-Z]\w*: ")
"""A message that names an exception."""
EXIT_SIGNAL = re.compile(
    r"\b(?:code|status|exitCode)[:=]? ?\(?(?:137|139|134|143|-9|-11|-6|-15)(?![0-9])|^Aborted(?: \(core dumped\))?$"
    r"|\b(?:[Kk]illed|terminated|died|crashed|ended|exited|failed) (?:by|with|due to|on) (?:signal\b|<?Signals\.|\"?SIG[A-Z])"
)
"""The report of an exit by a signal: the cause, if nothing else is known."""
CONTEXT = re.compile(
    r"(?:\S{1,200}:\d+: |\[\d{1,9}-\d{1,3}\] )?"
    r"(?:DETAIL|HINT|CONTEXT|STATEMENT|QUERY|LINE \d+|LOCATION|NOTICE|NOTE|[Nn]ote|[Hh]int|help|[Dd]etails?(?! = )"
    r"|PL/\S+ function|COPY \w+, line|File \"|at (?=\S*[(:/.<])|"
    r"\^|::(?:end)?group::|In file included|\(Background on this error|\[SQL|\[parameters)\b|\++ [a-z./]|\d+ ?\| |\d+ {3,}|[ℹ•] "
    r"|│\s+(?:status code: \d|on |with |\d+: )|-{4} \S+ stdout -{4}$"
    r"|(?:from )?\S+:\d+:in [`'][^'\n]*'$|\[signal |goroutine \d|exit status \d"
    r"|raise [A-Za-z_]|=== (?:RUN|PAUSE|CONT) |> Task :|make(?:\[\d+\])?: (?:Entering|Leaving) |.{0,100}\braise [A-Z]\w*\("
    r"|Picked up [A-Z_]+: |[a-z]\w{1,20}: '[^']{1,200}',?$"
    r"|[-=~^+|*#\s]+$"
)
"""Lines that accompany the message of a failure."""
CLEANUP = re.compile(
    rb", in (?:__a?exit__|__del__|a?close|_?clean_?up\w*|rollback|tear_?down\w*|shutdown|_?finalize\w*|terminate|dispose)\r?\n"
)
"""Frames of a clean-up."""
EXIT_REPORTS = (
    b"exit code",
    b"exit status",
    b"exit with",
    b"exited",
    b"return code",
    b"non-zero",
    b"nonzero",
    b": *** [",
    b"build stopped",
)
"""Words, in lowercase, after the output of a command that failed."""


_LEVEL = re.compile(r"^(?:ERROR|CRITICAL|FATAL) ")


def is_wrapper(text: str) -> bool:
    """Whether a message carries no cause by itself."""
    return WRAPPING_EXCEPTION.match(text) is not None or (WRAPPER.search(text) is not None and "OOMKilled" not in text)


def is_generic(text: str) -> bool:
    """Whether a message states only that something failed."""
    return GENERIC.fullmatch(_LEVEL.sub("", text).replace("_", " ")) is not None
