"""Parsed columns for each format, and detection of a log's format. Expected values are written by hand."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from chalicelib.lines.events import events
from chalicelib.lines.format_detection import SAMPLE_LINES, FormatSample, detect_format, parsed_counts
from chalicelib.lines.formats import FORMATS, PLAIN, LogFormat, format_named
from chalicelib.lines.parsed import ParsedLine
from chalicelib.lines.text import MAX_STATES, decode_line
from chalicelib.lines.timestamps import TimestampParser, rewritten

QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
EVERY = pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
REFERENCE = datetime(2026, 11, 22, 9, tzinfo=UTC)


def us(text: str) -> int:
    """A time in UTC in microseconds."""
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def read(name: str, line: str, reference: datetime | None = REFERENCE) -> ParsedLine | None:
    """Parses a line of a run in this format."""
    reference_us = None if reference is None else (reference - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return format_named(name).reader(TimestampParser(reference_us=reference_us))(decode_line(line.encode()))


# name of the format, line, (time, level, logger, message)
LINES: list[tuple[str, str, tuple[str | None, str | None, str | None, str]]] = [
    # Times and zones
    ("airflow", "[2026-11-21, 03:12:45 CET] {a.py:7} ERROR - no rows", ("2026-11-21T02:12:45", "ERROR", "a.py", "no rows")),
    ("iso", "2026.11.21 03:12:45.123456 42 rows", ("2026-11-21T03:12:45.123456", None, None, "42 rows")),
    ("mysql", "2026-11-21  3:12:45 7 [ERROR] [Server] crashed", ("2026-11-21T03:12:45", "ERROR", "Server", "crashed")),
    ("postgres", "2026-07-21 03:12:45.1 MSK [1] LOG:  ready", ("2026-07-21T00:12:45.1", "INFO", None, "ready")),
    ("postgres", "2026-07-21 03:12:45.1 +03 [1] etl@shop LOG:  ready", ("2026-07-21T00:12:45.1", "INFO", None, "ready")),
    ("postgres", "2026-07-21 03:12:45.1 XYZT [1] LOG:  ready", ("2026-07-21T03:12:45.1", "INFO", None, "ready")),
    ("syslog", "Nov 7 03:12:45.123 EST web1 load[12]: no rows", ("2026-11-07T08:12:45.123", None, "load", "no rows")),
    ("syslog", "Nov  7 03:12:45 ::1 CRON[12]: x: y", ("2026-11-07T03:12:45", None, "CRON", "x: y")),
    ("syslog-without-host", "Nov 7 03:12:45 load[12]: x: y", ("2026-11-07T03:12:45", None, "load", "x: y")),
    ("syslog-without-host", "Nov 7 03:12:45 EST load[12]: x", ("2026-11-07T08:12:45", None, "load", "x")),
    ("syslog-text", "Nov 21 03:12:45 ERROR: no rows", ("2026-11-21T03:12:45", None, None, "ERROR: no rows")),
    ("syslog-year", "2025 Nov 7 03:12:45 web1 load: no rows", ("2025-11-07T03:12:45", None, "load", "no rows")),
    ("syslog-year", "<11>Nov  7 2025 03:12:45 web1 load[1]: no rows", ("2025-11-07T03:12:45", "ERROR", "load", "no rows")),
    ("syslog-iso", "2026-11-21 03:12:45 EST load[12]: no rows", ("2026-11-21T08:12:45", None, "load", "no rows")),
    ("redis", "[1234] 21 Nov 03:12:45.123 # Out of memory", ("2026-11-21T03:12:45.123", "WARNING", None, "Out of memory")),
    (
        "squid",
        "1795230765.123     12 192.0.2.7 TCP_DENIED/403 392 GET http://x/ - HIER_NONE/- -",
        ("2026-11-21T03:12:45.123", "WARNING", None, "12 192.0.2.7 TCP_DENIED/403 392 GET http://x/ - HIER_NONE/- -"),
    ),
    ("level", "1795230765123 ERROR no rows", ("2026-11-21T03:12:45.123", "ERROR", None, "no rows")),
    ("time-level", "3:12:45 PM INFO 42 rows", ("2026-11-22T15:12:45", "INFO", None, "42 rows")),
    ("level-time", "ERROR: 21.11.2026 03:12:45 CET no rows", ("2026-11-21T02:12:45", "ERROR", None, "no rows")),
    (
        "iso",
        "[11/21/26 3:12:45:123 CET] 0000001a SystemOut     O x",
        ("2026-11-21T02:12:45.123", None, None, "0000001a SystemOut     O x"),
    ),
    # Python's logging
    ("python-default", "WARNING:root:disk almost full", (None, "WARNING", "root", "disk almost full")),
    ("python-default", "CRITICAL:orders.load:out of: memory", (None, "CRITICAL", "orders.load", "out of: memory")),
    ("python-default", "DEBUG:root:", (None, "DEBUG", "root", "")),
    (
        "python",
        "2026-11-21 03:12:45,123 - orders.load - ERROR - no such table - orders",
        ("2026-11-21T03:12:45.123", "ERROR", "orders.load", "no such table - orders"),
    ),
    ("python", "2026-11-21 03:12:45 - __main__ - DEBUG - x", ("2026-11-21T03:12:45", "DEBUG", "__main__", "x")),
    (
        "python",
        "2026-11-21 03:12:45,001 - MainThread - botocore.hooks - DEBUG - Event choosing",
        ("2026-11-21T03:12:45.001", "DEBUG", "botocore.hooks", "Event choosing"),
    ),
    (
        "python",
        "2026-11-21 04:12:45 +0100 - dagster - INFO - job - 42 - STEP_START",
        ("2026-11-21T03:12:45", "INFO", "dagster", "job - 42 - STEP_START"),
    ),
    (
        "python-level-first",
        "2026-11-21 03:12:45,123 - INFO - orders.load - 42 rows",
        ("2026-11-21T03:12:45.123", "INFO", "orders.load", "42 rows"),
    ),
    (
        "python-level-only",
        "2026-11-21 03:12:45,123 - WARNING - slow: 3 s",
        ("2026-11-21T03:12:45.123", "WARNING", None, "slow: 3 s"),
    ),
    (
        "python-logger-first",
        "2026-11-21 03:12:45,123 orders.load WARNING slow",
        ("2026-11-21T03:12:45.123", "WARNING", "orders.load", "slow"),
    ),
    (
        "python-logger-first",
        "2026-11-21 03:12:45,123 orders[1234] [ERROR] gone",
        ("2026-11-21T03:12:45.123", "ERROR", "orders", "gone"),
    ),
    (
        "level-logger",
        "2026-11-21 03:12:45,123 [ERROR] orders.load: gone",
        ("2026-11-21T03:12:45.123", "ERROR", "orders.load", "gone"),
    ),
    # programs written in Python
    (
        "openmetadata",
        "[2026-11-21 03:12:45] INFO     {metadata.Ingestion:ingestion:12} - Processed orders",
        ("2026-11-21T03:12:45", "INFO", "metadata.Ingestion", "Processed orders"),
    ),
    (
        "openmetadata",
        "[2026-11-21 03:12:45] WARNING  {metadata.Utils:logger:145} - {'a': 1} - b",
        ("2026-11-21T03:12:45", "WARNING", "metadata.Utils", "{'a': 1} - b"),
    ),
    (
        "airflow",
        "[2026-11-21T03:12:45.123+0000] {module.py:12} INFO - message",
        ("2026-11-21T03:12:45.123", "INFO", "module.py", "message"),
    ),
    (
        "airflow",
        "[2026-11-21 03:12:45,123] {taskinstance.py:1482} ERROR - Task failed with exception",
        ("2026-11-21T03:12:45.123", "ERROR", "taskinstance.py", "Task failed with exception"),
    ),
    (
        "airflow",
        "[2026-11-21 03:12:45,123] {{base_task_runner.py:98}} WARNING - Job 1: Subtask",
        ("2026-11-21T03:12:45.123", "WARNING", "base_task_runner.py", "Job 1: Subtask"),
    ),
    (
        "airflow",
        "[\x1b[34m2026-11-21T03:12:45.123-0500\x1b[0m] {\x1b[34mmodule.py:\x1b[0m12} INFO\x1b[0m - in colours\x1b[0m",
        ("2026-11-21T08:12:45.123", "INFO", "module.py", "in colours"),
    ),
    (
        "pipes",
        "2026-11-21 03:12:45.123 | SUCCESS  | orders.load:main:12 - 42 rows",
        ("2026-11-21T03:12:45.123", "INFO", "orders.load", "42 rows"),
    ),
    (
        "pipes",
        "2026-11-21 03:12:45.123 | ERROR   | Flow run 'x' - Failed",
        ("2026-11-21T03:12:45.123", "ERROR", None, "Flow run 'x' - Failed"),
    ),
    (
        "pipes-time",
        "03:12:45.123 | INFO    | prefect.engine - Created",
        ("2026-11-22T03:12:45.123", "INFO", "prefect.engine", "Created"),
    ),
    ("dbt", "\x1b[0m03:12:45.123456 [debug] [MainThread]: Acquiring", ("2026-11-22T03:12:45.123456", "DEBUG", None, "Acquiring")),
    (
        "gunicorn",
        "[2026-11-21 03:12:45 +0000] [12] [CRITICAL] WORKER TIMEOUT",
        ("2026-11-21T03:12:45", "CRITICAL", None, "WORKER TIMEOUT"),
    ),
    (
        "celery",
        "[2026-11-21 03:12:45,123: ERROR/ForkPoolWorker-1] Task failed",
        ("2026-11-21T03:12:45.123", "ERROR", None, "Task failed"),
    ),
    (
        "flask",
        "[2026-11-21 03:12:45,123] ERROR in app: Exception on /",
        ("2026-11-21T03:12:45.123", "ERROR", "app", "Exception on /"),
    ),
    (
        "oslo",
        "2017-05-16 00:00:00.008 25746 INFO nova.osapi_compute.wsgi.server [req-38101a0b 113d3a99 - - -] 10.11.10.1 GET",
        ("2017-05-16T00:00:00.008", "INFO", "nova.osapi_compute.wsgi.server", "10.11.10.1 GET"),
    ),
    (
        "oslo-collected",
        "nova-api.log.1 2017-05-16 00:00:00.008 25746 WARNING nova.virt [-] slow",
        ("2017-05-16T00:00:00.008", "WARNING", "nova.virt", "slow"),
    ),
    (
        "level-colon",
        'INFO:     192.0.2.7:4711 - "GET / HTTP/1.1" 200 OK',
        (None, "INFO", None, '192.0.2.7:4711 - "GET / HTTP/1.1" 200 OK'),
    ),
    (
        "bracketed-level",
        "2026-11-21T03:12:45.5Z [warning  ] slow  table=x",
        ("2026-11-21T03:12:45.500", "WARNING", None, "slow  table=x"),
    ),
    # log4j and logback
    (
        "spark",
        "26/11/21 03:12:45 INFO DAGScheduler: Job 0 finished: collect at x.py:1, took 0.5 s",
        ("2026-11-21T03:12:45", "INFO", "DAGScheduler", "Job 0 finished: collect at x.py:1, took 0.5 s"),
    ),
    (
        "spark",
        "17/06/09 20:10:40 WARN executor.CoarseGrainedExecutorBackend: Registered signal handlers for [TERM, HUP, INT]",
        (
            "2017-06-09T20:10:40",
            "WARNING",
            "executor.CoarseGrainedExecutorBackend",
            "Registered signal handlers for [TERM, HUP, INT]",
        ),
    ),
    (
        "log4j",
        "2015-10-18 18:01:47,978 INFO [main] org.apache.hadoop.mapreduce.v2.app.MRAppMaster: Created MRAppMaster",
        ("2015-10-18T18:01:47.978", "INFO", "org.apache.hadoop.mapreduce.v2.app.MRAppMaster", "Created MRAppMaster"),
    ),
    (
        "log4j",
        "2026-11-21 03:12:45,123 FATAL org.apache.hadoop.hdfs.server.namenode.NameNode: Exception in namenode join",
        ("2026-11-21T03:12:45.123", "CRITICAL", "org.apache.hadoop.hdfs.server.namenode.NameNode", "Exception in namenode join"),
    ),
    (
        "log4j",
        "2026-11-21T03:12:45.123+01:00 [http-nio-8080-exec-1] ERROR com.example.Orders - no table",
        ("2026-11-21T02:12:45.123", "ERROR", "com.example.Orders", "no table"),
    ),
    (
        "log4j",
        "2026-11-21 03:12:45,123 INFO  org.apache.flink.runtime.Task                [] - switched from RUNNING to FINISHED",
        ("2026-11-21T03:12:45.123", "INFO", "org.apache.flink.runtime.Task", "switched from RUNNING to FINISHED"),
    ),
    (
        "log4j",
        "2026-11-21 03:12:45,123 DEBUG [Executor task launch worker for task 0 [x]] util.Utils (Utils.scala:log(12)): done",
        ("2026-11-21T03:12:45.123", "DEBUG", "util.Utils", "done"),
    ),
    (
        "log4j",
        "2026-11-21 03:12:45 INFO i.a.w.Temporal(run):12 - started",
        ("2026-11-21T03:12:45", "INFO", "i.a.w.Temporal", "started"),
    ),
    ("log4j-time", "03:12:45.123 [main] TRACE c.e.Orders - x", ("2026-11-22T03:12:45.123", "TRACE", "c.e.Orders", "x")),
    ("log4j-time", "03:12:45.123 [main] WARN  c.e.Orders -- slow", ("2026-11-22T03:12:45.123", "WARNING", "c.e.Orders", "slow")),
    (
        "hdfs",
        "081109 203615 148 INFO dfs.DataNode$PacketResponder: PacketResponder 1 for block blk_38 terminating",
        ("2008-11-09T20:36:15", "INFO", "dfs.DataNode$PacketResponder", "PacketResponder 1 for block blk_38 terminating"),
    ),
    (
        "zookeeper",
        "2015-07-29 17:41:44,747 - INFO  [QuorumPeer[myid=1]/0:0:0:0:0:0:0:0:2181:FastLeaderElection@774] - Notification time out: 3200",
        ("2015-07-29T17:41:44.747", "INFO", "FastLeaderElection", "Notification time out: 3200"),
    ),
    (
        "zookeeper",
        "2015-07-29 19:04:12,394 - WARN  [/10.10.34.11:3888:QuorumCnxManager$Listener@493] - Received",
        ("2015-07-29T19:04:12.394", "WARNING", "QuorumCnxManager$Listener", "Received"),
    ),
    (
        "spring",
        "2026-11-21 03:12:45.123  INFO 1234 --- [           main] c.example.Orders                         : Started in 2.5 s",
        ("2026-11-21T03:12:45.123", "INFO", "c.example.Orders", "Started in 2.5 s"),
    ),
    (
        "spring",
        "2026-11-21T03:12:45.123Z ERROR 1 --- [orders] [nio-80-exec-1] o.a.c.C.[.[.[/] : Servlet failed",
        ("2026-11-21T03:12:45.123", "ERROR", "o.a.c.C.[.[.[/]", "Servlet failed"),
    ),
    (
        "kafka",
        "[2026-11-21 03:12:45,123] WARN [Broker id=1] (re)elected (kafka.server.KafkaServer:66)",
        ("2026-11-21T03:12:45.123", "WARNING", "kafka.server.KafkaServer", "[Broker id=1] (re)elected"),
    ),
    (
        "elasticsearch",
        "[2026-11-21T03:12:45,123][WARN ][o.e.c.r.a.DiskThreshold  ] [node-1] high disk watermark",
        ("2026-11-21T03:12:45.123", "WARNING", "o.e.c.r.a.DiskThreshold", "[node-1] high disk watermark"),
    ),
    (
        "elasticsearch",
        "[2026-11-21 03:12:45.123][10][critical][main] [source/server/server.cc:117] no listener",
        ("2026-11-21T03:12:45.123", "CRITICAL", "main", "[source/server/server.cc:117] no listener"),
    ),
    ("level-time-logger", "WARN  [2026-11-21 03:12:45,123] com.x.Y: z", ("2026-11-21T03:12:45.123", "WARNING", "com.x.Y", "z")),
    (
        "cassandra",
        "ERROR [main] 2026-11-21 03:12:45,123 Storage.java:12 - z",
        ("2026-11-21T03:12:45.123", "ERROR", "Storage.java", "z"),
    ),
    ("bracketed-level-only", "[ERROR] Failed to execute goal", (None, "ERROR", None, "Failed to execute goal")),
    # syslog and Kubernetes
    (
        "syslog",
        "Nov 21 15:16:01 combo sshd(pam_unix)[19939]: authentication failure; logname= uid=0",
        ("2026-11-21T15:16:01", None, "sshd(pam_unix)", "authentication failure; logname= uid=0"),
    ),
    ("syslog", "Nov  1 06:55:46 LabSZ kernel: eth0: up", ("2026-11-01T06:55:46", None, "kernel", "eth0: up")),
    ("syslog", "Nov 21 06:55:46 combo syslogd 1.4.1: restart.", ("2026-11-21T06:55:46", None, "syslogd 1.4.1", "restart.")),
    (
        "syslog",
        "Nov 21 06:55:46 last message repeated 2 times",
        ("2026-11-21T06:55:46", None, None, "last message repeated 2 times"),
    ),
    ("syslog", "<11>Nov 21 06:55:46 web1 orders[1]: gone", ("2026-11-21T06:55:46", "ERROR", "orders", "gone")),
    (
        "syslog-iso",
        "2026-11-21T03:12:45.123456+01:00 web1 systemd[1]: Started Orders.",
        ("2026-11-21T02:12:45.123456", None, "systemd", "Started Orders."),
    ),
    (
        "syslog-5424",
        "<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - \ufeff'su root' failed for lonvick",
        ("2003-10-11T22:14:15.003", "CRITICAL", "su", "'su root' failed for lonvick"),
    ),
    (
        "syslog-5424",
        r'<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - [a x="]" y="\""][b z="1"] It\'s time',
        ("2003-08-24T12:14:15.000003", "INFO", "myproc", r"It\'s time"),
    ),
    ("syslog-5424", "<15>1 2026-11-21T03:12:45Z - - - - -", ("2026-11-21T03:12:45", "DEBUG", None, "")),
    (
        "klog",
        "I1121 03:12:45.123456    1234 file.go:12] msg",
        ("2026-11-21T03:12:45.123456", "INFO", "file.go", "msg"),
    ),
    (
        "klog",
        'E1121 03:12:45.000001 1 reflector.go:140] x="y"',
        ("2026-11-21T03:12:45.000001", "ERROR", "reflector.go", 'x="y"'),
    ),
    ("klog", "F20251231 23:59:59.999999 1 main.cc:1] gone", ("2025-12-31T23:59:59.999999", "CRITICAL", "main.cc", "gone")),
    (
        "zap",
        "2026-11-21T04:12:45.123+0100\tERROR\tsetup\tapp/main.go:12\tgone\t{}",
        ("2026-11-21T03:12:45.123", "ERROR", "setup", "gone\t{}"),
    ),
    ("zap", "2026-11-21T03:12:45.123Z\twarn\tapp/main.go:12\tslow", ("2026-11-21T03:12:45.123", "WARNING", None, "slow")),
    ("cri", "2026-11-21T03:12:45.123456789Z stderr P half a", ("2026-11-21T03:12:45.123456", None, None, "half a")),
    # web servers, databases
    (
        "access",
        '127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326',
        ("2000-10-10T20:55:36", "INFO", None, '127.0.0.1 "GET /apache_pb.gif HTTP/1.0" 200 2326'),
    ),
    (
        "access",
        r'2001:db8::1 - - [21/Nov/2026:03:12:45 +0000] "POST /a?b=\"c\" HTTP/2.0" 503 0 "https://x/" "Mozilla/5.0 (X11)"',
        ("2026-11-21T03:12:45", "ERROR", None, r'2001:db8::1 "POST /a?b=\"c\" HTTP/2.0" 503 0 "https://x/" "Mozilla/5.0 (X11)"'),
    ),
    (
        "access",
        'www.example.com:443 client.example.com - j doe [21/Nov/2026:03:12:45 +0000] "-" 408 -',
        ("2026-11-21T03:12:45", "WARNING", None, 'client.example.com "-" 408 -'),
    ),
    (
        "access",
        '192.0.2.7 - - [21/Nov/2026:03:12:45 +0000] "GET /" 304 0',
        ("2026-11-21T03:12:45", "INFO", None, '192.0.2.7 "GET /" 304 0'),
    ),
    (
        "nginx-error",
        '2026/11/21 03:12:45 [crit] 1234#5678: *9 open() "/x" failed (2: No such file or directory), client: 192.0.2.7',
        ("2026-11-21T03:12:45", "CRITICAL", None, '*9 open() "/x" failed (2: No such file or directory), client: 192.0.2.7'),
    ),
    (
        "apache-error",
        "[Sun Dec 04 04:47:44 2005] [error] mod_jk child workerEnv in error state 6",
        ("2005-12-04T04:47:44", "ERROR", None, "mod_jk child workerEnv in error state 6"),
    ),
    (
        "apache-error",
        "[Fri Sep 09 10:42:29.902022 2011] [core:error] [pid 35708:tid 4328636416] [client 192.0.2.7] File does not exist",
        ("2011-09-09T10:42:29.902022", "ERROR", "core", "[client 192.0.2.7] File does not exist"),
    ),
    ("apache-error", "[Sun Dec 04 04:47:44 2005] [notice] jk2_init()", ("2005-12-04T04:47:44", "INFO", None, "jk2_init()")),
    (
        "postgres",
        "2026-11-21 03:12:45.123 UTC [12] FATAL:  no such role",
        ("2026-11-21T03:12:45.123", "CRITICAL", None, "no such role"),
    ),
    (
        "postgres",
        "2026-11-21 03:12:45 GMT [12] etl@db ERROR:  no such table",
        ("2026-11-21T03:12:45", "ERROR", None, "no such table"),
    ),
    (
        "mysql",
        "2026-11-21T03:12:45.123456Z 7 [Note] Aborted connection",
        ("2026-11-21T03:12:45.123456", "INFO", None, "Aborted connection"),
    ),
    ("monolog", "[2026-11-21T03:12:45+00:00] app.EMERGENCY: gone {}", ("2026-11-21T03:12:45", "CRITICAL", "app", "gone {}")),
    # functions
    (
        "lambda-python",
        "[WARNING]\t2026-11-21T03:12:45.123Z\t6f1a0c1e-8a55-4d3c-9d9b-0f6a2f1b7c11\tslow",
        ("2026-11-21T03:12:45.123", "WARNING", None, "slow"),
    ),
    (
        "lambda-node",
        "2026-11-21T03:12:45.123Z\t6f1a0c1e-8a55-4d3c-9d9b-0f6a2f1b7c11\tERROR\tgone",
        ("2026-11-21T03:12:45.123", "ERROR", None, "gone"),
    ),
    # general layouts
    ("level", "2026-11-21 03:12:45 ERROR: no such table", ("2026-11-21T03:12:45", "ERROR", None, "no such table")),
    (
        "level-time",
        "ERROR 2026-11-21 03:12:45,123 orders 12 34 gone",
        ("2026-11-21T03:12:45.123", "ERROR", None, "orders 12 34 gone"),
    ),
    ("iso", "2026-11-21 03:12:45 Error opening a file", ("2026-11-21T03:12:45", None, None, "Error opening a file")),
    ("iso", "2026/11/21 03:12:45 as Go's log package writes", ("2026-11-21T03:12:45", None, None, "as Go's log package writes")),
    ("iso", "2026-11-21T03:12:45.1234567Z ##[group]Run", ("2026-11-21T03:12:45.123456", None, None, "##[group]Run")),
    ("brackets", "[2026-11-21 03:12:45] something", ("2026-11-21T03:12:45", None, None, "something")),
    (
        "dbt-console",
        "02:00:04  1 of 3 ERROR creating sql table model shop.orders ... [\x1b[31mERROR\x1b[0m in 0.05s]",
        ("2026-11-22T02:00:04", "ERROR", None, "1 of 3 ERROR creating sql table model shop.orders ... [ERROR in 0.05s]"),
    ),
    ("time", "03:12:45  Running with dbt=1.7.4", ("2026-11-22T03:12:45", None, None, "Running with dbt=1.7.4")),
    ("time-level", "03:12:45 WARNING slow", ("2026-11-22T03:12:45", "WARNING", None, "slow")),
    ("level-only", "WARN  slow", (None, "WARNING", None, "slow")),
    # something between time and level
    *(
        ("postgres", f"2026-11-21 03:12:45 UTC [12] {text}", ("2026-11-21T03:12:45", level, None, message))
        for text, level, message in [
            ("ERROR:  42P01: no such table", "ERROR", "42P01: no such table"),
            ("etl@db LOCATION:  parserOpenTable, parse_relation.c:1449", "INFO", "parserOpenTable, parse_relation.c:1449"),
            ("[unknown]@[unknown] DEBUG3:  x", "DEBUG", "x"),
        ]
    ),
    *(
        ("rds", f"2026-11-21 03:12:45 UTC:{prefix}:[12]:PANIC:  gone", ("2026-11-21T03:12:45", "CRITICAL", None, "gone"))
        for prefix in ("10.0.0.5(49654):etl@shop", ":@", "[local]:rdsadmin@rdsadmin", "2001:db8::1(5432):etl@shop")
    ),
    *(
        ("postgres-prefix", f"2026-11-21 03:12:45 UTC{prefix}ERROR:  gone", ("2026-11-21T03:12:45", "ERROR", None, "gone"))
        for prefix in (
            " [12]: [3-1] user=etl,db=shop,app=PostgreSQL JDBC Driver,client=10.0.0.5 ",
            " [12]: [3-1] db=,user= ",
            "-69200b5d.55b-",
            " etl shop 10.0.0.5(5) 69200b5d.55b 3 ",
            " [12] [app] etl shop 10.0.0.5 3/1234 0 SELECT 00000 ",
            ",etl,shop,12,10.0.0.5(5),",
            " [12] client backend etl@shop ",
            "|etl|shop|[12]|",
            " 12 etl@shop ",
        )
    ),
    ("ray", "2026-11-21 03:12:45,123\tWARNING worker.py:12 -- slow", ("2026-11-21T03:12:45.123", "WARNING", "worker.py", "slow")),
    ("ray", "2026-11-21 03:12:45,123 ERROR worker.py:12 -- gone", ("2026-11-21T03:12:45.123", "ERROR", "worker.py", "gone")),
    ("ray-worker", "(pid=7) 2026-11-21 03:12:45,123\tERROR a.py:1 -- gone", ("2026-11-21T03:12:45.123", "ERROR", "a.py", "gone")),
    ("ray-core", "[2026-11-21 03:12:45,123 E 12 34] core.cc:5: gone", ("2026-11-21T03:12:45.123", "ERROR", "core.cc", "gone")),
    ("airbyte", "2026-11-21 03:12:45 [source] > WARN slow", ("2026-11-21T03:12:45", "WARNING", None, "slow")),
    (
        "airbyte",
        "2026-11-21 03:12:45 destination > ERROR main i.a.D(run):186 gone",
        ("2026-11-21T03:12:45", "ERROR", "i.a.D", "gone"),
    ),
    ("airbyte", "2026-11-21 03:12:45 platform > INFO i.a.w.P(run):1 - up", ("2026-11-21T03:12:45", "INFO", "i.a.w.P", "up")),
    (
        "jenkins",
        "2026-11-21 03:12:45.123+0100 [id=1]\tSEVERE\ta.B$C#d: gone",
        ("2026-11-21T02:12:45.123", "ERROR", "a.B$C#d", "gone"),
    ),
    (
        "spring",
        "2026-11-21 03:12:45.606  WARN [orders,,,] 246 --- [  pool-1] c.e.A : slow",
        ("2026-11-21T03:12:45.606", "WARNING", "c.e.A", "slow"),
    ),
    (
        "spring",
        "2026-11-21 03:12:45.606 ERROR [orders,7b9,2e3,true] 246 --- [main] c.e.A : ",
        ("2026-11-21T03:12:45.606", "ERROR", "c.e.A", ""),
    ),
    (
        "spring",
        "2026-11-21T03:12:45Z  INFO 1 --- [orders] [main] [7b9-2e3] c.e.A : up",
        ("2026-11-21T03:12:45", "INFO", "c.e.A", "up"),
    ),
    (
        "spring",
        "2026-11-21T03:12:45Z  INFO   --- [orders] [main] [       ] c.e.A : up",
        ("2026-11-21T03:12:45", "INFO", "c.e.A", "up"),
    ),
    ("spring", "2026-11-21 03:12:45 DEBUG 246 --- c.e.A : up", ("2026-11-21T03:12:45", "DEBUG", "c.e.A", "up")),
    (
        "trino",
        "2026-11-21T03:12:45.123Z\tERROR\tQuery-2026_1_a-1\tio.trino.execution.X\tgone",
        ("2026-11-21T03:12:45.123", "ERROR", "io.trino.execution.X", "gone"),
    ),
    (
        "clickhouse",
        "2026-11-21 03:12:45.123456 [ 12 ] {0b-1::all_1} <Error> shop.orders (2b1d): gone",
        ("2026-11-21T03:12:45.123456", "ERROR", "shop.orders (2b1d)", "gone"),
    ),
    (
        "clickhouse",
        "2026-11-21 03:12:45.123456 [ 12 ] <Trace> DB::Loader::run(): up",
        ("2026-11-21T03:12:45.123456", "TRACE", "DB::Loader::run()", "up"),
    ),
    (
        "sql-server",
        "2026-11-21 03:12:45.12 Logon       Error: 18456, Severity: 14, State: 8.",
        ("2026-11-21T03:12:45.120", "ERROR", "Logon", "Error: 18456, Severity: 14, State: 8."),
    ),
    (
        "sql-server",
        "2026-11-21 03:12:45.12 spid5s      Starting up.",
        ("2026-11-21T03:12:45.120", "INFO", "spid5s", "Starting up."),
    ),
    (
        "log4j-words",
        "2026-11-21 03:12:45,123 ERROR [Timer-3] o.a.n.Sql Sql[id=0] gone",
        ("2026-11-21T03:12:45.123", "ERROR", "o.a.n.Sql", "Sql[id=0] gone"),
    ),
    ("rust", "2026-11-21T03:12:45.5Z ERROR load::run: gone", ("2026-11-21T03:12:45.500", "ERROR", "load::run", "gone")),
    (
        "nlog",
        "2026-11-21 03:12:45.1234|0|ERROR|Orders.Load|gone |url: x",
        ("2026-11-21T03:12:45.123400", "ERROR", "Orders.Load", "gone |url: x"),
    ),
    ("colons", "2026-11-21 03:12:45,123:ERROR:gone", ("2026-11-21T03:12:45.123", "ERROR", None, "gone")),
    (
        "singer",
        "time=2026-11-21 03:12:45 name=tap level=CRITICAL message=a: b=c",
        ("2026-11-21T03:12:45", "CRITICAL", "tap", "a: b=c"),
    ),
    ("ruby", "E, [2026-11-21T03:12:45 #12] ERROR -- A::B: gone", ("2026-11-21T03:12:45", "ERROR", "A::B", "gone")),
    ("ruby", "A, [2026-11-21T03:12:45.5 #12]   ANY -- : gone", ("2026-11-21T03:12:45.500", None, None, "gone")),
    ("php-untimed", "PHP Fatal error:  Uncaught E in x", (None, "CRITICAL", None, "Uncaught E in x")),
    ("dotnet", "fail: Orders.Load[13]", (None, "ERROR", "Orders.Load", "")),
    ("dotnet-time", "2026-11-21 03:12:45 crit: A.B`1[0] gone", ("2026-11-21T03:12:45", "CRITICAL", "A.B`1", "gone")),
    ("ci-mark", "::error file=a.js,line=1,title=No rows::gone", (None, "ERROR", None, "gone")),
    ("ci-mark", "##vso[task.logissue sourcepath=C:\\a.cs;type=warning;code=1]slow", (None, "WARNING", None, "slow")),
    ("ci-mark-time", "2026-11-21T03:12:45.1234567Z ##[debug]up", ("2026-11-21T03:12:45.123456", "DEBUG", None, "up")),
    ("ci-mark-time", "2026-11-21T03:12:45.1234567Z ::notice::up", ("2026-11-21T03:12:45.123456", "INFO", None, "up")),
    (
        "pentaho",
        "2026/11/21 03:12:45 - Table input.0 - ERROR (version 9, build 1 from x) : gone",
        ("2026-11-21T03:12:45", "ERROR", "Table input.0", "gone"),
    ),
    ("level-in-brackets", "[2026-11-21 03:12:45 ERR] gone", ("2026-11-21T03:12:45", "ERROR", None, "gone")),
    ("time-in-brackets-level", "[03:12:45 WRN] slow", ("2026-11-22T03:12:45", "WARNING", None, "slow")),
    ("time-bracketed-level", "03:12:45.123 [error] gone", ("2026-11-22T03:12:45.123", "ERROR", None, "gone")),
    ("brackets-bracketed-level", "[2026/11/21 03:12:45] [ info] [engine] up", ("2026-11-21T03:12:45", "INFO", None, "[engine] up")),
    ("bracketed-level", "2026-11-21 03:12:45 <Error> gone", ("2026-11-21T03:12:45", "ERROR", None, "gone")),
    ("bracketed-level", "2026-11-21 03:12:45 (error) gone", ("2026-11-21T03:12:45", "ERROR", None, "gone")),
    ("process-level", "2026-11-21 03:12:45 12 [ERROR ] gone", ("2026-11-21T03:12:45", "ERROR", None, "gone")),
    ("brackets-fields-level", "[2026-11-21 03:12:45,123][12][ERROR] gone", ("2026-11-21T03:12:45.123", "ERROR", None, "gone")),
    ("level", "2026-11-21 03:12:45 ERROR2 gone", ("2026-11-21T03:12:45", "ERROR", None, "gone")),
    ("level", "2026/11/21 03:12:45 DEBUG-4 up a=b", ("2026-11-21T03:12:45", "DEBUG", None, "up a=b")),
    ("bracketed-level-only", "[ warn] slow", (None, "WARNING", None, "slow")),
    ("bracketed-level", "21.11.2026 03:12:45.123 *ERROR* [main] gone", ("2026-11-21T03:12:45.123", "ERROR", None, "[main] gone")),
    ("bracketed-level", "261121  3:12:45 [Note] up", ("2026-11-21T03:12:45", "INFO", None, "up")),
    (
        "brackets-level",
        "[2026-11-21 03:12:45.123 +0100] ERROR (a/12 on h): gone",
        ("2026-11-21T02:12:45.123", "ERROR", None, "gone"),
    ),
    ("brackets-level", "[11/02/26 03:12:45] WARNING  slow    a.py:7", ("2026-11-02T03:12:45", "WARNING", None, "slow    a.py:7")),
    ("time-in-brackets", "[03:12:45.123] ERROR (12): gone", ("2026-11-22T03:12:45.123", "ERROR", None, "gone")),
    ("time-in-brackets", "[03:12:45] [WARN] slow", ("2026-11-22T03:12:45", "WARNING", None, "slow")),
    (
        "jboss",
        "2026-11-21 03:12:45,123 WARN  [org.jboss.as] (MSC (1) thread 1-2) slow: 3 s",
        ("2026-11-21T03:12:45.123", "WARNING", "org.jboss.as", "slow: 3 s"),
    ),
    ("small-level", "2026-11-21 03:12:45 CET error: gone: 3", ("2026-11-21T02:12:45", "ERROR", None, "gone: 3")),
    ("postgres-angles", "<2026-11-21 03:12:45.1 CET [7] a@b>FATAL:  gone", ("2026-11-21T02:12:45.1", "CRITICAL", None, "gone")),
    ("logrus", "ERRO[2026-11-21T03:12:45+01:00] gone  a=b", ("2026-11-21T02:12:45", "ERROR", None, "gone  a=b")),
    ("logrus", "DEBU[12345] up", (None, "DEBUG", None, "up")),
]


@pytest.mark.parametrize(("name", "line", "expected"), LINES, ids=[f"{name}-{number}" for number, (name, _, _) in enumerate(LINES)])
def test_parsed_columns(name: str, line: str, expected: tuple[str | None, str | None, str | None, str]) -> None:
    time, level, logger, message = expected
    assert read(name, line) == ParsedLine(None if time is None else us(time), level, logger, message)


KNOWN_EVERYWHERE = [(name, line) for name, line, _ in LINES if format_named(name).unambiguous]


DBT = [
    ("Running with dbt=1.7.4", "INFO"),
    ("1 of 3 START sql table model shop.orders ... [RUN]", "INFO"),
    ("1 of 3 ERROR creating sql table model shop.orders ... [ERROR in 0.05s]", "ERROR"),
    ("2 of 3 FAIL 1 not_null_orders ... [FAIL 1 in 0.1s]", "ERROR"),
    ("3 of 3 WARN 1 unique_orders ... [WARN 1 in 0.1s]", "WARNING"),
    ("Completed with 1 error and 0 warnings:", "ERROR"),
    ("Completed with 0 errors and 2 warnings:", "WARNING"),
    ("Completed with 12 errors, 0 partial successes, and 1 warning:", "ERROR"),
    ("Completed successfully", "INFO"),
    ("Database Error in model orders (models/orders.sql)", "ERROR"),
    ("Encountered an error:", "ERROR"),
    ("Done. PASS=1 WARN=0 ERROR=1 SKIP=1 TOTAL=3", "INFO"),
    ("relation of 1 Database Error in model", None),
]


def test_console_of_dbt() -> None:
    lines = [f"02:00:04  {text}" for text, _ in DBT]
    chosen = detect_format(line.encode() for line in lines)
    assert chosen.name == "dbt-console"
    assert [read(chosen.name, line) for line in lines] == [
        ParsedLine(us("2026-11-22T02:00:04"), level, None, text) for text, level in DBT
    ]
    assert read("plain", lines[2]) == read(chosen.name, lines[2]), "also where another program runs dbt"
    assert read("plain", lines[-1]) is None, "and no other line that only begins with a time"


@pytest.mark.parametrize(("name", "line"), KNOWN_EVERYWHERE, ids=[name for name, _ in KNOWN_EVERYWHERE])
def test_a_run_of_another_format_knows_the_line_too(name: str, line: str) -> None:
    assert read("plain", line) == read("json", line) == read(name, line)


PIECES = st.sampled_from([each.example for each in FORMATS])


@QUIET
@given(PIECES, PIECES, st.integers(0, 60), st.integers(0, 60), st.sampled_from(["", " ", "x", " - ", "[", "\t", "INFO ", "é"]))
@example("2026-11-21 03:12:45.123 UTC [1234]", "INFO x", 29, 0, "")
@example("INFO", "42", 4, 0, "\t")
def test_prefix_check_loses_no_line(one: str, other: str, end: int, begin: int, between: str) -> None:
    """The slow way, trying every format in order, gives the same result, for a line and for it with its time in ISO's notation."""
    line = one[:end] + between + other[begin:]
    clock = TimestampParser(reference_us=0)

    def first(text: str) -> ParsedLine | None:
        asked = [each for each in FORMATS if each.unambiguous and text[:1] and text[0] in each.prefix.first]
        return next((parsed for each in asked if (parsed := each.bind(clock)(text)) is not None), None)

    known, iso = first(line), rewritten(line)
    if iso is not None and (known is None or known.timestamp is None):
        assert PLAIN.reader(clock)(line) in (first(iso), known)
    else:
        assert PLAIN.reader(clock)(line) == known

    def parsing(text: str) -> set[LogFormat]:
        asked = [each for each in FORMATS if not each.prefix.first or (text[:1] and text[0] in each.prefix.first)]
        return {each for each in asked if each.bind(clock)(text) is not None}

    timed = {each for each in FORMATS if each.layout is None or each.layout.stamp}
    own = parsing(line)
    others = parsing(iso) & timed if iso is not None and own.isdisjoint(timed) else set()
    assert parsed_counts([line]) == dict.fromkeys(own | others, 1)


