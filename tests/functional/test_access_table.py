"""Access control matrix: the response status for each principal, action and resource, for every operation and both entries. The table is
written by hand.

An operation without a row fails a test below, so each new one needs an explicit decision on its permissions.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from chalicelib.access.grants import Scope
from chalicelib.catalog.file_ids import run_object_id
from chalicelib.composition import COMPACTION
from chalicelib.coordination import Partition, Status
from chalicelib.coordination.partition import format_timestamp
from chalicelib.events.codecs import bulk, firehose, logstash, otlp
from chalicelib.events.event import NewEvent
from chalicelib.pipelines.files.output_sets import OutputSet, put_output_set
from chalicelib.ports import Run
from chalicelib.routes.operations import OPERATIONS, match
from chalicelib.runlog.log_end import list_all
from tests.functional.archive import Site, hash_of
from tests.functional.gateway import LOGS, Answer, call, installed, url_call
from tests.issuer import JWT, Issuer, bearer
from tests.support.publisher import InMemoryPublisher
from tests.support.samples import dead_letter
from tests.world import START_MS, World

ISSUER = Issuer()
FORGER = Issuer()  # another's key under the same id
SALES_RUN, HR_RUN = Run("svc_sales.etl", "run-1"), Run("svc_hr.etl", "run-1")
SHOUTED_RUN = Run("SVC_SALES.etl", "run-1")
"""Its ``what`` is that of SALES_RUN; its name is another."""

PRINCIPALS: dict[str, dict[str, list[str]] | None] = {
    "nobody": None,
    "forger": None,
    "nothing": {},
    "writer": {"logs_write": ["svc_sales.*"]},
    "reader": {"logs_read": ["svc_sales.*"]},
    "filer": {"archive_write": ["sales_*"]},
    "finder": {"archive_read": ["sales_*"]},
    "operator": {"admin": ["svc_sales.*"]},
    "hr": {
        "logs_write": ["svc_hr.*"],
        "logs_read": ["svc_hr.*"],
        "logs_delete": ["svc_hr.*"],
        "archive_write": ["hr_*"],
        "archive_read": ["hr_*"],
        "admin": ["svc_hr.*"],
    },
    "root": {name: ["*"] for name in ("logs_write", "logs_read", "logs_delete", "archive_write", "archive_read", "admin")},
}

# $sales and $hr are files of the archive (what: sales_db and hr_db); $log, $hr_log and $shouted_log are logs of runs; $none is no file; $letter is
# a dead letter of run-1.
# The body, if any, follows the path; %sales, %hr and %nobodys are records of these runs in the agent's format. Some responses have a status
# for each record: Elasticsearch's 200 may have rejected all of them.
TABLE = """
                                                          nobody forger nothing writer reader filer finder operator hr  root
GET    /                                                  302    302    302     302    302    302   302    302      302 302
GET    /v1/health                                         200    200    200     200    200    200   200    200      200 200
GET    /health/                                           200    200    200     200    200    200   200    200      200 200
GET    /spec/                                             200    200    200     200    200    200   200    200      200 200
GET    /docs/                                             302    302    302     302    302    302   302    302      302 302
GET    /docs/static/index.html                            200    200    200     200    200    200   200    200      200 200
GET    /v1/openapi.json                                   200    200    200     200    200    200   200    200      200 200
GET    /v1/ui/                                            200    200    200     200    200    200   200    200      200 200
GET    /v1/ui/config                                      200    200    200     200    200    200   200    200      200 200
GET    /v1/ui/no-such-file.js                             404    404    404     404    404    404   404    404      404 404
GET    /v0/environment/                                   401    401    200     200    200    200   200    200      200 200
GET    /v0/archive/                                       401    401    200     200    200    200   200    200      200 200

