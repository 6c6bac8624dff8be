"""The packaged template: its permissions, its retained resources, and the mapping of its parameters to settings."""

from __future__ import annotations

import base64
import json
import re
from itertools import pairwise
from typing import Any, get_args
from zipfile import ZipFile

import pytest
from annotated_types import Ge, Le
from cfnlint.helpers import REGIONS
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from chalicelib import observability
from chalicelib.access.authorization_header import token_of
from chalicelib.archive.objects import DELETED_TAGS
from chalicelib.composition import SOURCES
from chalicelib.coordination import partition
from chalicelib.coordination.metrics import METRIC_NAMES, metric_name
from chalicelib.coordination.settings import CoordinationSettings, parse_settings
from chalicelib.routes import response_headers
from chalicelib.settings import Settings
from deploy import rules as deploy_rules
from deploy.errors import DeployError
from deploy.stages import read_stage
from local import job_accounts, package
from tests.support.template import API_ROLES, NO_PARAMETER, TABLES, parameter_name, variable_name, what_to_add

Template = dict[str, Any]
BUCKETS = {"bucket_name": "Bucket", "archive_bucket_name": "ArchiveBucket"}
FUNCTIONS = ("APIHandler", "JobApi", "Ingest", "Compact", "Sweep", "Pipelines")
ROLE_NAMES = {"APIHandler": "ApiRole"} | {name: f"{name}Role" for name in FUNCTIONS[1:]}


def properties(template: Template, name: str) -> dict[str, Any]:
    found: dict[str, Any] = template["Resources"][name]["Properties"]
    return found


@pytest.mark.parametrize("field", sorted(set(Settings.model_fields) - NO_PARAMETER))
def test_every_setting_is_a_parameter_with_the_same_default_and_bounds(template: Template, field: str) -> None:
    variables = variables_of(template, "APIHandler")
    wanted = what_to_add(field, template["Parameters"], variables)
    assert not wanted, wanted
    setting, parameter = Settings.model_fields[field], template["Parameters"][parameter_name(field)]
    assert parameter["Description"]
    assert BUCKETS.get(field, parameter_name(field)) in str(variables[variable_name(field)])
    if not setting.is_required() and setting.default is not None:
        default = "" if setting.default in ((), {}) else setting.default
        assert parameter["Default"] == (str(default).lower() if isinstance(default, bool) else default)
    for bound in setting.metadata:
        if isinstance(bound, Ge):
            assert parameter["MinValue"] == bound.ge
        if isinstance(bound, Le):
            assert parameter["MaxValue"] == bound.le
    if choices := [choice for choice in get_args(setting.annotation) if isinstance(choice, str)]:
        assert sorted(parameter["AllowedValues"]) == sorted(choices)


def test_tables_and_topic_reach_the_functions(template: Template) -> None:
    variables = template["Globals"]["Function"]["Environment"]["Variables"]
    for field in TABLES:
        assert variables[variable_name(field)] == {"Ref": parameter_name(field)}
    assert variables["RUNLAKE_REPORT_TOPIC_ARN"] == {"Ref": "ReportTopic"}
    of_the_api = variables_of(template, "APIHandler")
    assert {name.removeprefix("RUNLAKE_").lower() for name in of_the_api if name.startswith("RUNLAKE_")} == set(
        Settings.model_fields
    )


CREDENTIALS = {"RUNLAKE_AWS_ACCESS_KEY_ID", "RUNLAKE_AWS_SECRET_ACCESS_KEY", "RUNLAKE_AWS_SESSION_TOKEN"}
SECRETS = {
    "APIHandler": {"RUNLAKE_POSITION_KEYS", "RUNLAKE_CURSOR_KEYS", "RUNLAKE_MASKING", "RUNLAKE_EVENTS"} | CREDENTIALS,
    "JobApi": {"RUNLAKE_POSITION_KEYS", "RUNLAKE_CURSOR_KEYS", "RUNLAKE_MASKING", "RUNLAKE_EVENTS"} | CREDENTIALS,
    "Authorize": set(),
    "Ingest": CREDENTIALS,
    "Compact": CREDENTIALS,
    "Sweep": CREDENTIALS,
    "Pipelines": {"RUNLAKE_EVENTS"} | CREDENTIALS,
}
"""Who holds which. Jobs read the variables of Ingest."""


def test_each_function_has_the_secrets_that_it_needs_and_no_others(template: Template) -> None:
    secret = {name for name, about in template["Parameters"].items() if about.get("NoEcho")} | {"AwsAccessKeyId"}
    functions = {name for name, each in template["Resources"].items() if each["Type"] == "AWS::Serverless::Function"}
    assert functions == set(SECRETS)
    for function, expected in SECRETS.items():
        variables = variables_of(template, function).items()
        present = {
            name for name, value in variables if "resolve:" in str(value) or secret & set(re.findall(r"'Ref': '(\w+)'", str(value)))
        }
        assert present == expected, function


def test_positions_and_cursors_have_secrets_of_their_own(template: Template) -> None:
    variables = variables_of(template, "APIHandler")
    keys = {purpose: variables[f"RUNLAKE_{purpose.upper()}_KEYS"]["Fn::If"] for purpose in ("position", "cursor")}
    for purpose, (condition, generated, named) in keys.items():
        word = purpose.capitalize()
        assert (condition, named) == (f"Generates{word}Key", {"Ref": f"{word}Keys"})
        assert generated == {"Fn::Sub": f"{{{{resolve:secretsmanager:${{{word}Key}}:SecretString}}}}"}
        assert properties(template, f"{word}Key")["GenerateSecretString"]["ExcludePunctuation"] is True


def variables_of(template: Template, function: str) -> dict[str, Any]:
    """Variables of a function, as SAM merges them."""
    shared = template["Globals"]["Function"]["Environment"]["Variables"]
    return dict(shared) | properties(template, function).get("Environment", {}).get("Variables", {})