NOT_OF_A_LOG = [
    *("", " ", "hello", "42 rows", "a=b c=d", "x: y", "Error: no such table", "error opening", "----", "{}", "[]", '{"a": 1}', "[1, 2]"),
    *("20261121", "2026-11-21", "2026-11-21 rows", "03:12:45 elapsed", "1/2/2026 10:00", "INFO", "INFO starting", "I am", "E2E tests"),
    *("[1234] x", "[x] y", "<b>bold</b>", "<34>x", "LINE 1: select", "NB: this", "Mon Tue", "Nov 21 was cold", "192.0.2.7 - -", "\0\0"),
    *("::error", "::warning is", "##[group]x", "PHP is slow", "fail: no file", "warn: x[0]y", "E, F and G", "(load pid=1) x", "[Fine] x"),
    *("SELECT * FROM x", "{'a': 1}", '{"level": "info"', '{"level": "info"} trailing', "level", "level=", '=level "x"', "http://x/?level=info"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(NOT_OF_A_LOG)))
def test_unknown_lines_in_a_plain_run(number: int) -> None:
    assert read("plain", NOT_OF_A_LOG[number]) is None


@pytest.mark.parametrize(
    "text",
    [
        *("the parser saw ERROR:  twice", "[worker] loaded [ERROR] rows", "source > TARGET moved", "[12] warning signs", "(see above) Error opening"),
        *("42 ERRORS found", "<error>gone</error>", "INFO3D engine", "ERROR404 page", "Fine weather", "[http] [orders] [x] done", "a|b|c"),
        *("[42%] loading, ERROR: 3 of 4", "##[group]Run", "12 Errors"),
    ],
)  # fmt: skip
def test_word_in_a_sentence_is_no_level(text: str) -> None:
    for time in ("", ".123", ",123456", "Z", "-0530", "+05:30", ",123 -0530"):
        clock = read("plain", f"2026-11-21 03:12:45{time} x")
        assert clock is not None and read("plain", f"2026-11-21 03:12:45{time} {text}") == clock._replace(message=text)


