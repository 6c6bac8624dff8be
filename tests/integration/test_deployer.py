"""``infra/deployer.yaml``: who deploys a stage may do what that takes, and nothing else; nor may the roles that he makes."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from cfnlint.decode.cfn_yaml import load

from deploy.canary import shift
from local.package import DEPLOYER
from tests.integration.deployments import (
    ACCOUNT,
    BOUNDARY,
    KEY,
    PARAMETERS,
    RANDOM,
    REGION,
    STACK,
    STACK_ARN,
    VPC,
    Deployment,
    calls,
    checks,
)  # fmt: skip
from tests.integration.test_canary import HOW, translated
from tests.permissions import Grant, Need, grants_of, refused, unused

POLICIES = ("StackPolicy", "ResourcesPolicy", "OptionsPolicy")
ROLE = f"arn:aws:iam::{ACCOUNT}:role/{STACK}/{STACK}-ApiRole-{RANDOM}"
FUNCTION = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{STACK}-APIHandler-{RANDOM}"
OPTIONS = pytest.mark.parametrize("options", [True, False], ids=["all-options", "no-options"])
MORE = {
    "SAM's types are a macro": Need(
        "cloudformation:CreateChangeSet", f"arn:aws:cloudformation:{REGION}:aws:transform/Serverless-2016-10-31"
    ),
    "tags of a stage": Need("cloudformation:TagResource", f"{STACK_ARN}/"),
    "other tags of a stage": Need("cloudformation:UntagResource", f"{STACK_ARN}/"),
    "CloudFormation asks for it before it tags functions": Need("lambda:ListTags", FUNCTION),
    "API Gateway makes its role for the first API of an account": Need(
        "iam:CreateServiceLinkedRole",
        f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/ops.apigateway.amazonaws.com/AWSServiceRoleForAPIGateway",
        ("iam:AWSServiceName", "ops.apigateway.amazonaws.com"),
    ),
}
"""Needs that neither the registry nor the calls of ``deploy/`` tell."""


@pytest.fixture(scope="module")
def stage(template: dict[str, Any]) -> dict[str, Any]:
    """The template of a stage that shifts its API, after SAM's transform."""
    changed = copy.deepcopy(template)
    shift(changed, HOW)
    return {**changed, "Resources": translated(changed)}


@cache
def deployer(policy: str, *, options: bool) -> dict[str, Any]:
    """A policy's document, for the stage."""
    document: dict[str, Any] = Deployment(load(str(DEPLOYER)), options=options).properties(policy)["PolicyDocument"]
    return document


@cache
def allowed(*, options: bool) -> frozenset[Grant]:
    return frozenset(grant for policy in POLICIES for grant in grants_of(deployer(policy, options=options)))


@cache
def bounds(*, options: bool) -> frozenset[Grant]:
    return frozenset(grant for grant in grants_of(deployer("RolesBoundary", options=options)) if grant.is_possible)


def needs(stage: dict[str, Any], *, options: bool) -> set[Need]:
    return Deployment(stage, options=options).needs() | calls() | set(MORE.values())


@OPTIONS
def test_deployer_may_do_what_resources_and_commands_need(stage: dict[str, Any], options: bool) -> None:
    assert refused(needs(stage, options=options), allowed(options=options)) == []


def test_deployer_may_do_nothing_else(stage: dict[str, Any]) -> None:
    idle = unused(needs(stage, options=True), allowed(options=True))
    assert [grant for grant in idle if checks(grant.action, grant.resource)] == []


def granted(stage: dict[str, Any], *, options: bool) -> Iterator[Grant]:
    """What the stage's roles are granted by its template."""
    stack = Deployment(stage, options=options)
    for logical, each in stack.resources.items():
        about = stack.properties(logical)
        if each["Type"] == "AWS::IAM::Role":
            for policy in about["Policies"]:
                yield from grants_of(policy["PolicyDocument"])
        elif each["Type"] in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy") and logical != "JobUrlPolicy":
            yield from grants_of(about["PolicyDocument"])


@OPTIONS
def test_boundary_allows_what_roles_are_granted_and_nothing_else(stage: dict[str, Any], options: bool) -> None:
    wanted = {Need(grant.action, grant.resource) for grant in granted(stage, options=options) if grant.is_possible}
    assert refused(wanted, bounds(options=options)) == []
    if options:
        idle = set(unused(wanted, bounds(options=True)))
        used = {part for grant in bounds(options=True) - idle for part in ((grant.sid, grant.action), (grant.sid, grant.resource))}
        assert [grant for grant in idle if not {(grant.sid, grant.action), (grant.sid, grant.resource)} <= used] == []


def test_every_role_has_the_boundary_and_the_path(stage: dict[str, Any]) -> None:
    stack = Deployment(stage, options=True)
    roles = [stack.properties(logical) for logical, each in stack.resources.items() if each["Type"] == "AWS::IAM::Role"]
    assert len(roles) == 14
    assert {(each.get("PermissionsBoundary"), each["Path"]) for each in roles} == {(BOUNDARY, f"/{STACK}/")}
    assert "PermissionsBoundary" not in Deployment(stage, options=False).properties("ApiRole")
    boundary = Deployment(load(str(DEPLOYER)), options=True).properties("RolesBoundary")
    assert boundary["ManagedPolicyName"] == BOUNDARY.rpartition("/")[2]


