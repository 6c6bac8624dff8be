"""Every place that stores something, and how a run is removed from it.

Whatever stores something of a run has a row here. A test compares the rows with all buckets, prefixes and tables of the template, and
another one searches all of them for the text of a deleted run.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """``store``: a bucket or a table, by its name in the template; ``prefix``: of a bucket's keys, ``{prefix}`` is that of run logs. ``step``: the
    method of ``RunSteps`` that removes a run; empty: nothing of a run is there, or ``about`` says what removes it. ``on_expiry``: retention does
    it too, else only a deletion."""

    store: str
    prefix: str
    step: str
    about: str
    on_expiry: bool = False


PLACES = (
    Place("Bucket", "_dead/", "dead_letters", "events that a handler failed to process"),
    Place("Bucket", "pipeline-files/", "pipeline_files", "files of processing pipelines, with their rows; in other buckets too"),
    Place("Bucket", "_pipelines/", "", "configuration of processing pipelines"),
    Place("Bucket", "_deleted/", "", "marks of deleted runs: names, who, when and why, no text of a log; they stay"),
    Place("Bucket", "{prefix}/.tombstones/", "tombstone", "why a run of this name expired"),
    Place("Bucket", "{prefix}/.active/", "markers", "heartbeat markers", on_expiry=True),
    Place("Bucket", "{prefix}/", "objects", "segments, artifacts, events, bundles, steps, writers, the start", on_expiry=True),
    Place("Bucket", "{prefix}/", "uploads", "parts of open uploads"),
    Place("Bucket", "{prefix}/", "versions", "old versions, also below the prefixes above"),
    Place("ArchiveBucket", "", "", "uploaded files: they belong to no run"),
    Place("JobsBucket", "", "", "plans and summaries of jobs: names of runs in plans, no text of a log"),
    Place("DatasetBucket", "", "", "rows of the event dataset: the next job removes those of marked runs"),
    Place("RunsTable", "", "", "the run's row: replaced by its mark, or deleted at the beginning"),
    Place("SegmentsTable", "", "rows", "rows of segments, keys, events, steps and writers", on_expiry=True),
    Place("FilesTable", "", "file_record", "the log as a file of the archive"),
    Place("LatestTable", "", "file_record", "the latest file of a source"),
    Place("ListingTable", "", "file_record", "names in lists of files"),
    Place("ObjectsTable", "", "file_record", "the state of the log's object"),
    Place("PipelineFilesTable", "", "pipeline_files", "rows of files; the names of deleted runs stay"),
    Place("PipelinesTable", "", "", "positions of pipelines in runs, without text; they expire"),
    Place("CoordinationTable", "", "work", "partitions of background work; an explanation in progress quotes the log"),
)

STEPS = tuple(dict.fromkeys(place.step for place in PLACES if place.step))
STEPS_ON_EXPIRY = tuple(dict.fromkeys(place.step for place in PLACES if place.on_expiry))