NAME = st.from_regex(r"[a-z_]{1,9}", fullmatch=True)
NUMBER = st.integers(1, 99_999).map(str)
OF_POSTGRES = st.one_of(
    NUMBER.map("[{}]".format), NUMBER.map("[{}-1]:".format), st.builds("[{}] {}@{}".format, NUMBER, NAME, NAME), NUMBER.map("10.0.0.5({})".format),
    st.builds("user={},db={},app={} {}".format, NAME, NAME, NAME, NAME), st.builds("{:x}.{:x}".format, st.integers(1), st.integers(1)),
)  # fmt: skip
BEFORE_LEVEL = st.one_of(
    NUMBER.map("[{}]".format), NAME.map("[{}]".format), st.builds("({} {})".format, NAME, NUMBER), NAME.map("{{{}}}".format),
    st.builds("[{}={}]".format, NAME, NUMBER),
)  # fmt: skip
WORDS = {"TRACE": "TRACE", "DEBUG": "DEBUG2", "INFO": "INFO", "WARNING": "WARN", "ERROR": "ERROR3", "CRITICAL": "FATAL"}


@QUIET
@given(st.lists(OF_POSTGRES, min_size=1, max_size=4), st.sampled_from([" ", ":", ",", "|"]), NAME)
def test_level_of_postgres_behind_any_prefix(fields: list[str], mark: str, message: str) -> None:
    line = f"2026-11-21 03:12:45 UTC{mark}{mark.join(fields)}{mark}FATAL:  {message}"
    assert read("plain", line) == ParsedLine(us("2026-11-21T03:12:45"), "CRITICAL", None, message)


