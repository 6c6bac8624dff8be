"""The template's jobs: their start by Glue, their permissions and their schedules."""

from __future__ import annotations

import importlib
import re
from typing import Any
from zipfile import ZipFile

import pytest

from chalicelib import observability
from chalicelib.runlog.layout import Layout
from glue_jobs import retention
from glue_jobs.build_dataset import BUCKETS
from glue_jobs.job_runtime import arguments
from glue_jobs.transforms.events import DATASET
from local import glue, package
from tests.integration.stacks import Stack
from tests.world import RUN

Template = dict[str, Any]
LOGICAL = {name: "".join(word.capitalize() for word in name.split("_")) for name in glue.jobs()}
"""bulk_compact is BulkCompact."""
BY_GLUE = ["--JOB_NAME", "stack-job", "--JOB_ID", "j_1", "--JOB_RUN_ID", "jr_1", "--TempDir", "s3://bucket/temp/"]


def properties(template: Template, name: str) -> dict[str, Any]:
    found: dict[str, Any] = template["Resources"][name]["Properties"]
    return found


def of_type(template: Template, kind: str) -> dict[str, dict[str, Any]]:
    return {name: each for name, each in template["Resources"].items() if each["Type"] == kind}


def test_every_job_is_one_of_glue(template: Template) -> None:
    assert sorted(of_type(template, "AWS::Glue::Job")) == sorted(f"{name}Job" for name in LOGICAL.values())


@pytest.mark.parametrize("job", glue.jobs())
def test_a_job_is_glue_6_on_workers_that_come_and_go(template: Template, job: str) -> None:
    found = properties(template, f"{LOGICAL[job]}Job")
    assert (found["GlueVersion"], found["WorkerType"]) == ("6.0", "G.1X")
    assert found["NumberOfWorkers"] in ({"Ref": "JobMaxWorkers"}, 2)
    assert (found["Timeout"], found["MaxRetries"]) == ({"Ref": "JobTimeoutMinutes"}, 1)
    assert found["ExecutionProperty"] == {"MaxConcurrentRuns": 1}
    assert found["Role"] == {"Fn::GetAtt": [f"{LOGICAL[job]}Role", "Arn"]}
    assert found["Command"]["Name"] == "glueetl"
    assert found["Command"]["ScriptLocation"] == {"Fn::Sub": f"s3://${{ArtifactsBucket}}/jobs/${{JobsVersion}}/{job}.py"}
    given = found["DefaultArguments"]
    log_groups = [each["Properties"].get("LogGroupName") for each in of_type(template, "AWS::Logs::LogGroup").values()]
    for name in ("output", "error"):
        assert {"Fn::Sub": f"{given['--custom-logGroup-prefix']['Fn::Sub']}/{name}"} in log_groups, "they go with the stack"
    assert given["--enable-auto-scaling"] == "true"
    assert given["--extra-py-files"] == {"Fn::Sub": f"s3://${{ArtifactsBucket}}/jobs/${{JobsVersion}}/{glue.CODE.name}"}
    assert given["--additional-python-modules"] == {
        "Fn::Sub": f"s3://${{ArtifactsBucket}}/jobs/${{JobsVersion}}/{glue.WHEELS.name}"
    }
    assert glue.WHEELS.name.endswith(".gluewheels.zip"), "by which Glue knows it"


def given(values: dict[str, Any]) -> list[str]:
    """Arguments as Glue passes them, with references resolved to placeholders."""
    known = {"JobsBucket": "jobs", "DatasetBucket": "dataset", "ArtifactsBucket": "artifacts", "JobsVersion": "1"}

    def text(value: Any) -> str:
        if isinstance(value, dict) and "Fn::Sub" in value:
            return re.sub(r"\$\{(\w+)\}", lambda found: known[found[1]], value["Fn::Sub"])
        return (
            {"AWS::StackName": "stack", "RetentionRules": '{"default": {"keep_days": 7}}'}[value["Ref"]]
            if isinstance(value, dict)
            else value
        )

    return [word for name, value in values.items() for word in (name, text(value))]


@pytest.mark.parametrize("job", glue.jobs())
def test_its_parser_takes_what_glue_gives_it(template: Template, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stacks: list[str] = []
    monkeypatch.setattr(arguments, "use_stack", stacks.append)
    parser = importlib.import_module(f"glue_jobs.{job}")._parser()
    words = BY_GLUE + given(properties(template, f"{LOGICAL[job]}Job")["DefaultArguments"])
    taken = arguments.parse_arguments(parser, words)
    assert stacks == [taken.stack_name] == ["stack"]
    assert taken.summary == f"s3://jobs/summaries/{job}.json"


def test_nights(template: Template) -> None:
    triggers = of_type(template, "AWS::Glue::Trigger")
    assert sorted(triggers) == ["BuildDatasetNightly", "BulkCompactNightly", "RetentionNightly"]
    for name, trigger in triggers.items():
        found = trigger["Properties"]
        assert trigger["Condition"] == "RunsNightly" and (found["Type"], found["StartOnCreation"]) == ("SCHEDULED", True)
        assert re.fullmatch(r"cron\(\d+ \$\{NightlyHour\} \* \* \? \*\)", found["Schedule"]["Fn::Sub"])
        assert found["Actions"][0]["JobName"] == {"Ref": name.replace("Nightly", "Job")}


def test_retention_only_plans_at_night(template: Template) -> None:
    (action,) = properties(template, "RetentionNightly")["Actions"]
    taken = retention._parser().parse_args(given(action["Arguments"]))
    assert (taken.apply, taken.plan) == (None, "s3://jobs/plans/")
    assert retention._rules(taken.rules).default
    assert retention._rules(template["Parameters"]["RetentionRules"]["Default"]).rules == ()
    assert "--rules" not in properties(template, "RetentionJob")["DefaultArguments"], "so that --apply can be given alone"


def test_staged_files_go_and_the_dataset_stays(template: Template) -> None:
    rules = properties(template, "DatasetBucket")["LifecycleConfiguration"]["Rules"]
    assert {rule.get("Prefix"): rule.get("ExpirationInDays") for rule in rules} == {None: None, "events/_staging/": 7}
    assert rules[0]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}