GET    $LOGS/svc_sales.etl                                401    401    403     403    200    403   403    403      403 200
GET    $LOGS/svc_hr.etl                                   401    401    403     403    403    403   403    403      200 200
GET    $LOGS/svc_sales.etl/run-1                          401    401    403     403    200    403   403    403      403 200
GET    $LOGS/svc_sales.etl/no-such-run                    401    401    403     403    200    403   403    403      403 200
GET    $LOGS/svc_hr.etl/run-1                             401    401    403     403    403    403   403    403      200 200
GET    $LOGS/svc_hr.etl/no-such-run                       401    401    403     403    403    403   403    403      200 200
GET    $LOGS/SVC_SALES.etl/run-1                          401    401    403     403    403    403   403    403      403 200
GET    $LOGS/svc_sales.etl/last                           401    401    403     403    200    403   403    403      403 200
GET    $LOGS/svc_hr.etl/last                              401    401    403     403    403    403   403    403      200 200
GET    $LOGS/svc_sales.etl/run-1/download                 401    401    403     403    200    403   403    403      403 200
GET    $LOGS/svc_sales.etl/no-such-run/download           401    401    403     403    404    403   403    403      403 404
GET    $LOGS/svc_hr.etl/run-1/download                    401    401    403     403    403    403   403    403      200 200
GET    $LOGS/svc_hr.etl/no-such-run/download              401    401    403     403    403    403   403    403      404 404
GET    $LOGS/svc_sales.etl/last/download                  401    401    403     403    200    403   403    403      403 200
GET    $LOGS/svc_hr.etl/last/download                     401    401    403     403    403    403   403    403      200 200
GET    $LOGS/svc_sales.etl/stream/run-1                   401    401    403     403    200    403   403    403      403 200
GET    $LOGS/svc_sales.etl/stream/no-such-run             401    401    403     403    200    403   403    403      403 200
GET    $LOGS/svc_hr.etl/stream/run-1                      401    401    403     403    403    403   403    403      200 200
GET    $LOGS/SVC_SALES.etl/stream/run-1                   401    401    403     403    403    403   403    403      403 200
GET    $LOGS/svc_sales.etl/run-1/stream/x                 401    401    403     403    200    403   403    403      403 200
GET    $LOGS/svc_hr.etl/svc_sales.etl/stream/run-1        401    401    403     403    403    403   403    403      200 200
GET    $LOGS/svc_sales.a/b/run-1                          401    401    403     403    200    403   403    403      403 200
GET    $LOGS/svc_sales.a/b/c/run-1                        401    401    403     403    200    403   403    403      403 200
GET    $LOGS/svc_sales.a/b/c/d/run-1                      401    401    403     403    200    403   403    403      403 200
GET    $LOGS/svc_sales.a/b/c/d/e/run-1                    401    401    403     403    200    403   403    403      403 200
GET    $LOGS/svc_sales.a/b/c/d/e/f/run-1                  401    401    403     403    200    403   403    403      403 200
GET    $LOGS/svc_sales.a/b/c/d/e/f/g/run-1                401    401    403     403    200    403   403    403      403 200
GET    $LOGS/svc_hr.a/b/c/d/e/f/run-1/download            401    401    403     403    403    403   403    403      404 404
GET    $LOGS/svc_hr.etl/%2E%2E/svc_sales.etl/run-1        401    401    403     403    403    403   403    403      200 200
GET    $LOGS/..%2Fsvc_sales.etl/run-1                     401    401    403     403    403    403   403    403      403 200
GET    $LOGS/svc%5Fsales%2Eetl/run-1                      401    401    403     403    200    403   403    403      403 200
GET    $LOGS/svc%255Fsales.etl/run-1                      401    401    403     403    403    403   403    403      403 200

GET    /v1/catalog                                                401    401    403     403    200    403   403    403      200 200
GET    /v1/catalog?outcome=failed&fqn=svc_hr.*                    401    401    403     403    200    403   403    403      200 200
GET    /v1/catalog?contains=svc_hr                                401    401    403     403    200    403   403    403      200 200
GET    /v1/catalog/history?fqn=svc_sales.etl                      401    401    403     403    200    403   403    403      200 200
GET    /v1/catalog/history?fqn=svc_hr.etl&fqn=svc_sales.etl       401    401    403     403    200    403   403    403      200 200
GET    /v1/catalog/history                                        401    401    403     403    400    403   403    403      400 400
GET    /v1/catalog/pipelines                                      401    401    403     403    200    403   403    403      200 200
GET    /v1/catalog/pipelines?prefix=svc_hr                        401    401    403     403    200    403   403    403      200 200
GET    /v1/catalog/pipelines/svc_sales.etl/runs                   401    401    403     403    200    403   403    403      403 200
GET    /v1/catalog/pipelines/svc_hr.etl/runs                      401    401    403     403    403    403   403    403      200 200
GET    /v1/catalog/pipelines/svc_sales.etl/runs/run-1             401    401    403     403    200    403   403    403      403 200
GET    /v1/catalog/pipelines/svc_sales.etl/runs/no-such-run       401    401    403     403    404    403   403    403      403 404
GET    /v1/catalog/pipelines/svc_hr.etl/runs/run-1                401    401    403     403    403    403   403    403      200 200
GET    /v1/catalog/pipelines/svc_hr.etl/runs/no-such-run          401    401    403     403    403    403   403    403      404 404
GET    /v1/catalog/pipelines/svc_sales.etl/runs/run-1/explanation 401    401    403     403    200    403   403    403      403 200
GET    /v1/catalog/pipelines/svc_hr.etl/runs/run-1/explanation   401    401    403     403    403    403   403    403      200 200
GET    /v1/catalog/pipelines/svc_sales.etl/runs/nobody/explanation 401    401    403     403    404    403   403    403      403 404
GET    /v1/catalog/pipelines/svc_hr.etl/runs/nobody/explanation  401    401    403     403    403    403   403    403      404 404
GET    /v1/catalog/pipelines/svc_sales.etl/runs/run-1/grep?q=cre  401    401    403     403    200    403   403    403      403 200
GET    /v1/catalog/pipelines/svc_hr.etl/runs/run-1/grep?q=secret  401    401    403     403    403    403   403    403      200 200
GET    /v1/catalog/pipelines/svc_hr.etl/runs/run-1/grep           401    401    403     403    403    403   403    403      400 400
GET    /v1/catalog/pipelines/svc_sales.etl/runs/run-1/histogram   401    401    403     403    200    403   403    403      403 200
GET    /v1/catalog/pipelines/svc_hr.etl/runs/run-1/histogram      401    401    403     403    403    403   403    403      200 200
GET    /v1/catalog/pipelines/SVC_SALES.etl/runs/run-1             401    401    403     403    403    403   403    403      403 200
DELETE /v1/catalog/pipelines/svc_sales.etl/runs/run-1             401    401    403     403    403    403   403    403      403 200
DELETE /v1/catalog/pipelines/svc_sales.etl/runs/no-such-run       401    401    403     403    403    403   403    403      403 404
DELETE /v1/catalog/pipelines/svc_hr.etl/runs/run-1                401    401    403     403    403    403   403    403      200 200
DELETE /v1/catalog/pipelines/svc_sales.etl                        401    401    403     403    403    403   403    403      403 200
DELETE /v1/catalog/pipelines/svc_hr.etl                           401    401    403     403    403    403   403    403      200 200
GET    /v1/catalog/pipelines/svc_sales.a/b/runs/run-1             401    401    403     403    404    403   403    403      403 404
GET    /v1/catalog/pipelines/svc_sales.a/b/c/runs/run-1           401    401    403     403    404    403   403    403      403 404
GET    /v1/catalog/pipelines/svc_sales.a/b/c/d/runs/run-1         401    401    403     403    404    403   403    403      403 404
GET    /v1/catalog/pipelines/svc_sales.a/b/c/d/e/runs/run-1       401    401    403     403    404    403   403    403      403 404
GET    /v1/catalog/pipelines/svc_sales.a/b/c/d/e/f/runs/run-1     401    401    403     403    404    403   403    403      403 404
GET    /v1/catalog/pipelines/svc_sales.a/x                        401    401    404     404    404    404   404    404      404 404