@QUIET
@given(
    st.lists(BEFORE_LEVEL, min_size=1, max_size=5),
    st.sampled_from([*WORDS]),
    st.sampled_from(["{}", "[{}]", "<{}>", "[ {}]"]),
    NAME,
)
def test_level_behind_fields(fields: list[str], level: str, marks: str, message: str) -> None:
    rest = f"{' '.join(fields)} {marks.format(WORDS[level])} {message} x"
    expected = ParsedLine(us("2026-11-21T03:12:45"), level, None, f"{message} x")
    assert read("plain", f"2026-11-21 03:12:45 {rest}") == read("plain", f"[2026-11-21 03:12:45] {rest}") == expected


RECORD = "2026-11-21 03:12:45,123 - a - ERROR - gone"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"Loading  50%|#  | 1/2\r{RECORD}", RECORD), (f"  0%|  | 0/2\r{RECORD}", RECORD), (f"\r{RECORD}", RECORD),
        (f"\r     \r{RECORD}\r 50%|# |", RECORD), (f"2026-11-21 03:12:44 INFO up\r{RECORD}", RECORD), (f"{RECORD}\r", RECORD),
        (f"\x1b[2K\r\x1b[1G{RECORD}", RECORD), ("Loading\rERROR: gone", "ERROR: gone"), ("Loading\r50%", None),
    ],
)  # fmt: skip
def test_record_behind_a_progress_bar(text: str, expected: str | None) -> None:
    assert read("plain", text) == (read("plain", expected) if expected else None)