@pytest.mark.behavior("Buckets are private and encrypted, take TLS only and outlive the stack.")
@pytest.mark.parametrize("name", [*BUCKETS.values(), "JobsBucket", "DatasetBucket"])
def test_buckets_are_encrypted_private_tls_only_and_kept(template: Template, name: str) -> None:
    bucket = properties(template, name)
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    algorithm = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"][0]["ServerSideEncryptionByDefault"]["SSEAlgorithm"]
    assert algorithm == {"Fn::If": ["UsesKms", "aws:kms", "AES256"]}
    (statement,) = properties(template, name + "Policy")["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Principal"]) == ("Deny", "*")
    assert statement["Resource"] == [{"Fn::GetAtt": [name, "Arn"]}, {"Fn::Sub": f"${{{name}.Arn}}/*"}]
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert template["Resources"][name]["DeletionPolicy"] == "RetainExceptOnCreate"


def rules(template: Template, name: str) -> dict[str, dict[str, Any]]:
    """A bucket's rules by id, conditional ones as ``condition id``."""
    found = {}
    for rule in properties(template, name)["LifecycleConfiguration"]["Rules"]:
        condition, own = ("", rule) if "Id" in rule else (rule["Fn::If"][0] + " ", rule["Fn::If"][1])
        found[condition + own["Id"]] = own
    return found


@pytest.mark.behavior("Logs expire; files of the archive expire only if configured.")
def test_logs_expire_and_files_only_if_it_is_asked_for(template: Template) -> None:
    logs, files = rules(template, "Bucket"), rules(template, "ArchiveBucket")
    expire = logs["expire-run-logs"]
    assert (expire["Prefix"], expire["ExpirationInDays"]) == ({"Fn::Sub": "${Prefix}/"}, {"Ref": "ExpirationDays"})
    expire = files["ArchiveExpires expire-files"]
    assert expire["ExpirationInDays"] == {"Ref": "ArchiveExpirationDays"} and "Prefix" not in expire
    assert template["Parameters"]["ArchiveExpirationDays"]["Default"] == 0
    marks = files["remove-marks-of-deletions"]
    assert (marks["TagFilters"], marks["ExpirationInDays"]) == ([{"Key": k, "Value": v} for k, v in DELETED_TAGS.items()], 1)
    for found in (logs, files):
        assert found["abort-unfinished-uploads"]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}
        versions = found["KeepsVersions expire-versions"]["NoncurrentVersionExpiration"]
        assert versions == {"NoncurrentDays": {"Ref": "NoncurrentDays"}}


def notified(template: Template, name: str) -> dict[str, Any]:
    """A bucket's notifications to the queue: event types and key filters."""
    told: list[dict[str, Any]] = properties(template, name)["NotificationConfiguration"]["QueueConfigurations"]
    assert all(each["Queue"] == {"Fn::GetAtt": ["IngestQueue", "Arn"]} for each in told)
    rules = {each["Event"]: each.get("Filter", {"S3Key": {"Rules": []}})["S3Key"]["Rules"] for each in told}
    return {event: {rule["Name"]: rule["Value"] for rule in of} for event, of in rules.items()}


def test_what_is_notified_are_objects_of_runs_and_finished_logs_that_go(template: Template) -> None:
    prefix = {"prefix": {"Fn::Sub": "${Prefix}/"}}
    assert notified(template, "Bucket") == {
        "s3:ObjectCreated:*": prefix,
        "s3:ObjectRemoved:*": prefix | {"suffix": "/logs.txt"},
        "s3:LifecycleExpiration:*": prefix | {"suffix": "/logs.txt"},
    }


def test_and_all_files_of_the_archive_that_come_or_go(template: Template) -> None:
    assert notified(template, "ArchiveBucket") == {
        "s3:ObjectCreated:*": {},
        "s3:ObjectRemoved:*": {},
        "s3:LifecycleExpiration:*": {},
    }


