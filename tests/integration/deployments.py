"""What a deployment needs of AWS: the permissions that CloudFormation's registry states for each type of resource, as cfn-lint has
them, on the ARNs that the stack's resources have, and the calls of ``deploy/``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
from botocore import xform_name
from cfnlint.data import AdditionalSpecs
from cfnlint.helpers import load_resource
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from local.state import PROJECT
from tests.permissions import Need
from tests.support.intrinsics import Intrinsics

ACCOUNT, REGION, STACK = "111122223333", "eu-west-1", "runlake-prod"
RANDOM = "A1B2C3D4E5F6"
BUCKETS = ["the-logs", "the-archive", f"{STACK}-jobsbucket-{RANDOM.lower()}", f"{STACK}-datasetbucket-{RANDOM.lower()}"]
ARTIFACTS = f"runlake-artifacts-{ACCOUNT}-{REGION}"
DATABASE, VPC = "runlake_prod", "vpc-0a1"
STACK_ARN = f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{STACK}"
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/a-key"
BOUNDARY = f"arn:aws:iam::{ACCOUNT}:policy/runlake.boundary.{STACK}"
_PSEUDO = {
    "Partition": "aws",
    "Region": REGION,
    "AccountId": ACCOUNT,
    "StackName": STACK,
    "StackId": f"{STACK_ARN}/1",
    "URLSuffix": "amazonaws.com",
}

Template = Mapping[str, Any]

_ARNS = {
    "AWS::ApiGateway::Deployment": ["apigateway:{region}::/restapis/a1/deployments", "apigateway:{region}::/restapis/a1/deployments/d1"],
    "AWS::ApiGateway::RestApi": ["apigateway:{region}::/restapis", "apigateway:{region}::/restapis/a1", "apigateway:{region}::/tags/arn"],
    "AWS::ApiGateway::Stage": ["apigateway:{region}::/restapis/a1/stages", "apigateway:{region}::/restapis/a1/stages/api"],
    "AWS::CloudWatch::Alarm": ["cloudwatch:{here}:alarm:{name}"],
    "AWS::CloudWatch::Dashboard": ["cloudwatch::{account}:dashboard/{name}"],
    "AWS::CodeDeploy::Application": ["codedeploy:{here}:application:{name}"],
    "AWS::CodeDeploy::DeploymentGroup": ["codedeploy:{here}:deploymentgroup:{stack}-ServerlessDeploymentApplication-{random}/{name}"],
    "AWS::DynamoDB::Table": ["dynamodb:{here}:table/{name}"],
    "AWS::EC2::SecurityGroup": ["ec2:{here}:security-group/sg-1", "ec2:{here}:vpc/{vpc}"],
    "AWS::EC2::VPCEndpoint": [
        "ec2:{here}:vpc-endpoint/vpce-1", "ec2:{here}:vpc/{vpc}", "ec2:{here}:subnet/subnet-1",
        "ec2:{here}:security-group/sg-1", "ec2:{here}:route-table/rtb-1",
    ],
    "AWS::Events::Rule": ["events:{here}:rule/{name}"],
    "AWS::Glue::Database": ["glue:{here}:catalog", "glue:{here}:database/{database}",
        "glue:{here}:table/{database}/events", "glue:{here}:userDefinedFunction/{database}/any"],
    "AWS::Glue::Job": ["glue:{here}:job/{name}"],
    "AWS::Glue::Table": ["glue:{here}:catalog", "glue:{here}:database/{database}", "glue:{here}:table/{database}/events"],
    "AWS::Glue::Trigger": ["glue:{here}:trigger/{name}"],
    "AWS::IAM::ManagedPolicy": ["iam::{account}:policy{path}{name}"],
    "AWS::IAM::Policy": ["iam::{account}:role/{stack}/{stack}-ApiRole-{random}"],
    "AWS::IAM::Role": ["iam::{account}:role{path}{name}"],
    "AWS::Lambda::Alias": ["lambda:{here}:function:{stack}-APIHandler-{random}", "lambda:{here}:function:{stack}-APIHandler-{random}:live"],
    "AWS::Lambda::EventInvokeConfig": ["lambda:{here}:function:{stack}-Compact-{random}"],
    "AWS::Lambda::EventSourceMapping": ["lambda:{here}:event-source-mapping:a-b-c"],
    "AWS::Lambda::Function": ["lambda:{here}:function:{name}"],
    "AWS::Lambda::Permission": ["lambda:{here}:function:{stack}-APIHandler-{random}"],
    "AWS::Lambda::Url": ["lambda:{here}:function:{stack}-JobApi-{random}"],
    "AWS::Lambda::Version": ["lambda:{here}:function:{stack}-APIHandler-{random}", "lambda:{here}:function:{stack}-APIHandler-{random}:1"],
    "AWS::Logs::LogGroup": ["logs:{here}:log-group:{name}", "logs:{here}:log-group:{name}:*"],
    "AWS::S3::Bucket": ["s3:::{name}"],
    "AWS::S3::BucketPolicy": [f"s3:::{name}" for name in BUCKETS],
    "AWS::SNS::Topic": ["sns:{here}:{name}"],
    "AWS::SNS::TopicPolicy": ["sns:{here}:{stack}-ReportTopic-{random}"],
    "AWS::SQS::Queue": ["sqs:{here}:{name}"],
    "AWS::SQS::QueuePolicy": ["sqs:{here}:{stack}-IngestQueue-{random}"],
    "AWS::SecretsManager::Secret": ["secretsmanager:{here}:secret:{logical}-{random}-x1y2z3"],
    "AWS::WAFv2::WebACL": ["wafv2:{here}:regional/webacl/{name}/1"],
    "AWS::WAFv2::WebACLAssociation": [
        "apigateway:{region}::/restapis/a1/stages/api", "wafv2:{here}:regional/webacl/{stack}-requests-per-token/1",
        "wafv2:{here}:regional/webacl/shared/1",
    ],
}  # fmt: skip
"""ARNs, without ``arn:aws:``, that a resource of the type has or whose permission its actions ask for."""
_SHARED = {
    "account": ACCOUNT,
    "database": DATABASE,
    "here": f"{REGION}:{ACCOUNT}",
    "random": RANDOM,
    "region": REGION,
    "stack": STACK,
    "vpc": VPC,
}
_OTHERS = [
    KEY,
    f"arn:aws:s3:::{ARTIFACTS}/0a1b.zip",
    f"arn:aws:codedeploy:{REGION}:{ACCOUNT}:application:{STACK}-ServerlessDeploymentApplication-{RANDOM}",
    f"arn:aws:codedeploy:{REGION}:{ACCOUNT}:deploymentconfig:CodeDeployDefault.LambdaCanary10Percent5Minutes",
    f"arn:aws:codedeploy:{REGION}:{ACCOUNT}:deploymentgroup:{STACK}-ServerlessDeploymentApplication-{RANDOM}/{STACK}-Group-{RANDOM}",
    f"arn:aws:iam::{ACCOUNT}:role/{STACK}/{STACK}-ApiRole-{RANDOM}",
]
"""ARNs of what the stack only refers to."""
_NAMING = ("Name", "ManagedPolicyName", "BucketName", "LogGroupName", "DashboardName")
_AS_ARN = ("AWS::IAM::ManagedPolicy", "AWS::SNS::Topic", "AWS::SecretsManager::Secret")
"""Types of which Ref is the ARN."""
PARAMETERS: dict[str, Any] = {
    "ArchiveBucketName": BUCKETS[1],
    "ArtifactsBucket": ARTIFACTS,
    "BrowserDomainArns": [f"arn:aws:es:{REGION}:{ACCOUNT}:domain/read/*"],
    "BrowserLogGroupArns": [f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:read:*"],
    "BrowserSecretArns": [f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter/read"],
    "BucketName": BUCKETS[0],
    "DatasetDatabase": DATABASE,
    "EndpointsVpcId": VPC,
    "KmsKeyId": KEY,
    "MaskingSecretArns": [f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:masked-*"],
    "PipelineRoles": ["arn:aws:iam::444455556666:role/audit"],
    "PolicyParameter": "/runlake/policy",
    "RolesBoundaryArn": BOUNDARY,
    "TargetDomainArns": [f"arn:aws:aoss:{REGION}:{ACCOUNT}:collection/written"],
    "TargetLogGroupArns": [f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:written:*"],
    "TargetSecretArns": [f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:target-*"],
    "WebAclArn": f"arn:aws:wafv2:{REGION}:{ACCOUNT}:regional/webacl/shared/1",
}
PARAMETERS |= {
    "DomainArns": PARAMETERS["TargetDomainArns"] + PARAMETERS["BrowserDomainArns"],
    "LogGroupArns": PARAMETERS["TargetLogGroupArns"] + PARAMETERS["BrowserLogGroupArns"],
    "SecretArns": PARAMETERS["TargetSecretArns"] + PARAMETERS["BrowserSecretArns"] + PARAMETERS["MaskingSecretArns"],
    "StackName": STACK,
    "VpcId": VPC,
}
"""Of a stage that has every option, and of its deployer's policies."""