@pytest.mark.parametrize("text", [f"{RECORD}: a\rERROR: b", '{"level":"info","message":"a\rERROR: b"}'])
def test_message_with_carriage_returns_stays(text: str) -> None:
    parsed = read("plain", text)
    assert parsed is not None and parsed.message.endswith("a\rERROR: b")


def test_states_of_a_line_are_searched_up_to_a_limit() -> None:
    assert read("plain", RECORD + "\r1%" * MAX_STATES) is not None
    assert read("plain", "0%\r" + RECORD + "\r1%" * (MAX_STATES - 1)) == read("plain", RECORD)
    assert read("plain", "0%\r" + RECORD + "\r1%" * MAX_STATES) is None


def test_the_first_of_two_formats_of_nearly_as_many_lines_is_chosen() -> None:
    """The second one parses more than three quarters of all lines, but the first one nearly as many."""
    both, first, second, none = ("INFO - INFO", "%(x) - INFO", "INFO - a.b", "")
    tails = [both] * 60 + [first] * 5 + [second] * 20 + [none] * 15
    lines = [f"2026-11-21 03:12:45,123 - {tail} - x".encode() if tail else b"x" for tail in tails]
    assert detect_format(lines) is format_named("python")


@EVERY
def test_an_example_is_of_its_format(each: LogFormat) -> None:
    assert detect_format([each.example.encode()]) is each
    assert detect_format([each.example.encode()] * 5 + [b"something else"]) is each


