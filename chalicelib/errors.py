"""Every error that Runlake raises on purpose, grouped by the caller's next move.

RunlakeError
 ├─ InvalidInputError          fix the input
 │   ├─ InvalidNameError         an FQN or a run id that cannot be stored
 │   ├─ InvalidBatchError        a body that is no batch of log lines
 │   ├─ BatchTooLargeError       a body over the limit, packed or unpacked
 │   ├─ InvalidEventError        an event that lacks what is mandatory, or has what cannot be stored
 │   ├─ RequestRefusedError      another system refuses a request for what is in it
 │   ├─ InvalidMetadataError     a file's metadata document that does not hold
 │   ├─ UploadTooLargeError      a file over the limit of presigned uploads
 │   ├─ InvalidTimeError         a text or number that is no moment of the years 1 to 9999
 │   ├─ InvalidCursorError       a cursor that was not made here, or for another query
 │   ├─ TooManyNamesError        wildcards that stand for more names than one request can ask for
 │   └─ InvalidConfigurationError  a setting that cannot work
 │       └─ FormatUnavailableError   files of a format whose library is not installed here
 ├─ AccessError                show who you are, or ask for the permission
 │   ├─ UnauthenticatedError     no credentials, or invalid ones (401)
 │   │   └─ DeniedPrincipalError   valid credentials that the policy's deny list names (401)
 │   └─ ForbiddenError           a principal that may not do this (403)
 ├─ ConflictError              the state says no
 │   ├─ RunClosedError           an append to a run that was closed
 │   ├─ AttemptTakenError        the start of an attempt whose number another start has
 │   └─ NotChangeableError       a file that only its source may change, such as a run's log
 ├─ StoreConditionError        refresh and retry
 │   ├─ PreconditionFailedError  a conditional write whose condition is false (412)
 │   ├─ WriteConflictError       a conditional write that raced another one (409)
 │   ├─ ObjectNotFoundError      no such object, or no such upload (404)
 │   └─ SnapshotChangedError     objects of a run changed between two requests that belong together
 │       └─ MissingSegmentError    a segment is missing: moved by a concurrent compaction, or lost
 ├─ RangeNotSatisfiableError   a range that starts at or after the object's end (416)
 ├─ UnavailableError           retry later
 │   ├─ StoreUnavailableError    the store answered with an error, or throttled: nothing was done
 │   ├─ IdentityUnavailableError the issuer's keys or the policy cannot be read: nobody can be let in now
 │   ├─ TargetUnavailableError   another system that events go to did not take them now
 │   ├─ OutcomeUnknownError      the answer was lost: the write may have been applied
 │   └─ DeadlineExceededError    there is no time left to finish; what was begun can be repeated
 ├─ LeaseError                 stop the work: the partition is not ours, nothing more of it may be written
 │   ├─ PartitionNotFoundError   the partition is gone
 │   ├─ PartitionNotOwnedError   another has it, or the lease was not renewed in time
 │   └─ PartitionUpdateError     it is still ours, but the store does not take what is to be written
 ├─ NotInitializedError        a coordinator that was not initialized, or was shut down
 ├─ DamagedLogError            stored data contradicts itself
 └─ DamagedPartitionError      an item of coordination that cannot be read: mend it or remove it by hand
"""

from __future__ import annotations


class RunlakeError(Exception):
    """Root of the tree. The message is lowercase and ends in ``key=value`` pairs."""


class InvalidInputError(RunlakeError):
    """The caller sent something that can never work."""


class InvalidNameError(InvalidInputError):
    """An FQN or a run id that cannot be stored."""


class InvalidBatchError(InvalidInputError):
    """A body that is no batch of log lines."""


class BatchTooLargeError(InvalidInputError):
    """A body over the limit, packed or unpacked."""


class InvalidEventError(InvalidInputError):
    """An event that lacks what is mandatory, or has what cannot be stored."""


class RequestRefusedError(InvalidInputError):
    """Another system refuses a request for what is in it: nothing was taken. In parts it may be."""


class InvalidMetadataError(InvalidInputError):
    """A file's metadata document that does not hold. Nothing of the file is listed."""


class UploadTooLargeError(InvalidInputError):
    """A file over the limit of presigned uploads."""


