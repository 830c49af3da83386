"""API keys, the current caller, and the audit log."""

from collections.abc import AsyncIterator
from typing import Any

from queen.client.admin.base import Calls, name_of
from queen.wire import access as wire


class Access(Calls):
    """The access control of `queen.admin`."""

    async def me(self) -> wire.Me:
        """Return the identity of this client and its permissions."""
        return await self._get("/auth/me", wire.Me)

    async def ticket(self) -> wire.Ticket:
        """Create a one-time ticket for a WebSocket."""
        return await self._send("POST", "/auth/ticket", None, wire.Ticket)

    def tokens(self, **filters: Any) -> AsyncIterator[wire.Token]:  # noqa: ANN401
        """Iterate over API keys, without their secrets."""
        return self._pages("/tokens", wire.TokenList, "tokens", filters)

    async def create_token(self, **request: Any) -> wire.NewToken:  # noqa: ANN401 - of TokenRequest
        """Create an API key. Only this response contains its secret."""
        body = wire.TokenRequest(**request)
        return await self._send("POST", "/tokens", body, wire.NewToken)

    async def change_token(self, id_: str, **request: Any) -> wire.Token:  # noqa: ANN401 - of TokenRequest
        """Replace everything about an API key except its secret."""
        body = wire.TokenRequest(**request)
        return await self._send("POST", f"/tokens/{name_of(id_)}", body, wire.Token)

    async def rotate_token(self, id_: str, **request: Any) -> wire.NewToken:  # noqa: ANN401
        """Replace the secret of an API key. The old one stays valid for ``grace_seconds``."""
        body = wire.RotateRequest(**request)
        return await self._send("POST", f"/tokens/{name_of(id_)}/rotate", body, wire.NewToken)

    async def revoke_token(self, id_: str) -> wire.Revoked:
        """Revoke an API key. Servers reject it within a second."""
        return await self._send("DELETE", f"/tokens/{name_of(id_)}", None, wire.Revoked)

    def audit(self, **filters: Any) -> AsyncIterator[wire.AuditEntry]:  # noqa: ANN401
        """Iterate over the audit log, newest first."""
        return self._pages("/audit", wire.AuditPage, "records", filters)