POST   $LOGS/svc_sales.etl                                401    401    404     404    404    404   404    404      404 404
POST   $LOGS/svc_sales.etl/run-2 "x"                      401    401    403     200    403    403   403    403      403 200
POST   $LOGS/svc_hr.etl/run-2 "x"                         401    401    403     403    403    403   403    403      200 200
POST   $LOGS/svc_sales.etl/run-1 "x"                      401    401    403     409    403    403   403    403      403 409
POST   $LOGS/SVC_SALES.etl/run-2 "x"                      401    401    403     403    403    403   403    403      403 200
POST   $LOGS/svc_sales.etl/run-2/close                    401    401    403     200    403    403   403    403      403 200
POST   $LOGS/svc_hr.etl/run-2/close                       401    401    403     403    403    403   403    403      200 200
POST   $LOGS/svc_sales.a/b/run-2/close                    401    401    403     200    403    403   403    403      403 200
POST   $LOGS/svc_sales.a/b/c/run-2/close                  401    401    403     200    403    403   403    403      403 200
POST   $LOGS/svc_sales.a/b/c/d/run-2/close                401    401    403     200    403    403   403    403      403 200
POST   $LOGS/svc_sales.a/b/c/d/e/run-2/close              401    401    403     200    403    403   403    403      403 200
POST   $LOGS/svc_sales.a/b/c/d/e/f/run-2/close            401    401    403     200    403    403   403    403      403 200
POST   $LOGS/svc_hr.etl/%2E%2E/svc_sales.etl/run-2 "x"    401    401    403     403    403    403   403    403      200 200

