"""Creates the browsers of logs in other stores, with the transports of their targets."""

from __future__ import annotations

from chalicelib.aws.clients import make_client
from chalicelib.aws.cloudwatch_browser import CloudWatchBrowser
from chalicelib.aws.secrets import read_named_secret
from chalicelib.aws.targets import make_transport
from chalicelib.errors import InvalidConfigurationError
from chalicelib.events.browsers.elasticsearch import ElasticsearchBrowser
from chalicelib.events.event import Loggable
from chalicelib.events.ports import LogBrowser
from chalicelib.events.targets.configuration import CloudWatchLogs, Elasticsearch, TargetConfiguration
from chalicelib.ports import Clock

REQUEST_TIMEOUT_S = 6.0
"""A store that does not answer is reported before the API's function ends, after 29 s."""


def make_browser(configuration: TargetConfiguration, loggable: Loggable, clock: Clock, grace_ms: int) -> LogBrowser:
    """Create the browser of a target's events. One request for each of its ``headers_from``; a request of the browser
    without a response ends after ``REQUEST_TIMEOUT_S``. Raises InvalidConfigurationError for a target that cannot be read, and
    UnavailableError if a header cannot be read."""
    if isinstance(configuration, CloudWatchLogs):
        client = make_client("logs", region=configuration.region)
        return CloudWatchBrowser(client, configuration.group, loggable, clock, grace_ms)
    if not isinstance(configuration, Elasticsearch):
        raise InvalidConfigurationError(f"events of this target cannot be read kind={configuration.kind}")
    headers, transport = configuration.all_headers(read_named_secret), make_transport(configuration, REQUEST_TIMEOUT_S)
    return ElasticsearchBrowser(transport, configuration.url, configuration.index, loggable, clock, grace_ms, headers)
