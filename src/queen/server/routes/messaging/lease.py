"""Extend, acknowledge or release a lease."""

from queen import errors
from queen.server.auth.permissions import Permission
from queen.server.http.answer import Answer
from queen.server.http.call import Call, new_routes
from queen.server.middleware import tracing
from queen.server.routes.messaging.ack import refusal_of
from queen.wire.messages import (
    Completed,
    Extended,
    ExtendManyRequest,
    ExtendManyResponse,
    ExtendRequest,
    Released,
)

ROUTES, route = new_routes()


@route(
    "POST /api/v1/lease/{leaseId}/extend",
    "Extend a lease",
    Permission.CONSUME,
    {200: Extended},
    span="settle",
    body=ExtendRequest,
    problems=(errors.LeaseLost,),
)
async def extend(call: Call) -> Answer:
    """Extend a lease. This never shortens it."""
    request = await call.body(ExtendRequest)
    lease_id = call.parameters["leaseId"]
    await call.require_leases([lease_id])
    (result,) = await call.state.cluster.extend_many([lease_id], seconds=request.seconds)
    if result.code is not None:
        raise refusal_of(result)
    return Answer(result)


@route(
    "POST /api/v1/lease/extend",
    "Extend several leases",
    Permission.CONSUME,
    {200: ExtendManyResponse},
    span="settle",
    body=ExtendManyRequest,
    problems=(errors.TooManyItems,),
)
async def extend_many(call: Call) -> Answer:
    """Extend several leases. A lost lease does not affect the others."""
    return await extend_leases(call, await call.body(ExtendManyRequest))


async def extend_leases(call: Call, request: ExtendManyRequest) -> Answer:
    """Extend the leases of a decoded request."""
    if not request.lease_ids:
        raise errors.BadRequest("the request has no leases")
    await call.require_leases(request.lease_ids)
    results = await call.state.cluster.extend_many(request.lease_ids, seconds=request.seconds)
    return Answer(ExtendManyResponse(results=results))


@route(
    "POST /api/v1/lease/{leaseId}/ack",
    "Acknowledge a delivery",
    Permission.CONSUME,
    {200: Completed},
    span="settle",
    problems=(errors.LeaseLost,),
)
async def complete(call: Call) -> Answer:
    """Acknowledge the remaining messages of a delivery as completed."""
    return await complete_lease(call, call.parameters["leaseId"])


async def complete_lease(call: Call, lease_id: str) -> Answer:
    """Acknowledge the rest of a delivery."""
    await call.require_leases([lease_id])
    settled = await call.state.cluster.ack(lease_id)
    tracing.describe_settle(call.span, settled, None)
    return Answer(Completed(lease_id=lease_id, settled=settled))


@route(
    "POST /api/v1/lease/{leaseId}/release",
    "Release a delivery",
    Permission.CONSUME,
    {200: Released},
    span="settle",
    problems=(errors.LeaseLost,),
)
async def release(call: Call) -> Answer:
    """Return the rest of a delivery to the queue immediately, without counting an attempt."""
    return await release_lease(call, call.parameters["leaseId"])


async def release_lease(call: Call, lease_id: str) -> Answer:
    """Return the rest of a delivery to the queue."""
    await call.require_leases([lease_id])
    await call.state.cluster.release(lease_id)
    return Answer(Released(lease_id=lease_id))
