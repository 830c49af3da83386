"""Errors that the caller must fix. The request was not applied."""

from queen.errors.base import RequestError


class BadRequest(RequestError):
    """The request is malformed."""

    default_message = "The request is malformed."
    remedy = "Correct the field or parameter that the message names."


class InvalidName(RequestError):
    """A name is too long or has characters that are not allowed."""

    code = "invalid_name"
    sqlstates = ("QN015",)
    default_message = "A name is too long or has characters that are not allowed."
    remedy = (
        "Choose a name without control characters, at most 255 bytes long (512 for a partition). "
        "Names of queues and groups must not begin with two underscores."
    )


class InvalidOption(RequestError):
    """The queue option does not exist, or its value is not valid."""

    code = "invalid_option"
    sqlstates = ("QN006", "23514", "23502")
    default_message = "The queue option does not exist, or its value is not valid."
    remedy = (
        "Correct the option that the message names. `queen queue show` prints the options of a "
        "queue."
    )


class InvalidItem(RequestError):
    """One item of a push cannot be stored."""

    code = "invalid_item"
    http_status = 422
    sqlstates = ("QN014",)
    default_message = "One item of the push cannot be stored."
    remedy = "Correct the item that the message names, and push it again."


class InvalidStatus(RequestError):
    """The status of an acknowledgment is not completed, failed, retry or dlq."""

    code = "invalid_status"
    default_message = "The status of an acknowledgment must be completed, failed, retry or dlq."
    remedy = "Send the status completed, failed, retry or dlq."


class InvalidWorkflow(RequestError):
    """The steps do not form a workflow that can run. The text names the step and the reason."""

    code = "invalid_workflow"
    http_status = 422
    default_message = "The steps do not form a workflow that can run."
    remedy = "Correct the step that the message names."


class SchemaViolation(RequestError):
    """The payload does not match the queue's JSON Schema."""

    code = "schema_violation"
    http_status = 422
    default_message = "The payload does not match the queue's JSON Schema."
    remedy = "Correct the payload, or change the queue's schema."


class CrossShard(RequestError):
    """The transaction spans several databases."""

    code = "cross_shard"
    http_status = 422
    default_message = (
        "The transaction spans several databases. Everything in one transaction must be in "
        "the same one."
    )
    remedy = (
        "Use only messages, leases and partitions of one database in a transaction. Pushes can be "
        'sent to others with acrossShards "outbox".'
    )


class PayloadTooLarge(RequestError):
    """A payload is larger than the queue or the server allows."""

    code = "payload_too_large"
    http_status = 413
    default_message = "A payload is larger than the queue or the server allows."
    remedy = (
        "Store the data elsewhere and push a reference to it, or raise the queue's maxPayloadBytes "
        "or QUEEN_MAX_PAYLOAD_BYTES."
    )


class TooManyItems(RequestError):
    """The request has more items than one request may have."""

    code = "too_many_items"
    http_status = 413
    default_message = "The request has more items than one request may have. Split it."
    remedy = "Split the request, or raise QUEEN_MAX_ITEMS."


class NotFound(RequestError):
    """The resource does not exist, such as an API key, an operation or a dead letter."""

    code = "not_found"
    http_status = 404
    default_message = "The resource does not exist."
    remedy = "Check the id. The resource may have been deleted."


class QueueNotFound(NotFound):
    """The queue does not exist."""

    code = "queue_not_found"
    sqlstates = ("QN001",)
    default_message = "The queue does not exist."
    remedy = "Check the name with `queen queue ls`. The first push creates a queue."


class PartitionNotFound(NotFound):
    """The partition does not exist, or it was removed."""

    code = "partition_not_found"
    sqlstates = ("QN004",)
    default_message = "The partition does not exist, or it was removed."
    remedy = "Check the name with `queen partition ls`. The first push creates a partition."


class GroupNotFound(NotFound):
    """The queue has no consumer group with this name."""

    code = "group_not_found"
    sqlstates = ("QN003",)
    default_message = "The queue has no consumer group with this name."
    remedy = "Check the name with `queen group ls`. The first pop creates a group."