FOREIGN = f"arn:aws:iam::{ACCOUNT}:role/{STACK}-admin"
ANY_BOUNDARY = ("iam:PermissionsBoundary", f"arn:aws:iam::{ACCOUNT}:policy/{STACK}/mine")
TO_MORE_RIGHTS = {
    "a role without the boundary": Need("iam:CreateRole", ROLE),
    "a role with a boundary of one's own": Need("iam:CreateRole", ROLE, ANY_BOUNDARY),
    "another boundary": Need("iam:PutRolePermissionsBoundary", ROLE, ANY_BOUNDARY),
    "no boundary": Need("iam:DeleteRolePermissionsBoundary", ROLE, ("iam:PermissionsBoundary", BOUNDARY)),
    "a policy for a role that has no boundary": Need("iam:PutRolePolicy", ROLE),
    "a policy for a role of others": Need("iam:PutRolePolicy", FOREIGN, ("iam:PermissionsBoundary", BOUNDARY)),
    "the boundary itself": Need("iam:CreatePolicyVersion", BOUNDARY),
    "one's own policies": Need("iam:CreatePolicyVersion", f"arn:aws:iam::{ACCOUNT}:policy/runlake.stack.{STACK}"),
    "the default version of the boundary": Need("iam:SetDefaultPolicyVersion", BOUNDARY),
    "a policy for oneself": Need("iam:AttachUserPolicy", f"arn:aws:iam::{ACCOUNT}:user/deployer"),
    "whoever may assume a role of others": Need("iam:UpdateAssumeRolePolicy", FOREIGN),
    "a role of others for a function": Need("iam:PassRole", FOREIGN, ("iam:PassedToService", "lambda.amazonaws.com")),
    "a role for another service": Need("iam:PassRole", ROLE, ("iam:PassedToService", "ec2.amazonaws.com")),
    "a role of another service": Need(
        "iam:CreateServiceLinkedRole", f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/x/y", ("iam:AWSServiceName", "x")
    ),
    "code of a function of others": Need("lambda:UpdateFunctionCode", FUNCTION.replace(STACK, "payroll")),
    "a queue for a function of others": Need(
        "lambda:CreateEventSourceMapping", "*", ("lambda:FunctionArn", FUNCTION.replace(STACK, "payroll"))
    ),
    "a URL for anybody": Need("lambda:CreateFunctionUrlConfig", FUNCTION, ("lambda:FunctionUrlAuthType", "NONE")),
    "a function in another network": Need("lambda:CreateFunction", FUNCTION, ("lambda:VpcIds", "vpc-0b2")),
    "a key for oneself": Need("kms:CreateGrant", KEY, ("kms:GrantIsForAWSResource", "false")),
    "secrets of others": Need("secretsmanager:GetSecretValue", f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:payroll-x1y2z3"),
    "objects of others": Need("s3:GetObject", "arn:aws:s3:::payroll/salaries"),
    "logs without their API": Need("s3:GetObject", f"arn:aws:s3:::{PARAMETERS['BucketName']}/pipeline-logs/x"),
    "another stack": Need("cloudformation:CreateChangeSet", STACK_ARN.replace(STACK, "runlake-test") + "/"),
    "security groups of another network": Need(
        "ec2:AuthorizeSecurityGroupIngress",
        f"arn:aws:ec2:{REGION}:{ACCOUNT}:security-group/sg-1",
        ("ec2:Vpc", f"arn:aws:ec2:{REGION}:{ACCOUNT}:vpc/vpc-0b2"),
    ),
}


@OPTIONS
@pytest.mark.parametrize("path", TO_MORE_RIGHTS)
def test_deployer_cannot_get_more_rights(path: str, options: bool) -> None:
    need = TO_MORE_RIGHTS[path]
    assert refused([need], allowed(options=options)) == [need]
    assert refused([need], bounds(options=options)) == [need] or path == "logs without their API"


def test_function_without_options_is_in_no_network() -> None:
    need = Need("lambda:CreateFunction", FUNCTION, ("lambda:VpcIds", VPC))
    assert refused([need], allowed(options=False)) == [need]


def test_policies_fit_into_the_limit_of_aws_with_the_longest_names() -> None:
    """6,144 characters without white space."""
    stretched = {STACK: "s" * 24, REGION: "ap-southeast-1", "arn:aws:": "arn:aws-us-gov:"}
    stretched |= {PARAMETERS[name]: name[0].lower() * 63 for name in ("BucketName", "ArchiveBucketName", "ArtifactsBucket")}
    for policy in (*POLICIES, "RolesBoundary"):
        text = json.dumps(deployer(policy, options=True), separators=(",", ":"))
        for short, long in stretched.items():
            text = text.replace(short, long)
        assert len(text) <= 6144, policy
