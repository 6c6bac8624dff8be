"""Runs ministack with four corrections and an addition.

- Each zip of function code is unpacked once for all workers and all stacks; ministack unpacks it for each worker. Function code is
  read-only on Lambda too.
- A message that is sent while a queue's poller removes others is kept. ministack replaces the list of messages without a lock and loses
  messages that are appended to the old list meanwhile.
- A condition of a template can split a text. ministack fails there; here all parts are empty, so no account is admitted (``job_accounts.py``).
- A secret that CloudFormation generates has no punctuation if the template excludes it. ministack's has, and a comma separates keys.
- STS describes an access key with its secret, so that the local function URL can check signatures. All keys here are the emulator's own.

Started by path (see ``emulator.py``), so that neither the emulator nor the functions, which inherit its environment, have the
project on their path.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import runpy
import shutil
import string
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

DESCRIBE_KEY = "DescribeAccessKey"
"""The added action of STS. Parameters: AccessKeyId, SessionToken."""
FOLDER = "RUNLAKE_SHARED_CODE"
"""Environment variable: folder of the unpacked code."""
_MAX_UNUSED = 3
"""How many of the newest unused unpacked zips are kept for later stacks."""
_in_use: dict[str, int] = {}
"""Locked files by digest; this process holds the locks until it ends, so that no other process deletes its workers' code."""


class SharedZipFile(zipfile.ZipFile):
    """Extracts by linking to an already unpacked copy."""

    def extractall(self, path: Any = None, members: Any = None, pwd: bytes | None = None) -> None:
        target = Path(path or ".")
        if self.filename is None or target.name != "code" or any(target.iterdir()):
            super().extractall(path, members, pwd)
            return
        source = _unpacked(_digest(self.filename), self)
        target.rmdir()
        target.symlink_to(source)


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unpacked(digest: str, source: zipfile.ZipFile) -> Path:
    folder = Path(os.environ[FOLDER])
    target = folder / digest
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _hold(folder, digest)
        if not target.exists():
            draft = folder / "draft"
            shutil.rmtree(draft, ignore_errors=True)
            zipfile.ZipFile.extractall(source, draft)
            draft.rename(target)
            _prune(folder)
    return target


def _hold(folder: Path, digest: str) -> None:
    if digest not in _in_use:
        _in_use[digest] = os.open(folder / f"{digest}.used", os.O_CREAT | os.O_RDONLY)
        fcntl.flock(_in_use[digest], fcntl.LOCK_SH)


def _prune(folder: Path) -> None:
    by_age = sorted((path for path in folder.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in [path for path in by_age if not _is_used(path)][_MAX_UNUSED:]:
        shutil.rmtree(path, ignore_errors=True)


def _is_used(path: Path) -> bool:
    descriptor = os.open(f"{path}.used", os.O_CREAT | os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


def keep_messages() -> None:
    """Make ministack's queue poller remove messages in place."""
    from ministack.services import sqs

    sweep = sqs._dlq_sweep

    def sweep_in_place(queue: dict[str, Any]) -> None:
        before = list(queue["messages"])
        swept = {**queue, "messages": before}
        sweep(swept)
        kept = {id(message) for message in swept["messages"]}
        _remove(queue, [message for message in before if id(message) not in kept])

    def delete_in_place(queue_url: str, receipt_handles: set[str]) -> None:
        with sqs._queues_lock:
            queue = sqs._get_q(queue_url)
            _remove(queue, [message for message in list(queue["messages"]) if message.get("receipt_handle") in receipt_handles])

    sqs._dlq_sweep, sqs._delete_messages_for_esm = sweep_in_place, delete_in_place


def _remove(queue: dict[str, Any], messages: list[dict[str, Any]]) -> None:
    for message in messages:
        with contextlib.suppress(ValueError):  # already removed by another request
            queue["messages"].remove(message)


def split_in_conditions() -> None:
    """Make ministack's CloudFormation select an empty text from one that a condition splits."""
    from ministack.services.cloudformation import engine

    select = engine._select
    engine._select = lambda index, items: "" if isinstance(items, dict) else select(index, items)


def exclude_punctuation() -> None:
    """Make ministack's CloudFormation heed ``ExcludePunctuation`` of generated secrets."""
    from ministack.services.cloudformation import provisioners

    generate = provisioners._sm_secret_string

    def without_punctuation(props: dict[str, Any]) -> Any:
        rules = props.get("GenerateSecretString") or {}
        if rules.get("ExcludePunctuation"):
            props = {**props, "GenerateSecretString": {**rules, "ExcludeCharacters": string.punctuation}}
        return generate(props)

    provisioners._sm_secret_string = without_punctuation


def describe_keys() -> None:
    """Make ministack's STS answer ``DESCRIBE_KEY``: what it knows of an access key with this session token, or ``code`` and ``message``."""
    from ministack.core.iam_evaluator import resolve_credential
    from ministack.services import sts

    handle_request = sts.handle_request

    async def handle(method: str, path: str, headers: Any, body: bytes, query_params: Any) -> Any:
        if DESCRIBE_KEY.encode() not in (body or b""):
            return await handle_request(method, path, headers, body, query_params)
        asked = {name: values[0] for name, values in parse_qs(body.decode(), keep_blank_values=True).items()}
        access_key = asked["AccessKeyId"]
        found = resolve_credential(access_key, sts._access_key_account(access_key), asked.get("SessionToken") or None)
        return 200, {"Content-Type": "application/json"}, json.dumps(dataclasses.asdict(found)).encode()

    sts.handle_request = handle


def main() -> None:
    from ministack.core import lambda_runtime

    lambda_runtime.zipfile = _Zipfile
    keep_messages()
    split_in_conditions()
    exclude_punctuation()
    describe_keys()
    runpy.run_module("ministack", run_name="__main__", alter_sys=True)


class _Zipfile:
    """The module ``zipfile`` as ministack uses it."""

    ZipFile, BadZipFile = SharedZipFile, zipfile.BadZipFile


if __name__ == "__main__":
    main()