@EVERY
def test_a_format_travels_by_its_name(each: LogFormat) -> None:
    assert pickle.loads(pickle.dumps(each)) is format_named(each.name) is each


def test_an_unknown_name() -> None:
    with pytest.raises(KeyError):
        format_named("nonsense")


@EVERY
@QUIET
@given(indentation=st.sampled_from([" ", "\t", "    "]))
def test_no_format_knows_an_indented_line(each: LogFormat, indentation: str) -> None:
    assert read(each.name, indentation + each.example) is None


@EVERY
def test_byte_order_mark_is_ignored(each: LogFormat) -> None:
    assert read(each.name, "\ufeff" + each.example) == read(each.name, each.example)
    assert read("plain", "\ufeff" * 10_000 + "x") is None


# Detection.


PAIRS = list(permutations(["spark", "openmetadata", "json", "klog", "access", "python"], 2))


def line_of(name: str, number: int = 0) -> bytes:
    example = format_named(name).example
    return (example if name in ("json", "brackets") else f"{example} {number}").encode()


def test_empty_sample_is_plain() -> None:
    assert (
        detect_format([])
        is detect_format([b""])
        is detect_format([b"hello", b"world"])
        is detect_format([b"  indented"] * 10)
        is PLAIN
    )


def test_a_log_of_prints_with_some_lines_of_a_logger() -> None:
    """One line in ten is enough, since no format parses prints."""
    lines = [line_of("openmetadata") if number % 10 == 0 else b"Processed orders" for number in range(200)]
    assert detect_format(lines).name == "openmetadata"


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_most_frequent_format_is_chosen(one: str, other: str) -> None:
    lines = [line_of(one) if number % 10 < 7 else line_of(other) for number in range(100)]
    assert detect_format(lines).name == one


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_lines_of_another_format_are_parsed_too(one: str, other: str) -> None:
    assert read(one, format_named(other).example) == read(other, format_named(other).example)