GET    /v1/events/svc_sales.etl/run-1                     401    401    403     403    200    403   403    403      403 200
GET    /v1/events/svc_sales.etl/no-such-run               401    401    403     403    200    403   403    403      403 200
GET    /v1/events/svc_sales.etl/run-1/log                 401    401    403     403    200    403   403    403      403 200
GET    /v1/events/svc_sales.etl/run-1/steps               401    401    403     403    200    403   403    403      403 200
GET    /v1/events/svc_sales.etl/run-1/completeness        401    401    403     403    200    403   403    403      403 200
GET    /v1/events/svc_sales.a/b/run-9                     401    401    403     403    200    403   403    403      403 200
GET    /v1/events/svc_sales.a/b/c/run-9                   401    401    403     403    200    403   403    403      403 200
GET    /v1/events/svc_sales.a/b/c/d/run-9                 401    401    403     403    200    403   403    403      403 200
GET    /v1/events/svc_sales.a/b/c/d/e/run-9               401    401    403     403    200    403   403    403      403 200
GET    /v1/events/svc_sales.a/b/c/d/e/f/run-9             401    401    403     403    200    403   403    403      403 200
GET    /v1/events/svc_sales.a/b/c/d/e/f/g/run-9           401    401    403     403    200    403   403    403      403 200
GET    /v1/events/svc_sales.etl/run-1/log?step=x          401    401    403     403    200    403   403    403      403 200
GET    /v1/events/svc_hr.etl/run-1                        401    401    403     403    403    403   403    403      200 200
GET    /v1/events/svc_hr.etl/run-1/log                    401    401    403     403    403    403   403    403      200 200
GET    /v1/events/svc_hr.etl/run-1/steps                  401    401    403     403    403    403   403    403      200 200
GET    /v1/events/svc_hr.etl/run-1/completeness           401    401    403     403    403    403   403    403      200 200
GET    /v1/events/SVC_SALES.etl/run-1                     401    401    403     403    403    403   403    403      403 200
POST   /v1/events/svc_sales.etl/run-2 [{"message":"x"}]   401    401    403     200    403    403   403    403      403 200
POST   /v1/events/svc_sales.a/b/run-9 [{"message":"x"}]   401    401    403     200    403    403   403    403      403 200
POST   /v1/events/svc_sales.a/b/c/run-9 [{"message":"x"}] 401    401    403     200    403    403   403    403      403 200
POST   /v1/events/svc_sales.a/b/c/d/run-9 [{"message":"x"}] 401    401    403     200    403    403   403    403      403 200
POST   /v1/events/svc_sales.a/b/c/d/e/run-9 [{"message":"x"}] 401    401    403     200    403    403   403    403      403 200
POST   /v1/events/svc_sales.a/b/c/d/e/f/run-9 [{"message":"x"}] 401    401    403     200    403    403   403    403      403 200
POST   /v1/events/svc_sales.a/b/c/d/e/f/g/run-9 [{"message":"x"}] 401    401    403     200    403    403   403    403      403 200
POST   /v1/events/svc_sales.etl/run-1 [{"message":"x"}]   401    401    403     409    403    403   403    403      403 409
POST   /v1/events/svc_hr.etl/run-2 [{"message":"x"}]      401    401    403     403    403    403   403    403      200 200
PUT    /v1/events/svc_sales.etl/run-2/writers/w           401    401    403     200    403    403   403    403      403 200
PUT    /v1/events/svc_sales.a/b/run-2/writers/w           401    401    403     200    403    403   403    403      403 200
PUT    /v1/events/svc_sales.a/b/c/run-2/writers/w         401    401    403     200    403    403   403    403      403 200
PUT    /v1/events/svc_sales.a/b/c/d/run-2/writers/w       401    401    403     200    403    403   403    403      403 200
PUT    /v1/events/svc_sales.a/b/c/d/e/run-2/writers/w     401    401    403     200    403    403   403    403      403 200
PUT    /v1/events/svc_hr.etl/run-2/writers/w              401    401    403     403    403    403   403    403      200 200
PUT    /v1/events/svc_sales.etl/run-2/starts/s {}         401    401    403     200    403    403   403    403      403 200
PUT    /v1/events/svc_sales.etl/run-2/starts/s {"method":"x"} 401    401    403     400    403    403   403    403      403 400
PUT    /v1/events/svc_sales.a/b/c/run-2/starts/s {}       401    401    403     200    403    403   403    403      403 200
PUT    /v1/events/svc_hr.etl/run-2/starts/s {}            401    401    403     403    403    403   403    403      200 200
PUT    /v1/events/svc_sales.etl/run-2/heartbeat           401    401    403     200    403    403   403    403      403 200
PUT    /v1/events/svc_sales.a/b/run-2/heartbeat           401    401    403     200    403    403   403    403      403 200
PUT    /v1/events/svc_hr.etl/run-2/heartbeat              401    401    403     403    403    403   403    403      200 200
POST   /v1/events/svc_sales.etl/run-2/writers/w/close []  401    401    403     400    403    403   403    403      403 400
POST   /v1/events/svc_hr.etl/run-2/steps/s []             401    401    403     403    403    403   403    403      400 400
POST   /v1/events/svc_sales.etl/run-2/steps/s []          401    401    403     400    403    403   403    403      403 400

GET    /v1/configuration                                  401    401    403     403    403    403   403    200      200 200