def test_only_the_two_buckets_may_send(template: Template) -> None:
    _, statement = properties(template, "IngestQueuePolicy")["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Principal"]) == ("Allow", {"Service": "s3.amazonaws.com"})
    sources = statement["Condition"]["ArnEquals"]["aws:SourceArn"]
    assert sources == [{"Fn::Sub": f"arn:${{AWS::Partition}}:s3:::${{{parameter_name(field)}}}"} for field in BUCKETS]
    assert statement["Condition"]["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}


def test_queues_and_topic_are_tls_only(template: Template) -> None:
    for policy, resources in (
        ("IngestQueuePolicy", [{"Fn::GetAtt": [queue, "Arn"]} for queue in ("IngestQueue", "DeadLetterQueue")]),
        ("DeadLetterQueuePolicy", [{"Fn::GetAtt": [queue, "Arn"]} for queue in ("IngestQueue", "DeadLetterQueue")]),
        ("ReportTopicPolicy", [{"Ref": "ReportTopic"}]),
    ):
        statements = properties(template, policy)["PolicyDocument"]["Statement"]
        (denied,) = [each for each in statements if each["Effect"] == "Deny"]
        assert denied["Condition"] == {"Bool": {"aws:SecureTransport": "false"}} and denied["Principal"] == "*", policy
        assert as_list(denied["Resource"]) == resources, policy
    covered = {
        json.dumps(queue)
        for name in ("IngestQueuePolicy", "DeadLetterQueuePolicy")
        for queue in properties(template, name)["Queues"]
    }
    queues = [name for name, each in template["Resources"].items() if each["Type"] == "AWS::SQS::Queue"]
    assert covered == {json.dumps({"Ref": name}) for name in queues}


def test_topic_lets_its_own_account_in_and_nobody_else(template: Template) -> None:
    """A policy replaces SNS's default one."""
    allowed = [
        each for each in properties(template, "ReportTopicPolicy")["PolicyDocument"]["Statement"] if each["Effect"] == "Allow"
    ]
    assert [each["Principal"] for each in allowed] == [{"AWS": {"Fn::Sub": "arn:${AWS::Partition}:iam::${AWS::AccountId}:root"}}]
    assert "sns:Publish" in allowed[0]["Action"]


NOT_IN_S3 = {"PipelinesTable", "PipelineFilesTable"}


def test_tables_that_s3_cannot_restore_are_protected(template: Template) -> None:
    tables = {name: each for name, each in template["Resources"].items() if each["Type"] == "AWS::DynamoDB::Table"}
    protected = {name for name, each in tables.items() if "DeletionProtectionEnabled" in each["Properties"]}
    assert protected == NOT_IN_S3
    for name in protected:
        assert tables[name]["Properties"]["DeletionProtectionEnabled"] == {"Fn::If": ["ProtectsTables", True, False]}
        assert tables[name]["UpdateReplacePolicy"] == "Retain"
    assert template["Parameters"]["TableDeletionProtection"]["Default"] == "true"


def test_gateway_logs_hold_neither_queries_nor_headers(template: Template) -> None:
    """They are off by default: the account needs a role for them."""
    condition, setting, _ = properties(template, "RestAPI")["AccessLogSetting"]["Fn::If"]
    assert (condition, template["Parameters"]["GatewayLogs"]["Default"]) == ("LogsGateway", "false")
    line = json.loads(setting["Format"])
    assert {"source_address", "user_agent", "principal", "method", "path", "status", "error"} <= set(line)
    assert not re.search(r"querystring|header|params|authorizationToken|apiKey\b", setting["Format"])
    assert setting["DestinationArn"] == {"Fn::GetAtt": ["GatewayLogGroup", "Arn"]}


def test_origin_of_pages_is_a_parameter(template: Template) -> None:
    for bucket, methods in (("ArchiveBucket", {"GET", "PUT", "POST", "DELETE"}), ("Bucket", {"GET", "HEAD"})):
        (rule,) = properties(template, bucket)["CorsConfiguration"]["CorsRules"]
        assert rule["AllowedOrigins"] == [{"Ref": "CorsOrigin"}] and set(rule["AllowedMethods"]) == methods
    pattern = re.compile(template["Parameters"]["CorsOrigin"]["AllowedPattern"])
    assert all(pattern.fullmatch(text) for text in ("*", "https://logs.example.com", "http://127.0.0.1:8080"))
    assert not any(pattern.fullmatch(text) for text in ("", "https://a.b/path", "https://*", "null", "https://a'b"))


def test_a_message_stays_hidden_for_two_timeouts_and_ends_in_the_dead_letter_queue(template: Template) -> None:
    """Longer than the function's timeout, and short enough for an early retry."""
    queue, function = properties(template, "IngestQueue"), properties(template, "Ingest")
    assert (function["Timeout"], queue["VisibilityTimeout"]) == (180, 2 * 180)
    assert queue["RedrivePolicy"] == {"deadLetterTargetArn": {"Fn::GetAtt": ["DeadLetterQueue", "Arn"]}, "maxReceiveCount": 5}
    assert {properties(template, name)["MessageRetentionPeriod"] for name in ("IngestQueue", "DeadLetterQueue")} == {14 * 86_400}
    source = function["Events"]["IngestSqsEventSource"]["Properties"]
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert source["Queue"] == {"Fn::Sub": "${IngestQueue.Arn}"}


@pytest.mark.parametrize(
    ("table", "keys", "indexes"),
    [
        ("FilesTable", ["time_index_key", "range_key"], {"work-id-index": ["work_id_index_key", "range_key"]}),
        ("LatestTable", ["what_where_key"], {}),
        ("ListingTable", ["partition", "at"], {}),
        ("PipelineFilesTable", ["partition", "at"], {}),
        ("ObjectsTable", ["key"], {}),
    ],
)
def test_tables_of_files(template: Template, table: str, keys: list[str], indexes: dict[str, list[str]]) -> None:
    """The first two are defined as in Planet's datalake."""
    found = properties(template, table)
    assert [key["AttributeName"] for key in found["KeySchema"]] == keys
    made = found.get("GlobalSecondaryIndexes", [])
    assert {index["IndexName"]: [key["AttributeName"] for key in index["KeySchema"]] for index in made} == indexes
    assert all(index["Projection"] == {"ProjectionType": "ALL"} for index in made)
    assert found["BillingMode"] == "PAY_PER_REQUEST" and found["PointInTimeRecoverySpecification"]
    expires = {"AttributeName": "expires_at", "Enabled": True} if table == "ObjectsTable" else None
    assert found.get("TimeToLiveSpecification") == expires, "what is gone is forgotten, and nothing else"


def test_the_table_of_coordination_is_as_a_coordinator_would_make_it(template: Template) -> None:
    found = properties(template, "CoordinationTable")
    wanted = partition.create_table_request("any", capacity=None)
    assert {name: found[name] for name in wanted if name != "TableName"} | {"TableName": "any"} == wanted
    assert found["TimeToLiveSpecification"] == {"AttributeName": partition.TTL_ATTRIBUTE, "Enabled": True}
    assert found["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}


def coordination(template: Template) -> CoordinationSettings:
    """The setting as the functions read it, on a stack of the name ``stack``."""
    text = template["Globals"]["Function"]["Environment"]["Variables"]["RUNLAKE_SOURCE_COORDINATION"]["Fn::Sub"]
    known = {"AWS::StackName": "stack", "AWS::Region": "eu-central-1", "CoordinationTable": "the-table", "SetAsideDays": "7"}
    return parse_settings(json.loads(re.sub(r"\$\{([\w:]+)\}", lambda found: known[found[1]], text)))


def test_functions_share_their_work_over_that_table(template: Template) -> None:
    settings = coordination(template)
    store = settings.store.dynamodb
    assert store and (store.table_name, store.region, store.skip_table_creation) == ("the-table", "eu-central-1", True)
    assert (settings.partition_prefix, store.capacity, store.sts_role_arn) == ("stack", None, None)
    assert (store.item_ttl.ttl_s, store.item_ttl.everything) == (7 * 86_400, False), "what waits never expires"
    assert template["Parameters"]["SetAsideDays"]["Default"] == 7


def test_functions_fit_their_sources(template: Template) -> None:
    assert template["Resources"]["RestAPI"]["Properties"]["EndpointConfiguration"] == "REGIONAL"
    assert properties(template, "APIHandler")["Timeout"] == properties(template, "JobApi")["Timeout"] == 29
    assert all(properties(template, name)["Timeout"] <= 900 for name in FUNCTIONS)
    assert {properties(template, name)["Runtime"] for name in FUNCTIONS} == {"python3.11"}


@pytest.mark.parametrize(
    ("function", "event", "parameter", "singular"),
    [
        ("Compact", "CompactEvent", "PartialFlushIntervalMinutes", "FlushesEveryMinute"),
        ("Sweep", "SweepEvent", "CleanupIntervalMinutes", "CleansUpEveryMinute"),
        ("Pipelines", "PipelinesEvent", "PipelinesIntervalMinutes", "RunsPipelinesEveryMinute"),
    ],
)
def test_schedules_follow_their_settings(template: Template, function: str, event: str, parameter: str, singular: str) -> None:
    schedule = properties(template, function)["Events"][event]["Properties"]["Schedule"]
    assert schedule == {"Fn::If": [singular, "rate(1 minute)", {"Fn::Sub": f"rate(${{{parameter}}} minutes)"}]}


ROLES = ("ApiRole", "IngestRole", "CompactRole", "SweepRole", "PipelinesRole")


def test_permissions_name_what_they_are_for(template: Template) -> None:
    """test_function_roles.py checks that each is needed and sufficient."""
    statements = [statement for role in ROLES for statement in own_statements(template, role)]
    shared = properties(template, "FunctionsPolicy")["PolicyDocument"]["Statement"]
    statements += [each.get("Fn::If", [None, each])[1] for each in shared]
    anywhere = [statement["Sid"] for statement in statements if statement["Resource"] == "*"]
    assert anywhere == ["Traces", "NetworkInterfaces"]
    actions = [action for statement in statements for action in as_list(statement["Action"])]
    assert not [action for action in actions if "*" in action]


def own_statements(template: Template, role: str) -> list[dict[str, Any]]:
    """A role's statements beyond those of all roles."""
    policies = properties(template, role)["Policies"]
    return [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]


@pytest.mark.parametrize(
    ("name", "role", "actions"),
    [
        ("TargetSecret", "PipelinesRole", ["ssm:GetParameter", "secretsmanager:GetSecretValue"]),
        ("TargetLogGroup", "PipelinesRole", ["logs:CreateLogStream", "logs:PutLogEvents"]),
        ("TargetDomain", "PipelinesRole", ["es:ESHttpPost", "aoss:APIAccessAll"]),
        ("BrowserSecret", "ApiRole", ["ssm:GetParameter", "secretsmanager:GetSecretValue"]),
        ("BrowserLogGroup", "ApiRole", ["logs:GetLogEvents", "logs:FilterLogEvents"]),
        ("BrowserDomain", "ApiRole", ["es:ESHttpPost", "aoss:APIAccessAll"]),
    ],
)
def test_permissions_for_other_systems_are_named_by_parameters(
    template: Template, name: str, role: str, actions: list[str]
) -> None:
    (statement,) = properties(template, f"{name}sPolicy")["PolicyDocument"]["Statement"]
    assert properties(template, f"{name}sPolicy")["Roles"] == (API_ROLES if role == "ApiRole" else [{"Ref": role}])
    assert statement["Action"] == actions and statement["Resource"] == {"Ref": f"{name}Arns"}
    assert template["Parameters"][f"{name}Arns"]["Default"] == "" and "Condition" in template["Resources"][f"{name}sPolicy"]


LOG_GROUPS = {
    "Api": "ApiHandler",
    "Authorizer": "Authorize",
    **{name: name for name in ("JobApi", "Ingest", "Compact", "Sweep", "Pipelines")},
}


def test_each_function_writes_only_its_own_log(template: Template) -> None:
    """No statement of another policy has an action on logs, but for those of parameters and of jobs, which Glue writes."""
    policies = {name: each["Properties"] for name, each in template["Resources"].items() if each["Type"].startswith("AWS::IAM::")}
    writers = {name for name, each in policies.items() if "logs:PutLogEvents" in json.dumps(each)}
    assert writers == {f"{role}LogPolicy" for role in LOG_GROUPS} | {"TargetLogGroupsPolicy", "JobsPolicy"}
    for role, group in LOG_GROUPS.items():
        (statement,) = policies[f"{role}LogPolicy"]["PolicyDocument"]["Statement"]
        assert policies[f"{role}LogPolicy"]["Roles"] == [{"Ref": f"{role}Role"}]
        assert statement["Resource"] == {"Fn::GetAtt": [f"{group}LogGroup", "Arn"]}


def test_logs_bucket_is_listed_only_by_prefix(template: Template) -> None:
    bucket = {"Fn::Sub": "arn:${AWS::Partition}:s3:::${BucketName}"}
    listing = [
        statement
        for each in template["Resources"].values()
        if each["Type"] == "AWS::IAM::Role"
        for policy in each["Properties"]["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
        if "s3:ListBucket" in as_list(statement.get("Action", [])) and bucket in as_list(statement["Resource"])
    ]
    prefixes = [prefix for each in listing for prefix in each["Condition"]["StringLike"]["s3:prefix"]]
    assert listing and all(
        prefix in ({"Fn::Sub": "${Prefix}/*"}, "pipeline-files/*", "_dead/*", "_pipelines/*", "_deleted/*") for prefix in prefixes
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_has_a_role_of_its_own(template: Template, name: str) -> None:
    role = ROLE_NAMES[name]
    assert properties(template, name)["Role"] == {"Fn::GetAtt": [role, "Arn"]}
    assert properties(template, role)["ManagedPolicyArns"] == [{"Ref": "FunctionsPolicy"}]


def test_functions_in_a_vpc_can_create_their_network_interfaces(template: Template) -> None:
    """The VPC is set for all functions at once."""
    assert template["Globals"]["Function"]["VpcConfig"]["Fn::If"][0] == "IsInVpc"
    shared = properties(template, "FunctionsPolicy")["PolicyDocument"]["Statement"]
    for statements in (shared, own_statements(template, "AuthorizerRole")):
        (granted,) = [each["Fn::If"][1] for each in statements if each.get("Fn::If", [""])[0] == "IsInVpc"]
        assert {"ec2:CreateNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DeleteNetworkInterface"} <= set(
            granted["Action"]
        )


@pytest.mark.parametrize("role", ["CompactRole", "SweepRole"])
def test_schedules_may_do_what_a_coordinator_needs_and_make_no_table(template: Template, role: str) -> None:
    by_sid = {statement["Sid"]: statement for statement in own_statements(template, role)}
    leases, found = by_sid["Leases"], by_sid["PartitionsByStatus"]
    needed = partition.permissions("region", "account", "table")
    unneeded = {"dynamodb:CreateTable", "dynamodb:DescribeTable", "dynamodb:UpdateTimeToLive"}
    assert unneeded < partition.SETUP_ACTIONS
    assert {*leases["Action"], found["Action"]} == set(needed["Action"]) - unneeded
    assert leases["Resource"] == {"Fn::GetAtt": ["CoordinationTable", "Arn"]}
    assert found["Resource"] == {"Fn::Sub": "${CoordinationTable.Arn}/index/source-status"}
    assert needed["Resource"][1].endswith("/index/source-status")


@pytest.mark.parametrize("name", ["Compact", "Sweep", "Pipelines"])
def test_and_start_more_of_themselves(template: Template, name: str) -> None:
    policy = properties(template, f"{name}WorkersPolicy")
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert policy["Roles"] == [{"Ref": f"{name}Role"}]
    assert (statement["Action"], statement["Resource"]) == ("lambda:InvokeFunction", {"Fn::GetAtt": [name, "Arn"]})
    assert properties(template, name)["EventInvokeConfig"]["MaximumRetryAttempts"] == 0, "the next tick does it"


@pytest.mark.parametrize(
    ("parameter", "role", "actions"),
    [
        ("BrowserSecretArns", "ApiRole", ["ssm:GetParameter", "secretsmanager:GetSecretValue"]),
        ("BrowserLogGroupArns", "ApiRole", ["logs:GetLogEvents", "logs:FilterLogEvents"]),
        ("BrowserDomainArns", "ApiRole", ["es:ESHttpPost", "aoss:APIAccessAll"]),
        ("TargetSecretArns", "PipelinesRole", ["ssm:GetParameter", "secretsmanager:GetSecretValue"]),
        ("TargetLogGroupArns", "PipelinesRole", ["logs:CreateLogStream", "logs:PutLogEvents"]),
        ("TargetDomainArns", "PipelinesRole", ["es:ESHttpPost", "aoss:APIAccessAll"]),
    ],
)
def test_rights_for_other_stores_are_granted_by_parameters(
    template: Template, parameter: str, role: str, actions: list[str]
) -> None:
    granted = [
        (each["Properties"]["Roles"], statement["Action"])
        for each in template["Resources"].values()
        if each["Type"] == "AWS::IAM::Policy"
        for statement in each["Properties"]["PolicyDocument"]["Statement"]
        if statement["Resource"] == {"Ref": parameter}
    ]
    assert granted == [(API_ROLES if role == "ApiRole" else [{"Ref": role}], actions)]
    assert template["Parameters"][parameter]["Default"] == ""


def test_api_reads_changes_and_removes_partitions(template: Template) -> None:
    on_leases = [each for each in own_statements(template, "ApiRole") if "CoordinationTable" in str(each["Resource"])]
    actions = [action for statement in on_leases for action in as_list(statement["Action"])]
    assert sorted(actions) == ["dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query"]


def test_shipped_stage_is_deployable_once_it_names_an_issuer(template: Template) -> None:
    stage = read_stage("prod", "111122223333", "eu-west-1")
    with pytest.raises(DeployError) as refused:
        deploy_rules.check(template, stage.parameters, "infra/stages/prod.json")
    assert all(name in str(refused.value) for name in ("JwtIssuer", "JwtAudience", "JwtJwksUrl", "infra/stages/prod.json"))
    issuer = {"JwtIssuer": "https://issuer.example", "JwtAudience": "*", "JwtJwksUrl": "https://issuer.example/keys"}
    deploy_rules.check(template, stage.parameters | issuer, "")
    deploy_rules.check(template, stage.parameters | {"Auth": "iam", "PolicyParameter": "/runlake/policy"}, "")


# ---------------------------------------------------------------- the second entry, for jobs

OF_THE_URL = {
    "lambda:InvokeFunctionUrl": {"FunctionUrlAuthType": "AWS_IAM"},
    "lambda:InvokeFunction": {"InvokedViaFunctionUrl": True},
}
"""What each action needs beside it, so that nobody calls the function with an event of their own."""


def test_second_entry_is_there_only_if_it_is_asked_for(template: Template) -> None:
    assert template["Parameters"]["JobUrl"]["Default"] == "none"
    conditions = {name: each.get("Condition", "") for name, each in template["Resources"].items()} | {
        name: each.get("Condition", "") for name, each in template["Outputs"].items()
    }
    named = "JobApi|FunctionUrl|JobUrlPolicy"
    of_the_url = {
        name for section in ("Resources", "Outputs") for name, each in template[section].items()
        if re.fullmatch(rf"({named})\w*", name) or re.search(rf"'Fn::GetAtt': \['({named})'|'Ref': '({named})'|\$\{{({named})\b", str(each))
    }  # fmt: skip
    lacking = {name for name in of_the_url if not re.fullmatch(r"HasJobUrl|Admits\w+", conditions[name])}
    assert len(of_the_url) > 20 and not lacking
    assert properties(template, "FunctionUrl") == {"AuthType": "AWS_IAM", "TargetFunctionArn": {"Fn::GetAtt": ["JobApi", "Arn"]}}
    assert template["Outputs"]["JobApiUrl"]["Value"] == {"Fn::Sub": "${FunctionUrl.FunctionUrl}api"}


@pytest.mark.behavior("Whoever may call the function URL cannot call its function with an event of their own.")
def test_permissions_to_call_the_url_hold_for_the_url_alone(template: Template) -> None:
    given = [
        each["Properties"]
        for each in template["Resources"].values()
        if each["Type"] == "AWS::Lambda::Permission" and each["Properties"]["FunctionName"] == {"Fn::GetAtt": ["JobApi", "Arn"]}
    ]
    assert len(given) == 2 * (1 + job_accounts.MOST_ACCOUNTS)
    for each in given:
        assert {name: each[name] for name in each if name in ("FunctionUrlAuthType", "InvokedViaFunctionUrl")} == OF_THE_URL[
            each["Action"]
        ]
        assert each["Principal"] != "*" or each["PrincipalOrgID"] == {"Ref": "JobOrganization"}
    by_url, by_invocation = properties(template, "JobUrlPolicy")["PolicyDocument"]["Statement"]
    assert by_url["Condition"] == {"StringEquals": {"lambda:FunctionUrlAuthType": "AWS_IAM"}}
    assert by_invocation["Condition"] == {"Bool": {"lambda:InvokedViaFunctionUrl": "true"}}
    assert [each["Action"] for each in (by_url, by_invocation)] == list(OF_THE_URL)
    assert {str(each["Resource"]) for each in (by_url, by_invocation)} == {"{'Fn::GetAtt': ['JobApi', 'Arn']}"}


@pytest.mark.parametrize(
    ("named", "admitted"), [("", []), ("111122223333", ["111122223333"]), ("1,2,3,4,5", ["1", "2", "3", "4", "5"])]
)
def test_each_named_account_is_admitted(template: Template, named: str, admitted: list[str]) -> None:
    found = []
    for number in range(1, job_accounts.MOST_ACCOUNTS + 1):
        has_url, is_named = template["Conditions"][f"AdmitsAccount{number}"]["Fn::And"]
        account, empty = is_named["Fn::Not"][0]["Fn::Equals"]
        index, padded = account["Fn::Select"]
        separator, texts = padded["Fn::Split"][1]["Fn::Join"]
        found.append(separator.join([named, *texts[1:]]).split(padded["Fn::Split"][0])[index])
        assert (has_url, empty, texts[0]) == ({"Condition": "HasJobUrl"}, "", {"Ref": "JobAccounts"})
        assert properties(template, f"Account{number}CallsUrl")["Principal"] == account
        assert properties(template, f"Account{number}InvokesByUrl")["Principal"] == account
    assert [each for each in found if each] == admitted
    pattern = template["Parameters"]["JobAccounts"]["AllowedPattern"]
    assert re.search(pattern, ",".join(["111122223333"] * job_accounts.MOST_ACCOUNTS))
    assert not re.search(pattern, ",".join(["111122223333"] * (job_accounts.MOST_ACCOUNTS + 1)))


def test_functions_of_both_entries_may_do_the_same(template: Template) -> None:
    """test_function_roles.py shows that it is what the API needs."""
    assert properties(template, "JobApiRole") == properties(template, "ApiRole")
    for name, each in template["Resources"].items():
        if each["Type"] == "AWS::IAM::Policy" and {"Ref": "ApiRole"} in each["Properties"]["Roles"] and name != "ApiLogPolicy":
            assert API_ROLES == each["Properties"]["Roles"][:2], name
    of_the_api = variables_of(template, "APIHandler")
    assert variables_of(template, "JobApi") == of_the_api | {"RUNLAKE_AUTH": "iam", "RUNLAKE_LOGIN": ""}


def test_regions_without_function_urls_are_refused(template: Template) -> None:
    """Compared with the resource types of each region that cfn-lint knows."""
    (assertion,) = template["Rules"]["JobUrlNeedsFunctionUrls"]["Assertions"]
    without, region = assertion["Assert"]["Fn::Not"][0]["Fn::Contains"]
    is_there = {each: "AWS::Lambda::Url" in PROVIDER_SCHEMA_MANAGER.get_resource_types(each) for each in REGIONS}
    known = {each for each in REGIONS if "AWS::Lambda::Function" in PROVIDER_SCHEMA_MANAGER.get_resource_types(each)}
    assert region == {"Ref": "AWS::Region"} and sorted(without) == sorted(each for each in known if not is_there[each])
    parameters = {"Auth": "none", "BucketName": "a", "ArchiveBucketName": "b", "JobUrl": "iam"}
    for refused, where in (("needs PolicyParameter", "eu-west-1"), ("no function URLs in this region", "us-gov-west-1")):
        with pytest.raises(DeployError, match=refused):
            deploy_rules.check(template, parameters, "", where)
    deploy_rules.check(template, parameters | {"PolicyParameter": "/p"}, "", "eu-west-1")
    deploy_rules.check(template, parameters | {"JobUrl": "none"}, "", "us-gov-west-1")


NAMING = ("Name", "BucketName", "TableName", "QueueName", "TopicName", "RoleName", "FunctionName", "LogGroupName", "DashboardName")


def test_two_stacks_in_one_account_share_no_name(template: Template) -> None:
    """A name that does not follow from the stack's, or from a parameter without a default, makes the second stack fail."""
    for logical, resource in template["Resources"].items():
        given = resource.get("Properties", {})
        names = {key: given[key] for key in NAMING if key in given} | {
            key: value for key, value in given.get("DatabaseInput", {}).items() if key == "Name"
        }
        for name in names.values():
            referred = set(re.findall(r"[A-Za-z:]+", json.dumps(name)))
            own = {"AWS::StackName"} | set(template["Resources"])
            required = {each for each, about in template["Parameters"].items() if "Default" not in about}
            assert referred & (own | required), (logical, name)


def test_dataset_database_is_named_after_the_stack_unless_it_is_named(template: Template) -> None:
    name = properties(template, "EventsDatabase")["DatabaseInput"]["Name"]
    by_stack = {"Fn::Join": ["_", {"Fn::Split": ["-", {"Ref": "AWS::StackName"}]}]}
    assert name == {"Fn::If": ["NamesDatasetDatabase", {"Ref": "DatasetDatabase"}, by_stack]}
    assert template["Parameters"]["DatasetDatabase"]["Default"] == ""


KEYS = {
    "AWS::DynamoDB::Table": ("SSESpecification", {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": {"Ref": "KmsKeyId"}}),
    "AWS::SQS::Queue": ("KmsMasterKeyId", {"Ref": "KmsKeyId"}),
    "AWS::SNS::Topic": ("KmsMasterKeyId", {"Ref": "KmsKeyId"}),
    "AWS::SecretsManager::Secret": ("KmsKeyId", {"Ref": "KmsKeyId"}),
    "AWS::Logs::LogGroup": ("KmsKeyId", {"Ref": "KmsKeyId"}),
}


def test_one_key_encrypts_everything_when_it_is_asked_for(template: Template) -> None:
    for name, each in template["Resources"].items():
        if each["Type"] in KEYS:
            field, with_key = KEYS[each["Type"]]
            assert each["Properties"][field]["Fn::If"][:2] == ["UsesKmsForAll", with_key], name
    assert template["Globals"]["Function"]["KmsKeyArn"]["Fn::If"][:2] == ["UsesKmsForAll", {"Ref": "KmsKeyId"}]
    assert template["Rules"]["AllWithKmsNeedsKms"] and template["Parameters"]["EncryptAllWithKms"]["Default"] == "false"


def test_what_may_be_wanted_is_not_there_by_default(template: Template) -> None:
    unset = {
        name: template["Parameters"][name]["Default"]
        for name in ("WebAclArn", "SubnetIds", "EndpointsVpcId", "ServerAccessLogsBucket")
    }
    assert set(unset.values()) == {""}
    assert template["Resources"]["WebAcl"]["Condition"] == "HasWebAcl"
    endpoints = [each for each in template["Resources"].values() if each["Type"].startswith("AWS::EC2::")]
    assert len(endpoints) == 6 and {each["Condition"] for each in endpoints} == {"MakesEndpoints"}
    for name in ("APIHandler", "JobApi", "Compact", "Sweep", "Pipelines"):
        concurrency = "Api" if name == "APIHandler" else name
        reserved = properties(template, name)["ReservedConcurrentExecutions"]["Fn::If"]
        assert reserved == [f"Reserves{concurrency}", {"Ref": f"{concurrency}Concurrency"}, {"Ref": "AWS::NoValue"}]
    assert "ReservedConcurrentExecutions" not in properties(template, "Ingest"), "messages that find no room would fail"


def test_requests_of_one_token_can_be_limited(template: Template) -> None:
    assert template["Parameters"]["RequestsPerToken"]["Default"] == 0
    limits = template["Resources"]["TokenLimits"]
    assert limits["Condition"] == "LimitsTokens"
    user, *rates = limits["Properties"]["Rules"]
    for rule, header in zip(rates, ("authorization", "x-amz-firehose-access-key"), strict=True):
        rate = rule["Statement"]["RateBasedStatement"]
        assert (rate["Limit"], rate["EvaluationWindowSec"]) == ({"Ref": "RequestsPerToken"}, 300)
        assert [key["Header"]["Name"] for key in rate["CustomKeys"]] == [header]
    for rule, status in ((user, 401), *((rule, 503) for rule in rates)):  # connectors repeat a 503
        blocked = rule["Action"]["Block"]["CustomResponse"]
        body = json.loads(limits["Properties"]["CustomResponseBodies"][blocked["CustomResponseBodyKey"]]["Content"])
        assert blocked["ResponseCode"] == body["code"] == status
    assert limits["Properties"]["VisibilityConfig"]["SampledRequestsEnabled"] is False, "samples hold tokens"
    parameters = {"Auth": "none", "BucketName": "a", "ArchiveBucketName": "b", "RequestsPerToken": "100"}
    deploy_rules.check(template, parameters, "")
    with pytest.raises(DeployError, match="an API has one only"):
        deploy_rules.check(template, parameters | {"WebAclArn": "arn:aws:wafv2:x"}, "")


def transformed(text: str, transformations: list[dict[str, Any]]) -> str:
    """A header as a rule of WAF compares or counts it."""
    for each in sorted(transformations, key=lambda each: each["Priority"]):
        text = {"LOWERCASE": str.lower, "COMPRESS_WHITE_SPACE": lambda text: re.sub(r"[\f\t\n\r\v\xa0 ]+", " ", text)}[
            each["Type"]
        ](text)
    return text


def is_matched(statement: dict[str, Any], header: str) -> bool:
    ((kind, inner),) = statement.items()
    if kind == "AndStatement":
        return all(is_matched(each, header) for each in inner["Statements"])
    if kind == "NotStatement":
        return not is_matched(inner["Statement"], header)
    assert (kind, inner["PositionalConstraint"]) == ("ByteMatchStatement", "STARTS_WITH")
    return transformed(header, inner["TextTransformations"]).startswith(inner["SearchString"])


def test_spellings_of_a_header_with_one_token_are_counted_together(template: Template) -> None:
    """Those that the API accepts: two keys, since a rule cannot take a token out of base64."""
    user, rate, _ = properties(template, "TokenLimits")["Rules"]
    (key,) = rate["Statement"]["RateBasedStatement"]["CustomKeys"]
    token, keys = "eyJhbGciOi.eyJzdWIiOi.Sig-_natuRE", set()
    spellings = [f"{scheme}{space}{token}" for scheme in ("Bearer", "bearer", "bEaReR") for space in (" ", "   ", " \t")]
    for name in ("token", "user", "token1", "Token", ""):
        packed = base64.b64encode(f"{name}:{token}".encode()).decode()
        spellings += [f"{scheme}{space}{packed}" for scheme in ("Basic", "BASIC") for space in (" ", "  \t ")]
    for spelling in spellings:
        assert token_of(spelling) == token
        if not is_matched(user["Statement"], spelling):
            keys.add(transformed(spelling, key["Header"]["TextTransformations"]))
    assert len(keys) == 2
    assert is_matched(user["Statement"], "Basic " + base64.b64encode(f"user:{token}".encode()).decode())
    assert not is_matched(user["Statement"], f"Bearer {token}")


def test_the_gateway_is_throttled_and_traced(template: Template) -> None:
    (settings,) = properties(template, "RestAPI")["MethodSettings"]
    assert (settings["ResourcePath"], settings["HttpMethod"]) == ("/*", "*")
    assert settings["ThrottlingRateLimit"] == {"Ref": "ApiRequestsPerSecond"}
    assert settings["ThrottlingBurstLimit"] == {"Ref": "ApiBurst"}
    assert properties(template, "RestAPI")["TracingEnabled"] == {"Fn::If": ["Traces", True, False]}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@pytest.mark.parametrize(
    ("alarm", "metric", "threshold", "comparison"),
    [
        ("PendingBytesAlarm", observability.PENDING_FLUSH_BYTES, 50 * 1024 * 1024, "GreaterThanThreshold"),
        (
            "FlushFailuresAlarm",
            observability.CONSECUTIVE_FLUSH_FAILURES,
            {"Ref": "PendingFlushAlertAfterFailures"},
            "GreaterThanOrEqualToThreshold",
        ),
        (
            "SetAsideAlarm",
            observability.CONSECUTIVE_FLUSH_FAILURES,
            {"Ref": "SetAsideAfterFailures"},
            "GreaterThanOrEqualToThreshold",
        ),
        ("StoreErrorsAlarm", observability.S3_ERRORS, 1, "GreaterThanThreshold"),
        ("AccessRefusedAlarm", observability.ACCESS_REFUSED, {"Ref": "RefusalsAlarm"}, "GreaterThanOrEqualToThreshold"),
        ("PipelineLagAlarm", observability.PIPELINE_LAG_MS, 900_000, "GreaterThanThreshold"),
        ("PipelineHandlersAlarm", observability.PIPELINE_HANDLERS_OFF, 0, "GreaterThanThreshold"),
        ("PipelineErrorsAlarm", observability.PIPELINE_ERRORS, 100, "GreaterThanThreshold"),
        ("PipelineDeadLettersAlarm", observability.PIPELINE_DEAD_LETTERS, 0, "GreaterThanThreshold"),
        ("PipelinesFailedAlarm", observability.PIPELINES_FAILED, 0, "GreaterThanThreshold"),
    ],
)
def test_alarms_watch_the_metrics_that_are_sent(
    template: Template, alarm: str, metric: str, threshold: Any, comparison: str
) -> None:
    found = properties(template, alarm)
    assert (found["Namespace"], found["MetricName"]) == (observability.NAMESPACE, metric)
    assert (found["Threshold"], found["ComparisonOperator"]) == (threshold, comparison)
    service = template["Globals"]["Function"]["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
    assert found["Dimensions"] == [{"Name": "service", "Value": service}]


@pytest.mark.parametrize("function", ["Compact", "Sweep", "Pipelines"])
def test_a_schedule_that_fails_as_a_whole_is_noticed(template: Template, function: str) -> None:
    found = properties(template, function + "ErrorsAlarm")
    assert (found["Namespace"], found["MetricName"], found["Threshold"]) == ("AWS/Lambda", "Errors", 0)
    assert found["Dimensions"] == [{"Name": "FunctionName", "Value": {"Ref": function}}]


def dashboard(template: Template) -> list[dict[str, Any]]:
    widgets: list[dict[str, Any]] = json.loads(properties(template, "Dashboard")["DashboardBody"]["Fn::Sub"])["widgets"]
    return widgets


def drawn(template: Template) -> list[tuple[str, str]]:
    """Namespace and name of each metric of the dashboard, with repetitions."""
    graphs = [widget["properties"]["metrics"] for widget in dashboard(template) if widget["type"] == "metric"]
    return [(metric[0], metric[1]) for graph in graphs for metric in graph]


@pytest.mark.parametrize("source", SOURCES)
def test_the_dashboard_has_a_widget_for_each_metric_of_coordination(template: Template, source: str) -> None:
    graphs = [widget["properties"]["metrics"] for widget in dashboard(template) if widget["type"] == "metric"]
    for name in METRIC_NAMES:
        (graph,) = [graph for graph in graphs if any(metric[1] == metric_name(source, name) for metric in graph)]
        ((namespace, _, dimension, service, _),) = graph
        assert (namespace, dimension, service) == (observability.NAMESPACE, "service", "${AWS::StackName}")


def test_and_shows_what_the_alarms_watch(template: Template) -> None:
    alarms = {name: each for name, each in template["Resources"].items() if each["Type"] == "AWS::CloudWatch::Alarm"}
    assert {(each["Properties"]["Namespace"], each["Properties"]["MetricName"]) for each in alarms.values()} <= set(drawn(template))
    (status,) = [widget["properties"]["alarms"] for widget in dashboard(template) if widget["type"] == "alarm"]
    assert sorted(status) == sorted(f"${{{name}.Arn}}" for name, each in alarms.items() if "Condition" not in each)


def test_and_nothing_that_is_never_sent(template: Template) -> None:
    sent = {value for name, value in vars(observability).items() if name.isupper() and isinstance(value, str)}
    sent |= {metric_name(source, name) for source in SOURCES for name in METRIC_NAMES}
    assert {name for namespace, name in drawn(template) if namespace == observability.NAMESPACE} <= sent
    resources = set(re.findall(r"\$\{(\w+)(?:\.\w+)?\}", json.dumps(dashboard(template))))
    assert resources <= set(template["Resources"])


def test_its_widgets_stand_in_the_grid_and_do_not_overlap(template: Template) -> None:
    widgets = dashboard(template)
    assert all(widget["x"] >= 0 and widget["x"] + widget["width"] <= 24 for widget in widgets)
    for one, other in pairwise(sorted(widgets, key=lambda widget: (widget["y"], widget["x"]))):
        beside = one["y"] == other["y"] and one["x"] + one["width"] <= other["x"]
        assert beside or one["y"] + one["height"] <= other["y"]


def test_the_gateway_never_answers_what_makes_a_connector_give_up(template: Template) -> None:
    responses = template["Resources"]["RestAPI"]["Properties"]["GatewayResponses"]
    statuses = {kind: response["StatusCode"] for kind, response in responses.items()}
    assert not {429, 504} & set(statuses.values())
    assert {
        statuses[kind] for kind in ("THROTTLED", "QUOTA_EXCEEDED", "INTEGRATION_TIMEOUT", "INTEGRATION_FAILURE", "DEFAULT_5XX")
    } == {503}
    # Kinds that are not named keep their status 500, also a failed check of a token, for which the gateway has no message.
    assert {statuses[kind] for kind in ("AUTHORIZER_FAILURE", "AUTHORIZER_CONFIGURATION_ERROR", "API_CONFIGURATION_ERROR")} == {503}
    assert "$context" not in responses["AUTHORIZER_FAILURE"]["ResponseTemplates"]["application/json"]
    for response in responses.values():
        assert f'"code": {response["StatusCode"]}' in response["ResponseTemplates"]["application/json"]
        assert response["ResponseParameters"]["Headers"]["Access-Control-Allow-Origin"] == {"Fn::Sub": "'${CorsOrigin}'"}
        assert response["ResponseParameters"]["Headers"]["Strict-Transport-Security"] == f"'{response_headers.HSTS}'"
        assert response["ResponseParameters"]["Headers"]["Cache-Control"] == "'no-store'"


def test_the_zip_is_small_compiled_and_without_what_the_runtime_has(template: Template) -> None:
    assert template["Resources"]["APIHandler"]["Properties"]["CodeUri"] == "./deployment.zip"
    with ZipFile(package.ZIP) as archive:
        names = archive.namelist()
    assert package.ZIP.stat().st_size < 20_000_000
    assert not {name.split("/")[0] for name in names} & {"boto3", "botocore", "s3transfer", "urllib3", "pytest", "moto"}
    assert {"app.py", "__pycache__/app.cpython-311.pyc", "chalicelib/errors.py", "chalice/app.py"} <= set(names)
