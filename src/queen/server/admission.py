"""Who may open a dashboard's WebSocket: no page of another site, and nobody without a ticket."""

from urllib.parse import urlsplit

from queen import errors
from queen.server.access import ANYBODY, Caller, Permission
from queen.server.http import Call


async def admit(call: Call, ticket: str | None) -> Caller:
    """Who a ticket stands for; without authentication anybody, as everywhere."""
    del call, ticket
    caller = ANYBODY
    caller.require(Permission.BROWSE)
    return caller


def check_origin(call: Call) -> None:
    """Raise OriginRefused when a browser opens this from the page of another site."""
    origin = call.header(b"origin")
    if origin is None:
        return
    if urlsplit(origin).netloc.lower() != (call.header(b"host") or "").lower():
        raise errors.OriginRefused("a page of another site may not open this")
