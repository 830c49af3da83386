"""Admit a WebSocket: it needs a ticket, and must not come from a page of another site."""

from queen import errors
from queen.server.auth.origins import Origins
from queen.server.auth.permissions import ANYBODY, Caller, Permission
from queen.server.http.call import Call


async def admit(call: Call, ticket: str | None) -> Caller:
    """Return the caller of a ticket; without authentication, any caller."""
    authenticator = call.state.authenticator
    if authenticator.is_open:
        caller = ANYBODY
    elif ticket is None:
        raise errors.Unauthorized(
            "a dashboard needs a ticket. Create one with POST /api/v1/auth/ticket."
        )
    else:
        caller = await authenticator.take_ticket(ticket)
    caller.require(Permission.BROWSE)
    return caller


def check_origin(call: Call, origins: Origins) -> None:
    """Raise OriginRefused if a page of another site opens the WebSocket."""
    scheme = {"ws": "http", "wss": "https"}[call.head.scheme]
    origins.check(call.header, scheme, is_page=False)
