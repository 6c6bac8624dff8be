"""Entry points of the functions: the REST API (``app``), its ``authorize``, the API of jobs that sign their requests (``job_api``), ``ingest``,
``compact``, ``sweep`` and ``pipelines``. Entry points only; each function imports lazily."""

import os
from typing import Any

from chalice.app import AuthRequest, AuthResponse, Chalice, CloudWatchEvent, Rate, SQSEvent

from chalicelib import composition
from chalicelib.observability import invocation, trace_recorder
from chalicelib.routes import authorizer, chalice_adapter, function_url

app = Chalice(app_name="runlake", configure_logs=False)
chalice_adapter.register(app)


@app.authorizer(name=authorizer.NAME, ttl_seconds=authorizer.TTL_S)
def authorize(request: AuthRequest) -> AuthResponse:
    """The gateway's authorizer: verifies a token before the API function is invoked."""
    with invocation("authorize", None):  # refusals count in its metrics
        return authorizer.authorize(request)


@app.lambda_function(name="job_api")
def job_api(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """The API behind a function URL."""
    return function_url.handle(event, context)


@app.on_sqs_message(queue="ingest", batch_size=10)
def ingest(event: SQSEvent) -> Any:
    """Ingests S3's notifications: catalogs files, marks runs as due, publishes reports."""
    from chalicelib.triggers.ingest import ingest as ingest_messages

    with invocation("ingest", event.context):
        return ingest_messages(composition.ingester(composition.services()), event.to_dict(), _remaining_ms(event))


@app.schedule(Rate(2, unit=Rate.MINUTES))
def compact(event: CloudWatchEvent) -> dict[str, int]:
    """Compacts running runs into partial.txt, and finalizes closed runs."""
    from chalicelib.triggers import schedules

    with invocation("compact", event.context):
        return schedules.compact(composition.services(), _remaining_ms(event), _worker(event))


@app.schedule(Rate(60, unit=Rate.MINUTES))
def sweep(event: CloudWatchEvent) -> dict[str, int]:
    """Finalizes abandoned runs; applies the retention of pipeline files."""
    from chalicelib.triggers import maintenance, schedules

    with invocation("sweep", event.context):
        done = schedules.sweep(composition.services(), _remaining_ms(event), _worker(event))
        if not _worker(event):
            maintenance.maintain_pipeline_files(composition.services(), _remaining_ms(event))
        return done


@app.schedule(Rate(1, unit=Rate.MINUTES))
def pipelines(event: CloudWatchEvent) -> dict[str, str]:
    """Continues log pipelines from their checkpoints."""
    from chalicelib.triggers.pipelines import work_pipelines

    with invocation("pipelines", event.context):
        return work_pipelines(composition.services(), _remaining_ms(event), _worker(event))


_API = ("authenticator", "masker", "finalizer", "reader", "events.log", "events.router", "events.plugin_problems")
_NEEDED = {
    "app.app": _API,
    "app.job_api": _API,
    "app.authorize": ("authenticator",),
    "app.ingest": ("registration", "events.indexing"),
    "app.compact": ("finalizer", "reader"),
    "app.sweep": ("finalizer", "reader"),
}
"""Parts of ``Services`` to build while a function starts, by handler."""


def _worker(event: CloudWatchEvent) -> int:
    """The worker's number; 0: the schedule's own invocation."""
    return int((event.detail or {}).get("worker", 0))


def _remaining_ms(event: CloudWatchEvent | SQSEvent) -> int:
    context: Any = event.context  # Chalice types it as a dictionary
    return int(context.get_remaining_time_in_millis())


def _prepare(handler: str) -> None:
    services = composition.services()
    if handler in ("app.app", "app.job_api"):
        services.settings.check_keys()
    services.prepare(*_NEEDED.get(handler, ()))


if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
    # A starting function has the most CPU, and invalid settings are reported before any request.
    trace_recorder()
    _prepare(os.environ.get("_HANDLER", ""))