UNLESS_USED = {
    "AWS::ApiGateway::RestApi": {"BodyS3Location": "s3:GetObject", "Policy": "apigateway:UpdateRestApiPolicy"},
    "AWS::DynamoDB::Table": {
        "ContributorInsightsSpecification": "dynamodb:UpdateContributorInsights",
        "ImportSourceSpecification": "dynamodb:ImportTable dynamodb:DescribeImport s3:* logs:*",
        "KinesisStreamSpecification": "kinesis:* dynamodb:*ableKinesisStreamingDestination dynamodb:UpdateKinesisStreamingDestination",
        "KMSMasterKeyId": "kms:*",
        "ResourcePolicy": "dynamodb:PutResourcePolicy dynamodb:DeleteResourcePolicy",
    },
    "AWS::EC2::SecurityGroup": {
        "SecurityGroupEgress": "ec2:*SecurityGroupEgress ec2:UpdateSecurityGroupRuleDescriptionsEgress",
    },
    "AWS::EC2::VPCEndpoint": {"ServiceNetworkArn": "vpc-lattice:*", "ServiceRegion": "vpce:*"},
    "AWS::Events::Rule": {"RoleArn": "iam:PassRole"},
    "AWS::Glue::Database": {"FederatedDatabase": "glue:*Connection"},
    "AWS::Glue::Table": {
        "OpenTableFormatInput": "iam:PassRole s3:* glue:PassConnection",
        "SchemaReference": "glue:GetSchemaVersion",
    },
    "AWS::IAM::ManagedPolicy": {"Groups": "iam:*GroupPolicy", "Roles": "iam:*RolePolicy", "Users": "iam:*UserPolicy"},
    "AWS::IAM::Policy": {"Groups": "iam:*GroupPolicy", "Users": "iam:*UserPolicy"},
    "AWS::Lambda::Alias": {"ProvisionedConcurrencyConfig": "lambda:PutProvisioned* lambda:DeleteProvisioned*"},
    "AWS::Lambda::EventSourceMapping": {"KmsKeyArn": "kms:*"},
    "AWS::Lambda::Function": {
        "CapacityProviderConfig": "lambda:PassCapacityProvider lambda:PutFunctionScalingConfig",
        "CodeSigningConfigArn": "lambda:GetCodeSigningConfig lambda:PutFunctionCodeSigningConfig lambda:DeleteFunctionCodeSigningConfig",
        "FileSystemConfigs": "elasticfilesystem:* s3files:*",
        "KmsKeyArn": "kms:*",
        "Layers": "lambda:GetLayerVersion",
        "RecursiveLoop": "lambda:PutFunctionRecursionConfig",
        "RuntimeManagementConfig": "lambda:PutRuntimeManagementConfig",
        "S3ObjectVersion": "s3:GetObjectVersion",
        "VpcConfig": "ec2:*",
    },
    "AWS::Lambda::Version": {
        "FunctionScalingConfig": "lambda:PutFunctionScalingConfig",
        "ProvisionedConcurrencyConfig": "lambda:PutProvisioned*",
        "RuntimePolicy": "lambda:PutRuntimeManagementConfig",
    },
    "AWS::Logs::LogGroup": {
        "BearerTokenAuthenticationEnabled": "logs:PutBearerTokenAuthentication",
        "DataProtectionPolicy": "logs:PutDataProtectionPolicy logs:DeleteDataProtectionPolicy logs:CreateLogDelivery firehose:*",
        "DeletionProtectionEnabled": "logs:PutLogGroupDeletionProtection",
        "FieldIndexPolicies": "logs:PutIndexPolicy logs:DeleteIndexPolicy",
        "ResourcePolicyDocument": "logs:PutResourcePolicy logs:DeleteResourcePolicy",
    },
    "AWS::S3::Bucket": {
        "AbacStatus": "s3:PutBucketAbac",
        "AccelerateConfiguration": "s3:PutAccelerateConfiguration",
        "AccessControl": "s3:PutBucketAcl s3:PutObjectAcl",
        "AnalyticsConfigurations": "s3:PutAnalyticsConfiguration",
        "IntelligentTieringConfigurations": "s3:PutIntelligentTieringConfiguration",
        "InventoryConfigurations": "s3:PutInventoryConfiguration",
        "MetadataConfiguration": "s3:*BucketMetadata* s3tables:*",
        "MetricsConfigurations": "s3:PutMetricsConfiguration",
        "ObjectLockConfiguration": "s3:PutBucketObjectLockConfiguration",
        "ReplicationConfiguration": "s3:PutReplicationConfiguration iam:PassRole",
        "WebsiteConfiguration": "s3:PutBucketWebsite s3:DeleteBucketWebsite",
    },
    "AWS::SNS::Topic": {
        "DataProtectionPolicy": "sns:PutDataProtectionPolicy",
        "DeliveryStatusLogging": "iam:*",
        "Subscription": "sns:Subscribe sns:Unsubscribe",
    },
    "AWS::SecretsManager::Secret": {"ReplicaRegions": "secretsmanager:*Replicat*"},
}
"""Actions that a type needs only for a property."""
NOT_NEEDED = {
    "of tables with replicas, which are another type": {
        "AWS::DynamoDB::Table": "dynamodb:*Replica dynamodb:*Item dynamodb:Query dynamodb:Scan iam:CreateServiceLinkedRole",
    },
    "of locations and databases that Lake Formation governs": {
        "AWS::Glue::Table": "lakeformation:GetDataAccess",
    },
    "no integration of the API has a role": {"AWS::ApiGateway::RestApi": "iam:PassRole"},
    "servers outside of AWS": {"AWS::CodeDeploy::DeploymentGroup": "codedeploy:RegisterOnPremisesInstance"},
    "of resources other than an API": {
        "AWS::WAFv2::WebACLAssociation": "amplify:* apprunner:* appsync:* bedrock-agentcore:* cognito-idp:* ec2:* elasticloadbalancing:*",
    },
    "of web ACLs that another account shares": {"AWS::WAFv2::WebACLAssociation": "wafv2:*PermissionPolicy"},
    "a bucket that CloudFormation takes back when it has just made it is empty": {"AWS::S3::Bucket": "s3:DeleteObject"},
    "whoever may take the boundary away is bound by nothing": {"AWS::IAM::Role": "iam:DeleteRolePermissionsBoundary"},
}
"""Actions that a type's handlers may use, and why not here."""

