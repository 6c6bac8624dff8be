"""Small logs of failed runs, written for the rules' tests. The lines that explain the failure begin with ``»``."""

from collections.abc import Mapping


def lines(count: int) -> str:
    """Records of a run that goes on."""
    return "".join(f"2026-11-21 03:12:45 INFO load - part {number} done\n" for number in range(count))


TEXTS: Mapping[str, tuple[str, str]] = {
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
    "detail of RDS": ("data", r"""
2026-11-21 03:12:44 UTC::@:[1372]:LOG:  checkpoint starting: time
»2026-11-21 03:12:45 UTC:10.0.0.5(49654):etl@shop:[1371]:ERROR:  duplicate key value violates unique constraint "orders_pkey"
2026-11-21 03:12:45 UTC:10.0.0.5(49654):etl@shop:[1371]:DETAIL:  Key (id)=(1) already exists.
2026-11-21 03:12:45 UTC:10.0.0.5(49654):etl@shop:[1371]:STATEMENT:  INSERT INTO runs VALUES (1, 'FATAL: out of memory')
2026-11-21 03:12:46 UTC::@:[1372]:LOG:  checkpoint complete"""),
    "detail in syslog": ("data", r"""
»Nov 21 03:12:45 db1 postgres[77]: [3-1] ERROR:  duplicate key value violates unique constraint "orders_pkey"
Nov 21 03:12:45 db1 postgres[77]: [3-2] DETAIL:  Key (id)=(1) already exists.
Nov 21 03:12:45 db1 postgres[77]: [3-3] STATEMENT:  INSERT INTO orders VALUES (1)"""),
    "statement on several lines": ("schema", r"""
»2026-11-21 03:12:45 UTC [7]: [1-1] user=etl,db=shop ERROR:  column "amount" does not exist at character 8
2026-11-21 03:12:45 UTC [7]: [2-1] user=etl,db=shop HINT:  Perhaps you meant "amounts", or permission is denied.
2026-11-21 03:12:45 UTC [7]: [3-1] user=etl,db=shop STATEMENT:  SELECT amount
	FROM failures
	WHERE error = 'access denied for user'"""),
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
    "level of one letter": ("", r"""
2026-11-21 03:12:45,123 I mirror] object 399 copied
»2026-11-21 03:12:45,124 E mirror] object 400: etag 77ab of the copy is not 81cd of the source
2026-11-21 03:12:45,125 I mirror] 400 copied, 1 bad"""),
    "aborted attempt of a Spark task": ("", r"""
26/11/21 03:12:45 ERROR FileFormatWriter: Job: job_2026_0000, Task: task_2026_m_000001, Task attempt attempt_2026_m_000001_1 aborted.
26/11/21 03:12:45 ERROR Executor: Exception in task 1.0 in stage 0.0 (TID 1)
»java.io.IOException: Mkdirs failed to create file:/lake/out (exists=false, cwd=file:/opt/app)
	at org.apache.hadoop.fs.ChecksumFileSystem.create(ChecksumFileSystem.java:666)
26/11/21 03:12:46 INFO SparkContext: stopped"""),
    "run of Dagster": ("data", r"""
2026-11-21 03:12:45 +0000 - dagster - ERROR - nightly - 7f3 - transform - STEP_FAILURE - Execution of step "transform" failed.

»ValueError: invalid literal for int() with base 10: 'n/a'

Error: Run 7f3 resulted in failure."""),
    "memory kill": ("killed", "\nreading\n»/opt/run.sh: line 3:    12 Killed                  python load.py\nexit code 137"),
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
npm ERR! A complete log of this run can be found in: /home/etl/.npm/_logs/x.log"""),
    "pip": ("dependency", r"""
Collecting pandass==2.1
»ERROR: Could not find a version that satisfies the requirement pandass==2.1 (from versions: none)
»ERROR: No matching distribution found for pandass==2.1"""),
    "Terraform": ("permission", r"""
aws_s3_bucket.logs: Creating...
╷
»│ Error: creating S3 Bucket (logs): operation error S3: CreateBucket, https response error StatusCode: 403, AccessDenied: Access Denied
│ 
│   with aws_s3_bucket.logs,
│   on main.tf line 1, in resource "aws_s3_bucket" "logs":
│    1: resource "aws_s3_bucket" "logs" {
│ 
╵"""),
    "kubectl": ("permission", '\n»Error from server (Forbidden): pods is forbidden: User "etl" cannot list resource "pods" in API group "" in the namespace "prod"'),
    "docker": ("permission", "\nUnable to find image 'loader:9' locally\n»docker: Error response from daemon: pull access denied for loader, repository does not exist or may require 'docker login'.\nSee 'docker run --help'."),
    "git": ("authentication", "\nCloning into 'x'...\n»fatal: Authentication failed for 'https://example.org/x.git/'"),
    "rsync": ("missing", '\nsending incremental file list\n»rsync: [sender] link_stat "/data/x" failed: No such file or directory (2)\nrsync error: some files/attrs were not transferred (see previous errors) (code 23) at main.c(1338) [sender=3.2.7]'),
    "disk": ("disk", "\ncopying\n»tar: out.tar: Wrote only 4096 of 10240 bytes: No space left on device\ntar: Error is not recoverable: exiting now"),
    "curl": ("network", "\n»curl: (6) Could not resolve host: api.example.org"),
    "AWS": ("permission", "\n»An error occurred (AccessDenied) when calling the PutObject operation: Access Denied"),
    # further systems
    "OpenMetadata's table of failures": ('permission', r"""
[2026-11-21 03:12:45] INFO     {metadata.Ingestion:metadata:12} - Starting
[2026-11-21 03:12:46] WARNING  {metadata.Ingestion:x:12} - Some filter matched nothing
»[2026-11-21 03:12:46] ERROR    {metadata.Ingestion:common_db_source:402} - Unexpected exception to yield table [orders]: (psycopg2.errors.InsufficientPrivilege) permission denied for table orders
[2026-11-21 03:12:46] DEBUG    {metadata.Ingestion:common_db_source:403} - Traceback (most recent call last):
  File "x.py", line 1, in f
    g()
»sqlalchemy.exc.ProgrammingError: (psycopg2.errors.InsufficientPrivilege) permission denied for table orders

[2026-11-21 03:12:47] INFO     {metadata.Utils:logger:223} - Statuses detailed info:
[2026-11-21 03:12:47] INFO     {metadata.Utils:logger:223} - Source Status:
[2026-11-21 03:12:47] INFO     {metadata.Utils:logger:223} - {'failures': [{'name': 'orders', 'error': 'permission denied'}], 'records': [], 'warnings': [], 'filtered': []}
[2026-11-21 03:12:47] INFO     {metadata.Utils:logger:223} - Workflow Postgres Summary:
[2026-11-21 03:12:47] INFO     {metadata.Utils:logger:223} - Processed records: 12
[2026-11-21 03:12:47] INFO     {metadata.Utils:logger:223} - Errors: 1
[2026-11-21 03:12:47] INFO     {metadata.Utils:logger:223} - Success %: 92.3
[2026-11-21 03:12:47] INFO     {metadata.Utils:logger:223} - List of failures:
+------------+----------------+-------------------------------------+--------------------+
| From       | Entity Name    | Message                             | Stack Trace        |
+============+================+=====================================+====================+
| Postgres   | orders         | Unexpected exception to yield table | Traceback (most recent call last):  |
|            |                |                                     |   File "x.py", line 1, in f         |
|            |                |                                     | sqlalchemy.exc.ProgrammingError: (psycopg2.errors.InsufficientPrivilege) permission denied |
+------------+----------------+-------------------------------------+--------------------+
[2026-11-21 03:12:47] INFO     {metadata.Utils:logger:223} - Workflow Success %: 92.3
[2026-11-21 03:12:47] INFO     {metadata.Utils:logger:223} - Workflow finished in time: 12s
[2026-11-21 03:12:47] INFO     {metadata.Utils:logger:223} - Workflow finished with failures"""),
    "OpenMetadata's test of a connection": ('authentication', r"""
[2026-11-21 03:12:45] INFO     {metadata.Ingestion:metadata:12} - Starting
»[2026-11-21 03:12:46] WARNING  {metadata.Ingestion:test_connections:12} - CheckAccess-(pymysql.err.OperationalError) (1045, "Access denied for user 'om'@'10.0.0.3' (using password: YES)")
[2026-11-21 03:12:46] ERROR    {metadata.Utils:workflow:80} - Workflow terminated with uncaught exception
Traceback (most recent call last):
  File "w.py", line 3, in execute
    self.run()
metadata.ingestion.connections.test_connections.SourceConnectionException: Failed to run the following steps: CheckAccess"""),
    'timeout in Airflow': ('timeout', r"""
[2026-11-21T03:12:45.123+0000] {taskinstance.py:1138} INFO - Executing <Task(PythonOperator): x>
[2026-11-21T03:12:46.123+0000] {timeout.py:68} ERROR - Process timed out, PID: 77
[2026-11-21T03:12:46.124+0000] {taskinstance.py:2890} ERROR - Task failed with exception
Traceback (most recent call last):
  File "a.py", line 1, in execute
    time.sleep(3)
  File "/timeout.py", line 69, in handle_timeout
    raise AirflowTaskTimeout(self.error_message)
»airflow.exceptions.AirflowTaskTimeout: Timeout, PID: 77
[2026-11-21T03:12:46.424+0000] {taskinstance.py:1206} INFO - Marking task as FAILED. dag_id=load, task_id=load
[2026-11-21T03:12:46.524+0000] {standard_task_runner.py:110} ERROR - Failed to execute job 12 for task x (Timeout, PID: 77; 77)
[2026-11-21T03:12:46.624+0000] {local_task_job_runner.py:240} INFO - Task exited with return code 1"""),
    'SIGTERM in Airflow': ('killed', r"""
[2026-11-21T03:12:45.123+0000] {taskinstance.py:1138} INFO - Executing <Task(PythonOperator): x>
»[2026-11-21T03:12:46.123+0000] {local_task_job_runner.py:211} WARNING - State of this instance has been externally set to failed. Terminating instance.
[2026-11-21T03:12:46.124+0000] {process_utils.py:132} INFO - Sending 15 to group 77. PIDs of all processes in the group: [77]
»[2026-11-21T03:12:46.125+0000] {taskinstance.py:2480} ERROR - Received SIGTERM. Terminating subprocesses.
[2026-11-21T03:12:46.126+0000] {taskinstance.py:2890} ERROR - Task failed with exception
Traceback (most recent call last):
  File "a.py", line 1, in execute
    time.sleep(3)
»airflow.exceptions.AirflowException: Task received SIGTERM signal
[2026-11-21T03:12:46.424+0000] {taskinstance.py:1206} INFO - Marking task as FAILED. dag_id=load, task_id=load"""),
    'pod in Airflow': ('', r"""
[2026-11-21T03:12:45.123+0000] {pod_manager.py:466} INFO - [base] Traceback (most recent call last):
[2026-11-21T03:12:45.123+0000] {pod_manager.py:466} INFO - [base]   File "/app/x.py", line 3, in <module>
[2026-11-21T03:12:45.123+0000] {pod_manager.py:466} INFO - [base]     main()
»[2026-11-21T03:12:45.123+0000] {pod_manager.py:466} INFO - [base] ValueError: no rows for 2026-11-20
[2026-11-21T03:12:46.123+0000] {pod_manager.py:616} INFO - Pod x has phase Running
[2026-11-21T03:12:48.126+0000] {taskinstance.py:2890} ERROR - Task failed with exception
Traceback (most recent call last):
  File "pod.py", line 594, in execute_sync
    self.cleanup(
  File "pod.py", line 789, in cleanup
    raise AirflowException(
airflow.exceptions.AirflowException: Pod x returned a failure.
remote_pod: {'api_version': 'v1',
 'kind': 'Pod',
 'metadata': {'annotations': None}}
[2026-11-21T03:12:48.424+0000] {taskinstance.py:1206} INFO - Marking task as FAILED. dag_id=load, task_id=load"""),
    'sensor in Airflow': ('timeout', r"""
[2026-11-21T03:12:45.123+0000] {python.py:75} INFO - Poking callable: <function f at 0x7f>
[2026-11-21T03:12:46.126+0000] {taskinstance.py:2890} ERROR - Task failed with exception
Traceback (most recent call last):
  File "base.py", line 294, in execute
    raise AirflowSensorTimeout(message)
»airflow.exceptions.AirflowSensorTimeout: Sensor has timed out; run duration of 60.1 seconds exceeds the specified timeout of 60.
[2026-11-21T03:12:46.424+0000] {taskinstance.py:1206} INFO - Marking task as FAILED. dag_id=load, task_id=load"""),
    'spark-submit in Airflow': ('', r"""
[2026-11-21T03:12:45.123+0000] {spark_submit.py:571} INFO - 26/11/21 03:12:44 INFO SparkContext: Running Spark version 3.5.1
[2026-11-21T03:12:45.123+0000] {spark_submit.py:571} INFO - Exception in thread "main" org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 0.0 failed 4 times, most recent failure: Lost task 1.3 in stage 0.0 (TID 9) (h executor 2): java.io.IOException: Filesystem closed
[2026-11-21T03:12:45.123+0000] {spark_submit.py:571} INFO - 	at org.apache.hadoop.hdfs.DFSClient.checkOpen(DFSClient.java:490)
[2026-11-21T03:12:45.123+0000] {spark_submit.py:571} INFO - Driver stacktrace:
[2026-11-21T03:12:45.123+0000] {spark_submit.py:571} INFO - 	at org.apache.spark.X.y(X.scala:2)
»[2026-11-21T03:12:45.123+0000] {spark_submit.py:571} INFO - Caused by: java.io.IOException: Filesystem closed
[2026-11-21T03:12:45.123+0000] {spark_submit.py:571} INFO - 	at org.apache.hadoop.hdfs.DFSClient.checkOpen(DFSClient.java:490)
[2026-11-21T03:12:45.123+0000] {spark_submit.py:571} INFO - 26/11/21 03:12:45 INFO ShutdownHookManager: Shutdown hook called
[2026-11-21T03:12:46.126+0000] {taskinstance.py:2890} ERROR - Task failed with exception
Traceback (most recent call last):
  File "spark_submit.py", line 294, in execute
    self._hook.submit(self._application)
airflow.exceptions.AirflowException: Cannot execute: spark-submit --master yarn job.py. Error code is: 1.
[2026-11-21T03:12:46.424+0000] {taskinstance.py:1206} INFO - Marking task as FAILED. dag_id=load, task_id=load"""),
    "Lambda's timeout": ('timeout', r"""
START RequestId: 6f1a0c1e Version: $LATEST
[INFO]	2026-11-21T03:12:45.123Z	6f1a0c1e-8a55-4d3c-9d9b-0f6a2f1b7c11	loading
»2026-11-21T03:12:48.123Z 6f1a0c1e-8a55-4d3c-9d9b-0f6a2f1b7c11 Task timed out after 3.00 seconds
END RequestId: 6f1a0c1e
REPORT RequestId: 6f1a0c1e	Duration: 3000.00 ms	Billed Duration: 3000 ms	Memory Size: 128 MB	Max Memory Used: 30 MB"""),
    "Lambda's exception": ('schema', r"""
START RequestId: 6f1a0c1e Version: $LATEST
»[ERROR] KeyError: 'bucket'
Traceback (most recent call last):
  File "/var/task/app.py", line 3, in handler
    event["bucket"]
END RequestId: 6f1a0c1e"""),
    "Lambda's import": ('dependency', r"""
»[ERROR] Runtime.ImportModuleError: Unable to import module 'app': No module named 'pandas'
Traceback (most recent call last):END RequestId: 6f1a0c1e"""),
    'diagnostics of YARN': ('memory', r"""
26/11/21 03:12:45 INFO Client: Application report for application_1_2 (state: FAILED)
26/11/21 03:12:45 INFO Client: 
	 client token: N/A
	 diagnostics: Application application_1_2 failed 2 times due to AM Container for appattempt_1_2_000002 exited with  exitCode: -104
»Failing this attempt.Diagnostics: [2026-11-21 03:12:45.123]Container [pid=4,containerID=container_1] is running beyond physical memory limits. Current usage: 2.1 GB of 2 GB physical memory used; 4.0 GB of 4.2 GB virtual memory used. Killing container.
Exception in thread "main" org.apache.spark.SparkException: Application application_1_2 finished with failed status
	at org.apache.spark.deploy.yarn.Client.run(Client.scala:1342)
26/11/21 03:12:45 INFO ShutdownHookManager: Shutdown hook called"""),
    'Hive': ('schema', r"""
Hive Session ID = 1
»FAILED: SemanticException [Error 10001]: Line 1:14 Table not found 'orders'"""),
    'Sqoop': ('network', r"""
26/11/21 03:12:45 INFO manager.SqlManager: Using default fetchSize of 1000
26/11/21 03:12:45 ERROR manager.SqlManager: Error executing statement: com.mysql.jdbc.exceptions.jdbc4.CommunicationsException: Communications link failure
com.mysql.jdbc.exceptions.jdbc4.CommunicationsException: Communications link failure

The last packet sent successfully to the server was 0 milliseconds ago. The driver has not received any packets from the server.
	at com.mysql.jdbc.Util.handleNewInstance(Util.java:411)
»Caused by: java.net.ConnectException: Connection refused (Connection refused)
	at java.net.PlainSocketImpl.socketConnect(Native Method)
	... 20 more
26/11/21 03:12:45 ERROR tool.ImportTool: Import failed: java.io.IOException: No columns to generate for ClassWriter
	at org.apache.sqoop.orm.ClassWriter.generate(ClassWriter.java:1677)"""),
    'Dagster': ('', r"""
2026-11-21 03:12:45 +0000 - dagster - DEBUG - job - 1 - 77 - step - STEP_START - Started
2026-11-21 03:12:45 +0000 - dagster - ERROR - job - 1 - 77 - step - STEP_FAILURE - Execution of step "step" failed.

dagster._core.errors.DagsterExecutionStepExecutionError: Error occurred while executing op "step":

»ValueError: no rows

Stack Trace:
  File "dagster/_core/execution/plan/utils.py", line 54, in op_execution_error_boundary
    yield"""),
    'Prefect': ('missing', r"""
03:12:45.123 | INFO    | prefect.engine - Created flow run 'x' for flow 'load'
03:12:45.223 | ERROR   | Task run 'read-0' - Encountered exception during execution:
Traceback (most recent call last):
  File "x.py", line 1, in f
    open("/x")
»FileNotFoundError: [Errno 2] No such file or directory: '/x'
03:12:45.323 | ERROR   | Task run 'read-0' - Finished in state Failed('Task run encountered an exception FileNotFoundError')
03:12:45.423 | ERROR   | Flow run 'x' - Encountered exception during execution:
Traceback (most recent call last):
  File "x.py", line 1, in f
    open("/x")
»FileNotFoundError: [Errno 2] No such file or directory: '/x'
03:12:45.523 | ERROR   | Flow run 'x' - Finished in state Failed("Flow run encountered an exception: FileNotFoundError: [Errno 2] No such file or directory: '/x'")"""),
    "GitHub's actions": ('', r"""
2026-11-21T03:12:45.1234567Z ##[group]Run make test
2026-11-21T03:12:45.1234567Z make test
2026-11-21T03:12:46.1234567Z ##[endgroup]
»2026-11-21T03:12:47.1234567Z Makefile:3: *** missing separator.  Stop.
2026-11-21T03:12:47.1234567Z ##[error]Process completed with exit code 2."""),
    'Flink': ('disk', r"""
2026-11-21 03:12:45,123 INFO  org.apache.flink.runtime.executiongraph.ExecutionGraph [] - Source (1/1) switched from RUNNING to FAILED.
java.lang.Exception: Could not perform checkpoint
	at org.apache.flink.X.y(X.java:1)
»Caused by: java.io.IOException: Could not open output stream for state backend: Disk quota exceeded
	at org.apache.flink.Z.y(X.java:1)
2026-11-21 03:12:46,123 INFO  org.apache.flink.runtime.executiongraph.ExecutionGraph [] - Job x switched from state FAILING to FAILED."""),
    'events of Kubernetes': ('timeout', r"""
»Warning  FailedScheduling  3m  default-scheduler  0/3 nodes are available: 3 Insufficient memory.
»error: timed out waiting for the condition on jobs/load"""),
    'Helm': ('timeout', r"""
»Error: UPGRADE FAILED: timed out waiting for the condition
helm.go:84: [debug] timed out waiting for the condition"""),
    'Snowflake': ('syntax', r"""
Traceback (most recent call last):
  File "x.py", line 1, in <module>
    cur.execute(sql)
»snowflake.connector.errors.ProgrammingError: 001003 (42000): 01a2: SQL compilation error:
syntax error line 1 at position 7 unexpected 'form'."""),
    'BigQuery': ('schema', "\n»BigQuery error in query operation: Error processing job 'p:bqjob_1': Not found: Table p:shop.orders was not found in location EU"),
    'Oracle': ('schema', r"""
SQL*Plus: Release 19.0.0.0.0
insert into orders select * from stage
                                 *
ERROR at line 1:
»ORA-00942: table or view does not exist
Disconnected from Oracle Database 19c"""),
    'SQL Server': ('schema', r"""
Msg 208, Level 16, State 1, Server db, Line 1
»Invalid object name 'orders'."""),
    'awk': ('missing', r"""
start
»awk: cmd. line:1: fatal: cannot open file `/x' for reading: No such file or directory
[exit 2]"""),
    'warn-retry-then-fail': ('server', r"""
2026-11-21 03:12:40 WARN http: attempt 0 of 3 failed: 503 Service Unavailable, retrying
2026-11-21 03:12:41 WARN http: attempt 1 of 3 failed: 503 Service Unavailable, retrying
2026-11-21 03:12:42 WARN http: attempt 2 of 3 failed: 503 Service Unavailable, retrying
»2026-11-21 03:12:45 ERROR http: GET https://api/x: 503 Service Unavailable
2026-11-21 03:12:45 ERROR main: load failed"""),
    'ge': ('data', r"""
Calculating Metrics: 100%|####| 8/8
»AssertionError: validation failed: expect_column_values_to_not_be_null(customer_id): 12 unexpected of 300"""),
    'prefix of a container': ('schema', r"""
db-1     | 2026-11-21 03:12:45.123 UTC [1] LOG:  database system is ready to accept connections
loader-1  | Traceback (most recent call last):
loader-1  |   File "/app/x.py", line 3, in <module>
loader-1  |     main()
»loader-1  | psycopg2.OperationalError: FATAL:  database "shop" does not exist
loader-1 exited with code 1"""),
    'airbyte': ('authentication', r"""
2026-11-21 03:12:45 source > Starting
2026-11-21 03:12:46 platform > failures: [
»2026-11-21 03:12:46 source > Stream orders: 401 Client Error: Unauthorized for url: https://api.example.org/orders
2026-11-21 03:12:46 platform > sync summary: {"status":"failed"}"""),
    'perl': ('missing', r"""
start
»Can't open '/x' for reading: No such file or directory at load.pl line 3."""),
    'r': ('missing', r"""
> x <- read.csv("a.csv")
»Error in file(file, "rt") : cannot open the connection
Calls: read.csv -> read.table -> file
In addition: Warning message:
In file(file, "rt") :
  cannot open file 'a.csv': No such file or directory
Execution halted"""),
    'dotnet': ('missing', r"""
»Unhandled exception. System.IO.FileNotFoundException: Could not find file '/x'.
   at System.IO.FileStream.Validate(String path)
   at Program.Main(String[] args) in /app/Program.cs:line 3
Aborted (core dumped)"""),
    'profile of dbt': ('configuration', r"""
03:12:45  Running with dbt=1.8.0
03:12:46  Encountered an error:
Runtime Error
»  Could not find profile named 'shop'"""),
    'connection of dbt': ('network', r"""
03:12:45  Running with dbt=1.8.0
03:12:46  
03:12:46  Encountered an error:
Database Error
»  connection to server at "db" (10.0.0.7), port 5432 failed: Connection refused
  	Is the server running on that host and accepting TCP/IP connections?"""),
    'two errors of dbt': ("schema", r"""
03:12:46  Completed with 2 errors, 0 partial successes, and 0 warnings:
03:12:46  
03:12:46    Database Error in model a (models/a.sql)
»  relation "raw.a" does not exist
  LINE 3: from raw.a
03:12:46  
03:12:46    Compilation Error in model b (models/b.sql)
»  'nosuch' is undefined. This can happen when calling a macro that does not exist.
03:12:46  
03:12:46  Done. PASS=0 WARN=0 ERROR=2 SKIP=0 NO-OP=0 TOTAL=2"""),
    'sbt': ('schema', r"""
[info] compiling 1 Scala source
»[error] /app/src/Main.scala:3:5: type mismatch;
[error]  found   : String("x")
[error]  required: Int
[error] one error found
[error] (Compile / compileIncremental) Compilation failed"""),
    'fetch failure of Spark': ('network', r"""
26/11/21 03:12:40 WARN TaskSetManager: Lost task 3.0 in stage 2.0 (TID 9) (h executor 2): FetchFailed(BlockManagerId(1, h, 7337, None), shuffleId=0, mapIndex=3, mapId=3, reduceId=3, message=
org.apache.spark.shuffle.FetchFailedException: Failed to connect to h/10.0.0.3:7337
	at org.apache.spark.X.y(X.scala:3)
»Caused by: java.io.IOException: Failed to connect to h/10.0.0.3:7337
	at org.apache.spark.X.y(X.scala:3)
)
26/11/21 03:12:45 ERROR ApplicationMaster: User class threw exception: org.apache.spark.SparkException: Job aborted due to stage failure: ResultStage 2 has failed the maximum allowable number of times: 4. Most recent failure reason: org.apache.spark.shuffle.FetchFailedException: Failed to connect to h/10.0.0.3:7337
»org.apache.spark.SparkException: Job aborted due to stage failure: ResultStage 2 has failed the maximum allowable number of times: 4. Most recent failure reason: org.apache.spark.shuffle.FetchFailedException: Failed to connect to h/10.0.0.3:7337
	at org.apache.spark.X.y(X.scala:3)
26/11/21 03:12:45 INFO ApplicationMaster: Final app status: FAILED, exitCode: 15"""),
    'Glue': ('missing', r"""
2026-11-21 03:12:45,123 ERROR [main] glue.ProcessLauncher (Logging.scala:logError(77)): Error from Python:Traceback (most recent call last):
  File "/tmp/job.py", line 3, in <module>
    x()
»pyspark.sql.utils.AnalysisException: Path does not exist: s3://b/in

2026-11-21 03:12:45,223 INFO [main] glue.ProcessLauncher (Logging.scala:logInfo(61)): postprocessing"""),
    'two-attempts': ('timeout', 3 * r"""
2026-11-21 03:12:45,000 INFO load - page 0
2026-11-21 03:12:45,001 INFO load - page 1
2026-11-21 03:12:45,002 INFO load - page 2
2026-11-21 03:12:45,003 INFO load - page 3
2026-11-21 03:12:45,004 INFO load - page 4
Traceback (most recent call last):
  File "x.py", line 1, in f
    g()
»requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='api', port=443): Read timed out. (read timeout=5)
2026-11-21 03:12:45 WARNING load - attempt failed, trying again in 5 s"""),
    'usage': ('data', r"""
usage: load.py [-h] --date DATE
»load.py: error: argument --date: invalid date value: '2026-13-01'"""),
    'curl-http': ('', r"""
  % Total    % Received % Xferd  Average Speed
  0     0    0     0    0     0      0      0 --:--:-- --:--:-- --:--:--     0
»curl: (22) The requested URL returned error: 503"""),
    'wget': ('network', r"""
--2026-11-21 03:12:45--  https://x/y
»Resolving x (x)... failed: Name or service not known.
»wget: unable to resolve host address 'x'"""),
    'ssh': ('timeout', r"""
»ssh: connect to host db port 22: Connection timed out
rsync: connection unexpectedly closed (0 bytes received so far) [sender]
rsync error: unexplained error (code 255) at io.c(228) [sender=3.2.7]"""),
    'pgdump': ('permission', r"""
»pg_dump: error: query failed: ERROR:  permission denied for table orders
pg_dump: detail: Query was: LOCK TABLE public.orders IN ACCESS SHARE MODE"""),
    'pg-restore': ('schema', r"""
pg_restore: connecting to database
»pg_restore: error: could not execute query: ERROR:  relation "orders" already exists
Command was: CREATE TABLE public.orders (
    id integer
);
pg_restore: warning: errors ignored on restore: 1"""),
    'alembic': ('', r"""
INFO  [alembic.runtime.migration] Context impl PostgresqlImpl.
»FAILED: Can't locate revision identified by 'ab12'"""),
    'k8s-crash': ("container", r"""
NAME   READY   STATUS             RESTARTS
»load   0/1     CrashLoopBackOff   5"""),
    'pod-image': ('missing', r"""
»Failed to pull image "x:1": rpc error: code = NotFound desc = failed to pull and unpack image "x:1": not found
Error: ErrImagePull"""),
    'oserror-no-tb': ('disk', r"""
start
»OSError: [Errno 28] No space left on device: '/tmp/x'"""),
    'py-warn-noise': ('schema', r"""
/opt/x.py:3: FutureWarning: The default of observed=False is deprecated and will be changed
  df.groupby()
/opt/x.py:9: DtypeWarning: Columns (3) have mixed types. Specify dtype option on import or set low_memory=False.
Traceback (most recent call last):
  File "x.py", line 1, in f
    g()
»KeyError: 'amount'"""),
    'kafka': ('timeout', r"""
[2026-11-21 03:12:45,123] WARN [Consumer clientId=c] Connection to node -1 (k/10.0.0.3:9092) could not be established. Node may not be available. (org.apache.kafka.clients.NetworkClient)
[2026-11-21 03:12:45,123] WARN [Consumer clientId=c] Connection to node -1 (k/10.0.0.3:9092) could not be established. Node may not be available. (org.apache.kafka.clients.NetworkClient)
[2026-11-21 03:12:45,123] WARN [Consumer clientId=c] Connection to node -1 (k/10.0.0.3:9092) could not be established. Node may not be available. (org.apache.kafka.clients.NetworkClient)
[2026-11-21 03:12:45,123] WARN [Consumer clientId=c] Connection to node -1 (k/10.0.0.3:9092) could not be established. Node may not be available. (org.apache.kafka.clients.NetworkClient)
[2026-11-21 03:12:45,123] WARN [Consumer clientId=c] Connection to node -1 (k/10.0.0.3:9092) could not be established. Node may not be available. (org.apache.kafka.clients.NetworkClient)
»[2026-11-21 03:12:50,123] ERROR Timed out waiting for a node assignment. Call: listNodes (org.apache.kafka.clients.admin)"""),
    'connect': ('', r"""
[2026-11-21 03:12:45,123] ERROR WorkerSinkTask{id=x-0} Task threw an uncaught and unrecoverable exception. Task is being killed and will not recover until manually restarted (org.apache.kafka.connect.runtime.WorkerTask)
org.apache.kafka.connect.errors.ConnectException: Exiting WorkerSinkTask due to unrecoverable exception.
	at org.apache.kafka.connect.runtime.X.y(X.java:1)
»Caused by: org.apache.kafka.connect.errors.DataException: Failed to deserialize data for topic orders to Avro: 
	at io.confluent.X.y(X.java:1)
»Caused by: org.apache.kafka.common.errors.SerializationException: Unknown magic byte!
[2026-11-21 03:12:46,123] INFO Stopping task (x)"""),
    'spring': ('authentication', r"""
2026-11-21 03:12:45.123 ERROR 1 --- [main] o.s.boot.SpringApplication : Application run failed

org.springframework.beans.factory.BeanCreationException: Error creating bean with name 'ds'
	at org.springframework.X.y(X.java:1)
	Suppressed: java.lang.IllegalStateException: x
		at a.b(C.java:1)
	Caused by: java.io.IOException: not this
		at a.b(C.java:1)
»Caused by: org.postgresql.util.PSQLException: FATAL: password authentication failed for user "etl"
	at org.postgresql.X.y(X.java:1)
	... 20 common frames omitted"""),
    'spring-desc': ('', r"""

***************************
APPLICATION FAILED TO START
***************************

Description:

»Failed to configure a DataSource: 'url' attribute is not specified and no embedded datasource could be configured.

Reason: Failed to determine a suitable driver class

Action:

Consider the following"""),
    'log4j-one-line-cause': ('network', '\n»2026-11-21 03:12:45,123 ERROR [main] a.B - load failed: com.x.LoadException: cannot load; nested exception is java.net.UnknownHostException: db'),
    'node-promise': ('network', r"""
»Error: connect ECONNREFUSED 127.0.0.1:5432
    at TCPConnectWrap.afterConnect [as oncomplete] (node:net:1555:16) {
  errno: -111,
  code: 'ECONNREFUSED',
  syscall: 'connect',
  address: '127.0.0.1',
  port: 5432
}"""),
    'tsc': ('', r"""
»src/a.ts:3:5 - error TS2322: Type 'string' is not assignable to type 'number'.

3     x = 'a'

Found 1 error in src/a.ts:3"""),
    'cargo': ('', r"""
   Compiling x v0.1.0
»error[E0425]: cannot find value `y` in this scope
 --> src/main.rs:2:5
  |
2 |     y
  |     ^ not found in this scope

error: could not compile `x` (bin "x") due to 1 previous error"""),
    'gotest': ('data', r"""
--- FAIL: TestLoad (0.00s)
»    load_test.go:9: got 2 rows, want 3
FAIL
FAIL	example.org/load	0.003s
FAIL"""),
    'junit': ('', r"""
[INFO] Running LoadTest
»[ERROR] Tests run: 1, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.1 s <<< FAILURE! - in LoadTest
»[ERROR] LoadTest.rows:9 expected: <3> but was: <2>
[INFO] BUILD FAILURE
[ERROR] Failed to execute goal org.apache.maven.plugins:maven-surefire-plugin:3.0.0:test (default-test) on project x: There are test failures."""),
    'dockerbuild': ('dependency', r"""
#8 [4/5] RUN pip install -r requirements.txt
»#8 1.234 ERROR: Could not find a version that satisfies the requirement nosuch==1 (from versions: none)
»#8 1.240 ERROR: No matching distribution found for nosuch==1
#8 ERROR: process "/bin/sh -c pip install -r requirements.txt" did not complete successfully: exit code: 1
------
 > [4/5] RUN pip install -r requirements.txt:
»1.234 ERROR: Could not find a version that satisfies the requirement nosuch==1 (from versions: none)
»1.240 ERROR: No matching distribution found for nosuch==1
------
Dockerfile:4
--------------------
ERROR: failed to solve: process "/bin/sh -c pip install -r requirements.txt" did not complete successfully: exit code: 1"""),
    'tf-multi': ('', r"""
╷
»│ Error: Invalid provider configuration
│ 
│ Provider "x" requires explicit configuration.
╵
╷
»│ Error: error configuring Terraform AWS Provider: no valid credential sources for Terraform AWS Provider found.
│ 
│ Error: failed to refresh cached credentials, no EC2 IMDS role found
╵"""),
    'ansible': ('', r"""
TASK [copy] ****
»fatal: [host-1]: FAILED! => {"changed": false, "msg": "Could not find or access '/x' on the Ansible Controller."}

PLAY RECAP ****
host-1 : ok=1 changed=0 unreachable=0 failed=1"""),
    'systemd': ('', r"""
Nov 21 03:12:45 host-1 load[77]: connecting
»Nov 21 03:12:45 host-1 load[77]: error: database orders is read-only
Nov 21 03:12:45 host-1 systemd[1]: load.service: Main process exited, code=exited, status=1/FAILURE
Nov 21 03:12:45 host-1 systemd[1]: load.service: Failed with result 'exit-code'."""),
    'oomkernel': ('memory', '\n»[12345.6] Out of memory: Killed process 77 (java) total-vm:8000kB, anon-rss:1000kB'),
    'hs_err': ('crash', r"""
#
»# A fatal error has been detected by the Java Runtime Environment:
#
»#  SIGSEGV (0xb) at pc=0x00007f, pid=77, tid=78
#
# JRE version: OpenJDK
# Core dump will be written.
Aborted (core dumped)"""),
    'mixed-case': ('', r"""
Starting
connect to db ok
»Fatal: config key 'bucket' is missing
Bye"""),
    'german': ('', r"""
Start
»Fehler: Datei '/daten/x.csv' wurde nicht gefunden"""),
    'perm-in-info': ('permission', r"""
2026-11-21 03:12:45,000 INFO load - page 0
2026-11-21 03:12:45,001 INFO load - page 1
2026-11-21 03:12:45,002 INFO load - page 2
2026-11-21 03:12:45,003 INFO load - page 3
2026-11-21 03:12:45,004 INFO load - page 4
2026-11-21 03:12:45,123 INFO load - no errors in part 3, failed=0, exceptions: 0
»2026-11-21 03:12:45,123 ERROR load - AccessDenied: User etl is not authorized to perform s3:PutObject
2026-11-21 03:12:45,123 INFO load - shutting down"""),
    'cel': ('', r"""
[2026-11-21 03:12:45,123: ERROR/ForkPoolWorker-1] Task load[1] raised unexpected: ValueError('no rows')
Traceback (most recent call last):
  File "x.py", line 1, in f
    g()
»ValueError: no rows"""),
    'structlog': ('disk', r"""
{"event": "loading", "level": "info", "timestamp": "2026-11-21T03:12:45Z"}
»{"exception": "Traceback (most recent call last):\n  File \"x.py\", line 1, in f\n    g()\nOSError: [Errno 28] No space left on device", "event": "cannot load", "level": "error", "timestamp": "2026-11-21T03:12:45Z"}
{"event": "exit", "level": "info"}"""),
    'pino': ('timeout', r"""
{"level":30,"time":1,"msg":"start"}
»{"level":50,"time":1,"err":{"type":"Error","message":"connect ETIMEDOUT 10.0.0.3:5432","stack":"Error: connect ETIMEDOUT 10.0.0.3:5432\n    at a (b.js:1:2)"},"msg":"load failed"}"""),
    'ecs-json': ('', '\n»{"@timestamp":"2026-11-21T03:12:45Z","log.level":"ERROR","message":"load failed","error.type":"java.lang.IllegalStateException","error.message":"no rows","error.stack_trace":"java.lang.IllegalStateException: no rows\\n\\tat a.B.c(B.java:1)\\nCaused by: java.io.IOException: disk gone\\n\\tat a.B.d(B.java:1)\\n"}'),
    "older records of Airflow": ("data", r"""
[2022-11-09, 09:59:38 UTC] {{subprocess.py:94}} INFO - 03:14:54
[2022-11-09, 09:59:38 UTC] {{subprocess.py:94}} INFO - 03:14:54    Database Error in model customers (models/customers.sql)
»[2022-11-09, 09:59:38 UTC] {{subprocess.py:94}} INFO -   invalid input syntax for integer: ""
[2022-11-09, 09:59:38 UTC] {{subprocess.py:94}} INFO -   compiled Code at target/run/shop/models/customers.sql
[2022-11-09, 09:59:38 UTC] {{subprocess.py:98}} INFO - Command exited with return code 1
[2022-11-09, 09:59:40 UTC] {{taskinstance.py:1851}} ERROR - Task failed with exception
Traceback (most recent call last):
  File "bash.py", line 210, in execute
airflow.exceptions.AirflowException: Bash command failed. The command returned a non-zero exit code 1.
[2022-11-09, 09:59:40 UTC] {{taskinstance.py:1401}} INFO - Marking task as FAILED. dag_id=load"""),
    "OpenMetadata in Airflow": ("network", r"""
»[2022-11-09, 09:59:38 UTC] {{test_connections.py:94}} ERROR - cannot read the tables of shop: Connection refused
»[2022-11-09, 09:59:38 UTC] {{common_db_source.py:94}} ERROR - cannot read the tables of shop: Connection refused
[2022-11-09, 09:59:40 UTC] {{taskinstance.py:1851}} ERROR - Task failed with exception
Traceback (most recent call last):
  File "workflow_status_mixin.py", line 134, in raise_from_status
metadata.config.common.WorkflowExecutionError: Oracle reported errors: Oracle Summary: [0 Records, 0 Warnings, 46 Errors]
[2022-11-09, 09:59:40 UTC] {{taskinstance.py:1401}} INFO - Marking task as FAILED. dag_id=load"""),
    "reported before a vague exception": ("conflict", r"""
WARNING 2026-11-21 03:12:45,123 job.py:17 attempt 2: database is locked
»WARNING 2026-11-21 03:12:45,323 job.py:17 attempt 3: database is locked
Traceback (most recent call last):
  File "/opt/app/job.py", line 20, in <module>
    raise RuntimeError("no state")
RuntimeError: no state"""),
    'write in Spark': ('disk', r"""
26/11/21 03:12:45 INFO BlockManager: thing 0
26/11/21 03:12:45 INFO BlockManager: thing 1
26/11/21 03:12:45 INFO BlockManager: thing 2
26/11/21 03:12:45 INFO BlockManager: thing 3
26/11/21 03:12:45 INFO BlockManager: thing 4
26/11/21 03:12:45 INFO BlockManager: thing 5
26/11/21 03:12:45 INFO BlockManager: thing 6
26/11/21 03:12:45 INFO BlockManager: thing 7
26/11/21 03:12:45 INFO BlockManager: thing 8
26/11/21 03:12:45 INFO BlockManager: thing 9
Traceback (most recent call last):
  File "x.py", line 1, in f
    g()
py4j.protocol.Py4JJavaError: An error occurred while calling o88.parquet.
: org.apache.spark.SparkException: Job aborted.
	at a.b.C.d(C.java:1)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: Lost task 0.0 in stage 3.0 (TID 3) (h executor driver): org.apache.spark.SparkException: Task failed while writing rows.
	at a.b.C.d(C.java:1)
Caused by: java.io.IOException: No space left on device
	at a.b.C.d(C.java:1)
	... 9 more

Driver stacktrace:
	at a.b.C.d(C.java:1)
Caused by: org.apache.spark.SparkException: Task failed while writing rows.
	at a.b.C.d(C.java:1)
»Caused by: java.io.IOException: No space left on device
	at a.b.C.d(C.java:1)
	... 9 more
26/11/21 03:12:45 INFO BlockManager: thing 0
26/11/21 03:12:45 INFO BlockManager: thing 1
26/11/21 03:12:45 INFO BlockManager: thing 2
26/11/21 03:12:45 INFO BlockManager: thing 3
26/11/21 03:12:45 INFO BlockManager: thing 4
26/11/21 03:12:45 INFO BlockManager: thing 5
26/11/21 03:12:45 INFO BlockManager: thing 6
26/11/21 03:12:45 INFO BlockManager: thing 7
26/11/21 03:12:45 INFO BlockManager: thing 8
26/11/21 03:12:45 INFO BlockManager: thing 9"""),
    'stop of a context that did not start': ('conflict', r"""
26/11/21 03:12:45 INFO BlockManager: thing 0
26/11/21 03:12:45 INFO BlockManager: thing 1
26/11/21 03:12:45 INFO BlockManager: thing 2
26/11/21 03:12:45 INFO BlockManager: thing 3
26/11/21 03:12:45 INFO BlockManager: thing 4
26/11/21 03:12:45 INFO BlockManager: thing 5
26/11/21 03:12:45 INFO BlockManager: thing 6
26/11/21 03:12:45 INFO BlockManager: thing 7
26/11/21 03:12:45 INFO BlockManager: thing 8
26/11/21 03:12:45 INFO BlockManager: thing 9
26/11/21 03:12:45 INFO BlockManager: thing 10
26/11/21 03:12:45 INFO BlockManager: thing 11
26/11/21 03:12:45 INFO BlockManager: thing 12
26/11/21 03:12:45 INFO BlockManager: thing 13
26/11/21 03:12:45 INFO BlockManager: thing 14
26/11/21 03:12:45 INFO BlockManager: thing 15
26/11/21 03:12:45 INFO BlockManager: thing 16
26/11/21 03:12:45 INFO BlockManager: thing 17
26/11/21 03:12:45 INFO BlockManager: thing 18
26/11/21 03:12:45 INFO BlockManager: thing 19
26/11/21 03:12:45 INFO BlockManager: thing 20
26/11/21 03:12:45 INFO BlockManager: thing 21
26/11/21 03:12:45 INFO BlockManager: thing 22
26/11/21 03:12:45 INFO BlockManager: thing 23
26/11/21 03:12:45 INFO BlockManager: thing 24
26/11/21 03:12:45 INFO BlockManager: thing 25
26/11/21 03:12:45 INFO BlockManager: thing 26
26/11/21 03:12:45 INFO BlockManager: thing 27
26/11/21 03:12:45 INFO BlockManager: thing 28
26/11/21 03:12:45 INFO BlockManager: thing 29
26/11/21 03:12:45 ERROR SparkContext: Error initializing SparkContext.
»java.net.BindException: Cannot assign requested address: Service 'sparkDriver' failed after 16 retries
	at a.b.C.d(C.java:1)
26/11/21 03:12:45 INFO BlockManager: thing 0
26/11/21 03:12:45 INFO BlockManager: thing 1
26/11/21 03:12:45 INFO BlockManager: thing 2
26/11/21 03:12:45 INFO BlockManager: thing 3
26/11/21 03:12:45 INFO BlockManager: thing 4
26/11/21 03:12:45 WARN MetricsSystem: Stopping a MetricsSystem that is not running
26/11/21 03:12:45 ERROR Utils: Uncaught exception in thread main
java.lang.NullPointerException
	at a.b.C.d(C.java:1)
Traceback (most recent call last):
  File "x.py", line 1, in f
    g()
py4j.protocol.Py4JJavaError: An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
»: java.net.BindException: Cannot assign requested address: Service 'sparkDriver' failed after 16 retries
	at a.b.C.d(C.java:1)"""),
    'import of a DAG': ('dependency', r"""
[2026-11-21T03:12:45.123+0000] {dagbag.py:348} ERROR - Failed to import: /dags/x.py
Traceback (most recent call last):
  File "x.py", line 1, in f
    g()
»ModuleNotFoundError: No module named 'pendulumm'
Traceback (most recent call last):
  File "x.py", line 1, in f
    g()
airflow.exceptions.AirflowException: Dag 'x' could not be found; either it does not exist or it failed to parse."""),
    'error of logging': ('', r"""
2026-11-21 03:12:45,000 INFO load - part 0
2026-11-21 03:12:45,001 INFO load - part 1
2026-11-21 03:12:45,002 INFO load - part 2
--- Logging error ---
Traceback (most recent call last):
  File "x.py", line 1, in f
    g()
TypeError: not all arguments converted during string formatting
Call stack:
  File "x.py", line 3, in <module>
    log.info('a', 1)
Message: 'a'
Arguments: (1,)
2026-11-21 03:12:45,000 INFO load - part 0
2026-11-21 03:12:45,001 INFO load - part 1
2026-11-21 03:12:45,002 INFO load - part 2
»2026-11-21 03:12:46 ERROR load - partition 2026-11-20 is locked by another loader"""),
    'fatal step of OpenMetadata': ('network', r"""
[2026-11-21 03:12:45] INFO     {metadata.Ingestion:metadata:12} - Starting
[2026-11-21 03:12:46] WARNING  {metadata.OMetaAPI:client:1} - Connection error, retrying
»[2026-11-21 03:12:46] ERROR    {metadata.Ingestion:step:80} - Fatal error running step [Postgres]: [connection to server at "db" failed: timeout expired]
[2026-11-21 03:12:46] INFO     {metadata.Utils:logger:223} - Workflow Success %: 0.0"""),
    'COPY': ('data', r"""
BEGIN
»psql:load.sql:3: ERROR:  invalid input syntax for type integer: "x"
CONTEXT:  COPY orders, line 7, column amount: "x"
ROLLBACK"""),
    # noise
    "the handler fails too": ("missing", "Traceback (most recent call last):\n  File x\n»FileNotFoundError: [Errno 2] No such file or directory: '/data/a'\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File x\nPermissionError: [Errno 13] Permission denied: '/backup/a'"),
    "after the worker's exception": ("data", "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n  File x\n»ValueError: invalid literal for int() with base 10: 'x'\n\n\tat a.b.C.d(C.scala:1)\nCaused by: java.io.IOException: stream is closed\n\tat a.b.C.e(C.scala:2)"),
    "consequence of a known family": ("", "»2026-11-21 03:12:45 ERROR load - the ledger of 2026-11-20 is open\n2026-11-21 03:12:45 ERROR http - Broken pipe: connection reset by peer"),
    "answered by the run": ("timeout", "\n2026-11-21 03:12:40 ERROR http: connection refused, retrying in 5 s\n" + "".join(f"2026-11-21 03:12:41 INFO load: part {number} done\n" for number in range(200)) + "»2026-11-21 03:12:45 ERROR load: statement timeout after 30 s"),
    "went on after a trace": ("", lines(20) + "2026-11-21 03:12:45 ERROR load - row 17 skipped\nTraceback (most recent call last):\n  File x\nValueError: bad date\n" + lines(12) + "»2026-11-21 03:12:46 ERROR load - 3 of 5 partitions rejected, limit is 1\n"),
    "went on without a cache": ("disk", lines(20) + "2026-11-21 03:12:45 WARNING cache - falling back to memory\nTraceback (most recent call last):\n  File x\nredis.ConnectionError: Connection refused\n" + lines(40) + "»mv: cannot move 'out.csv' to '/data/out.csv': No space left on device\n"),
    "went on after an error": ("data", lines(5) + "2026-11-21 03:12:45 ERROR cache - connection reset by peer, using the old one\n" + lines(80) + "»2026-11-21 03:12:46 ERROR load - checksum mismatch in part 7\n"),
    "killed long after an error": ("killed", "2026-11-21 03:12:45 ERROR load - could not parse row 7\n" + lines(300) + "»Killed\n"),
    "attempts": ("timeout", 3 * (lines(5) + "Traceback (most recent call last):\n  File x\n»requests.exceptions.ReadTimeout: Read timed out. (read timeout=5)\n2026-11-21 03:12:45 WARNING load - attempt failed, trying again in 5 s\n")),
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
    # behind prefixes, and in shapes of other software
    "Node's chain of causes": ("syntax", r"""
Error: nightly run failed
    at file:///opt/app/run.mjs:1:107 {
  [cause]: Error: load of rates.json failed
      at file:///opt/app/run.mjs:1:75 {
»    [cause]: SyntaxError: Expected double-quoted property name in JSON at position 7
        at JSON.parse (<anonymous>)
        at file:///opt/app/run.mjs:1:18
  }
}"""),
    "json-file of Docker": ("data", r"""
{"log":"Traceback (most recent call last):\n","stream":"stderr","time":"2026-11-21T03:12:45.1Z"}
{"log":"  File \"/opt/app/load.py\", line 7, in rate\n","stream":"stderr","time":"2026-11-21T03:12:45.1Z"}
{"log":"    raise ValueError(\"invalid literal for rates\")\n","stream":"stderr","time":"2026-11-21T03:12:45.1Z"}
»{"log":"ValueError: could not convert string to float: '12,5'\n","stream":"stderr","time":"2026-11-21T03:12:45.1Z"}"""),
    "record in JSON behind a container's prefix": ("missing", r"""
2026-11-21T03:12:44.1Z stderr F {"level": 40, "msg": "rate limited, waiting 2 s"}
»2026-11-21T03:12:45.1Z stderr F {"level": 60, "msg": "sync failed", "err": {"type": "Error", "message": "ENOENT: no such file, open 'x.json'"}}
2026-11-21T03:12:45.2Z stderr F {"level": 30, "msg": "pool closed"}"""),
    "clean-up behind a container's prefix": ("missing", r"""
2026-11-21T03:12:45.1Z stderr F Traceback (most recent call last):
2026-11-21T03:12:45.1Z stderr F   File "/opt/app/load.py", line 3, in read
»2026-11-21T03:12:45.1Z stderr F FileNotFoundError: [Errno 2] No such file or directory: '/data/in.csv'
2026-11-21T03:12:45.1Z stderr F 
2026-11-21T03:12:45.1Z stderr F During handling of the above exception, another exception occurred:
2026-11-21T03:12:45.1Z stderr F 
2026-11-21T03:12:45.1Z stderr F Traceback (most recent call last):
2026-11-21T03:12:45.1Z stderr F   File "/opt/app/load.py", line 8, in __exit__
2026-11-21T03:12:45.1Z stderr F OSError: [Errno 39] Directory not empty: '/opt/app/staging'"""),
    "output of a subprocess": ("", r"""
exporting
»export: dataset sales_eu is frozen until 2026-12-01
Traceback (most recent call last):
  File "/opt/app/run.py", line 2, in <module>
    subprocess.run(command, check=True)
subprocess.CalledProcessError: Command '['export']' returned non-zero exit status 3."""),
    "handled trace before a fatal record": ("", r"""
2026-11-21 03:12:40 INFO cache: warm up
Traceback (most recent call last):
  File "/opt/app/cache.py", line 9, in warm
    return redis.get(key)
redis.exceptions.ConnectionError: Error 111 connecting to cache-1:6379. Connection refused.
2026-11-21 03:12:41 INFO cache: using the database
2026-11-21 03:12:45 INFO main: comparing totals
»2026-11-21 03:12:46 CRITICAL main: total of orders 8000 differs from the control file 8012"""),
    "clean-up by rm": ("data", r"""
»gzip: shop.dump: not in gzip format
ERROR: backup.sh failed at line 1
rm: cannot remove 'lock': No such file or directory"""),
    "make without a rule": ("missing", "\n»make: *** No rule to make target 'x.csv', needed by 'a'.\n" + lines(2) + "make: Target 'all' not remade because of errors."),
    "recipe of a makefile": ("", r"""
make -C sub
make[1]: Entering directory '/opt/app/sub'
»no input for 2026-11-25
make[1]: *** [Makefile:2: all] Error 4
make[1]: Leaving directory '/opt/app/sub'
make: *** [Makefile:3: all] Error 2"""),
    "exception with its details below": ("network", r"""
Traceback (most recent call last):
  File "/opt/app/get.py", line 5, in <module>
    get(request)
grpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated with:
	status = StatusCode.UNAVAILABLE
»	details = "failed to connect to all addresses; ipv4:127.0.0.1:9: Connection refused"
>"""),
    "sqlcmd with Windows' line ends": ("", "\nChanged database context to 'Sales'.\r\nMsg 8152, Level 16, State 30, Server db, Line 14\r\n"
        "»String or binary data would be shortened.\r\nThe statement has been terminated.\r\n\r\n(0 rows affected)\r\nreturn code 1\r\n"),
    # The course of a run
    "other activity": ("", r"""
2026-11-21 03:12:44 INFO load: part 1
2026-11-21 03:12:45 ERROR metrics: could not push 12 samples: connection refused
»2026-11-21 03:12:45 ERROR load: part 2 has 9 columns, the table 11
2026-11-21 03:12:46 ERROR metrics: could not push 12 samples: connection refused"""),
    "program that ended": ("", r"""
db-1    | ERROR: relation "versions" does not exist
load-1  | creating table versions
»load-1  | Error: 0007.sql ends within a statement
db-1    | could not receive data from client: Connection reset by peer
load-1 exited with code 1"""),
    "log of a test": ("", r"""
    def test_total():
>       assert total([4, 6]) == 10
»E       assert 9.5 == 10

------------------------------ Captured log call -------------------------------
ERROR    app:test_app.py:8 table discount not found, default is used
=========================== short test summary info ============================
1 failed, 3 passed in 0.02s"""),
    "test of Go with its log": ("data", r"""
=== RUN   TestTotal
2026/11/21 03:12:45 ERROR dial tcp 127.0.0.1:5432: connect: connection refused
»    total_test.go:14: Total(4, 6) = 9, want 10
--- FAIL: TestTotal (0.00s)
FAIL"""),
    "name of a test": ("", r"""
  ● parse › empty body

»    TypeError: Cannot read properties of null (reading 'items')

      at Object.items (a.test.js:3:71)

    console.error
      Error: EACCES: permission denied, open /root/x

Tests:       1 failed, 2 passed, 3 total"""),
    "answer of a server": ("", r"""
»2026-11-21 03:12:45 ERROR client: POST /v1/rows was answered with 502
<html><head><title>502 Bad Gateway</title></head>
<body>java.lang.OutOfMemoryError: Java heap space</body></html>"""),
    "attempts with different failures": ("", r"""
2026-11-21 03:12:45 ERROR attempt 1 failed: registry timed out
2026-11-21 03:12:46 ERROR attempt 2 failed: registry timed out
»2026-11-21 03:12:47 ERROR attempt 3 failed: orders has no version 9
2026-11-21 03:12:47 ERROR all 3 attempts failed"""),
    "answered by the next line": ("configuration", r"""
cat: /etc/site.conf: No such file or directory
using the default site
»sort: unrecognized option '--by-key'"""),
    "traced command": ("", r"""
+ cat /etc/site.conf
cat: /etc/site.conf: No such file or directory
+ join orders.csv customers.csv
»join: orders.csv:3: is not sorted: b"""),
    "clean-up of a script": ("", r"""
»import failed: row 17: the price is not a number
could not remove temporary file: ENOENT: no such file or directory, unlink '/tmp/17.csv'
cleaning up
rmdir: failed to remove '/tmp/work': Directory not empty"""),
    "after the verdict": ("data", r"""
»Conversion Error: Could not convert string 'x1' to INT32
Done. PASS=2 WARN=0 ERROR=1 SKIP=1 TOTAL=4
storing artifacts
ls: cannot access 'target/run.json': No such file or directory"""),
    "result that was not written": ("syntax", r"""
awk: sum.awk:3: END { print s }
»awk: sum.awk:3:       ^ syntax error
gzip: out/sum.csv: No such file or directory
cp: cannot stat 'out/sum.csv.gz': No such file or directory"""),
    "count of errors": ("", r"""
»2026-11-21 03:12:45 ERROR sync: column amount of payments is text, not a number
2026-11-21 03:12:46 INFO sync: 5 tables compared
2026-11-21 03:12:46 CRITICAL sync: 1 of 5 tables not synchronized"""),
    "cause in a line of its own": ("tls", r"""
error: Failed to fetch: https://pypi.org/simple/werkzeug/
  cause: error sending request for url (https://pypi.org/simple/werkzeug/)
»  cause: invalid peer certificate: UnknownIssuer"""),
    "work that went on": ("", r"""
2026-11-21 03:12:41 INFO page 1 of 40
2026-11-21 03:12:42 ERROR page 1: read timed out
2026-11-21 03:12:43 INFO page 2 of 40
»2026-11-21 03:12:44 ERROR total is 881.20, not 881.02"""),
    "part that does most of the work": ("", r"""
2026-11-21 03:12:41 INFO load: read a
2026-11-21 03:12:42 INFO load: sort a
2026-11-21 03:12:43 INFO load: write a
»2026-11-21 03:12:44 ERROR load: total is 881.20, not 881.02
2026-11-21 03:12:45 ERROR lease: connection refused"""),
    "step after a failure": ("missing", r"""
==> fetch
ssh: connect to host 10.0.0.1 port 22: Connection refused
==> load
»load.sh: line 7: datamover: command not found"""),
    "after a failed step": ("", r"""
==> fetch
==> check
»jq: error (at d.json:1): Cannot index object with number
psql: error: connection to server at "10.0.0.1", port 5432 failed: Connection refused"""),
    "advice": ("", r"""
»acme-1.0.tar.gz is on the index with other content
See https://index.example.org/help for files that are refused or invalid"""),
    "output before a broken pipe": ("", r"""
»no rows for 2026-11-25
tar: -: Wrote only 4096 bytes: Broken pipe
exit status 1"""),
    "German program": ("missing", r"""
Aufträge laden
»cat: /daten/auftraege.csv: Datei oder Verzeichnis nicht gefunden
Ende"""),
    "French record": ("", r"""
lecture du fichier
»ERREUR ligne 12 : montant négatif
arrêt du traitement"""),
    "panic in a container": ("crash", r"""
[pod/post-4k8vv/apply] 2026/11/28 20:31:04 main.go:7: shard 22: slow disk, ERROR rate 0.00%
»[pod/post-4k8vv/apply] panic: assignment to entry in nil map
[pod/post-4k8vv/apply]
[pod/post-4k8vv/apply] goroutine 6 [running]:
[pod/post-4k8vv/apply] main.post(...)
[pod/post-4k8vv/apply] """ + "\t" + r"""/src/main.go:4
[pod/post-4k8vv/apply] main.main.func1(0x1, {0x2, 0x3})
[pod/post-4k8vv/apply] """ + "\t" + r"""/src/main.go:9 +0x138
[pod/post-4k8vv/apply] created by main.main
[pod/post-4k8vv/apply] """ + "\t" + r"""/src/main.go:9 +0x1ea"""),
    "end of a shell": ("configuration", r"""
grep: /etc/rotate.conf: No such file or directory
rotate.sh: line 7: ping6: command not found
»rotate.sh: line 8: WEEKS: unbound variable"""),
    "last words of a program": ("", r"""
dane/paczka19.bin
»tar: Nieoczekiwany EOF w archiwum
tar: Error is not recoverable: exiting now
sumy kontrolne:
cat: out/SUMY: Nie ma takiego pliku ani katalogu"""),
    "output in a buffer": ("data", "\n»ERROR 1452 (23000) at line 10: Cannot add a child row: a foreign key constraint fails\n" + "\n".join(
        f"--------------\ninsert into t values ({number})\n--------------\nQuery OK, 1 row affected\n" for number in range(20))
        + "ERROR 1146 (42S02) at line 1: Table 'shop.log' doesn't exist"),
    "table of a failed script": ("timeout", r"""
»psql:30_pairs.sql:1: ERROR:  canceling statement due to statement timeout
---- 30_pairs.sql -> 3
---- 40_view.sql
psql:40_view.sql:1: ERROR:  relation "ev_pairs" does not exist
---- 40_view.sql -> 3"""),
    "fatal exception": ("", r"""
»{"level": "CRITICAL", "name": "budget", "message": "terminated", "exc_info": "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nLookupError: worksheet Plan"}
{"level": "ERROR", "name": "budget", "message": "unlock failed", "exc_info": "Traceback (most recent call last):\n  File \"a.py\", line 9, in <module>\nConnectionError: no lock server"}"""),
    "answer of a hook": ("", r"""
remote: scanning files...
»remote: policy: report.csv has an IBAN in line 3
To ../o.git
 ! [remote rejected] main -> main (pre-receive hook declined)
erreur : impossible de pousser des références vers '../o.git'
+ code=1"""),
    "odd line with a known message": ("memory", r"""
warm batch=1 -> OK
warm batch=2 -> OK
warm batch=3 -> OK
»warm batch=4 -> OOM command not allowed when used memory > 'maxmemory'.
PONG
policy: noeviction"""),
    "traced exit": ("", r"""
+ rate=
+ '[' -n '' ']'
+ echo 'rates.sh: no USD rate today'
»rates.sh: no USD rate today
+ kill 8242
+ exit 4"""),
    "test in TAP behind a build's prefix": ("", r"""
#14 5.256 # Subtest: rounding
#14 5.256 # Error: fixture says connection lost (simulated)
#14 5.256 not ok 5 - rounding
#14 5.256   ---
#14 5.256   error: |-
»#14 5.256     negative half must round away from zero
#14 5.256   code: 'ERR_ASSERTION'
#14 5.256   name: 'AssertionError'
#14 5.256 # fail 1"""),
}  # fmt: skip