POST   $AGENTS/fluent %sales                             401    401    403     200    403    403   403    403      403 200
POST   $AGENTS/fluent %hr                                401    401    403     403    403    403   403    403      200 200
POST   $AGENTS/logstash %sales                           401    401    403     200    403    403   403    403      403 200
POST   $AGENTS/logstash %hr                              401    401    403     403    403    403   403    403      200 200
POST   $AGENTS/syslog %sales                             401    401    403     200    403    403   403    403      403 200
POST   $AGENTS/syslog %hr                                401    401    403     403    403    403   403    403      200 200
POST   $AGENTS/firehose %sales                           401    401    403     200    403    403   403    403      403 200
POST   $AGENTS/firehose %hr                              401    401    403     403    403    403   403    403      200 200
POST   $AGENTS/otlp/v1/logs %sales                       401    401    403     200    403    403   403    403      403 200
POST   $AGENTS/otlp/v1/logs %hr                          401    401    403     403    403    403   403    403      200 200
POST   $AGENTS/fluent %nobodys                           401    401    403     400    403    403   403    403      400 400
POST   $AGENTS/elasticsearch/_bulk %sales                401    401    403     200    403    403   403    403      200 200
POST   $AGENTS/elasticsearch/i/_bulk %sales              401    401    403     200    403    403   403    403      200 200
PUT    $AGENTS/elasticsearch/_bulk %sales                401    401    403     200    403    403   403    403      200 200
PUT    $AGENTS/elasticsearch/i/_bulk %sales              401    401    403     200    403    403   403    403      200 200
GET    $AGENTS/elasticsearch                             401    401    403     200    403    403   403    403      200 200
HEAD   $AGENTS/elasticsearch                             401    401    403     200    403    403   403    403      200 200
GET    $AGENTS/elasticsearch/_license                    401    401    403     200    403    403   403    403      200 200
GET    $AGENTS/elasticsearch/_cluster/health             401    401    403     200    403    403   403    403      200 200

GET    /v0/archive/files/?what=sales_db&work_id=w         401    401    403     403    200    403   200    403      200 200
GET    /v0/archive/files/?what=*&work_id=w                401    401    403     403    200    403   200    403      200 200
GET    /v0/archive/files/?what=sales_db                   401    401    403     403    400    403   400    403      400 400
POST   /v0/archive/files {"what":"sales_db"}              401    401    403     403    403    201   403    403      403 201
POST   /v0/archive/files {"what":"hr_db"}                 401    401    403     403    403    403   403    403      201 201
POST   /v0/archive/files {"what":"svc_sales_etl"}         401    401    403     403    403    403   403    403      403 201
DELETE /v0/archive/files/$sales                           401    401    404     404    404    204   403    404      404 204
DELETE /v0/archive/files/$hr                              401    401    404     404    404    404   404    404      204 204
DELETE /v0/archive/files/$log                             401    401    404     404    409    404   404    404      404 409
DELETE /v0/archive/files/$hr_log                          401    401    404     404    404    404   404    404      409 409
DELETE /v0/archive/files/$none                            401    401    404     404    404    404   404    404      404 404
GET    /v0/archive/files/$sales/data                      401    401    404     404    404    404   200    404      404 200
GET    /v0/archive/files/$hr/data                         401    401    404     404    404    404   404    404      200 200
GET    /v0/archive/files/$log/data                        401    401    404     404    200    404   404    404      404 200
GET    /v0/archive/files/$hr_log/data                     401    401    404     404    404    404   404    404      200 200
GET    /v0/archive/files/$shouted_log/data                401    401    404     404    404    404   404    404      404 200
GET    /v0/archive/files/$none/data                       401    401    404     404    404    404   404    404      404 404
GET    /v0/archive/files/$sales/metadata                  401    401    404     404    404    404   200    404      404 200
GET    /v0/archive/files/$hr/metadata                     401    401    404     404    404    404   404    404      200 200
GET    /v0/archive/files/$log/metadata                    401    401    404     404    200    404   404    404      404 200
GET    /v0/archive/files/$shouted_log/metadata            401    401    404     404    404    404   404    404      404 200
GET    /v0/archive/files/$none/metadata                   401    401    404     404    404    404   404    404      404 404
PATCH  /v0/archive/files/$sales/metadata {"path":"/p"}    401    401    404     404    404    200   403    404      404 200
PATCH  /v0/archive/files/$sales/metadata {"what":"hr_x"}  401    401    404     404    404    403   403    404      404 200
PATCH  /v0/archive/files/$hr/metadata {"path":"/p"}       401    401    404     404    404    404   404    404      200 200
PATCH  /v0/archive/files/$hr/metadata {"what":"sales_x"}  401    401    404     404    404    404   404    404      403 200
PATCH  /v0/archive/files/$log/metadata {"what":"sales_x"} 401    401    404     404    409    404   404    404      404 409
GET    /v0/archive/latest/sales_db/web-1                  401    401    403     403    403    403   200    403      403 200
GET    /v0/archive/latest/sales%5Fdb/web%2D1              401    401    403     403    403    403   200    403      403 200
GET    /v0/archive/latest/sales_db/web-2                  401    401    403     403    403    403   404    403      403 404
GET    /v0/archive/latest/hr_db/web-1                     401    401    403     403    403    403   403    403      200 200
GET    /v0/archive/latest/svc_sales_etl/host              401    401    403     403    200    403   403    403      403 200
GET    /v0/archive/latest/svc_hr_etl/host                 401    401    403     403    403    403   403    403      200 200
GET    /v0/archive/latest/sales_db/web-1/data             401    401    403     403    403    403   200    403      403 200
GET    /v0/archive/latest/hr_db/web-1/data                401    401    403     403    403    403   403    403      200 200
GET    /v0/archive/latest/svc_sales_etl/host/data         401    401    403     403    200    403   403    403      403 200
GET    /v0/archive/latest/svc_hr_etl/host/data            401    401    403     403    403    403   403    403      200 200

