"""Small logs of failed runs, written for the rules' tests. The lines that explain the failure begin with ``»``."""

TEXTS = {
    # Python
    "direct cause": ("missing", r"""
2026-11-21 03:12:45,123 - load - INFO - reading /data/in.csv
Traceback (most recent call last):
  File "/opt/app/load.py", line 3, in read
    return open(path)
»FileNotFoundError: [Errno 2] No such file or directory: '/data/in.csv'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/opt/app/load.py", line 9, in <module>
    main()
RuntimeError: load failed"""),
    "handled key error": ("", r"""
Traceback (most recent call last):
  File "/opt/app/load.py", line 3, in setting
    return settings[name]
KeyError: 'bucket'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/opt/app/load.py", line 5, in <module>
    raise SettingsError(f"add the bucket to {path}")
»__main__.SettingsError: add the bucket to /etc/load.toml"""),
    "clean-up": ("", r"""
Traceback (most recent call last):
  File "/opt/app/load.py", line 3, in <module>
    rows[name]
»IndexError: list index out of range

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/opt/app/load.py", line 5, in __exit__
    self.connection.close()
OSError: [Errno 9] Bad file descriptor"""),
    "exception ignored": ("data", r"""
Traceback (most recent call last):
  File "/opt/app/load.py", line 3, in <module>
    int("x")
»ValueError: invalid literal for int() with base 10: 'x'
Exception ignored in: <function Pool.__del__ at 0x7f0>
Traceback (most recent call last):
  File "/usr/lib/python3.11/multiprocessing/pool.py", line 271, in __del__
    self._change_notifier.put(None)
AttributeError: 'NoneType' object has no attribute 'put'"""),
    "syntax error": ("syntax", r"""
  File "/opt/app/load.py", line 3
    print("x"
         ^
»SyntaxError: '(' was never closed"""),
    "traceback in records of Airflow": ("missing", r"""
[2026-11-21T03:12:45.123+0000] {subprocess.py:93} INFO - Traceback (most recent call last):
[2026-11-21T03:12:45.124+0000] {subprocess.py:93} INFO -   File "/opt/app/load.py", line 1, in <module>
[2026-11-21T03:12:45.124+0000] {subprocess.py:93} INFO -     open("/data/x")
»[2026-11-21T03:12:45.124+0000] {subprocess.py:93} INFO - FileNotFoundError: [Errno 2] No such file or directory: '/data/x'
[2026-11-21T03:12:45.224+0000] {subprocess.py:97} INFO - Command exited with return code 1
[2026-11-21T03:12:45.324+0000] {taskinstance.py:2890} ERROR - Task failed with exception
Traceback (most recent call last):
  File "/opt/airflow/lib/python3.11/site-packages/airflow/models/taskinstance.py", line 465, in _execute_task
    result = _execute_callable(context=context, **execute_callable_kwargs)
  File "/opt/airflow/lib/python3.11/site-packages/airflow/operators/bash.py", line 243, in execute
    raise AirflowException(
airflow.exceptions.AirflowException: Bash command failed. The command returned a non-zero exit code 1.
[2026-11-21T03:12:45.424+0000] {taskinstance.py:1206} INFO - Marking task as FAILED. dag_id=load, task_id=load
[2026-11-21T03:12:45.524+0000] {local_task_job_runner.py:240} INFO - Task exited with return code 1"""),
    "bash in Airflow": ("missing", r"""
[2026-11-21T03:12:45.123+0000] {subprocess.py:86} INFO - Output:
[2026-11-21T03:12:45.123+0000] {subprocess.py:93} INFO - starting
»[2026-11-21T03:12:45.124+0000] {subprocess.py:93} INFO - bash: line 2: dbtt: command not found
[2026-11-21T03:12:45.224+0000] {subprocess.py:97} INFO - Command exited with return code 127
[2026-11-21T03:12:45.324+0000] {taskinstance.py:2890} ERROR - Task failed with exception
Traceback (most recent call last):
  File "/opt/airflow/bash.py", line 243, in execute
    raise AirflowException(
airflow.exceptions.AirflowException: Bash command failed. The command returned a non-zero exit code 127.
[2026-11-21T03:12:45.424+0000] {taskinstance.py:1206} INFO - Marking task as FAILED. dag_id=load, task_id=load"""),
    "unknown output in Airflow": ("", r"""
[2026-11-21T03:12:45.123+0000] {subprocess.py:93} INFO - starting
»[2026-11-21T03:12:45.124+0000] {subprocess.py:93} INFO - the ledger of 2026-11-20 is still open
[2026-11-21T03:12:45.224+0000] {subprocess.py:97} INFO - Command exited with return code 1
[2026-11-21T03:12:45.324+0000] {taskinstance.py:2890} ERROR - Task failed with exception
Traceback (most recent call last):
  File "/opt/airflow/bash.py", line 243, in execute
    raise AirflowException(
airflow.exceptions.AirflowException: Bash command failed. The command returned a non-zero exit code 1.
[2026-11-21T03:12:45.424+0000] {taskinstance.py:1206} INFO - Marking task as FAILED. dag_id=load, task_id=load"""),
    "Airflow 3 in JSON": ("data", r"""
{"timestamp":"2026-11-21T03:12:45Z","level":"info","event":"DAG bundles loaded: dags","logger":"airflow.dag_processing.bundles.manager"}
»{"timestamp":"2026-11-21T03:12:46Z","level":"error","event":"Task failed with exception","logger":"task","error_detail":[{"exc_type":"ZeroDivisionError","exc_value":"division by zero","frames":[]}]}
{"timestamp":"2026-11-21T03:12:46Z","level":"info","event":"Task instance in failure state","logger":"task"}"""),
    "logged with its trace": ("network", r"""
2026-11-21 03:12:45,123 - load - ERROR - cannot load
Traceback (most recent call last):
  File "/opt/app/load.py", line 3, in <module>
    connect()
»ConnectionRefusedError: [Errno 111] Connection refused
2026-11-21 03:12:45,323 - load - INFO - closing files
2026-11-21 03:12:45,423 - load - ERROR - load failed"""),
    "multiprocessing": ("data", r'''
multiprocessing.pool.RemoteTraceback: 
"""
Traceback (most recent call last):
  File "/usr/lib/python3.11/multiprocessing/pool.py", line 125, in worker
    result = (True, func(*args, **kwds))
»ValueError: could not convert string to float: 'n/a'
"""

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/opt/app/load.py", line 9, in <module>
    pool.map(f, rows)
»ValueError: could not convert string to float: 'n/a' '''),
    "drawn by rich": ("data", r"""
╭───────────────────── Traceback (most recent call last) ──────────────────────╮
│ /opt/app/load.py:3 in <module>                                               │
│ ❱ 3     int("x")                                                             │
╰──────────────────────────────────────────────────────────────────────────────╯
»ValueError: invalid literal for int() with base 10: 'x'"""),
    "pytest": ("data", r"""
collected 2 items
tests/test_load.py .F                                                    [100%]
=================================== FAILURES ===================================
    def test_rows():
>       assert rows() == 3
»E       AssertionError: assert 2 == 3
tests/test_load.py:4: AssertionError
=========================== short test summary info ============================
»FAILED tests/test_load.py::test_rows - AssertionError: assert 2 == 3
========================= 1 failed, 1 passed in 0.12s =========================="""),
    # Java
    "deepest cause": ("network", r"""
2026-11-21 03:12:45,123 ERROR [main] com.example.Loader: load failed
java.lang.RuntimeException: cannot load orders
	at com.example.Loader.load(Loader.java:12)
	at com.example.Loader.main(Loader.java:5)
Caused by: java.util.concurrent.ExecutionException: java.net.ConnectException: Connection refused
	at java.base/java.util.concurrent.FutureTask.report(FutureTask.java:122)
	... 2 more
»Caused by: java.net.ConnectException: Connection refused
	at java.base/sun.nio.ch.Net.pollConnect(Native Method)
	... 3 more"""),
    "message of several lines": ("schema", r"""
Exception in thread "main" org.springframework.jdbc.BadSqlGrammarException: bad SQL grammar
	at org.springframework.jdbc.Foo.translate(Foo.java:12)
»Caused by: org.postgresql.util.PSQLException: ERROR: relation "orders" does not exist
  Position: 15
	at org.postgresql.core.v3.QueryExecutorImpl.receiveErrorResponse(QueryExecutorImpl.java:2725)
	... 5 more"""),
    "lost task": ("data", r"""
26/11/21 03:12:40 WARN TaskSetManager: Lost task 0.0 in stage 1.0 (TID 1) (host-1 executor 1): java.lang.ArithmeticException: / by zero
	at com.example.Job$.f(Job.scala:3)

26/11/21 03:12:45 ERROR TaskSetManager: Task 0 in stage 1.0 failed 4 times; aborting job
»Exception in thread "main" org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3 in stage 1.0 (TID 7) (host-1 executor 1): java.lang.ArithmeticException: / by zero
	at com.example.Job$.f(Job.scala:3)
Driver stacktrace:
	at org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2856)
»Caused by: java.lang.ArithmeticException: / by zero
	at com.example.Job$.f(Job.scala:3)
26/11/21 03:12:45 INFO SparkContext: Invoking stop() from shutdown hook
26/11/21 03:12:45 INFO ShutdownHookManager: Shutdown hook called"""),
    "Python in Spark": ("data", r"""
26/11/21 03:12:45 ERROR Executor: Exception in task 0.0 in stage 0.0 (TID 0)
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1247, in main
    process()
»ZeroDivisionError: division by zero

	at org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:572)
	at java.base/java.lang.Thread.run(Thread.java:840)
26/11/21 03:12:45 ERROR TaskSetManager: Task 0 in stage 0.0 failed 1 times; aborting job
Traceback (most recent call last):
  File "/opt/app/job.py", line 9, in <module>
    df.collect()
py4j.protocol.Py4JJavaError: An error occurred while calling o45.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, most recent failure: Lost task 0.0 in stage 0.0 (TID 0) (host-1 executor driver): org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1247, in main
    process()
»ZeroDivisionError: division by zero

	at org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:572)

Driver stacktrace:
	at org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2791)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1247, in main
    process()
»ZeroDivisionError: division by zero

	at org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:572)
	... 1 more
"""),
    "analysis": ("schema", r"""
Traceback (most recent call last):
  File "/opt/app/job.py", line 9, in <module>
    df.select("amuont")
»pyspark.errors.exceptions.captured.AnalysisException: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `amuont` cannot be resolved. Did you mean one of the following? [`amount`, `id`]. SQLSTATE: 42703;
'Project ['amuont]
+- LogicalRDD [id#0L, amount#1L], false

26/11/21 03:12:45 INFO SparkContext: Invoking stop() from shutdown hook"""),
    "killed by YARN": ("memory", r"""
26/11/21 03:12:40 WARN YarnSchedulerBackend$YarnSchedulerEndpoint: Requesting driver to remove executor 3 for reason Container from a bad node
»26/11/21 03:12:41 ERROR YarnScheduler: Lost executor 3 on host-1: Container killed by YARN for exceeding memory limits. 5.6 GB of 5.5 GB physical memory used.
26/11/21 03:12:45 ERROR TaskSetManager: Task 3 in stage 2.0 failed 4 times; aborting job
»Exception in thread "main" org.apache.spark.SparkException: Job aborted due to stage failure: Task 3 in stage 2.0 failed 4 times, most recent failure: Lost task 3.3 in stage 2.0 (TID 99) (host-1 executor 3): ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason: Container killed by YARN for exceeding memory limits. 5.6 GB of 5.5 GB physical memory used.
Driver stacktrace:
	at org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2856)"""),
    "heap": ("memory", r"""
26/11/21 03:12:41 INFO BlockManager: Found block rdd_1 locally
»26/11/21 03:12:41 ERROR Executor: Exception in task 1.0 in stage 0.0 (TID 1): java.lang.OutOfMemoryError: Java heap space
26/11/21 03:12:42 ERROR SparkUncaughtExceptionHandler: Uncaught exception in thread Thread[Executor task launch worker]
»java.lang.OutOfMemoryError: Java heap space
	at java.base/java.util.Arrays.copyOf(Arrays.java:3537)
26/11/21 03:12:42 INFO ShutdownHookManager: Shutdown hook called"""),
    "Node": ("dependency", r"""
node:internal/modules/cjs/loader:1148
  throw err;
  ^

»Error: Cannot find module 'left-pad'
Require stack:
- /opt/app/index.js
    at Module._resolveFilename (node:internal/modules/cjs/loader:1145:15)
    at Module._load (node:internal/modules/cjs/loader:986:27) {
  code: 'MODULE_NOT_FOUND',
  requireStack: [ '/opt/app/index.js' ]
}

Node.js v20.12.2"""),
    "Go": ("crash", r"""
starting
»panic: runtime error: index out of range [5] with length 3

goroutine 1 [running]:
main.main()
	/opt/app/main.go:8 +0x1d
exit status 2"""),
    "Rust": ("", r"""
thread 'main' panicked at src/main.rs:4:10:
»no orders of the day
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace"""),
    # dbt, databases
    "dbt": ("schema", r"""
03:12:45  1 of 2 START sql table model shop.orders ............................... [RUN]
03:12:46  1 of 2 ERROR creating sql table model shop.orders ...................... [ERROR in 0.12s]
03:12:46  2 of 2 SKIP relation shop.daily ........................................ [SKIP]
03:12:46  Finished running 2 table models in 0 hours 0 minutes and 0.50 seconds (0.50s).
03:12:46  Completed with 1 error, 0 partial successes, and 0 warnings:
03:12:46  
03:12:46    Database Error in model orders (models/orders.sql)
»  column "amuont" does not exist
  LINE 12:   select amuont
                    ^
  compiled code at target/run/shop/models/orders.sql
03:12:46  
03:12:46  Done. PASS=0 WARN=0 ERROR=1 SKIP=1 NO-OP=0 TOTAL=2"""),
    "dbt test": ("data", r"""
03:12:46  1 of 1 FAIL 3 not_null_orders_id ....................................... [FAIL 3 in 0.05s]
03:12:46  Completed with 1 error, 0 partial successes, and 0 warnings:
03:12:46  
03:12:46  Failure in test not_null_orders_id (models/schema.yml)
»03:12:46    Got 3 results, configured to fail if != 0
03:12:46  
03:12:46    compiled code at target/compiled/shop/models/schema.yml/not_null_orders_id.sql
03:12:46  
03:12:46  Done. PASS=0 WARN=0 ERROR=1 SKIP=0 NO-OP=0 TOTAL=1"""),
    "dbt compilation": ("schema", r"""
03:12:45  Running with dbt=1.8.0
03:12:46  Encountered an error:
Compilation Error
»  Model 'model.shop.daily' (models/daily.sql) depends on a node named 'ordres' which was not found"""),
    "psql": ("schema", r"""
BEGIN
»psql:load.sql:2: ERROR:  relation "orders" does not exist
LINE 1: insert into orders values (1)
                    ^
psql:load.sql:3: ERROR:  current transaction is aborted, commands ignored until end of transaction block
ROLLBACK"""),
    "psql connection": ("authentication", r"""
»psql: error: connection to server at "db" (10.0.0.7), port 5432 failed: FATAL:  password authentication failed for user "etl" """),
    "server's log": ("conflict", r"""
2026-11-21 03:12:45.123 UTC [77] LOG:  checkpoint starting: time
»2026-11-21 03:12:46.123 UTC [78] ERROR:  deadlock detected
2026-11-21 03:12:46.123 UTC [78] DETAIL:  Process 78 waits for ShareLock on transaction 901; blocked by process 79.
2026-11-21 03:12:46.123 UTC [78] HINT:  See server log for query details.
2026-11-21 03:12:46.123 UTC [78] STATEMENT:  update orders set amount = 0"""),
    "MySQL": ("authentication", "\n»ERROR 1045 (28000): Access denied for user 'etl'@'10.0.0.9' (using password: YES)"),
    "SQLAlchemy": ("data", r"""
Traceback (most recent call last):
  File "/opt/venv/sqlalchemy/engine/base.py", line 1967, in _exec_single_context
    self.dialect.do_execute(
»psycopg2.errors.UniqueViolation: duplicate key value violates unique constraint "orders_pkey"
DETAIL:  Key (id)=(7) already exists.


The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/opt/app/load.py", line 9, in <module>
    session.commit()
»sqlalchemy.exc.IntegrityError: (psycopg2.errors.UniqueViolation) duplicate key value violates unique constraint "orders_pkey"
DETAIL:  Key (id)=(7) already exists.

[SQL: INSERT INTO orders (id) VALUES (%(id)s)]
[parameters: {'id': 7}]
(Background on this error at: https://sqlalche.me/e/20/gkpj)"""),
    # OpenMetadata
    "OpenMetadata": ("network", r"""
[2026-11-21 03:12:45] INFO     {metadata.Ingestion:metadata:12} - Starting
[2026-11-21 03:12:46] DEBUG    {metadata.Utils:test_connections:2} - Traceback (most recent call last):
  File "/opt/venv/sqlalchemy/engine/base.py", line 145, in __init__
    self._dbapi_connection = engine.raw_connection()
»sqlalchemy.exc.OperationalError: (pymysql.err.OperationalError) (2003, "Can't connect to MySQL server on 'db' ([Errno 111] Connection refused)")
[2026-11-21 03:12:46] ERROR    {metadata.Ingestion:workflow:80} - Workflow terminated with uncaught exception
[2026-11-21 03:12:46] INFO     {metadata.Utils:logger:223} - Workflow Success %: 0.0"""),
    # command line
    "bash": ("missing", "\nstart\n»nightly.sh: line 3: sqoop: command not found"),
    "missing file": ("missing", "\n+ cp /data/a.csv /tmp\n»cp: cannot stat '/data/a.csv': No such file or directory\nmake: *** [Makefile:3: load] Error 1"),
    "memory kill": ("memory", "\nreading\n»/opt/run.sh: line 3:    12 Killed                  python load.py\nexit code 137"),
    "segmentation": ("crash", "\nreading\n»run.sh: line 9: 4711 Segmentation fault      (core dumped) ./load /data"),
    "make": ("syntax", r"""
gcc -c load.c
load.c: In function 'main':
»load.c:3:5: error: expected ';' before 'return'
    3 |     int x = 1
make: *** [Makefile:2: load.o] Error 1"""),
    "Maven": ("syntax", r"""
[INFO] Compiling 3 source files
[INFO] -------------------------------------------------------------
[ERROR] COMPILATION ERROR : 
[INFO] -------------------------------------------------------------
»[ERROR] /opt/app/src/main/java/Loader.java:[3,5] cannot find symbol
[INFO] 1 error
[INFO] BUILD FAILURE
[INFO] Total time:  1.2 s
»[ERROR] Failed to execute goal org.apache.maven.plugins:maven-compiler-plugin:3.11.0:compile (default-compile) on project app: Compilation failure: /opt/app/src/main/java/Loader.java:[3,5] cannot find symbol -> [Help 1]
[ERROR] 
[ERROR] To see the full stack trace of the errors, re-run Maven with the -e switch.
[ERROR] For more information about the errors and possible solutions, please read the following articles:
[ERROR] [Help 1] http://cwiki.apache.org/confluence/display/MAVEN/MojoFailureException"""),
    "Gradle": ("dependency", r"""
> Task :compileJava FAILED

FAILURE: Build failed with an exception.

* What went wrong:
Execution failed for task ':compileJava'.
»> Could not resolve all files for configuration ':compileClasspath'.
»   > Could not find com.example:orders:1.2.

* Try:
> Run with --stacktrace option to get the stack trace.

BUILD FAILED in 2s"""),
    "npm": ("dependency", r"""
»npm ERR! code ERESOLVE
»npm ERR! ERESOLVE unable to resolve dependency tree
npm ERR! 
npm ERR! While resolving: app@1.0.0
npm ERR! Found: react@18.2.0
npm ERR! A complete log of this run can be found in: /root/.npm/_logs/x.log"""),
    "pip": ("dependency", r"""
Collecting pandass==2.1
»ERROR: Could not find a version that satisfies the requirement pandass==2.1 (from versions: none)
»ERROR: No matching distribution found for pandass==2.1"""),
    "Terraform": ("permission", r"""
aws_s3_bucket.logs: Creating...
╷
│ Error: creating S3 Bucket (logs): operation error S3: CreateBucket, https response error StatusCode: 403, AccessDenied: Access Denied
│ 
│   with aws_s3_bucket.logs,
│   on main.tf line 1, in resource "aws_s3_bucket" "logs":
│    1: resource "aws_s3_bucket" "logs" {
│ 
╵""".replace("│ Error", "»│ Error")),
    "kubectl": ("permission", '\n»Error from server (Forbidden): pods is forbidden: User "etl" cannot list resource "pods" in API group "" in the namespace "prod"'),
    "docker": ("permission", "\nUnable to find image 'loader:9' locally\n»docker: Error response from daemon: pull access denied for loader, repository does not exist or may require 'docker login'.\nSee 'docker run --help'."),
    "git": ("authentication", "\nCloning into 'x'...\n»fatal: Authentication failed for 'https://example.org/x.git/'"),
    "rsync": ("missing", '\nsending incremental file list\n»rsync: [sender] link_stat "/data/x" failed: No such file or directory (2)\nrsync error: some files/attrs were not transferred (see previous errors) (code 23) at main.c(1338) [sender=3.2.7]'),
    "disk": ("disk", "\ncopying\n»tar: out.tar: Wrote only 4096 of 10240 bytes: No space left on device\ntar: Error is not recoverable: exiting now"),
    "curl": ("network", "\n»curl: (6) Could not resolve host: api.example.org"),
    "AWS": ("permission", "\n»An error occurred (AccessDenied) when calling the PutObject operation: Access Denied"),
    # noise
    "answered by the run": ("timeout", "\n2026-11-21 03:12:40 ERROR http: connection refused, retrying in 5 s\n" + "".join(f"2026-11-21 03:12:41 INFO load: part {number} done\n" for number in range(200)) + "»2026-11-21 03:12:45 ERROR load: statement timeout after 30 s"),
    "shut down after the failure": ("disk", r"""
»2026-11-21 03:12:45 FATAL store: write failed: No space left on device
2026-11-21 03:12:45 ERROR store: failed to close the file
2026-11-21 03:12:45 ERROR http: broken pipe
2026-11-21 03:12:45 ERROR main: job failed
2026-11-21 03:12:45 ERROR main: exiting with code 1"""),
    "counts": ("schema", r"""
2026-11-21 03:12:45 INFO load: 0 errors so far
»2026-11-21 03:12:46 ERROR load: column amount is missing
2026-11-21 03:12:46 INFO load: done, errors=1, failed=0"""),
    "escape sequences": ("permission", "\nstart\n»\x1b[31mERROR\x1b[0m 10%\r\x1b[1mcannot write /data: Permission denied\x1b[0m\x07"),
    "warning only": ("", "\nINFO start\n»WARN the source is empty\nINFO end"),
}  # fmt: skip
