"""Extend, acknowledge or release a lease."""

from typing import Final

from queen import errors
from queen.server.auth.permissions import Permission
from queen.server.http.answer import Answer
from queen.server.http.call import API, Call, Route
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


async def extend(call: Call) -> Answer:
    """Extend a lease. This never shortens it."""
    request = await call.body(ExtendRequest)
    lease_id = call.parameters["leaseId"]
    await call.require_leases([lease_id])
    (result,) = await call.state.engine.extend_many([lease_id], seconds=request.seconds)
    if result.code is not None:
        raise refusal_of(result)
    return Answer(result)


async def extend_many(call: Call) -> Answer:
    """Extend several leases."""
    request = await call.body(ExtendManyRequest)
    if not request.lease_ids:
        raise errors.BadRequest("the request has no leases")
    await call.require_leases(request.lease_ids)
    results = await call.state.engine.extend_many(request.lease_ids, seconds=request.seconds)
    return Answer(ExtendManyResponse(results=results))


async def complete(call: Call) -> Answer:
    """Acknowledge the remaining messages of a delivery as completed."""
    lease_id = call.parameters["leaseId"]
    await call.require_leases([lease_id])
    settled = await call.state.engine.ack(lease_id)
    tracing.describe_settle(call.span, settled, None)
    return Answer(Completed(lease_id=lease_id, settled=settled))


async def release(call: Call) -> Answer:
    """Return the rest of a delivery to the queue immediately, without counting an attempt."""
    lease_id = call.parameters["leaseId"]
    await call.require_leases([lease_id])
    await call.state.engine.release(lease_id)
    return Answer(Released(lease_id=lease_id))


ROUTES: Final = (
    Route(
        method="POST",
        path=f"{API}/lease/{{leaseId}}/extend",
        handler=extend,
        summary="Extend a lease",
        permission=Permission.CONSUME,
        span="settle",
        body=ExtendRequest,
        answers={200: Extended},
        problems=(errors.LeaseLost,),
    ),
    Route(
        method="POST",
        path=f"{API}/lease/extend",
        handler=extend_many,
        summary="Extend several leases",
        permission=Permission.CONSUME,
        span="settle",
        body=ExtendManyRequest,
        answers={200: ExtendManyResponse},
        problems=(errors.TooManyItems,),
    ),
    Route(
        method="POST",
        path=f"{API}/lease/{{leaseId}}/ack",
        handler=complete,
        summary="Acknowledge a delivery",
        permission=Permission.CONSUME,
        span="settle",
        answers={200: Completed},
        problems=(errors.LeaseLost,),
    ),
    Route(
        method="POST",
        path=f"{API}/lease/{{leaseId}}/release",
        handler=release,
        summary="Release a delivery",
        permission=Permission.CONSUME,
        span="settle",
        answers={200: Released},
        problems=(errors.LeaseLost,),
    ),
)