GET    /v1/pipeline-files?namespace=svc_sales&app=etl     401    401    403     403    200    403   403    403      200 200
GET    /v1/pipeline-files?app=etl                         401    401    403     403    400    403   403    403      400 400
GET    /v1/pipeline-files/files?namespace=svc_hr&app=etl  401    401    403     403    200    403   403    403      200 200
GET    /v1/pipeline-files/bases                           401    401    403     403    200    403   403    403      200 200
DELETE /v1/pipeline-files                                 401    401    403     403    403    403   403    403      400 400
DELETE /v1/pipeline-files?fqn=svc_sales.etl               401    401    403     403    403    403   403    403      403 202
DELETE /v1/pipeline-files?fqn=svc_hr.etl                  401    401    403     403    403    403   403    403      202 202
DELETE /v1/pipeline-files?namespace=svc_sales             401    401    403     403    403    403   403    403      403 202
DELETE /v1/pipeline-files?namespace=svc_hr                401    401    403     403    403    403   403    403      202 202
DELETE /v1/pipeline-files?namespace=svc                   401    401    403     403    403    403   403    403      403 200
GET    /v1/pipeline-files/repair                          401    401    403     403    403    403   403    403      403 200
POST   /v1/pipeline-files/repair                          401    401    403     403    403    403   403    403      403 200

GET    /v1/coordination/compaction                        401    401    403     403    403    403   403    200      200 200
GET    /v1/coordination/nonsense                          401    401    403     403    403    403   403    404      404 404
POST   $WORK/svc_sales.etl/run-1/retry                    401    401    403     403    403    403   403    200      403 200
POST   $WORK/svc_sales.etl/run-1/release                  401    401    403     403    403    403   403    200      403 200
POST   $WORK/svc_sales.etl/no-such-run/retry              401    401    403     403    403    403   403    404      403 404
POST   $WORK/svc_hr.etl/run-1/retry                       401    401    403     403    403    403   403    403      200 200
POST   $WORK/svc_hr.etl/no-such-run/release               401    401    403     403    403    403   403    403      404 404
POST   $WORK/svc_sales.a/b/run-1/retry                    401    401    403     403    403    403   403    404      403 404
POST   $WORK/svc_sales.a/b/c/run-1/retry                  401    401    403     403    403    403   403    404      403 404
POST   $WORK/svc_sales.a/b/c/d/run-1/retry                401    401    403     403    403    403   403    404      403 404
POST   $WORK/svc_sales.a/b/c/d/e/run-1/retry              401    401    403     403    403    403   403    404      403 404
POST   $WORK/svc_sales.a/b/c/d/e/f/run-1/retry            401    401    403     403    403    403   403    404      403 404

GET    /v1/pipelines                                      401    401    403     403    403    403   403    200      200 200
POST   /v1/pipelines/runlake/enable                       401    401    403     403    403    403   403    403      403 200
POST   /v1/pipelines/runlake/disable                      401    401    403     403    403    403   403    403      403 200
POST   /v1/pipelines/runlake/replay                       401    401    403     403    403    403   403    403      403 400
POST   /v1/pipelines/nonsense/enable                      401    401    403     403    403    403   403    403      403 404

