"""Errors because a queue, a message or a workflow is in another state than required."""

from queen.errors.base import RequestError


class Conflict(RequestError):
    """The request conflicts with the current state."""

    code = "conflict"
    http_status = 409
    default_message = (
        "The request conflicts with the current state. Read it again before you retry."
    )
    remedy = "Read the current state, then decide whether you still need the request."


class LeaseLost(Conflict):
    """The lease ended: its messages are acknowledged, or were or will be redelivered."""

    code = "lease_lost"
    sqlstates = ("QN002",)
    default_message = (
        "The lease ended: its messages are acknowledged, or were or will be redelivered. Stop "
        "processing them."
    )
    remedy = (
        "Stop processing these messages and don't acknowledge them again. If your handlers need "
        "more time, renew leases or raise the queue's leaseTime."
    )


class AlreadySettled(Conflict):
    """The message was acknowledged before, or it does not belong to this lease."""

    code = "already_settled"
    sqlstates = ("QN010",)
    default_message = "The message was acknowledged before, or it does not belong to this lease."
    remedy = (
        "Don't acknowledge the message again. If it was redelivered, acknowledge it under the "
        "lease of the new delivery."
    )


class AmbiguousMessage(Conflict):
    """Several leased messages have this transactionId."""

    code = "ambiguous_message"
    default_message = "Several leased messages have this transactionId. Name the partition."
    remedy = "Acknowledge the message by its id, or add its partitionId."


class Duplicate(Conflict):
    """A transactionId is already stored, and the transaction asked to roll back then."""

    code = "duplicate"
    default_message = (
        "The transaction has a transactionId that is already stored. It was rolled back as "
        "requested."
    )
    remedy = (
        "If an earlier attempt stored the message, there is nothing left to do. Otherwise choose "
        "another transactionId."
    )


class DutyLost(Conflict):
    """Another process took over this background task. Servers never return this error."""

    code = "duty_lost"
    sqlstates = ("QN016",)
    default_message = "Another process took over this background task."
    is_local = True
    remedy = "You don't need to do anything. The other process continues the task."


class QueueHeld(Conflict):
    """A hold keeps messages that the purge would delete."""

    code = "queue_held"
    default_message = "A hold keeps messages that the purge would delete. The queue is unchanged."
    remedy = (
        "Wait until the archive has copied the messages. To delete them anyway, repeat the purge "
        "with force: the archive will miss them."
    )


class SequenceReused(Conflict):
    """The producer used this sequence number for a request with other contents."""

    code = "sequence_reused"
    default_message = "The producer used this sequence number for a request with other contents."
    remedy = (
        "Use the next sequence number for a new request. Repeat a number only with the same "
        "contents."
    )


class SequenceStale(Conflict):
    """The producer already used a higher sequence number."""

    code = "sequence_stale"
    sqlstates = ("QN009",)
    default_message = "The producer already used a higher sequence number."
    remedy = (
        "Continue with a higher sequence number. If two producers share a producerId, give each "
        "its own."
    )


class SubscriptionConflict(Conflict):
    """The consumer group exists with another start position."""

    code = "subscription_conflict"
    sqlstates = ("QN005",)
    default_message = "The consumer group exists with another start position. Use seek to move it."
    remedy = "Omit subscriptionFrom, or move the group with `queen group seek`."


class VersionMismatch(Conflict):
    """The queue's configuration changed since the version that the caller read."""

    code = "version_mismatch"
    http_status = 412
    sqlstates = ("QN007",)
    default_message = (
        "The queue's configuration changed since the version that you read. Read it again."
    )
    remedy = (
        "Read the queue's configuration, apply your change to it, and send it with the new version."
    )


class NotRetryable(Conflict):
    """The message is neither waiting for a retry nor dead-lettered."""

    code = "not_retryable"
    sqlstates = ("QN022",)
    default_message = (
        "The message is neither waiting for a retry nor dead-lettered, or the workflow has "
        "not failed."
    )
    remedy = (
        "Check the state with `queen message show` or `queen job show`. Only failed messages, jobs "
        "and workflows can be retried."
    )


class WorkflowExists(Conflict):
    """Another workflow with this id exists."""

    code = "workflow_exists"
    sqlstates = ("QN021",)
    default_message = "Another workflow with this id exists."
    remedy = "Use the existing workflow, or start yours under another id."


class WorkflowRunning(Conflict):
    """The workflow is still running."""

    code = "workflow_running"
    sqlstates = ("QN023",)
    default_message = "The workflow is still running. Cancel it or wait until it ends."
    remedy = "Cancel the workflow, or wait until it ends."


class SlotBusy(Conflict):
    """The slot cannot move now, because something uses it that works only in its database."""

    code = "slot_busy"
    sqlstates = ("QN025",)
    default_message = "The slot cannot move now, because something uses it in its database."
    remedy = "End what the message names, or wait for it. The move is tried again every second."
