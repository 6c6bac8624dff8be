"""``python -m deploy``: check, deploy, compare, test and delete a stage."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import boto3
import yaml
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

from deploy import rules
from deploy.artifacts import Packaged, upload
from deploy.change_sets import ChangeSet, Stacks
from deploy.errors import DeployError
from deploy.next_steps import next_steps
from deploy.smoke import Smoke
from deploy.stages import Stage, assignments, format_assignments, read_stage, stage_file
from deploy.teardown import Clients, destroy
from local import glue, package
from local.state import LocalError
from local.terminal import show, show_error


@dataclass(frozen=True, slots=True)
class Account:
    """An AWS account, as configured by the environment."""

    session: Any

    def client(self, service: str) -> Any:
        """A boto3 client. With a custom endpoint, bucket names are part of the path, not of the host."""
        style = {"addressing_style": "path"} if os.environ.get("AWS_ENDPOINT_URL") else {}
        return self.session.client(service, config=Config(s3=style, read_timeout=120))

    def number(self) -> str:
        """The account's number."""
        return str(self.client("sts").get_caller_identity()["Account"])

    def stage(self, arguments: argparse.Namespace) -> Stage:
        """The stage of the stage file, with the command line's overrides."""
        stage = read_stage(arguments.stage, self.number(), self.session.region_name)
        return stage.model_copy(update={"artifacts": arguments.bucket}) if arguments.bucket else stage


def _account(arguments: argparse.Namespace) -> Account:
    # boto3 reads AWS_DEFAULT_REGION alone; the AWS command line prefers AWS_REGION.
    session = boto3.Session(profile_name=arguments.profile or None, region_name=os.environ.get("AWS_REGION") or None)
    if not session.region_name:
        raise DeployError("no region: set AWS_REGION, AWS_DEFAULT_REGION or the profile's region")
    return Account(session)


def _proposed(arguments: argparse.Namespace, account: Account, stacks: Stacks) -> tuple[Stage, ChangeSet]:
    stage, overrides = account.stage(arguments), assignments(arguments.parameter)
    package.ensure_packaged(stage.architecture)
    effective = stacks.parameters(stage.stack) | stage.parameters | overrides
    template = yaml.safe_load(package.TEMPLATE.read_text())
    rules.check(template, effective, str(stage_file(arguments.stage)), account.session.region_name)
    packaged = Packaged(package.TEMPLATE, package.ZIP, jobs_version=glue.ensure_packaged(), jobs=glue.files())
    uploaded = upload(account.client("s3"), stage, account.session.region_name, packaged)
    if overrides:
        _say(f"parameters of this deployment: {format_assignments(dict.fromkeys(overrides, '…'))}")
    return stage, stacks.propose(stage, uploaded, overrides)


def _show(proposed: ChangeSet) -> None:
    _say(f"{proposed.stack}: {len(proposed.lines)} changes" if proposed.lines else f"{proposed.stack}: nothing changes")
    for line in proposed.lines:
        show(f"  {line}")


def _check(arguments: argparse.Namespace) -> None:
    """Check the stage file and the parameters, without access to the account. Raises DeployError."""
    stage = read_stage(arguments.stage, "", "")
    if "parameter" in arguments:
        parameters = stage.parameters | assignments(arguments.parameter)
        rules.check_events(parameters)
        rules.login(parameters)


def _check_only(arguments: argparse.Namespace) -> int:
    _check(arguments)
    _say(f"{stage_file(arguments.stage)} and the parameters are valid")
    return 0


def _deploy(arguments: argparse.Namespace) -> int:
    _check(arguments)
    account = _account(arguments)
    stacks = Stacks(account.client("cloudformation"))
    stage, proposed = _proposed(arguments, account, stacks)
    _show(proposed)
    if not proposed.lines:
        stacks.discard(proposed)
    else:
        stacks.execute(proposed)
    stacks.protect(stage.stack, protected=stage.protected)
    outputs = stacks.outputs(stage.stack)
    for name, value in sorted(outputs.items()):
        show(f"  {name} = {value}")
    for line in next_steps(outputs, stacks.parameters(stage.stack)):
        show(line)
    return 0


def _diff(arguments: argparse.Namespace) -> int:
    _check(arguments)
    account = _account(arguments)
    stacks = Stacks(account.client("cloudformation"))
    _, proposed = _proposed(arguments, account, stacks)
    try:
        _show(proposed)
    finally:
        stacks.discard(proposed)
    return 0


def _destroy(arguments: argparse.Namespace) -> int:
    _check(arguments)
    account = _account(arguments)
    stage = account.stage(arguments)
    stacks = Stacks(account.client("cloudformation"))
    clients = Clients(account.client("s3"), account.client("dynamodb"), account.number())
    left = destroy(stacks, clients, stage.stack, with_data=arguments.data == "delete", ask=_typed)
    if left:
        _say(f"{stage.stack} is deleted; remaining, with their content: {', '.join(left)}; DATA=delete deletes them too")
    else:
        _say(f"{stage.stack} and its data are deleted")
    _say(f"remaining for other stages: template and code; after the last stage: aws s3 rb --force s3://{stage.artifacts}")
    return 0


def _smoke(arguments: argparse.Namespace) -> int:
    token = os.environ.get("TOKEN", "")  # no argument: other users of the machine can see those
    if Smoke(arguments.url, token, _say).run():
        return 0
    if not token:
        _say(
            "no TOKEN was sent; an API with authentication asks for one that may logs:write, logs:read, archive:write and archive:read"
        )
    return 1


def _typed(question: str) -> str:
    show(question, end="")
    return sys.stdin.readline()


def _say(text: str) -> None:
    show(f"runlake: {text}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m deploy", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    texts: tuple[tuple[str, Callable[[argparse.Namespace], int], str], ...] = (
        ("deploy", _deploy, "create or update a stage's stack"),
        ("diff", _diff, "show what a deployment would change"),
        ("check", _check_only, "check the stage file and the parameters Events and Login, without an account"),
        ("destroy", _destroy, "delete a stage's stack; its buckets remain"),
    )
    for name, run, text in texts:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        command.add_argument("--stage", required=True, help="name of a file in infra/stages/, or a path that ends with .json")
        if name != "check":
            command.add_argument("--profile", default="", help="profile of the AWS configuration")
            command.add_argument("--bucket", default="", help="bucket for template and code (default: the stage's)")
        if name == "destroy":
            command.add_argument("--data", choices=("keep", "delete"), default="keep", help="whether the buckets are deleted too")
        else:
            command.add_argument(
                "--parameter",
                action="append",
                default=[],
                metavar="NAME=VALUE",
                help="parameter of the template; overrides the stage's",
            )
    command = commands.add_parser("smoke", help="test a deployed address", description="A smoke test; TOKEN is the bearer token.")
    command.set_defaults(run=_smoke)
    command.add_argument("--url", required=True, help="the output ApiUrl")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parsed = _parser().parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except (NoCredentialsError, PartialCredentialsError) as error:
        show_error(f"{error}: name a profile (PROFILE=…, --profile), or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
        return 1
    except (DeployError, LocalError, BotoCoreError, ClientError) as error:
        show_error(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main())
