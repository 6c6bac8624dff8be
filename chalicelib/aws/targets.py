"""Creates the targets of events: HTTP with urllib3, CloudWatch Logs with boto3, headers from SSM and Secrets Manager."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from chalicelib.aws.clients import make_client
from chalicelib.aws.cloudwatch_logs import CloudWatchLogsTarget
from chalicelib.aws.http import CONNECT_TIMEOUT_S, READ_TIMEOUT_S, Urllib3Transport, origin_of, signed
from chalicelib.aws.secrets import read_named_secret
from chalicelib.errors import InvalidConfigurationError
from chalicelib.events.ports import Target
from chalicelib.events.targets.configuration import CloudWatchLogs, Elasticsearch, OverHttp, TargetConfiguration, target_over_http
from chalicelib.events.targets.transport import Transport

Hosts = Mapping[str, Collection[str]]
"""Addresses, each with the secrets that may be sent to it: the setting ``target_hosts``."""


def make_target(configuration: TargetConfiguration, timeout_s: float = READ_TIMEOUT_S, *, hosts: Hosts | None = None) -> Target:
    """Create a target, without a request to it; one request for each of its ``headers_from``. ``timeout_s``: of one request.
    ``hosts``: for a configuration by somebody who may not choose where events and secrets go. Raises UnavailableError if a header cannot
    be read, InvalidConfigurationError if requests cannot be signed, or for another host or secret than those of ``hosts``."""
    if isinstance(configuration, CloudWatchLogs):
        return CloudWatchLogsTarget(make_client("logs", region=configuration.region), configuration.group, configuration.shape)
    if hosts is not None:
        _check_host(configuration, hosts)
    transport = make_transport(configuration, timeout_s, remote_only=hosts is not None)
    return target_over_http(configuration, transport, read_named_secret)


def _check_host(configuration: OverHttp, hosts: Hosts) -> None:
    """Raises InvalidConfigurationError, whose message has no values."""
    try:
        origin = origin_of(configuration.url)
    except ValueError:
        raise InvalidConfigurationError("invalid target, its url is none") from None
    allowed = [names for host, names in hosts.items() if origin_of(host) == origin]
    if not allowed:
        raise InvalidConfigurationError("a target of a pipeline's file must be at an https address of RUNLAKE_TARGET_HOSTS")
    secrets = {name for names in allowed for name in names}
    if any(secrets.isdisjoint((name, name.partition("#")[0])) for name in configuration.headers_from.values()):
        raise InvalidConfigurationError("RUNLAKE_TARGET_HOSTS does not list the secret of a header for the target's address")


def make_transport(
    configuration: TargetConfiguration, timeout_s: float = READ_TIMEOUT_S, *, remote_only: bool = False
) -> Transport:
    """HTTP, signed if the configuration says so. Raises InvalidConfigurationError if requests cannot be signed."""
    transport: Transport = Urllib3Transport(min(timeout_s, CONNECT_TIMEOUT_S), timeout_s, remote_only=remote_only)
    if isinstance(configuration, Elasticsearch) and configuration.sign:
        transport = signed(transport, configuration.region, configuration.sign)
    return transport
