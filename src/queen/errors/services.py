"""Errors that may go away: the same request can succeed later."""

from queen.errors.base import OutcomeUnknown, ServiceError, TransportError


class RequestTimeout(ServiceError):
    """The client took too long to send the request."""

    code = "request_timeout"
    http_status = 408
    default_message = "The client took too long to send the request."


class QueueFull(ServiceError):
    """The slowest consumer group has as many unacknowledged messages as maxSize allows."""

    code = "queue_full"
    http_status = 429
    default_message = (
        "The queue is full: its slowest consumer group has as many unacknowledged messages as "
        "maxSize allows."
    )


class TooManyWaiters(ServiceError):
    """This process has reached its limit of waiting pops."""

    code = "too_many_waiters"
    http_status = 429
    default_message = "This process has reached its limit of waiting pops."


class TooManyBytes(ServiceError):
    """Requests in progress, or responses not read yet, use all the memory they may."""

    code = "too_many_bytes"
    http_status = 429
    default_message = (
        "Requests in progress, or responses not read yet, use all the memory they may."
    )


class RateLimited(ServiceError):
    """The API key's request rate is exceeded, or the address has too many connections."""

    code = "rate_limited"
    http_status = 429
    default_message = (
        "The API key's request rate is exceeded, or the address has too many connections."
    )


class Overloaded(ServiceError):
    """This process has reached its limit of work, or waited too long for a lock."""

    sqlstates = ("55P03", "57014", "40001", "40P01")
    default_message = "This process has reached its limit of work, or waited too long for a lock."


class Draining(ServiceError):
    """This process is shutting down and accepts no new work."""

    code = "draining"
    default_message = "This process is shutting down and accepts no new work."


class DatabaseUnavailable(ServiceError):
    """The database is unavailable, or its disk is full. The request was not applied."""

    code = "database_unavailable"
    sqlstates = ("53", "57P03", "25006")
    default_message = "The database is unavailable, or its disk is full."


class EncryptionUnavailable(ServiceError):
    """The server lacks the encryption key of a queue, or a payload fails authentication."""

    code = "encryption_unavailable"
    sqlstates = ("QN017",)
    default_message = (
        "The server lacks the encryption key of a queue, or a payload fails authentication."
    )


class MessagesDamaged(ServiceError):
    """Stored messages cannot be decoded. They are set aside, and all others are delivered."""

    code = "messages_damaged"
    default_message = (
        "Stored messages cannot be decoded. They are set aside, and all others are delivered."
    )


class DatabaseUnsafe(ServiceError):
    """The database could lose committed data, because fsync or full_page_writes is off."""

    code = "database_unavailable"
    default_message = (
        "The database could lose committed data, because fsync or full_page_writes is off."
    )


class BufferFull(ServiceError):
    """The client-side buffer is full, and the push was not allowed to wait."""

    code = "buffer_full"
    default_message = "The client-side buffer is full."


class ServerUnreachable(ServiceError, TransportError):
    """The client could not connect to any server. The request was not sent."""

    code = "server_unreachable"
    default_message = "The client could not connect to any server."


class ConnectionLost(OutcomeUnknown, TransportError):
    """The request was sent and no response arrived, so it may have been applied."""

    code = "connection_lost"
    sqlstates = ()
    default_message = "The request was sent and no response arrived. It may have been applied."