GET    /v1/dead-letters?fqn=svc_sales.etl                 401    401    403     403    200    403   403    403      403 200
GET    /v1/dead-letters?fqn=svc_hr.etl                    401    401    403     403    403    403   403    403      200 200
GET    /v1/dead-letters                                   401    401    403     403    200    403   403    403      200 200
GET    /v1/dead-letters?runId=run-1                       401    401    403     403    400    403   403    403      400 400
GET    /v1/dead-letters/runlake?fqn=svc_sales.etl&$letter 401    401    403     403    200    403   403    403      403 200
GET    /v1/dead-letters/runlake?fqn=svc_hr.etl&$letter    401    401    403     403    403    403   403    403      200 200
GET    /v1/dead-letters/nonsense?fqn=svc_hr.etl&$letter   401    401    403     403    403    403   403    403      404 404
GET    /v1/dead-letters/runlake                           401    401    403     403    400    403   403    403      400 400
DELETE /v1/dead-letters/runlake?fqn=svc_sales.etl&$letter 401    401    403     403    403    403   403    403      403 204
DELETE /v1/dead-letters/runlake?fqn=nonsense&$letter      401    401    403     403    403    403   403    403      403 404
POST   /v1/dead-letters/runlake/resend?fqn=svc_hr.etl&$letter    401 401 403    403    403    403   403    403      403 202
POST   /v1/dead-letters/nonsense/resend?fqn=svc_hr.etl&$letter   401 401 403    403    403    403   403    403      403 404
"""
FULL = {"where": "web-1", "path": "/f", "start": START_MS, "end": START_MS, "work_id": "w", "hash": hash_of(b"x"), "size": 1}


@dataclass(frozen=True)
class Row:
    """An action on a resource, and the status for each principal."""

    method: str
    path: str
    body: str | None
    expected: dict[str, int]


def rows() -> Iterator[Row]:
    head, *lines = (line for line in TABLE.splitlines() if line.strip())
    names = head.split()
    assert names == list(PRINCIPALS)
    for line in lines:
        method, path, *rest = line.split()
        statuses = rest[-len(names) :]
        yield Row(method, path, " ".join(rest[: -len(names)]) or None, dict(zip(names, map(int, statuses), strict=True)))


ROWS = list(rows())


STS = "arn:aws:sts::111122223333:assumed-role"
POLICY = {
    f"{STS}/{name}": {scope.replace("_", ":"): names for scope, names in grants.items()}
    for name, grants in PRINCIPALS.items()
    if grants is not None
}
"""Of jobs: each principal is a role."""
ENTRIES: dict[str, dict[str, Any]] = {
    "gateway": {"keys": ISSUER.read, **JWT},
    "url": {"policy": lambda: json.dumps({"principals": POLICY}), "auth": "iam", "policy_parameter": "/policy"},
}
CHALLENGES = {"gateway": 'Bearer realm="runlake"', "url": 'AWS4-HMAC-SHA256 realm="runlake"'}


@contextmanager
def installed_site(entry: str = "gateway") -> Iterator[tuple[Site, dict[str, str]]]:
    """An API with resources of every owner, and the ids of the files."""
    world, topic = World(), InMemoryPublisher()
    with installed(world, publisher=topic, **ENTRIES[entry]):
        site = Site(world, topic, itertools.count(1))
        ids = {name: site.file(b"x", what=f"{name}_db", work_id="w")["id"] for name in ("sales", "hr")}
        for name, run in (("log", SALES_RUN), ("hr_log", HR_RUN), ("shouted_log", SHOUTED_RUN)):
            site.write_run(run, "secret\n", connector="host")
            site.finish_run(run)
            ids[name] = run_object_id(world.layout.logs(run))
            put_partition(world, run)
            dead_letter(world, run, message="secret")
        ids["none"] = "0" * 32
        ids["letter"] = "runId=run-1&handler=files&line=0"
        put_output_set(world.database, OutputSet("pipeline-files", "", 0, 0, 0))
        yield site, ids


def put_partition(world: World, run: Run) -> None:
    store, source = world.work_sources(COMPACTION)
    made = Partition(source.partitions, f"{run.fqn}/{run.run_id}", Status.CLOSED, format_timestamp(START_MS), reopen_ms=START_MS)
    assert store.create(made) is None


def addressed(path: str) -> str:
    return path.replace("$LOGS", LOGS).replace("$WORK", "/v1/coordination/compaction").replace("$AGENTS", "/v1/agents")


ENCODERS: dict[str, Callable[[list[NewEvent]], bytes]] = {
    "fluent": logstash.encode,
    "logstash": logstash.encode,
    "syslog": logstash.encode,
    "firehose": lambda events: firehose.encode(events, "request", START_MS),
    "otlp": otlp.encode_json,
    "elasticsearch": lambda events: bulk.encode(events, "logs"),
}


def sent(row: Row) -> str:
    """One record of a run, as an agent sends it."""
    assert row.body
    agent = row.path.removeprefix("$AGENTS/").partition("/")[0]
    assert agent in ENCODERS, f"write a body in place of {row.body}, or add {agent} to ENCODERS"
    names = {"%sales": {"fqn": SALES_RUN.fqn, "run_id": "run-9"}, "%hr": {"fqn": HR_RUN.fqn, "run_id": "run-9"}, "%nobodys": {}}[
        row.body
    ]
    event = NewEvent(message="x", data={"runlake": names, "attributes": {f"runlake.{name}": each for name, each in names.items()}})
    return ENCODERS[agent]([event]).decode()


def credentials(name: str) -> dict[str, str]:
    grants = PRINCIPALS[name]
    if grants is not None:
        return bearer(ISSUER.granted(name, **grants))
    return bearer(FORGER.granted(name, logs_read=["*"])) if name == "forger" else {}


def signer(name: str) -> str:
    """The ARN of a role's session; empty: no signature."""
    account = STS.replace("111122223333", "999999999999") if name == "forger" else STS
    return f"{account}/{'root' if name == 'forger' else name}/session" if name != "nobody" else ""


def asked(row: Row, ids: dict[str, str], name: str, entry: str = "gateway") -> Answer:
    """The response of one cell."""
    path = addressed(row.path)
    for key in sorted(ids, key=len, reverse=True):
        path = path.replace(f"${key}", ids[key])
    body = sent(row) if row.body and row.body.startswith("%") else row.body
    if row.path == "/v0/archive/files" and body:
        body = json.dumps(FULL | json.loads(body))
    if entry == "url":
        return url_call(row.method, path, body, signer=signer(name))
    return call(row.method, path, body, credentials(name))