def test_the_table_is_what_the_job_writes(template: Template) -> None:
    table = properties(template, "EventsTable")["TableInput"]
    hive = {"date": "string"}  # a projected partition is text
    wanted = [(field.name, hive.get(field.name, field.dataType.simpleString())) for field in DATASET.fields]
    columns = [(column["Name"], column["Type"]) for column in table["StorageDescriptor"]["Columns"] + table["PartitionKeys"]]
    assert columns == wanted
    told = table["Parameters"]
    assert told["projection.what_bucket.range"] == f"0,{BUCKETS - 1}"
    destination = properties(template, "BuildDatasetJob")["DefaultArguments"]["--dest"]["Fn::Sub"]
    assert table["StorageDescriptor"]["Location"] == {"Fn::Sub": destination + "/data/"}
    assert told["storage.location.template"] == {"Fn::Sub": destination + "/data/date=${!date}/what_bucket=${!what_bucket}"}


def statements(template: Template, role: str) -> list[dict[str, Any]]:
    """Statements of a job's role and of all jobs."""
    policies = [policy["PolicyDocument"] for policy in properties(template, role)["Policies"]]
    policies.append(properties(template, "JobsPolicy")["PolicyDocument"])
    return [statement for policy in policies for statement in policy["Statement"] if "Sid" in statement]


def granted(template: Template, role: str) -> set[str]:
    """Actions of a role. The jobs' own tests check that each is needed."""
    named = (statement["Action"] for statement in statements(template, role))
    return {action for each in named for action in (each if isinstance(each, list) else [each])}


@pytest.mark.parametrize("job", glue.jobs())
def test_a_role_names_actions_and_resources(template: Template, job: str) -> None:
    role = f"{LOGICAL[job]}Role"
    assert properties(template, role)["AssumeRolePolicyDocument"]["Statement"][0]["Principal"] == {"Service": "glue.amazonaws.com"}
    assert properties(template, role)["ManagedPolicyArns"] == [{"Ref": "JobsPolicy"}], "none of AWS's own, which allow far more"
    assert not [action for action in granted(template, role) if "*" in action]
    anywhere = [statement for statement in statements(template, role) if statement["Resource"] == "*"]
    assert [statement["Sid"] for statement in anywhere] == ["Metrics"]
    assert anywhere[0]["Condition"] == {"StringEquals": {"cloudwatch:namespace": observability.NAMESPACE}}


def test_code_is_read_from_the_owner_of_the_artifacts_alone(template: Template) -> None:
    """A bucket's name is anybody's once the bucket is deleted."""
    (code,) = [each for each in statements(template, "BackfillRole") if each["Sid"] == "Code"]
    assert code["Resource"] == {"Fn::Sub": "arn:${AWS::Partition}:s3:::${ArtifactsBucket}/jobs/*"}
    owner = {"Fn::If": ["NamesArtifactsOwner", {"Ref": "ArtifactsOwner"}, {"Ref": "AWS::AccountId"}]}
    assert code["Condition"] == {"StringEquals": {"aws:ResourceAccount": owner}}


def test_only_compaction_touches_leases_and_only_it_and_retention_change_logs(template: Template) -> None:
    def touching(words: str, *actions: str) -> set[str]:
        found = set()
        for job, logical in LOGICAL.items():
            for statement in statements(template, f"{logical}Role"):
                named = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
                if words in str(statement["Resource"]) and (not actions or set(actions) & set(named)):
                    found.add(job)
        return found

    assert touching("CoordinationTable") == {"bulk_compact", "run_pipelines"}
    assert touching("${BucketName}/${Prefix}", "s3:PutObject", "s3:DeleteObject") == {"bulk_compact", "retention"}
    assert touching("${ArchiveBucketName}/*", "s3:PutObject", "s3:DeleteObject") == set()
    assert touching("DatasetBucket") == {"build_dataset"}
    assert "dynamodb:Scan" in granted(template, "RebuildCatalogRole")


def test_the_functions_zip_has_no_job(template: Template) -> None:
    with ZipFile(package.ZIP) as archive:
        assert not [name for name in archive.namelist() if name.startswith(("glue_jobs/", "pyspark/", "pyarrow/"))]


def test_the_same_template_stands_on_the_local_stack(stack: Stack) -> None:
    client = stack.client("glue")
    try:
        found = {job["Name"].removeprefix(f"{stack['stack_name']}-"): job for job in client.get_jobs()["Jobs"]}
        table = client.get_table(DatabaseName="runlake", Name="events")["Table"]
    finally:
        client.close()
    assert sorted(found) == glue.jobs()
    assert {job["GlueVersion"] for job in found.values()} == {"6.0"}
    assert table["Parameters"]["storage.location.template"].endswith("/events/data/date=${date}/what_bucket=${what_bucket}")


def test_a_tombstone_is_where_the_role_may_write(template: Template) -> None:
    (logs,) = [each["Resource"] for each in statements(template, "RetentionRole") if each["Sid"] == "Expire"]
    assert logs == {"Fn::Sub": "arn:${AWS::Partition}:s3:::${BucketName}/${Prefix}/*"}
    assert Layout("prefix").tombstone(RUN).startswith("prefix/")
