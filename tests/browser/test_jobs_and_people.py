"""One deployed stage with both entries at once: jobs that sign with their roles at the function URL; people and bots with tokens of a real OpenID
provider (oidc-provider 9 on Node) at the API, in Chromium, and in the two unmodified clients."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.credentials import Credentials
from playwright.sync_api import Page, expect

from local.emulator import free_port
from tests.browser.test_login import log_in
from tests.browser.test_openid_provider import Provider, consent
from tests.functional.gateway import LOGS
from tests.integration.datalake.client import Datalake, fingerprint, wait_for
from tests.integration.openmetadata.test_unmodified_client import connector
from tests.integration.stacks import Stack, eventually, running_stack
from tests.integration.test_identity_on_the_stack import POLICY, STS, Said, ask, job, session
from tests.issuer import bearer
from tests.prerequisites import OIDC, require

pytestmark = pytest.mark.thorough

_LOGIN = {"client_id": "page", "scopes": "openid offline_access", "parameters": {"resource": "urn:runlake", "prompt": "consent"}}
_ALL = ["logs:write", "logs:read", "logs:delete", "archive:write", "archive:read", "admin"]
GRANTS = {
    f"{STS}/sales": {"logs:write": ["svc_sales.*"], "logs:read": ["svc_sales.*"], "archive:write": ["sales_*"]},
    f"{STS}/hr": {"logs:write": ["svc_hr.*"], "archive:read": ["hr_*"]},
    f"{STS}/operator": {scope: ["*"] for scope in _ALL},
    "ann": {"logs:read": ["svc_sales.*"], "logs:delete": ["svc_hr.*"], "archive:read": ["sales_*"]},
    "bot": {"logs:write": ["mysql_prod.*"], "logs:read": ["mysql_prod.*"], "archive:read": ["sales_*"]},
}
JOBS = {"sales": 4, "hr": 3, "operator": 3}
"""How many at once, by role."""
# By hand. $run: a run of the caller, which nobody else writes. The last two columns are tokens, at the API; the others signatures, at the URL.
TABLE = """
                                                                     sales hr  operator ann bot
GET    /v1/health                                                    200   200 200      200 200
GET    /v0/environment/                                              200   200 200      200 200
POST   $LOGS/svc_sales.a%2Fb%25..c/$run "mine"                       200   403 200      403 403
GET    $LOGS/svc_sales.a%2Fb%25..c/$run                              200   403 200      200 403
GET    $LOGS/svc_sales.a%2Fb%25..c/$run/download                     200   403 200      404 403
POST   $LOGS/svc_sales.a%2Fb%25..c/$run/close                        200   403 200      403 403
POST   $LOGS/svc_hr.etl/$run "mine"                                  403   200 200      403 403
GET    $LOGS/svc_hr.etl/$run                                         403   403 200      403 403
POST   $LOGS/svc_hr.etl/$run/close                                   403   200 200      403 403
PUT    /v1/events/svc_sales.e/$run/heartbeat                         200   403 200      403 403
GET    /v1/events/svc_sales.e/$run                                   200   403 200      200 403
PUT    /v1/events/svc_hr.e/$run/heartbeat                            403   200 200      403 403
GET    /v1/catalog                                                   200   403 200      200 200
GET    /v1/catalog/pipelines/svc_hr.etl/runs                         403   403 200      403 403
GET    /v1/catalog/pipelines/svc_sales.etl/runs/none/explanation     404   403 404      404 403
DELETE /v1/catalog/pipelines/svc_hr.etl/runs/none                    403   403 404      404 403
POST   /v0/archive/files {"what":"sales_db"}                         201   403 201      403 403
GET    /v0/archive/files/?what=hr_db&work_id=w                       200   200 200      200 200
GET    /v0/archive/latest/hr_db/web-1                                403   404 404      403 403
GET    /v0/archive/latest/sales_db/web-1                             403   403 404      404 404
GET    /v1/pipelines                                                 403   403 200      403 403
POST   /v1/pipelines/nonsense/enable                                 403   403 404      403 403
GET    /v1/coordination/compaction                                   403   403 200      403 403
GET    /v1/dead-letters?fqn=svc_sales.etl                            200   403 200      200 403
"""
FILE = {"where": "web-1", "path": "/f", "start": 1, "end": 1, "work_id": "w", "hash": "0" * 32, "size": 1}


@dataclass(frozen=True)
class Caller:
    """A job with the credentials of a role, or the owner of a token."""

    stack: Stack
    run: str
    credentials: Credentials | str

    def ask(self, method: str, path: str, body: bytes = b"") -> Said:
        """The response at the caller's entry. Requests that no function was free for, or too slow a one, are repeated: all begin at once."""
        said: Said = eventually(lambda: self._ask(method, path, body), lambda said: said.status not in (429, 502, 503, 504))
        return said

    def _ask(self, method: str, path: str, body: bytes) -> Said:
        if isinstance(self.credentials, str):
            return ask(self.stack, method, path, bearer(self.credentials), body or None)
        return job(self.stack, self.credentials, method, path, body)

    def statuses(self) -> dict[str, int]:
        """The status of each row of the table, in order."""
        return {f"{method} {path}": self.ask(*self._request(method, path, body)).status for method, path, body, _ in rows()}

    def _request(self, method: str, path: str, body: str) -> tuple[str, str, bytes]:
        text = json.dumps(FILE | json.loads(body)) if body.startswith("{") else body.replace("mine", f"of {self.run}")
        return method, path.replace("$LOGS", LOGS).replace("$run", self.run), text.strip('"').encode()