def test_some_lines_that_look_like_more_do_not_decide() -> None:
    """ "INFO Reading: x" is a message with a colon, not a logger, where most lines have none."""
    lines = [f"2026-11-21 03:12:45 INFO {message}" for message in ("42 rows", "read 42", "all done", "Reading: x")]
    assert detect_format(line.encode() for line in lines * 20).name == "level"
    assert read("level", lines[3]) == ParsedLine(us("2026-11-21T03:12:45"), "INFO", None, "Reading: x")


def test_some_lines_without_a_logger_do_not_decide_either() -> None:
    lines = [
        b"2026-11-21 03:12:45 INFO a.B: 42 rows",
        b"2026-11-21 03:12:45 INFO a.C: 42 rows",
        b"2026-11-21 03:12:45 INFO 42 rows",
    ] * 20
    assert detect_format(lines).name == "log4j"


def test_nearly_as_many_lines_and_more_of_each() -> None:
    """Most lines have a logger; the format without one parses all of them."""
    lines = [b"2026-11-21 03:12:45,123 - INFO - orders - 42 rows"] * 8 + [b"2026-11-21 03:12:45,123 - INFO - 42 rows"] * 2
    assert detect_format(lines).name == "python-level-first"
    assert detect_format(lines[4:]).name == "python-level-only"


