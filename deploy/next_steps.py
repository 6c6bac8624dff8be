"""What a person needs after a deployment: the addresses, where people log in, and the next command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deploy import rules


def next_steps(outputs: Mapping[str, str], parameters: Mapping[str, str]) -> list[str]:
    """Lines in words; an address has a line of its own. ``outputs``, ``parameters``: all of the deployed stack. Raises DeployError if
    ``Login`` is invalid."""
    api = outputs["ApiUrl"]
    if parameters["Auth"] == "iam":
        people = ["Browsers do not sign, so the page cannot be used."]
        first = f"RUNLAKE_AUTH=iam RUNLAKE_URL={api} runlake exec my.first.pipeline -- echo hello"
    else:
        people, first = list(_people(outputs["PageUrl"], parameters)), f'make smoke TOKEN="$TOKEN" URL={api}'
    return [*_jobs(api, outputs, parameters["Auth"]), *people, "Next:", f"  {first}"]


def _jobs(api: str, outputs: Mapping[str, str], auth: str) -> Iterator[str]:
    yield {"jwt": "Jobs send with a token to", "iam": "Jobs and people sign with AWS credentials for"}.get(auth, "Jobs send to")
    yield f"  {api}"
    if "JobApiUrl" in outputs:
        yield "Jobs with an IAM role sign for"
        yield f"  {outputs['JobApiUrl']}"
        yield "  once this policy is attached to the role:"
        yield f"  {outputs['JobUrlPolicyArn']}"
    elif auth == "jwt":
        yield "Jobs with an IAM role have no address: set JobUrl=iam (docs/security.md)."


def _people(page: str, parameters: Mapping[str, str]) -> Iterator[str]:
    yield "People open"
    yield f"  {page}"
    if login := rules.login(parameters):
        yield "  and log in at"
        yield f"  {login.issuer or parameters['JwtIssuer']}"
        yield "  Register there, as redirect address, the page's, and for runlake login"
        yield f"  {login.cli_redirect}"
    elif parameters["Auth"] == "jwt":
        yield "  Nobody can log in there yet: set Login (docs/login.md). A token works."
