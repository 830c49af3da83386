"""Errors of clients, jobs, workflows and pipelines. Servers do not return them."""

from typing import Any, NamedTuple

from queen.errors.base import QueenError


class UndecodablePayload(QueenError):
    """A payload does not match the consumer's type. The text names the field."""

    code = "undecodable_payload"
    applied = False
    default_message = "A payload does not match the consumer's type."


class PushError(QueenError):
    """Part of a push was not stored: see ``stored`` and ``failed``."""

    code = "push_error"
    default_message = "Part of the push was not stored."

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


class JobCancelled(QueenError):
    """The job was cancelled."""

    code = "job_cancelled"
    applied = False
    default_message = "The job was cancelled."


class WorkflowFailed(QueenError):
    """The workflow failed or was cancelled. The text gives the reason."""

    code = "workflow_failed"
    applied = False
    default_message = "The workflow failed or was cancelled."


class DataLost(QueenError):
    """Messages that a pipeline had not read yet were removed, by retention or by hand."""

    code = "data_lost"
    applied = False
    default_message = (
        "Messages that a pipeline had not read yet were removed, by retention or by hand."
    )


class LakeDiverged(QueenError):
    """The batches in the lake differ from those in the archive's ledger."""

    code = "lake_diverged"
    applied = False
    default_message = "The batches in the lake differ from those in the archive's ledger."


class Unstored(NamedTuple):
    """An item of a push that was not stored."""

    item: Any
    code: str
    error: str