def test_length_of_a_head_is_bounded() -> None:
    """A request of more than 10,000 characters is not parsed, nor is any line that takes longer to parse than to store."""
    line = '192.0.2.7 - - [21/Nov/2026:03:12:45 +0000] "GET /{} HTTP/1.1" 200 1'
    assert read("access", line.format("x" * 9_000)) is not None
    assert read("access", line.format("x" * 10_000)) is None


def test_a_catch_all_hides_no_level() -> None:
    """Most lines have only a time, but a layout of times would lose the levels."""
    lines = [b"2026-11-21 03:12:45 42 rows"] * 20 + [b"2026-11-21 03:12:45 ERROR gone"]
    assert detect_format(lines).name == "level"
    assert detect_format(lines[:20]).name == "iso"


def test_ambiguous_format_must_be_frequent() -> None:
    prints, times = [b"hello"] * 8, [b"03:12:45 hello"]
    assert detect_format(prints + times) is PLAIN
    assert detect_format(prints + times * 3).name == "time"


@QUIET
@given(
    st.lists(st.sampled_from([*(line_of(each.name) for each in FORMATS), b"x", b"", b" y", b"\xff"]), max_size=30),
    st.integers(0, 30),
)
def test_the_same_sample_gives_the_same_format(lines: list[bytes], first: int) -> None:
    chosen = detect_format(lines)
    growing = FormatSample()
    growing.add(lines[:first])
    growing.add(lines[first:])
    assert growing.format() is chosen and growing.lines == len(lines)
    assert detect_format(iter(lines)) is chosen
    assert detect_format(line for line in lines for _ in range(2)) is chosen, "shares count, not numbers"


def test_only_a_sample_is_read() -> None:
    def endless() -> Any:
        yield from [line_of("spark")] * SAMPLE_LINES
        raise AssertionError("too far")

    assert detect_format(endless()).name == "spark"


@EVERY
def test_the_chosen_format_reads_its_log(each: LogFormat) -> None:
    """Every line of a run, through all layers."""
    lines = [line_of(each.name, number) for number in range(20)]
    found = list(events(enumerate(lines), detect_format(lines)))
    assert len(found) == 20
    assert all(event.parsed.level or event.parsed.timestamp or not each.unambiguous or each.odds == 50 for event in found)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(FORMATS), st.integers(1, 9)), min_size=1, max_size=4), st.integers(0, 3))
def test_detection_that_stops_early_chooses_the_same(parts: list[tuple[LogFormat, int]], foreign: int) -> None:
    lines = [each.example.encode() for each, count in parts for _ in range(count)] + [b"something else"] * foreign
    all_counted = FormatSample()
    all_counted.add(lines)
    assert detect_format(lines) is all_counted.format()
