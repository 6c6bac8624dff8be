"""A connector's process: OpenMetadata's own client and log handler, unmodified. Runs in .venv-openmetadata without Runlake.

The handler's records are also written to a file by the same formatter: the independent expected output.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time
import uuid
import warnings

warnings.simplefilter("ignore")  # the client's models warn about each other's names

from metadata.generated.schema.entity.services.connections.metadata.openMetadataConnection import (  # noqa: E402
    AuthProvider,
    OpenMetadataConnection,
)
from metadata.generated.schema.security.client.openMetadataJWTClientConfig import OpenMetadataJWTClientConfig  # noqa: E402
from metadata.ingestion.ometa.ometa_api import OpenMetadata  # noqa: E402
from metadata.utils.logger import BASE_LOGGING_FORMAT  # noqa: E402
from metadata.utils.streamable_logger import StreamableLogHandler, setup_streamable_logging_for_workflow  # noqa: E402

TOKEN = os.environ.get("CONNECTOR_TOKEN", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJjb25uZWN0b3IifQ.c2ln")


def connect(api_url: str) -> OpenMetadata:
    """The real client with the real connection; only the check of the server's version is disabled, since there is no such server."""
    connection = OpenMetadataConnection(
        hostPort=api_url,
        authProvider=AuthProvider.openmetadata,
        securityConfig=OpenMetadataJWTClientConfig(jwtToken=TOKEN),
        enableVersionValidation=False,
    )
    client = OpenMetadata(connection)
    if "CONNECTOR_TOKEN" in os.environ:
        client.client.get("/health")  # a workflow makes requests before its first line, in which the client sets up its token
    return client


def work(arguments: argparse.Namespace) -> dict[str, object]:
    """An ingestion's log through the real handler: a burst, slow single records, an exception of many lines, shutdown."""
    handler = StreamableLogHandler(connect(arguments.api_url), arguments.fqn, uuid.UUID(arguments.run_id))
    formatter = logging.Formatter(BASE_LOGGING_FORMAT, datefmt="%Y-%m-%d %H:%M:%S")
    handler.setFormatter(formatter)
    copy = logging.FileHandler(arguments.copy, encoding="utf-8")
    copy.setFormatter(formatter)
    logger = logging.getLogger("metadata.Ingestion")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    for each in (handler, copy):
        logger.addHandler(each)
    for number in range(arguments.burst):
        logger.info("burst %d of table warehouse.público.表_%d", number, number % 7)
    for number in range(arguments.slow):
        handler.flush()
        logger.info("slow record %d", number)
    try:
        {}["missing"]
    except KeyError:
        logger.exception("a table could not be read")
    if arguments.errors is not None:
        for each in (handler, copy):
            logging.getLogger("metadata").addHandler(each)
        print_summary(arguments.errors)
    handler.flush(30)
    if arguments.die:
        os._exit(9)
    handler.shutdown()
    return {name: value for name, value in vars(handler).items() if isinstance(value, int)}


def print_summary(errors: int) -> None:
    """A workflow's end, printed by its own code: two steps, the first one with this many errors."""
    from metadata.generated.schema.entity.services.ingestionPipelines.status import StackTraceError
    from metadata.ingestion.api.step import Step
    from metadata.workflow.workflow_output_handler import WorkflowOutputHandler
    from metadata.workflow.workflow_status_mixin import WorkflowResultStatus

    class Each(Step):
        name = ""

        @classmethod
        def create(cls, *_: object) -> Each:
            raise NotImplementedError

        def close(self) -> None:
            raise NotImplementedError

    steps = []
    for name in ("Source", "OpenMetadata"):
        step = Each()
        step.name = name
        step.status.scanned("a table")
        steps.append(step)
    for number in range(errors):
        steps[0].status.failed(
            StackTraceError(name=f"table {number}", error="no such view " + "x" * 800, stackTrace="Traceback\n" * 30)
        )
    logging.getLogger("metadata.Utils").setLevel(logging.INFO)
    result = WorkflowResultStatus.FAILURE if errors else WorkflowResultStatus.SUCCESS
    WorkflowOutputHandler().print_status(result, steps, time.time())


def fail(arguments: argparse.Namespace) -> None:
    """A workflow that fails before it starts: its log is configured as the workflow does it, and the exception is not caught."""
    setup_streamable_logging_for_workflow(
        connect(arguments.api_url), arguments.fqn, uuid.UUID(arguments.run_id), logging.INFO, enable_streaming=True
    )
    raise ConnectionError("no route to db:3306")


def call(arguments: argparse.Namespace) -> object:
    """One method of the client's own mixin; ``logs`` is read from standard input."""
    client, run_id = connect(arguments.api_url), uuid.UUID(arguments.run_id)
    text = sys.stdin.read()
    if arguments.method == "batches":
        client.create_log_stream(arguments.fqn, run_id)
        sent = [client.send_logs_batch(arguments.fqn, run_id, part, enable_compression=True) for part in text.split("\x1e")]
        return {"sent": sent, "closed": client.close_log_stream(arguments.fqn, run_id)}
    if arguments.method == "append":
        return client.send_logs_to_s3(arguments.fqn, run_id, text)
    return client.get_logs_from_s3(arguments.fqn, run_id, offset=arguments.offset, limit=arguments.limit)


def workflow(arguments: argparse.Namespace) -> object:
    """The fields of a workflow's configuration in YAML, which is read from standard input, as the client reads them."""
    import yaml
    from metadata.generated.schema.metadataIngestion.workflow import OpenMetadataWorkflowConfig
    from pydantic import TypeAdapter

    fields = {each.alias or name: each for name, each in OpenMetadataWorkflowConfig.model_fields.items()}
    given = {name: TypeAdapter(fields[name].annotation).validate_python(value) for name, value in yaml.safe_load(sys.stdin).items()}
    return {name: str(getattr(value, "root", value)) for name, value in given.items()}


def main() -> None:
    """Print the operation's result as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operation", choices=["work", "call", "fail", "workflow"])
    parser.add_argument("api_url")
    parser.add_argument("fqn")
    parser.add_argument("run_id")
    parser.add_argument("--copy", default=os.devnull)
    parser.add_argument("--burst", type=int, default=1200)
    parser.add_argument("--slow", type=int, default=3)
    parser.add_argument("--die", action="store_true", help="end without flush and close, as a killed process does")
    parser.add_argument("--errors", type=int, help="print the summary of a workflow with so many errors")
    parser.add_argument("--method", choices=["batches", "append", "read"], default="read")
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--limit", type=int, default=1000)
    arguments = parser.parse_args()
    operation = {"work": work, "call": call, "fail": fail, "workflow": workflow}[arguments.operation]
    print(json.dumps(operation(arguments)))


if __name__ == "__main__":
    main()