_CONTEXT = {
    "ec2:*SecurityGroup*gress": ("ec2:Vpc", f"arn:aws:ec2:{REGION}:{ACCOUNT}:vpc/{VPC}"),
    "ec2:DeleteSecurityGroup": ("ec2:Vpc", f"arn:aws:ec2:{REGION}:{ACCOUNT}:vpc/{VPC}"),
    "iam:AttachRolePolicy": ("iam:PermissionsBoundary", BOUNDARY),
    "iam:CreateRole": ("iam:PermissionsBoundary", BOUNDARY),
    "iam:DeleteRolePolicy": ("iam:PermissionsBoundary", BOUNDARY),
    "iam:DetachRolePolicy": ("iam:PermissionsBoundary", BOUNDARY),
    "iam:PutRolePermissionsBoundary": ("iam:PermissionsBoundary", BOUNDARY),
    "iam:PutRolePolicy": ("iam:PermissionsBoundary", BOUNDARY),
    "kms:*Grant": ("kms:GrantIsForAWSResource", "true"),
    "lambda:*EventSourceMapping": ("lambda:FunctionArn", f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{STACK}-Ingest-{RANDOM}"),
    "lambda:*FunctionUrlConfig": ("lambda:FunctionUrlAuthType", "AWS_IAM"),
}
"""What is in the request, by patterns of actions: as AWS's reference of actions and condition keys has it."""


class Deployment:
    """A template without SAM's types, as the stack that CloudFormation makes of it. ``options``: whether all conditions are true, or all
    false."""

    def __init__(self, template: Template, *, options: bool) -> None:
        self._template, self._options = template, options
        self._intrinsics = Intrinsics(self._value_of, options)
        self.resources = {name: each for name, each in template["Resources"].items() if options or "Condition" not in each}

    def properties(self, logical: str) -> dict[str, Any]:
        """Properties of a resource, without functions."""
        found: dict[str, Any] = self._intrinsics.of(self._template["Resources"][logical].get("Properties", {}))
        return found

    def needs(self) -> set[Need]:
        """Permissions that CloudFormation asks of the deployer, who creates, changes and deletes all resources."""
        properties = {logical: self.properties(logical) for logical in self.resources}
        used: dict[str, set[str]] = {}
        for logical, each in self.resources.items():
            used.setdefault(each["Type"], set()).update(_names(properties[logical]))
        return {need for logical in self.resources for need in self._needs_of(logical, properties[logical], used)}

    def _needs_of(self, logical: str, properties: dict[str, Any], used: Mapping[str, set[str]]) -> Iterator[Need]:
        type_, arns = self.resources[logical]["Type"], self._arns(logical, properties)
        for action in _handled(type_, frozenset(used[type_])):
            for arn in _checked(action, type_, arns):
                yield Need(action, arn, self._context(action, type_))

    def _arns(self, logical: str, properties: dict[str, Any]) -> list[str]:
        type_ = self._template["Resources"][logical]["Type"]
        name = next((str(properties[each]) for each in _NAMING if each in properties), f"{STACK}-{logical}-{RANDOM}")
        own = {
            "logical": logical,
            "name": name.lower() if type_ == "AWS::S3::Bucket" else name,
            "path": properties.get("Path", "/"),
        }
        return [f"arn:aws:{form.format(**_SHARED, **own)}" for form in _ARNS[type_]]

    def _value_of(self, name: str) -> Any:
        logical, _, attribute = name.partition(".")
        if logical.startswith("AWS::"):
            return _PSEUDO[logical.removeprefix("AWS::")]
        if logical in self._template["Parameters"]:
            return PARAMETERS.get(logical, self._template["Parameters"][logical].get("Default", ""))
        type_ = self._template["Resources"][logical]["Type"]
        if attribute not in ("", "Arn") or type_ not in _ARNS:
            return f"{logical}.{attribute}"
        naming = {
            key: value for key, value in self._template["Resources"][logical]["Properties"].items() if key in (*_NAMING, "Path")
        }
        arn = self._arns(logical, self._intrinsics.of(naming))[0]
        return arn if attribute or type_ in _AS_ARN else re.split("[:/]", arn)[-1]

    def _context(self, action: str, type_: str) -> tuple[str, str]:
        if action == "iam:PassRole":
            return "iam:PassedToService", f"{type_.split('::')[1].lower()}.amazonaws.com"
        if action in ("lambda:CreateFunction", "lambda:UpdateFunctionConfiguration") and self._options:
            return "lambda:VpcIds", VPC
        return next((context for pattern, context in _CONTEXT.items() if fnmatchcase(action, pattern)), ("", ""))


def calls() -> set[Need]:
    """Permissions that the calls of ``deploy/`` need."""
    return {
        need
        for path in (PROJECT / "deploy").glob("*.py")
        for service, name in _called(path)
        for need in _of_call(service, name, path.stem)
    }


@cache
def _reference() -> dict[str, Any]:
    """AWS's reference of actions and of the ARNs that each checks, as cfn-lint has it."""
    found: dict[str, Any] = load_resource(AdditionalSpecs, "Policies.json")
    return found


@cache
def _formats(action: str) -> list[re.Pattern[str]] | None:
    """ARNs that an action checks; an empty list if it checks ``*`` only. None if AWS has no such action: some schemas name operations."""
    service, _, name = action.partition(":")
    about = _reference().get(service, {"Actions": {}})
    if name.lower() not in about["Actions"]:
        return None
    given = {"${Partition}": "aws", "${Region}": REGION, "${Account}": ACCOUNT}
    kinds = about["Actions"][name.lower()].get("Resources", ())
    formats = [form for kind in kinds for form in about["Resources"].get(kind.lower(), {}).get("ARNFormats", ())]
    return [re.compile(re.sub(r"\$\{\w+\}", lambda found: given[found[0]], form)) for form in formats]


@cache
def _handled(type_: str, used: frozenset[str]) -> frozenset[str]:
    """Actions of a type's handlers, where these properties are used."""
    handlers = PROVIDER_SCHEMA_MANAGER.get_resource_schema(REGION, type_).schema["handlers"]
    actions = {action for name, each in handlers.items() if name != "list" for action in each["permissions"]}
    spared = [text for name, text in UNLESS_USED.get(type_, {}).items() if name not in used]
    spared += [of_types[type_] for of_types in NOT_NEEDED.values() if type_ in of_types]
    patterns = " ".join(spared).split()
    return frozenset(
        each for each in actions if _formats(each) is not None and not any(fnmatchcase(each, pattern) for pattern in patterns)
    )


def _checked(action: str, type_: str, arns: list[str]) -> list[str]:
    """What of a resource, or of the resources that it refers to, an action checks."""
    formats = _formats(action)
    if not formats:
        return ["*"]
    for candidates in (arns, _OTHERS):
        if found := [arn for arn in candidates if any(form.fullmatch(arn) for form in formats)]:
            return found
    raise AssertionError(f"say in _ARNS or _OTHERS of which resource: {type_} {action} {formats}")


def checks(action: str, resource: str) -> bool:
    """Whether an action checks such an ARN, in which a star stands for a part."""
    formats = _formats(action) or []
    return any(form.fullmatch(resource.replace("*", "x")) for form in formats) if formats else resource == "*"


def _names(value: Any) -> set[str]:
    """Names of all properties within a value."""
    if isinstance(value, list):
        return set().union(*map(_names, value))
    return set(value).union(*map(_names, value.values())) if isinstance(value, dict) else set()


def _called(path: Path) -> Iterator[tuple[str, str]]:
    """Services and operations of boto3 that a module names."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {each.attr for each in nodes if isinstance(each, ast.Attribute)}
    names |= {each.value for each in nodes if isinstance(each, ast.Constant) and isinstance(each.value, str)}
    return ((service, operations[name]) for service, operations in _operations().items() for name in names & set(operations))


@cache
def _operations() -> dict[str, dict[str, str]]:
    """Operations of the services of which ``deploy/`` makes clients, by their names in Python."""
    command = ast.parse((PROJECT / "deploy" / "__main__.py").read_text())
    services = {
        each.args[0].value
        for each in ast.walk(command)
        if isinstance(each, ast.Call) and getattr(each.func, "attr", "") == "client" and isinstance(each.args[0], ast.Constant)
    }
    session = botocore.session.get_session()
    return {
        str(each): {xform_name(name): name for name in session.get_service_model(str(each)).operation_names} for each in services
    }


_OF_S3 = {
    "AbortMultipartUpload": "AbortMultipartUpload /",
    "CreateBucket": "CreateBucket",
    "DeleteBucket": "DeleteBucket",
    "DeleteObjects": "DeleteObjectVersion /",
    "GetBucketTagging": "GetBucketTagging",
    "HeadBucket": "ListBucket",
    "HeadObject": "GetObject /",
    "ListMultipartUploads": "ListBucketMultipartUploads",
    "ListObjectVersions": "ListBucketVersions",
    "PutObject": "PutObject /",
    "PutPublicAccessBlock": "PutBucketPublicAccessBlock",
}
"""Operations of S3 and their permissions; a slash: on objects."""


def _of_call(service: str, operation: str, module: str) -> Iterator[Need]:
    match service:
        case "sts":
            return  # everybody may ask who he is
        case "cloudformation":
            yield Need(f"cloudformation:{operation}", f"{STACK_ARN}/" if _formats(f"cloudformation:{operation}") else "*")
        case "dynamodb":
            yield Need(f"dynamodb:{operation}", f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{STACK}-PipelinesTable-{RANDOM}")
        case "s3":
            action, _, on_objects = _OF_S3[operation].partition(" ")
            for bucket in [ARTIFACTS] if module == "artifacts" else BUCKETS:
                yield Need(f"s3:{action}", f"arn:aws:s3:::{bucket}{'/a/key' if on_objects else ''}")
        case other:
            raise AssertionError(f"say what it needs: {other} {operation}")
