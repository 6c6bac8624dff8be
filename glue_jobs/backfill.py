"""Catalogue existing objects of a bucket: files of the archive, or finalized logs (``--run-logs``).

For objects that are older than the notifications, and for a catalog that was lost. Objects are processed in key order, with a
checkpoint after each page of a thousand keys, from which a stopped job continues. Catalogued objects stay unchanged, unless
--anew is given: use it if one of the tables was lost. Several jobs may run at the same time, each with its own --prefix. No
reports are published.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from chalicelib import composition
from chalicelib.archive.objects import object_ref
from chalicelib.catalog.file_state import checkpoint_key
from chalicelib.catalog.registration import Describe, ObjectRef, RegistrationResult
from chalicelib.composition import Services
from chalicelib.deadline import Deadline
from chalicelib.errors import UnavailableError
from chalicelib.ports import Key, ObjectStore, Put
from glue_jobs.job_runtime.arguments import add_flag, job_parser, parse_arguments
from glue_jobs.job_runtime.interruption import run_interruptible
from glue_jobs.job_runtime.prices import dollars
from glue_jobs.job_runtime.progress import Progress
from glue_jobs.job_runtime.request_counts import request_counter
from glue_jobs.job_runtime.summary import finish

NAME = "backfill"
PAGE_KEYS = 1000
BATCH = 50
ATTEMPTS = 5
KINDS = ("files", "refused", "gone", "failed")
"""Results for objects: catalogued, not valid as files, deleted meanwhile, failed."""


@dataclass(frozen=True, slots=True)
class Source:
    """The objects to process: a store, a key prefix, and how to describe an object."""

    services: Services
    store: ObjectStore
    bucket: str
    prefix: str
    is_run_logs: bool

    def subjects(self, keys: Sequence[str]) -> list[ObjectRef]:
        """The objects among the keys that can be files."""
        if self.is_run_logs:
            files = composition.run_files(self.services)
            return [files.ref(key) for key in keys if files.is_log(key)]
        return [object_ref(self.bucket, key) for key in keys]

    def describe(self) -> Describe:
        """Describes an object, without a deadline."""
        looker = composition.run_files(self.services) if self.is_run_logs else self.services.archive_objects
        deadline = Deadline(self.services.clock)
        return lambda subject: looker.describe(subject, deadline)

    @property
    def checkpoint(self) -> Key:
        """The key of the job's checkpoint."""
        return checkpoint_key(f"backfill#{self.bucket}/{self.prefix}")


@dataclass(slots=True)
class Tally:
    """Counts of results. ``problems``: the first ones, as text."""

    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def add(self, outcome: RegistrationResult) -> None:
        """Count one."""
        description = outcome.description
        kind = "failed" if outcome.error else "files" if description.record else "refused" if description.problem else "gone"
        self.counts[kind] += 1
        if kind in ("failed", "refused") and len(self.problems) < 20:
            self.problems.append(str(outcome.error or description.problem))


def backfill(
    source: Source, progress: Progress, tally: Tally, *, restart: bool = False, dry_run: bool = False, anew: bool = False
) -> None:
    """Process the bucket. Idempotent. Raises UnavailableError if the catalog stays unavailable; start the job again then."""
    after = "" if restart else _reached(source)
    describe = source.describe()
    while True:
        page = source.store.list(source.prefix, start_after=after, limit=PAGE_KEYS)
        keys = [listed.key for listed in page.objects]
        for batch in batches(source.subjects(keys)):
            for outcome in _looked_at(batch, describe) if dry_run else catalog_batch(source, batch, describe, anew=anew):
                tally.add(outcome)
            progress.show(sum(tally.counts.values()), batch[-1].key)
        after = keys[-1] if keys else after
        if not dry_run:
            _note(source, after if page.truncated else "")
        if not page.truncated:
            return


def _looked_at(batch: Sequence[ObjectRef], describe: Describe) -> Iterator[RegistrationResult]:
    yield from (RegistrationResult(describe(subject)) for subject in batch)


def catalog_batch(source: Source, batch: Sequence[ObjectRef], describe: Describe, *, anew: bool) -> Iterator[RegistrationResult]:
    """Catalogue objects, again where there was trouble; what became of each."""
    left: list[ObjectRef] = list(batch)
    for attempt in range(ATTEMPTS):
        outcomes = source.services.registration.update(left, describe, rewrite=anew)
        last = attempt == ATTEMPTS - 1
        yield from (outcome for outcome in outcomes.values() if last or not outcome.error)
        left = [subject for subject, outcome in outcomes.items() if outcome.error]
        if not left:
            return
        source.services.clock.sleep(2.0**attempt)


def _reached(source: Source) -> str:
    row = source.services.database.get_many([source.checkpoint]).get(source.checkpoint)
    return str(row["after"]) if row else ""


def _note(source: Source, after: str) -> None:
    """Store the checkpoint. An empty key means that the bucket is done, and the next job starts from the beginning."""
    source.services.database.put_many([Put(source.checkpoint, {"key": source.checkpoint.partition, "after": after})])


def batches(subjects: Sequence[ObjectRef]) -> Iterator[list[ObjectRef]]:
    """Subjects in groups that are catalogued together."""
    remaining = iter(subjects)
    while batch := list(itertools.islice(remaining, BATCH)):
        yield batch


def _source(services: Services, arguments: argparse.Namespace) -> Source:
    settings = services.settings
    if arguments.run_logs:
        prefix = f"{settings.prefix}/{arguments.prefix}"
        return Source(services, services.store, settings.bucket_name, prefix, is_run_logs=True)
    return Source(services, services.archive_store, settings.archive_bucket_name, arguments.prefix, is_run_logs=False)


def _parser() -> argparse.ArgumentParser:
    parser = job_parser(NAME, __doc__)
    add_flag(parser, "--run-logs", "finalized logs of the logs' bucket, instead of the archive's files")
    parser.add_argument("--prefix", default="", help="only keys with this prefix (with --run-logs: after the logs' own prefix)")
    add_flag(parser, "--restart", "start from the first key, not from the checkpoint")
    add_flag(parser, "--anew", "write all rows again, also those of catalogued files")
    add_flag(parser, "--dry-run", "check all objects, write nothing")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 if objects failed or the job could not continue."""
    arguments = parse_arguments(_parser(), argv)
    requests = request_counter()
    source = _source(composition.services(), arguments)
    progress, tally, stopped = Progress("backfill"), Tally(), ""
    try:
        backfill(source, progress, tally, restart=arguments.restart, dry_run=arguments.dry_run, anew=arguments.anew)
    except UnavailableError as error:
        stopped = f"run the job again to continue from the last checkpoint: {error}"
    finally:
        progress.end()
    summary = {
        "from": f"s3://{source.bucket}/{source.prefix}",
        "dry_run": arguments.dry_run,
        **{kind: tally.counts[kind] for kind in KINDS},
        "problems": tally.problems,
        "stopped": stopped,
        "requests": dict(requests),
        "dollars": dollars(requests),
    }
    finish(NAME, summary, arguments.summary, dry_run=arguments.dry_run)
    return 1 if stopped or tally.counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(run_interruptible(NAME, main))
