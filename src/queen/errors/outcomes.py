"""Errors of clients, jobs, workflows and pipelines. Servers do not return them."""

from typing import Any, NamedTuple

from queen.errors.base import QueenError


class UndecodablePayload(QueenError):
    """A payload does not match the consumer's type. The text names the field."""

    code = "undecodable_payload"
    applied = False
    default_message = "A payload does not match the consumer's type."
    is_local = True
    remedy = (
        "Correct the consumer's type or the producer. Handlers dead-letter such messages: redrive "
        "them with `queen dlq redrive` after the fix."
    )


class PushError(QueenError):
    """Part of a push was not stored: see ``stored`` and ``failed``."""

    code = "push_error"
    default_message = "Part of the push was not stored."
    is_local = True
    remedy = "Push the items in failed again. The items in stored are durable."

    @property
    def stored(self) -> list[Any]:
        """The results of the items that are durable."""
        return self.members["stored"]

    @property
    def failed(self) -> "list[Unstored]":
        """Each item that is not durable, with the reason."""
        return self.members["failed"]


class JobFailed(QueenError):
    """The job failed for good. The text is its last error."""

    code = "job_failed"
    applied = False
    default_message = "The job failed for good."
    is_local = True
    remedy = (
        "Fix the cause, then run the job again with handle.retry(). `queen job show` prints the "
        "error."
    )


class JobCancelled(QueenError):
    """The job was cancelled."""

    code = "job_cancelled"
    applied = False
    default_message = "The job was cancelled."
    is_local = True
    remedy = "Add the job again if you still need it."


class WorkflowFailed(QueenError):
    """The workflow failed or was cancelled. The text gives the reason."""

    code = "workflow_failed"
    applied = False
    default_message = "The workflow failed or was cancelled."
    is_local = True
    remedy = "Fix the cause, then run the failed steps again with handle.retry()."


class DataLost(QueenError):
    """Messages that a pipeline had not read yet were removed, by retention or by hand."""

    code = "data_lost"
    applied = False
    default_message = (
        "Messages that a pipeline had not read yet were removed, by retention or by hand."
    )
    is_local = True
    remedy = (
        "Keep messages longer or hold them until they are read, or continue without them with "
        "failOnDataLoss=false."
    )


class LakeDiverged(QueenError):
    """The batches in the lake differ from those in the archive's ledger."""

    code = "lake_diverged"
    applied = False
    default_message = "The batches in the lake differ from those in the archive's ledger."
    is_local = True
    remedy = (
        "Archive under another name into another directory, and keep the old table. The hold keeps "
        "messages that are not archived."
    )


class LakeUnavailable(QueenError):
    """The lake can't be opened, read or written. The text names the location and the cause."""

    code = "lake_unavailable"
    applied = False
    default_message = "The lake can't be opened, read or written."
    is_local = True
    remedy = (
        "Check the location, the permissions and the credentials, then run the pipeline again. "
        "Until the first batch is in the lake, you can change the location."
    )


class Unstored(NamedTuple):
    """An item of a push that was not stored."""

    item: Any
    code: str
    error: str
