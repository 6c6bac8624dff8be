"""A bucket and tables on a private emulator, with this process as the function: the real entry and clients, every request counted."""

from __future__ import annotations

import io
import json
import os
import socket
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import boto3
import yaml

from bench.issuer import issuer
from local.emulator import CREDENTIALS, REGION, Emulator, free_port
from local.job_url import event_of
from local.signatures import SentRequest

BUCKET, ARCHIVE, RUNS, SEGMENTS = "bench-logs", "bench-archive", "bench-runs", "bench-segments"
BASE = "/v1/services/ingestionPipelines/logs"
MIB = 1024 * 1024


class Context:
    """The context that Lambda passes to a function."""

    function_name = "bench"
    function_version = "$LATEST"
    invoked_function_arn = "arn:aws:lambda:us-east-1:000000000000:function:bench"
    memory_limit_in_mb = "1024"
    aws_request_id = "00000000-0000-0000-0000-000000000000"

    def get_remaining_time_in_millis(self) -> int:
        return 29_000


class Requests:
    """Counts the requests that leave this process, by service, and the body bytes sent to S3."""

    def __init__(self) -> None:
        self.by_service: Counter[str] = Counter()
        self.uploaded_bytes = 0

    def watch(self, client: Any) -> None:
        client.meta.events.register("before-send.*.*", self._seen)

    def since(self, earlier: Counter[str]) -> Counter[str]:
        return self.by_service - earlier

    def _seen(self, request: Any, event_name: str, **_: Any) -> None:
        service = event_name.split(".")[1]
        self.by_service[service] += 1
        if service == "s3" and request.method == "PUT":
            self.uploaded_bytes += int(request.headers.get("Content-Length", 0))


class Function:
    """The deployed function in this process: takes API Gateway's event, returns the response."""

    def __init__(self, app: Any, services: Any, client: Any, requests: Any, token: str = "") -> None:
        self.app, self.services, self.client, self.requests, self.token = app, services, client, requests, token
        self.context = Context()

    def answer(self, event: dict[str, Any]) -> dict[str, Any]:
        """Invoke once."""
        return dict(self.app.app(self.authorized(event), self.context))

    def authorized(self, event: dict[str, Any]) -> dict[str, Any]:
        """The event with the caller's token."""
        value = f"Bearer {self.token}"
        headers = {"headers": {"Authorization": value}, "multiValueHeaders": {"Authorization": [value]}}
        return event | {name: event[name] | added for name, added in headers.items()}

    def append(self, event: dict[str, Any]) -> str:
        """Append, which must succeed; returns the cookie for the next request."""
        answer = self.answer(event)
        assert answer["statusCode"] == 200, answer
        return cookie_of(answer)

    @contextmanager
    def with_archive(self, tables: Mapping[str, str], topic_arn: str) -> Iterator[None]:
        """The same function with different tables of files, and a topic for its reports."""
        from chalicelib import composition

        variables = {f"RUNLAKE_{name.upper()}_TABLE": table for name, table in tables.items()}
        os.environ.update(variables, RUNLAKE_REPORT_TOPIC_ARN=topic_arn)
        composition.install(None)
        yield
        composition.install(self.services)


def archive_tables(name: str) -> dict[str, str]:
    """Tables of files as in the template, under names of their own; names by role."""
    database, resources = boto3.client("dynamodb"), _resources()
    names = {}
    for table in ("files", "latest", "listing", "objects"):
        properties = resources[f"{table.capitalize()}Table"]["Properties"]
        names[table] = f"bench-{name}-{table}"
        wanted = ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "BillingMode")
        database.create_table(TableName=names[table], **{key: properties[key] for key in wanted if key in properties})
    return names


def _resources() -> dict[str, Any]:
    from local import package

    package.ensure_packaged()
    resources: dict[str, Any] = yaml.safe_load(package.TEMPLATE.read_text())["Resources"]
    return resources


def queue_event(bucket: str, keys: Sequence[str]) -> dict[str, Any]:
    """The SQS event for S3's notifications of new objects."""
    records = []
    for number, key in enumerate(keys):
        what = {"bucket": {"name": bucket}, "object": {"key": key}}
        body = {"Records": [{"eventVersion": "2.1", "eventName": "ObjectCreated:Put", "s3": what}]}
        about = {"receiptHandle": "r", "attributes": {}, "messageAttributes": {}, "eventSource": "aws:sqs"}
        records.append({"messageId": str(number), "body": json.dumps(body), **about})
    return {"Records": records}


def cookie_of(answer: dict[str, Any]) -> str:
    """The cookie that a connector sends next."""
    return str(answer["headers"]["Set-Cookie"].partition(";")[0])


def append_event(run: str, text: str, cookie: str | None = None) -> dict[str, Any]:
    """API Gateway's event for a connector's POST."""
    headers = {"Content-Type": "application/json"} | ({"Cookie": cookie} if cookie else {})
    return gateway_event("POST", f"{BASE}/{run}", _batch(text), headers)