def rows() -> Iterator[tuple[str, str, str, dict[str, int]]]:
    """Method, path, body, and the status by principal."""
    head, *lines = TABLE.strip().splitlines()
    names = head.split()
    for line in lines:
        method, path, *rest = line.split()
        body, statuses = rest[: -len(names)], rest[-len(names) :]
        yield method, path, "".join(body), dict(zip(names, map(int, statuses), strict=True))


def column(name: str) -> dict[str, int]:
    """What a principal is answered."""
    return {f"{method} {path}": statuses[name] for method, path, _, statuses in rows()}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    """It knows the page of ``stage``."""
    require(OIDC)
    provider = Provider(f"http://127.0.0.1:{free_port()}/api/v1/ui/")
    provider.start()
    yield provider
    provider.stop()


@pytest.fixture(scope="module")
def stage(provider: Provider) -> Iterator[Stack]:
    trust = {"JwtIssuer": provider.url, "JwtAudience": "runlake", "JwtJwksUrl": f"{provider.url}/jwks", "Login": json.dumps(_LOGIN)}
    port = urlsplit(provider.page).port or 0
    with (
        running_stack(port, Auth="jwt", JobUrl="iam", PolicyParameter=POLICY, **trust) as stack,
        closing(stack.client("ssm")) as ssm,
    ):
        ssm.put_parameter(Name=POLICY, Value=json.dumps({"principals": GRANTS}), Type="String", Overwrite=True)
        yield stack


@pytest.fixture(scope="module")
def bot(provider: Provider) -> str:
    """A token of the provider for a program with a secret."""
    return provider.token()


