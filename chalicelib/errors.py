"""Every error that Runlake raises on purpose, grouped by the caller's next move.

RunlakeError
 ├─ InvalidInputError          fix the input
 │   ├─ InvalidNameError         an FQN or a run id that cannot be stored
 │   ├─ InvalidBatchError        a body that is not a batch of log lines
 │   ├─ BatchTooLargeError       a body over the limit, packed or unpacked
 │   ├─ InvalidEventError        an event that lacks a mandatory field, or has a value that cannot be stored
 │   ├─ NoBrowserError           the start of a run that nobody could read: its method writes to another store
 │   ├─ RequestRefusedError      another system rejects the content of a request
 │   ├─ InvalidMetadataError     an invalid metadata document of a file
 │   ├─ UploadTooLargeError      a file over the limit of presigned uploads
 │   ├─ InvalidTimeError         a text or number that is not a time of the years 1 to 9999
 │   ├─ InvalidCursorError       a cursor of another installation, or of another query
 │   ├─ TooManyNamesError        wildcards that match more names than one request may query
 │   └─ InvalidConfigurationError  a setting that cannot work
 │       └─ FormatUnavailableError   files of a format whose library is not installed here
 ├─ AccessError                authenticate, or request the permission
 │   ├─ UnauthenticatedError     no credentials, or invalid ones (401)
 │   │   └─ DeniedPrincipalError   valid credentials on the policy's deny list (401)
 │   └─ ForbiddenError           a principal without the permission (403)
 ├─ ConflictError              the present state does not allow the request
 │   ├─ RunClosedError           an append to a run that was closed
 │   ├─ RunDeletedError          a read of, or an append to, a run that was deleted
 │   ├─ OtherMethodError         lines or a start for a run that is written by another logging method
 │   ├─ OtherZoneError           lines or a start that state another zone than the run's
 │   ├─ AttemptTakenError        the start of an attempt whose number belongs to another start
 │   └─ NotChangeableError       a file that only its source may change, such as a run's log
 ├─ StoreConditionError        refresh and retry
 │   ├─ PreconditionFailedError  a conditional write whose condition is false (412)
 │   ├─ WriteConflictError       a conditional write that raced another one (409)
 │   ├─ ObjectNotFoundError      no such object, or no such upload (404)
 │   │   └─ NoSuchFileError          no file of the archive has this id
 │   └─ SnapshotChangedError     objects of a run changed between two requests of one operation
 │       └─ MissingSegmentError    a segment is missing: moved by a concurrent compaction, or lost
 ├─ RangeNotSatisfiableError   a range that starts at or after the object's end (416)
 ├─ UnavailableError           retry later
 │   ├─ StoreUnavailableError    the store returned an error, or throttled: nothing was done
 │   │   └─ RewrittenError          the object was replaced while it was read: read it again
 │   ├─ IdentityUnavailableError the issuer's keys or the policy cannot be read: no request can be authenticated now
 │   ├─ TargetUnavailableError   a target of events did not accept them now
 │   ├─ OutcomeUnknownError      the response was lost: the write may have been applied
 │   └─ DeadlineExceededError    there is no time left; the work can be repeated
 ├─ LeaseError                 stop the work: this worker does not own the partition and must not write for it
 │   ├─ PartitionNotFoundError   the partition does not exist
 │   ├─ PartitionNotOwnedError   another worker owns it, or the lease was not renewed in time
 │   └─ PartitionUpdateError     this worker still owns it, but the store rejects the update
 ├─ NotInitializedError        a coordinator that was not initialized, or was shut down
 ├─ DamagedLogError            stored data contradicts itself
 └─ DamagedPartitionError      an item of coordination that cannot be read: repair it or remove it by hand
"""

from __future__ import annotations


class RunlakeError(Exception):
    """Root of the tree. The message is lowercase and ends in ``key=value`` pairs."""


class InvalidInputError(RunlakeError):
    """The caller sent a request that can never succeed."""


class InvalidNameError(InvalidInputError):
    """An FQN or a run id that cannot be stored."""


class InvalidBatchError(InvalidInputError):
    """A body that is not a batch of log lines."""


class BatchTooLargeError(InvalidInputError):
    """A body over the limit, packed or unpacked."""


class InvalidEventError(InvalidInputError):
    """An event that lacks a mandatory field, or has a value that cannot be stored."""


class NoBrowserError(InvalidInputError):
    """The start of a run whose client writes to another store, while its pipeline is read from the run log. Nothing was stored."""


class RequestRefusedError(InvalidInputError):
    """Another system rejects the content of a request and stored nothing. It may accept the content in smaller requests."""


class InvalidMetadataError(InvalidInputError):
    """An invalid metadata document of a file. The file is not listed."""


class UploadTooLargeError(InvalidInputError):
    """A file over the limit of presigned uploads."""


class InvalidTimeError(InvalidInputError):
    """A text or number that is not a time of the years 1 to 9999."""


class InvalidCursorError(InvalidInputError):
    """A cursor of another installation, or of another query."""


