"""Requests of log agents: reads body and headers, stores the items through the intake, and builds the response."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo
from hashlib import blake2b
from operator import attrgetter
from typing import Any

from chalice.app import Response

from chalicelib import composition
from chalicelib.access.grants import Scope
from chalicelib.composition import Services
from chalicelib.errors import BatchTooLargeError, ForbiddenError
from chalicelib.events.codecs.items import Item
from chalicelib.events.intake import Intake, IntakeLimits, IntakeRequest, ItemResult, ItemStatus
from chalicelib.observability import LOGS_FAILED, logger, note, record, redacted
from chalicelib.ports import Run
from chalicelib.routes import gate
from chalicelib.routes.agents_models import MAX_LISTED_ERRORS, RejectedItem, StoredItems
from chalicelib.routes.allowance import Allowance
from chalicelib.routes.api_request import ApiRequest
from chalicelib.routes.bodies import UnsupportedMediaTypeError, read_body, stated_zone
from chalicelib.routes.operations import ANY_TYPE, Agent
from chalicelib.routes.responses import error_response, json_response
from chalicelib.runlog.zone import tz_of

STATUS = {
    ItemStatus.STORED: 200,
    ItemStatus.MALFORMED: 400,
    ItemStatus.FORBIDDEN: 403,
    ItemStatus.CLOSED: 409,
    ItemStatus.DELETED: 410,
    ItemStatus.RETRYABLE: 503,
}
_ANSWER_WITHIN_S = 4.0
"""Reserve of the function's time for an append in progress and the response."""
_TAG_HEADERS = ("fluent-tag", "x-fluent-tag", "x-tag")


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """One request of an agent. ``content``: its body, decompressed. ``index``: of Elasticsearch, in the path; "" if there is none."""

    agent: Agent
    services: Services
    headers: Mapping[str, str]
    query: Mapping[str, str]
    content: str | bytes
    content_type: str
    allowance: Allowance
    context: Any
    index: str

    @classmethod
    def of(cls, request: ApiRequest) -> AgentRequest:
        """Read a request of a principal that may write to some pipeline; each item's pipeline is checked later. Raises ForbiddenError,
        InvalidBatchError, BatchTooLargeError, UnsupportedMediaTypeError."""
        agent, index = request.operation.agent if request.operation else None, request.names.get("index", "")
        assert agent, "only operations of agents have this view"
        note(agent=agent.name)
        gate.require_any_scope("agents", Scope.LOGS_WRITE)
        services, headers = composition.services(), request.headers
        body = read_body(request.event, headers, request.budget, services.settings.max_expanded_bytes)
        return cls(agent, services, headers, request.query, body.content, body.content_type, body.allowance, request.context, index)

    @property
    def records(self) -> str | bytes:
        """The content (JSON or lines) after its values were counted. Raises BatchTooLargeError."""
        self.allowance.check_values(self.content)
        return self.content

    @property
    def packed(self) -> bytes:
        """The body of a binary type. If a gateway treated it as text it is damaged, and its decoder reports an error."""
        return self.content if isinstance(self.content, bytes) else self.content.encode(errors="replace")

    @property
    def tag(self) -> str | None:
        """Fluentd's tag of the request."""
        return next((self.headers[name] for name in _TAG_HEADERS if name in self.headers), None) or self.query.get("tag")

    @property
    def common_attributes(self) -> str:
        """Firehose's parameters of the stream, as JSON."""
        return self.headers.get("x-amz-firehose-common-attributes", "")

    @property
    def zone(self) -> tzinfo:
        """The zone of records' times without one. Raises InvalidInputError."""
        return tz_of(stated_zone(self.headers))

    @property
    def now_ms(self) -> int:
        """The current time."""
        return self.services.clock.now_ms()

    def decode(self) -> Any:
        """The result of the agent's decoder for the content type. Raises UnsupportedMediaTypeError, and what the decoder raises."""
        decoders = self.agent.decoders
        decoder = decoders.get(self.content_type) or decoders.get(ANY_TYPE)
        if decoder is None:
            raise UnsupportedMediaTypeError(f"{self.agent.name.upper()} must be {' or '.join(decoders)}")
        return decoder.import_function()(*(attrgetter(name)(self) for name in decoder.arguments))

    def store(self, items: Iterable[Item], name: str = "") -> list[ItemResult]:
        """Store items; returns the result of each. ``name``: see ``IntakeRequest``; the agent's ``Idempotency-Key`` takes precedence. Raises
        BatchTooLargeError: nothing is stored."""
        headers = {key.lower(): value for key, value in self.headers.items()}
        own = headers.get("idempotency-key", "")
        name = f"{self.agent.name} {own or name}" if own or name else ""
        request = IntakeRequest(headers, self._digest(), name, self.agent.repeats_bytes)
        limits = IntakeLimits(self.allowance.items, self.allowance.streams, self.allowance.share)
        intake = Intake(self.services.events.log, self.services.events.router, _may_write, self._has_time, limits, self._check_run)
        try:
            stored = intake.take(items, request)
        except BatchTooLargeError as error:
            raise BatchTooLargeError(f"{error}: lower {self.agent.batch_setting} of the agent") from error
        reasons = {reason: redacted(reason) for reason in {each.reason for each in stored} if reason}
        results = [replace(each, reason=reasons[each.reason]) if each.reason else each for each in stored]
        self._report(results)
        return results

    def _check_run(self, run: Run) -> None:
        self.services.masker.check_names(run.fqn, run.fqn, run.run_id)

    def _digest(self) -> str:
        raw = self.content if isinstance(self.content, bytes) else self.content.encode(errors="surrogatepass")
        return blake2b(raw, digest_size=16, person=self.agent.name.encode()[:16]).hexdigest()

    def _has_time(self) -> bool:
        remaining_ms: int = self.context.get_remaining_time_in_millis()
        return remaining_ms / 1000 > _ANSWER_WITHIN_S

    def _report(self, results: list[ItemResult]) -> None:
        """Log rejected items for the operator: agents may not report them."""
        refused = [each for each in results if each.status is not ItemStatus.STORED]
        note(items=len(results), refused=len(refused))
        if refused:
            record(LOGS_FAILED, 1)
            counts = Counter(str(each.status) for each in refused)
            logger.warning(
                "items of an agent were refused",
                extra={"agent": self.agent.name, "fates": dict(counts), "first": refused[0].reason},
            )


