"""Who may open a dashboard's WebSocket: no page of another site, and nobody without a ticket."""

from queen import errors
from queen.server.auth.permissions import ANYBODY, Caller, Permission
from queen.server.http.call import Call


async def admit(call: Call, ticket: str | None) -> Caller:
    """Who a ticket stands for; without authentication anybody, as everywhere."""
    gate = call.state.gate
    if gate.is_open:
        caller = ANYBODY
    elif ticket is None:
        raise errors.Unauthorized("a dashboard needs a ticket: POST /api/v1/auth/ticket")
    else:
        caller = await gate.take_ticket(ticket)
    caller.require(Permission.BROWSE)
    return caller


def check_origin(call: Call) -> None:
    """Raise OriginRefused when a browser opens this from the page of another site."""
    scheme = {"ws": "http", "wss": "https"}[call.scope["scheme"]]
    call.state.origins.check(call.header, scheme, is_page=False)