class TooManyNamesError(InvalidInputError):
    """Wildcards that match more names than one request may query."""


class InvalidConfigurationError(InvalidInputError):
    """A setting that cannot work. Raised at start, never while a request is served."""


class FormatUnavailableError(InvalidConfigurationError):
    """A format whose library is not installed. Its files may be intact: read them where the library is installed."""


class AccessError(RunlakeError):
    """The request was refused before anything was read or written: the caller must authenticate, or needs a permission."""


class UnauthenticatedError(AccessError):
    """Missing or invalid credentials. The message never contains any part of them."""


class DeniedPrincipalError(UnauthenticatedError):
    """Valid credentials whose principal or token id the policy denies. Both are for the audit line, and not in the message."""

    def __init__(self, message: str, principal: str, token_id: str) -> None:
        super().__init__(message)
        self.principal, self.token_id = principal, token_id


class ForbiddenError(AccessError):
    """A principal without the permission. Decided by names alone, so it does not reveal whether the resource exists."""


class ConflictError(RunlakeError):
    """A well-formed request that the present state does not allow."""


class RunClosedError(ConflictError):
    """An append to a run that was closed. Nothing was stored."""


class RunDeletedError(ConflictError):
    """A read of, or an append to, a run that was deleted on purpose. Nothing was stored; its id is not used again."""

    code = "run_deleted"

    def __init__(self, fqn: str, run_id: str) -> None:
        super().__init__(f"the run was deleted run={fqn}/{run_id}")


class OtherMethodError(ConflictError):
    """An append to a run whose lines are written to another store than the run log (nothing was stored), or a start with another logging
    method than the run's."""


class OtherZoneError(ConflictError):
    """An append or a start that states another zone than the run has, or one for a run that began without. Nothing was stored."""


class AttemptTakenError(ConflictError):
    """The start of an attempt whose number belongs to another start. Nothing was stored."""


class NotChangeableError(ConflictError):
    """A file that only its source may change, such as a run's log."""


class StoreConditionError(RunlakeError):
    """The store works, and its state is not the one that the call assumed: read it again, then decide."""


class PreconditionFailedError(StoreConditionError):
    """A conditional write whose condition is false (412). Nothing was done by this attempt."""


class WriteConflictError(StoreConditionError):
    """A conditional write that raced another one (409). Repeat a PUT; start a multipart upload over."""


class ObjectNotFoundError(StoreConditionError):
    """No such object, or no such multipart upload (404)."""


class NoSuchFileError(ObjectNotFoundError):
    """No file of the archive has this id. The message is the datalake's; ``reason``: what else is known, or empty."""

    def __init__(self, file_id: str, reason: str = "") -> None:
        super().__init__(f"No file with id {file_id} exists")
        self.reason = reason


class SnapshotChangedError(StoreConditionError):
    """Objects of a run changed between two requests of one operation. Nothing was done: repeat all of them."""


class MissingSegmentError(SnapshotChangedError):
    """A segment is missing that was listed, or lies between two that were. A concurrent compaction moved it, or it is lost: if a repetition
    misses the same segment, it is lost (see ``conflicts.retry_on_change``)."""


class RangeNotSatisfiableError(RunlakeError):
    """A range that starts at or after the object's end (416)."""


class UnavailableError(RunlakeError):
    """A failure of the service, not of the caller: the same call can succeed later."""


class StoreUnavailableError(UnavailableError):
    """The store returned an error, or throttled: nothing was done."""


class RewrittenError(StoreUnavailableError):
    """An object was replaced while it was read: the new version can be read at once."""


class IdentityUnavailableError(UnavailableError):
    """The issuer's keys or the policy cannot be read, and the cached values are too old: no request can be authenticated now."""


class TargetUnavailableError(UnavailableError):
    """A target of events did not accept them now. ``retry_after_s``: the wait that the target asks for."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class OutcomeUnknownError(UnavailableError):
    """The response was lost: the write may or may not have been applied. Every write of this project can be repeated."""


class DeadlineExceededError(UnavailableError):
    """There is no time left. The work can be repeated, and the next invocation continues it."""


class DamagedLogError(RunlakeError):
    """Stored data contradicts itself: a gap, an overlap, or metadata that does not fit the bytes."""


class LeaseError(RunlakeError):
    """A lease is not valid, or no longer: stop the work under it."""


class PartitionNotFoundError(LeaseError):
    """The partition does not exist: it was removed, or its time to live ended."""


class PartitionNotOwnedError(LeaseError):
    """Another worker owns the partition, or the lease was not renewed in time. Earlier writes under the lease still count."""


class PartitionUpdateError(LeaseError):
    """This worker still owns the partition, and the store rejected the update: the state is too large, or the item keeps changing."""


class NotInitializedError(RunlakeError):
    """A coordinator that was not initialized, or was shut down."""


class DamagedPartitionError(RunlakeError):
    """An item of coordination that cannot be read: an attribute is missing or malformed."""