@pytest.mark.behavior(
    "Ten jobs of three roles and a person at an independent OpenID provider share a stage, each as the policy says."
)
def test_each_caller_of_both_entries_is_answered_as_the_policy_says(stage: Stack, page: Page, bot: str) -> None:
    jobs = [
        Caller(stage, f"{role}-{number}", session(stage, role, f"job-{number}")) for role in JOBS for number in range(JOBS[role])
    ]
    written = Caller(stage, "first", jobs[0].credentials)
    assert written.ask("POST", f"{LOGS}/svc_sales.etl/first", b"one\ntwo\nthree\n").status == 200
    page.goto(f"{stage.api_url}/v1/ui/?p=svc_sales.etl&r=first#L2")
    deep_link = page.url
    log_in(page)
    consent(page)
    expect(page.locator(".row").last).to_contain_text("three")
    people = [Caller(stage, "ann", str(page.evaluate("sessionStorage['runlake.token']"))), Caller(stage, "bot", bot)]
    with ThreadPoolExecutor(len(jobs) + len(people)) as pool:
        answers = pool.map(Caller.statuses, [*jobs, *people])
        found = dict(zip([each.run for each in (*jobs, *people)], answers, strict=True))
    expected = {run: column(run.partition("-")[0]) for run in found}
    assert [(run, *row) for run in found for row in found[run].items() - expected[run].items()] == []
    page.reload()
    expect(page.locator(".row").last).to_contain_text("three")
    assert page.url == deep_link
    ann, operator = people[0], jobs[-1]
    for each in jobs:
        own = f"{LOGS}/svc_sales.a%2Fb%25..c/{each.run}"
        line = "" if each.run.startswith("hr") else f"of {each.run}"
        assert {shown for reader in (ann, operator) for shown in reader.ask("GET", own).json.get("logs", "").split("\n")} == {line}
    page.goto(f"{stage.api_url}/v1/ui/?p=svc_hr.etl&r=hr-0")
    expect(page.locator("body")).to_contain_text("logs:read")
    assert page.locator(".row").count() == 0


def test_credentials_of_one_entry_are_refused_at_the_other(stage: Stack, bot: str) -> None:
    path, key = f"{LOGS}/mysql_prod.a/r", session(stage, "operator", "me")
    signed = job(stage, key, "GET", path, base=stage.api_url)
    with_token = ask(stage, "GET", path, bearer(bot), base=stage["job_url"])
    both = job(stage, key, "GET", path, Authorization=bearer(bot)["Authorization"])
    assert (signed.status, with_token.status, both.status) == (401, 403, 403)
    assert ask(stage, "GET", path, bearer(bot)).status == job(stage, key, "GET", path).status == 200


@pytest.mark.behavior(
    "OpenMetadata's unmodified client and the datalake's work beside jobs that sign, with tokens of an OpenID provider."
)
def test_unmodified_clients_work_with_tokens_of_the_provider(stage: Stack, bot: str, tmp_path: Path) -> None:
    copy, run_id = tmp_path / "copy.log", str(uuid.uuid4())
    counters = connector("work", stage.api_url, "mysql_prod.ingest", run_id, "--copy", str(copy), "--burst", "200", token=bot)
    assert (counters["shipped_records"], counters["dropped_overflow"]) == (200 + 3 + 1, 0)
    log = ask(stage, "GET", f"{LOGS}/mysql_prod.ingest/{run_id}/download", bearer(bot)).body
    assert log.startswith(copy.read_text(encoding="utf-8"))
    assert not connector("call", stage.api_url, "svc_sales.etl", run_id, "--method", "append", text="x\n", token=bot)

    home = tmp_path / "home"
    home.mkdir()
    (home / ".netrc").write_text(f"machine {urlsplit(stage.api_url).hostname}\nlogin datalake\npassword {bot}\n")
    (home / ".netrc").chmod(0o600)
    (tmp_path / "some.log").write_bytes(b"line\n" * 10)
    datalake, times = Datalake(stage, home), {"start": "2026-11-21T00:00Z", "end": "2026-11-21T01:00Z"}
    urls = {what: datalake.push(tmp_path / "some.log", what=what, where="web", **times) for what in ("sales_db", "hr_db")}
    listed = wait_for(lambda: datalake.listing("sales_db", where="web", **times) or None, "the file to be listed")
    assert listed == [urls["sales_db"]]
    fetched: Any = datalake.call("fetch", urls=[datalake.http_url(urls["sales_db"])])
    assert fetched[0]["contents"] == [fingerprint(b"line\n" * 10)] * 3
    assert datalake.listing("hr_db", where="web", **times) == []
    assert re.search("403|404", datalake.attempt("latest", "hr_db", "web").error)
