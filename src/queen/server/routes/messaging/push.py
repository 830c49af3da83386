"""Push: messages are durable before the response."""

from typing import Final

import msgspec

from queen import errors
from queen.engine.push.producers import digest_of
from queen.server.auth.permissions import Permission
from queen.server.http import message_json
from queen.server.http.answer import Answer
from queen.server.http.call import Call, new_routes, trace_of
from queen.server.middleware import tracing
from queen.settings import Settings
from queen.wire.messages import Pushed, PushItem, PushRequest, PushResponse

REFUSED_ITEM: Final = (
    errors.InvalidItem,
    errors.InvalidName,
    errors.PayloadTooLarge,
    errors.TooManyItems,
    errors.QueueFull,
    errors.QueueNotFound,
    errors.SchemaViolation,
    errors.SequenceReused,
    errors.SequenceStale,
)

ROUTES, route = new_routes()


@route(
    "POST /api/v1/push",
    "Push messages",
    Permission.PRODUCE,
    {201: PushResponse, 202: PushResponse},
    span="send",
    body=PushRequest,
    problems=REFUSED_ITEM,
)
async def push(call: Call) -> Answer:
    """Store messages durably before the response: in the database, or on disk in an outage."""
    return await store(call, await call.body(PushRequest))


async def store(call: Call, request: PushRequest) -> Answer:
    """Store the messages of a decoded request."""
    call.caller.require(Permission.PRODUCE)  # The route of a stream has no permission.
    if call.caller.scopes is not None:
        await call.require_queues(Permission.PRODUCE, {item.queue for item in request.items})
    tracing.describe_push(call.span, request.items)
    items = with_trace(call, request.items)
    result = await call.state.cluster.push(
        items,
        producer_id=request.producer_id,
        sequence=request.sequence,
        scope=call.caller.producer_scope,
        # Without the trace of this attempt, which differs in a repetition.
        digest=None if request.producer_id is None else digest_of(request.items),
        is_json=True,
    )
    body = message_json.pushed(result)
    if (refusal := result.first_refused) is not None:
        raise _first_problem(refusal, body)
    return Answer(body, status=202 if result.is_buffered else 201)


def with_trace(call: Call, items: list[PushItem]) -> list[PushItem]:
    """
    Add the trace id of the request's ``traceparent`` to items without one.

    The header is also added to each message, so that its consumer continues the trace.
    """
    parent = tracing.parent_of(call)
    trace_id = parent and trace_of(parent)
    if parent is None or trace_id is None:
        return items
    return [
        msgspec.structs.replace(
            item,
            trace_id=item.trace_id or trace_id,
            headers=_with_parent(item.headers or {}, parent, call.state.settings),
        )
        for item in items
    ]


def _with_parent(headers: dict[str, str], parent: str, settings: Settings) -> dict[str, str]:
    """Add the trace header, unless there is one already or no room for it."""
    # Joined first, because this is fast even for ten thousand items.
    size_bytes = len("".join([*headers, *headers.values()]).encode("utf-8", "replace"))
    has_room = (
        len(headers) < settings.max_message_headers
        and size_bytes + len("traceparent") + len(parent) <= settings.max_message_header_bytes
    )
    return {"traceparent": parent, **headers} if has_room else headers


def _first_problem(refusal: Pushed, body: bytes) -> errors.QueenError:
    error = errors.of_code(refusal.code or "") or errors.InvalidItem
    raws = msgspec.json.decode(body, type=dict[str, list[msgspec.Raw]])
    return error(refusal.error, messages=raws["messages"])