def signed_append_event(run: str, text: str, signer: str, cookie: str | None = None) -> dict[str, Any]:
    """The function URL's event for the same POST, signed by a role's session."""
    headers = {"host": "bench.lambda-url.us-east-1.on.aws", "content-type": "application/json"} | (
        {"cookie": cookie} if cookie else {}
    )
    sent = SentRequest("POST", f"/api{BASE}/{run}", "", headers, _batch(text).encode())
    return event_of(sent, {"userArn": signer, "accessKey": "ASIABENCH", "accountId": "000000000000"}, "127.0.0.1", "https")


def _batch(text: str) -> str:
    return json.dumps({"logs": text, "connectorId": "bench-1", "timestamp": 0, "compressed": False, "lineCount": text.count("\n")})


def gateway_event(
    method: str, path: str, body: str | None, headers: dict[str, str], query: dict[str, str] | None = None
) -> dict[str, Any]:
    """An event of a REST API with Lambda proxy integration."""
    from chalicelib.routes.operations import gateway_routes

    if path.startswith(BASE):
        depth = path.removeprefix(BASE + "/").count("/") + 1
        route = next(each for each in gateway_routes() if each.startswith(BASE) and each.count("{") == depth)
    else:
        route = path.rstrip("/") if "/latest/" not in path else "/v0/archive/latest/{what}/{where}"
    places = [(number, part.strip("{}")) for number, part in enumerate(route.split("/")) if part.startswith("{")]
    parts = path.split("/")
    return {
        "resource": route,
        "path": path,
        "httpMethod": method,
        "headers": headers,
        "multiValueHeaders": {name: [value] for name, value in headers.items()},
        "queryStringParameters": query,
        "multiValueQueryStringParameters": {name: [value] for name, value in query.items()} if query else None,
        "pathParameters": {name: parts[number] for number, name in places},
        "stageVariables": None,
        "requestContext": {
            "resourcePath": route,
            "httpMethod": method,
            "path": "/api" + path,
            "stage": "api",
            "requestId": "bench",
            "identity": {"sourceIp": "127.0.0.1"},
        },
        "body": body,
        "isBase64Encoded": False,
    }


@contextmanager
def bench_world() -> Iterator[Function]:
    """Runs a private emulator for the duration of the block."""
    with tempfile.TemporaryDirectory(prefix="runlake-bench-") as folder, issuer() as identity:
        emulator = Emulator(free_port(), Path(folder) / "scratch", Path(folder) / "emulator.log")
        try:
            emulator.wait_until_healthy()
            set_environment(emulator.endpoint_url)
            os.environ.update(identity.settings)
            _create(emulator.endpoint_url)
            yield _function(identity.token)
        finally:
            emulator.stop()


@contextmanager
def lambda_variables(handler: str) -> Iterator[dict[str, str]]:
    """Environment of Lambda and of the template for a function that masks everything; its traces go to a socket without a reader."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as daemon:
        daemon.bind(("127.0.0.1", 0))
        yield {
            "AWS_LAMBDA_FUNCTION_NAME": "bench",
            "LAMBDA_TASK_ROOT": os.getcwd(),
            "_HANDLER": handler,
            "AWS_XRAY_DAEMON_ADDRESS": f"127.0.0.1:{daemon.getsockname()[1]}",
            "RUNLAKE_MASKING": '[{"fqn": "*"}]',
        }


def set_environment(endpoint_url: str) -> None:
    """Set the environment that the template gives a function."""
    os.environ.update(
        AWS_ENDPOINT_URL=endpoint_url,
        AWS_DEFAULT_REGION=REGION,
        AWS_REGION=REGION,
        AWS_ACCESS_KEY_ID=CREDENTIALS["aws_access_key_id"],
        AWS_SECRET_ACCESS_KEY=CREDENTIALS["aws_secret_access_key"],
        RUNLAKE_BUCKET_NAME=BUCKET,
        RUNLAKE_ARCHIVE_BUCKET_NAME=ARCHIVE,
        RUNLAKE_RUNS_TABLE=RUNS,
        RUNLAKE_SEGMENTS_TABLE=SEGMENTS,
        RUNLAKE_POSITION_KEYS="a-key-of-the-benchmarks",
        POWERTOOLS_SERVICE_NAME="bench",
        POWERTOOLS_METRICS_NAMESPACE="Runlake",
    )


def _create(endpoint_url: str) -> None:
    options = {"endpoint_url": endpoint_url, "region_name": REGION, **CREDENTIALS}
    for bucket in (BUCKET, ARCHIVE):
        boto3.client("s3", **options).create_bucket(Bucket=bucket)
    database = boto3.client("dynamodb", **options)
    for table, keys in ((RUNS, ("fqn", "run_id")), (SEGMENTS, ("run", "at"))):
        database.create_table(
            TableName=table,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
            KeySchema=[{"AttributeName": keys[0], "KeyType": "HASH"}, {"AttributeName": keys[1], "KeyType": "RANGE"}],
        )


def _function(token: str) -> Function:
    import app
    from chalicelib import composition, observability

    for logger in (observability.logger, observability._decisions):
        logger.registered_handler.setStream(io.StringIO())  # type: ignore[attr-defined]
    services = composition.services()
    requests = Requests()
    client = services.store._inner._client  # type: ignore[attr-defined]
    requests.watch(client)
    requests.watch(services.store._inner._get_long_timeout_client())  # type: ignore[attr-defined]
    requests.watch(services.index._table._client)  # type: ignore[attr-defined]
    return Function(app, services, client, requests, token)
