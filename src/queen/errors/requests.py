"""Errors that the caller must fix. The request was not applied."""

from queen.errors.base import RequestError


class BadRequest(RequestError):
    """The request is malformed."""

    default_message = "The request is malformed."


class InvalidName(RequestError):
    """A name is too long or has characters that are not allowed."""

    code = "invalid_name"
    sqlstates = ("QN015",)
    default_message = "A name is too long or has characters that are not allowed."


class InvalidOption(RequestError):
    """The queue option does not exist, or its value is not valid."""

    code = "invalid_option"
    sqlstates = ("QN006", "23514", "23502")
    default_message = "The queue option does not exist, or its value is not valid."


class InvalidItem(RequestError):
    """One item of a push cannot be stored."""

    code = "invalid_item"
    http_status = 422
    sqlstates = ("QN014",)
    default_message = "One item of the push cannot be stored."


class InvalidStatus(RequestError):
    """The status of an acknowledgment is not completed, failed, retry or dlq."""

    code = "invalid_status"
    default_message = "The status of an acknowledgment must be completed, failed, retry or dlq."


class InvalidWorkflow(RequestError):
    """The steps do not form a workflow that can run. The text names the step and the reason."""

    code = "invalid_workflow"
    http_status = 422
    default_message = "The steps do not form a workflow that can run."


class SchemaViolation(RequestError):
    """The payload does not match the queue's JSON Schema."""

    code = "schema_violation"
    http_status = 422
    default_message = "The payload does not match the queue's JSON Schema."


class CrossShard(RequestError):
    """The transaction spans several databases."""

    code = "cross_shard"
    http_status = 422
    default_message = (
        "The transaction spans several databases. Everything in one transaction must be in "
        "the same one."
    )


class PayloadTooLarge(RequestError):
    """A payload is larger than the queue or the server allows."""

    code = "payload_too_large"
    http_status = 413
    default_message = "A payload is larger than the queue or the server allows."


class TooManyItems(RequestError):
    """The request has more items than one request may have."""

    code = "too_many_items"
    http_status = 413
    default_message = "The request has more items than one request may have. Split it."


class NotFound(RequestError):
    """The resource does not exist, such as an API key, an operation or a dead letter."""

    code = "not_found"
    http_status = 404
    default_message = "The resource does not exist."


class QueueNotFound(NotFound):
    """The queue does not exist."""

    code = "queue_not_found"
    sqlstates = ("QN001",)
    default_message = "The queue does not exist."


class PartitionNotFound(NotFound):
    """The partition does not exist, or it was removed."""

    code = "partition_not_found"
    sqlstates = ("QN004",)
    default_message = "The partition does not exist, or it was removed."


class GroupNotFound(NotFound):
    """The queue has no consumer group with this name."""

    code = "group_not_found"
    sqlstates = ("QN003",)
    default_message = "The queue has no consumer group with this name."


class MessageNotFound(NotFound):
    """The message does not exist, or it is not leased by this group."""

    code = "message_not_found"
    default_message = "The message does not exist, or it is not leased by this group."


class WorkflowNotFound(NotFound):
    """The workflow or the step does not exist."""

    code = "workflow_not_found"
    sqlstates = ("QN020",)
    default_message = "The workflow or the step does not exist."


class Unauthorized(RequestError):
    """The request has no API key or token, or an invalid one."""

    code = "unauthorized"
    http_status = 401
    default_message = "The request has no API key or token, or an invalid one."


class Forbidden(RequestError):
    """The caller lacks the permission for this request."""

    code = "forbidden"
    http_status = 403
    default_message = "The caller lacks the permission for this request."


class Masked(Forbidden):
    """The payload is encrypted and masked, because the caller did not ask to reveal it."""

    code = "masked"
    default_message = "The payload is encrypted and masked. Ask to reveal it to read or search it."


class OriginRefused(RequestError):
    """A browser sent the request from a page of another site, or to another host name."""

    code = "origin_refused"
    http_status = 403
    default_message = (
        "A browser sent the request from a page of another site, or to another host name."
    )


class NoSuchRoute(RequestError):
    """The path does not exist."""

    code = "no_such_route"
    http_status = 404
    default_message = "The path does not exist."


class MethodNotAllowed(RequestError):
    """The path does not support this method."""

    code = "method_not_allowed"
    http_status = 405
    default_message = "The path does not support this method."


class UnsupportedMediaType(RequestError):
    """The body is not application/json, or its content encoding is not supported."""

    code = "unsupported_media_type"
    http_status = 415
    default_message = (
        "The body must be application/json, uncompressed or with a supported content encoding."
    )


class HeadersTooLarge(RequestError):
    """The HTTP headers are larger than the server allows."""

    code = "headers_too_large"
    http_status = 431
    default_message = "The HTTP headers are larger than the server allows."


class BodyTooLarge(RequestError):
    """The body, decompressed, is larger than the server allows."""

    code = "body_too_large"
    http_status = 413
    default_message = "The body, decompressed, is larger than the server allows."


class BadSettings(RequestError):
    """A setting is unknown or has an invalid value, so the process does not start."""

    code = "bad_settings"
    default_message = "A setting is unknown or has an invalid value."
