"""Creates the targets of events: HTTP with urllib3, CloudWatch Logs with boto3, headers from SSM and Secrets Manager."""

from __future__ import annotations

from chalicelib.aws.clients import make_client
from chalicelib.aws.cloudwatch_logs import CloudWatchLogsTarget
from chalicelib.aws.http import CONNECT_TIMEOUT_S, READ_TIMEOUT_S, Urllib3Transport, signed
from chalicelib.aws.secrets import read_named_secret
from chalicelib.events.ports import Target
from chalicelib.events.targets.configuration import CloudWatchLogs, Elasticsearch, TargetConfiguration, target_over_http
from chalicelib.events.targets.transport import Transport


def make_target(configuration: TargetConfiguration, timeout_s: float = READ_TIMEOUT_S) -> Target:
    """Create a target, without a request to it; one request for each of its ``headers_from``. ``timeout_s``: of one request.
    Raises UnavailableError if a header cannot be read, InvalidConfigurationError if requests cannot be signed."""
    if isinstance(configuration, CloudWatchLogs):
        return CloudWatchLogsTarget(make_client("logs", region=configuration.region), configuration.group, configuration.shape)
    return target_over_http(configuration, make_transport(configuration, timeout_s), read_named_secret)


def make_transport(configuration: TargetConfiguration, timeout_s: float = READ_TIMEOUT_S) -> Transport:
    """HTTP, signed if the configuration says so. Raises InvalidConfigurationError if requests cannot be signed."""
    transport: Transport = Urllib3Transport(min(timeout_s, CONNECT_TIMEOUT_S), timeout_s)
    if isinstance(configuration, Elasticsearch) and configuration.sign:
        transport = signed(transport, configuration.region, configuration.sign)
    return transport