def _may_write(fqn: str) -> bool:
    try:
        gate.require_scope(Scope.LOGS_WRITE, fqn)
    except ForbiddenError:
        return False
    return True


def rejected_items(results: Iterable[ItemResult]) -> list[tuple[int, ItemResult]]:
    """Rejected items, each with its index."""
    return [(index, each) for index, each in enumerate(results) if each.status is not ItemStatus.STORED]


def response_status(results: list[ItemResult]) -> int:
    """The status of a response without a status per item: 503 if any item can be retried (the agent repeats its request, and items stored
    before are recognized), 200 if any item was stored, otherwise the status of the rejection."""
    found = {each.status for each in results}
    if ItemStatus.RETRYABLE in found:
        return 503
    if ItemStatus.STORED in found or not found:
        return 200
    return STATUS[found.pop()] if len(found) == 1 else 400


def rejection_summary(results: list[ItemResult], preferred: ItemStatus | None = None) -> str:
    """The number of rejected items, and the reason of the first of them; of the first with the ``preferred`` status, if there is one."""
    refused = [each for _, each in rejected_items(results)]
    chosen = next((each for each in refused if each.status is preferred), refused[0])
    return f"{chosen.reason} refused={len(refused)} items={len(results)}"


def agent_response(results: list[ItemResult]) -> Response:
    """The response to agents whose protocol does not define one."""
    status = response_status(results)
    if status != 200:
        return error_response(status, rejection_summary(results, ItemStatus.RETRYABLE if status == 503 else None))
    refused = rejected_items(results)
    errors: list[RejectedItem] = [
        {"index": index, "code": STATUS[each.status], "message": each.reason} for index, each in refused[:MAX_LISTED_ERRORS]
    ]
    return json_response(StoredItems(accepted=len(results) - len(refused), refused=len(refused), errors=errors))