class MessageNotFound(NotFound):
    """The message does not exist, or it is not leased by this group."""

    code = "message_not_found"
    default_message = "The message does not exist, or it is not leased by this group."
    remedy = (
        "Check the id. If you acknowledge the message, use the group that popped it. Retention may "
        "have deleted it."
    )


class WorkflowNotFound(NotFound):
    """The workflow or the step does not exist."""

    code = "workflow_not_found"
    sqlstates = ("QN020",)
    default_message = "The workflow or the step does not exist."
    remedy = "Check the id of the workflow and the name of the step."


class Unauthorized(RequestError):
    """The request has no API key or token, or an invalid one."""

    code = "unauthorized"
    http_status = 401
    default_message = "The request has no API key or token, or an invalid one."
    remedy = (
        "Send a valid API key or token in the Authorization header. Create a key with `queen token "
        "create`."
    )


class Forbidden(RequestError):
    """The caller lacks the permission for this request."""

    code = "forbidden"
    http_status = 403
    default_message = "The caller lacks the permission for this request."
    remedy = "Use an API key or token whose role and scopes allow the request."


class Masked(Forbidden):
    """The payload is encrypted and masked, because the caller did not ask to reveal it."""

    code = "masked"
    default_message = "The payload is encrypted and masked. Ask to reveal it to read or search it."
    remedy = (
        "Repeat the request with reveal=true. That needs the permission consume, and the audit log "
        "records it."
    )


class OriginRefused(RequestError):
    """A browser sent the request from a page of another site, or to another host name."""

    code = "origin_refused"
    http_status = 403
    default_message = (
        "A browser sent the request from a page of another site, or to another host name."
    )
    remedy = (
        "Open the page under the server's own address, or add its origin to CORS_ALLOWED_ORIGINS "
        "or its host to QUEEN_ALLOWED_HOSTS."
    )


class NoSuchRoute(RequestError):
    """The path does not exist."""

    code = "no_such_route"
    http_status = 404
    default_message = "The path does not exist."
    remedy = (
        "Check the path. Routes of the API begin with /api/v1, and /api/v1/openapi.json lists them."
    )


class MethodNotAllowed(RequestError):
    """The path does not support this method."""

    code = "method_not_allowed"
    http_status = 405
    default_message = "The path does not support this method."
    remedy = "Use a method from the response's Allow header."


class UpgradeRequired(RequestError):
    """The path is a WebSocket, and the request is not a WebSocket handshake."""

    code = "upgrade_required"
    http_status = 426
    default_message = "This path is a WebSocket. Send a WebSocket handshake, version 13."
    remedy = (
        "Use a WebSocket client. If you use one, let the proxy in front of the server forward the"
        " headers Upgrade and Connection."
    )


class UnsupportedMediaType(RequestError):
    """The body is not application/json, or its content encoding is not supported."""

    code = "unsupported_media_type"
    http_status = 415
    default_message = (
        "The body must be application/json, uncompressed or with a supported content encoding."
    )
    remedy = (
        "Send the header Content-Type: application/json, and a body that is uncompressed or gzip."
    )


class HeadersTooLarge(RequestError):
    """The HTTP headers are larger than the server allows."""

    code = "headers_too_large"
    http_status = 431
    default_message = "The HTTP headers are larger than the server allows."
    remedy = "Send fewer or shorter headers, or raise QUEEN_MAX_HEADER_BYTES."


class BodyTooLarge(RequestError):
    """The body, decompressed, is larger than the server allows."""

    code = "body_too_large"
    http_status = 413
    default_message = "The body, decompressed, is larger than the server allows."
    remedy = "Split the request, or raise QUEEN_MAX_BODY_BYTES."


class BadSettings(RequestError):
    """A setting is unknown or has an invalid value, so the process does not start."""

    code = "bad_settings"
    default_message = "A setting is unknown or has an invalid value."
    is_local = True
    remedy = (
        "Correct the setting that the message names. `queen config show` prints where each value "
        "comes from."
    )
