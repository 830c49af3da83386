"""Errors that may go away: the same request can succeed later."""

from queen.errors.base import OutcomeUnknown, ServiceError, TransportError


class RequestTimeout(ServiceError):
    """The client took too long to send the request."""

    code = "request_timeout"
    http_status = 408
    default_message = "The client took too long to send the request."
    remedy = "Send the request again, and send headers and body without long pauses."


class QueueFull(ServiceError):
    """The slowest consumer group has as many unacknowledged messages as maxSize allows."""

    code = "queue_full"
    http_status = 429
    default_message = (
        "The queue is full: its slowest consumer group has as many unacknowledged messages as "
        "maxSize allows."
    )
    remedy = "Push again later. If it lasts, add consumers, or raise the queue's maxSize."


class TooManyWaiters(ServiceError):
    """This process has reached its limit of waiting pops."""

    code = "too_many_waiters"
    http_status = 429
    default_message = "This process has reached its limit of waiting pops."
    remedy = (
        "Pop again after a pause, or on another server. If it lasts, add servers or raise "
        "QUEEN_MAX_WAITERS."
    )


class TooManyBytes(ServiceError):
    """Requests in progress, or responses not read yet, use all the memory they may."""

    code = "too_many_bytes"
    http_status = 429
    default_message = (
        "Requests in progress, or responses not read yet, use all the memory they may."
    )
    remedy = (
        "Send the request again after a pause. If it lasts, send smaller batches, read responses "
        "faster, or add servers."
    )


class RateLimited(ServiceError):
    """The API key's request rate is exceeded, or the address has too many connections."""

    code = "rate_limited"
    http_status = 429
    default_message = (
        "The API key's request rate is exceeded, or the address has too many connections."
    )
    remedy = (
        "Send the request again after the seconds in Retry-After. If it lasts, send larger batches "
        "over fewer connections."
    )


class Overloaded(ServiceError):
    """This process has reached its limit of work, or waited too long for a lock."""

    sqlstates = ("55P03", "57014", "40001", "40P01")
    default_message = "This process has reached its limit of work, or waited too long for a lock."
    remedy = (
        "Send the request again after a pause. If it lasts, run `queen doctor` and add servers."
    )


class Draining(ServiceError):
    """This process is shutting down and accepts no new work."""

    code = "draining"
    default_message = "This process is shutting down and accepts no new work."
    remedy = "Send the request to another server, or again after this one has restarted."


class DatabaseUnavailable(ServiceError):
    """The database is unavailable, or its disk is full. The request was not applied."""

    code = "database_unavailable"
    sqlstates = ("53", "57P03", "25006")
    default_message = "The database is unavailable, or its disk is full."
    remedy = (
        "Send the request again after a pause. If it lasts, run `queen doctor`, and check "
        "PostgreSQL and its disk."
    )


class SlotMoved(ServiceError):
    """The queue has moved to another database. The request was not applied."""

    code = "slot_moved"
    sqlstates = ("QN018",)
    slots: frozenset[int] = frozenset()
    """The slots of the request that have moved. Empty if they are unknown."""
    default_message = "The queue has moved to another database. The request was not applied."
    remedy = (
        "Send the request again. If it lasts, run `queen doctor`, and check that all servers are "
        "connected to the same databases."
    )


class EncryptionUnavailable(ServiceError):
    """The server lacks the encryption key of a queue, or a payload fails authentication."""

    code = "encryption_unavailable"
    sqlstates = ("QN017",)
    default_message = (
        "The server lacks the encryption key of a queue, or a payload fails authentication."
    )
    remedy = (
        "Retries fail until an operator gives the server the missing master key. `queen key "
        "status` lists the keys that the data needs."
    )


class MessagesDamaged(ServiceError):
    """Stored messages cannot be decoded. They are set aside, and all others are delivered."""

    code = "messages_damaged"
    default_message = (
        "Stored messages cannot be decoded. They are set aside, and all others are delivered."
    )
    remedy = (
        "An operator must restore the damaged segment, or move the group past it with `queen group "
        "seek`. The log names the offsets."
    )


class DatabaseUnsafe(ServiceError):
    """The database cannot be used safely: its settings, its version or its schema are wrong."""

    code = "database_unavailable"
    sqlstates = ("QN024",)
    default_message = (
        "The database cannot be used safely, because of its settings, its version or its schema."
    )
    remedy = "Correct the database as the message describes. The server does not use it before."


class BufferFull(ServiceError):
    """The client-side buffer is full, and the push was not allowed to wait."""

    code = "buffer_full"
    default_message = "The client-side buffer is full."
    is_local = True
    remedy = "Wait until the buffer is flushed, raise its limit, or configure pushes to wait."


class ServerUnreachable(ServiceError, TransportError):
    """The client could not connect to any server. The request was not sent."""

    code = "server_unreachable"
    default_message = "The client could not connect to any server."
    is_local = True
    remedy = "Check the URL and the network. `queen health` shows whether the server runs."


class ConnectionLost(OutcomeUnknown, TransportError):
    """The request was sent and no response arrived, so it may have been applied."""

    code = "connection_lost"
    sqlstates = ()
    default_message = "The request was sent and no response arrived. It may have been applied."
    is_local = True
    remedy = (
        "Send it again only if it is idempotent, such as a push with a transactionId. Otherwise "
        "check first whether it was applied."
    )