class InvalidTimeError(InvalidInputError):
    """A text or number that is no moment of the years 1 to 9999."""


class InvalidCursorError(InvalidInputError):
    """A cursor that was not made here, or for another query."""


class TooManyNamesError(InvalidInputError):
    """Wildcards that stand for more names than one request can ask for."""


class InvalidConfigurationError(InvalidInputError):
    """A setting that cannot work. Raised at start, never while a request is served."""


class FormatUnavailableError(InvalidConfigurationError):
    """A format whose library is not installed here. Its files may be intact: read them where the library is."""


class AccessError(RunlakeError):
    """Nothing was looked at or done: whoever asks has to show who they are, or to be allowed to."""


class UnauthenticatedError(AccessError):
    """No credentials, or such as do not hold. The message never has any part of them."""


class DeniedPrincipalError(UnauthenticatedError):
    """Valid credentials of a principal, or with an id, that the policy denies. Both are for the audit line, and not in the message."""

    def __init__(self, message: str, principal: str, token_id: str) -> None:
        super().__init__(message)
        self.principal, self.token_id = principal, token_id


class ForbiddenError(AccessError):
    """A principal that may not do this. Decided by names alone, so it does not tell whether the thing exists."""


class ConflictError(RunlakeError):
    """The request is well formed, and the present state refuses it."""


class RunClosedError(ConflictError):
    """An append to a run that was closed. Nothing was stored."""


class AttemptTakenError(ConflictError):
    """The start of an attempt whose number another start has. Nothing was stored."""


class NotChangeableError(ConflictError):
    """A file that only its source may change, such as a run's log."""


class StoreConditionError(RunlakeError):
    """The store is well, and its state is not what the call assumed: look again, then decide."""


class PreconditionFailedError(StoreConditionError):
    """A conditional write whose condition is false (412). Nothing was done by this attempt."""


class WriteConflictError(StoreConditionError):
    """A conditional write that raced another one (409). Repeat a PUT; start a multipart upload over."""


class ObjectNotFoundError(StoreConditionError):
    """No such object, or no such multipart upload (404)."""


class SnapshotChangedError(StoreConditionError):
    """Objects of a run changed between two requests that belong together. Nothing was done: repeat all of them."""


class MissingSegmentError(SnapshotChangedError):
    """A segment that was listed, or whose neighbors were, is missing. A concurrent compaction moved it, or it is lost: if a repetition
    misses the same segment, it is lost (see ``conflicts.retry_on_change``)."""


class RangeNotSatisfiableError(RunlakeError):
    """A range that starts at or after the object's end (416)."""


class UnavailableError(RunlakeError):
    """Trouble of ours, not of the caller: the same call can succeed later."""


class StoreUnavailableError(UnavailableError):
    """The store answered with an error, or throttled: nothing was done."""


class RewrittenError(StoreUnavailableError):
    """An object became another one while it was read: what it is now can be read at once."""


class IdentityUnavailableError(UnavailableError):
    """The issuer's keys or the policy cannot be read, and what was read before is too old: nobody can be let in now."""


class TargetUnavailableError(UnavailableError):
    """Another system that events go to did not take them now. ``retry_after_s``: how long it asks to be left alone."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class OutcomeUnknownError(UnavailableError):
    """The answer was lost: the write may or may not have been applied. Every write here can be repeated."""


class DeadlineExceededError(UnavailableError):
    """There is no time left to finish. What was begun is repeatable and goes on next time."""


class DamagedLogError(RunlakeError):
    """Stored data contradicts itself: a gap, an overlap, or metadata that does not fit the bytes."""


class LeaseError(RunlakeError):
    """A lease does not hold (any more): stop the work that was done under it."""


class PartitionNotFoundError(LeaseError):
    """No such partition: it was removed, or its time to live ended."""


class PartitionNotOwnedError(LeaseError):
    """The partition is another's, or the lease was not renewed in time. What was written under it before still counts."""


class PartitionUpdateError(LeaseError):
    """The partition is still ours, and the update was refused: its state is too large, or somebody keeps changing the item."""


class NotInitializedError(RunlakeError):
    """A coordinator that was not initialized, or was shut down."""


class DamagedPartitionError(RunlakeError):
    """An item of coordination that cannot be read: an attribute is missing or of another form."""