def asked_by_all(row: Row, entry: str) -> dict[str, Answer]:
    """Requests share one API until one succeeds: a write may change the state for the next one. A refused request stores nothing."""
    answers, names = {}, list(PRINCIPALS)
    while names:
        with installed_site(entry) as (site, ids):
            before = stored(site.world)
            for name in names.copy():
                names.remove(name)
                answers[name] = asked(row, ids, name, entry)
                if answers[name].status < 400 and row.method not in ("GET", "HEAD"):
                    break
                assert answers[name].status < 400 or stored(site.world) == before
    return answers


def stored(world: World) -> Any:
    """Names and versions of objects, bytes of rows that were written, and the partition of a run."""
    objects = [[(each.key, each.etag) for each in list_all(store, "")] for store in (world.store, world.archive_store)]
    store, source = world.work_sources(COMPACTION)
    return objects, world.database.written_bytes, store.get(source.partitions, f"{SALES_RUN.fqn}/{SALES_RUN.run_id}")


OF_ROWS = pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(filter(None, (row.method, row.path, row.body))))


@pytest.mark.behavior("Each principal has exactly the permissions of the access table for every operation.")
@OF_ROWS
def test_each_cell(row: Row) -> None:
    assert_cells(row, row.expected, "gateway")


@pytest.mark.sampled(default=25)
@OF_ROWS
def test_each_cell_behind_the_function_url(row: Row) -> None:
    """There the forger is a role of another account, who may do nothing: nobody forges a signature that Lambda passes on."""
    assert_cells(row, row.expected | {"forger": row.expected["nothing"]}, "url")


def assert_cells(row: Row, expected: dict[str, int], entry: str) -> None:
    answers = asked_by_all(row, entry)
    assert {name: answer.status for name, answer in answers.items()} == expected, answers["root"].body
    for answer in answers.values():
        if answer.status in (401, 403):
            own = {"error", "status", "requestId", "timestamp", "errorMessage"} if row.path.startswith("$AGENTS") else set()
            assert answer.json.keys() - own == {"code", "message"} and answer.json["code"] == answer.status
            assert answer.headers.get("WWW-Authenticate") == (CHALLENGES[entry] if answer.status == 401 else None)
        if answer.status >= 400:
            assert "secret" not in answer.body


def test_every_operation_has_a_row() -> None:
    """Other rows are of paths without an operation: the table has their responses too."""
    found = [match(row.method, addressed(row.path).partition("?")[0]) for row in ROWS]
    lacking = {each.id for each in OPERATIONS} - {each.operation.id for each in found if each}
    assert not lacking, f"add rows to TABLE in this file: {', '.join(sorted(lacking))}"


OF_ALL_NAMES = {
    "deleteRun",
    "deletePipeline",
    "deletePipelineLogs",
    "listFileFindings",
    "mendFiles",
    "enablePipeline",
    "disablePipeline",
    "replayPipeline",
    "dropDeadLetter",
    "resendDeadLetter",
}
"""Operations whose scope no principal with a single one has: it is needed for all names, for those of processing pipelines, or to delete."""


def test_operations_declare_the_scopes_that_the_table_shows() -> None:
    """No more than that: an operator grants scopes by the document. Fewer are an error of each request. A 400 is a permitted request."""
    shown: dict[str, set[Scope]] = {each.id: set() for each in OPERATIONS if each.id not in OF_ALL_NAMES}
    single = {name: Scope[next(iter(grants)).upper()] for name, grants in PRINCIPALS.items() if grants and len(grants) == 1}
    for row in ROWS:
        found = match(row.method, addressed(row.path).partition("?")[0])
        if found and found.operation.id in shown and row.expected["nothing"] > 400:
            shown[found.operation.id] |= {scope for name, scope in single.items() if row.expected[name] <= 400}
    assert shown == {each.id: set(each.scopes) for each in OPERATIONS if each.id in shown}


def test_every_principal_is_allowed_and_denied_somewhere() -> None:
    """A column with only one kind of answer would test nothing."""
    for name in PRINCIPALS:
        assert {row.expected[name] < 400 for row in ROWS} == {True, False}


@pytest.mark.behavior("A hidden resource is answered like a missing one.")
@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        (name, hidden)
        for name in PRINCIPALS
        for hidden in ("hr", "hr_log", "shouted_log")
        if name not in ("root", "nobody", "forger") and (name != "hr" or hidden == "shouted_log")
    ],
)
@pytest.mark.parametrize("action", ["GET data", "GET metadata", "DELETE", "PATCH metadata"])
def test_hidden_resource_is_answered_like_a_missing_one(name: str, hidden: str, action: str) -> None:
    method, _, rest = action.partition(" ")

    def response(of: str) -> Any:
        with installed_site() as (_, ids):
            path = f"/v0/archive/files/{ids[of]}" + (f"/{rest}" if rest else "")
            answer = call(method, path, '{"path": "/p"}' if method == "PATCH" else None, credentials(name))
            return answer.status, answer.body.replace(ids[of], "ID"), answer.headers

    assert response(hidden) == response("none")
