"""Bodies of API keys, tickets and the audit log."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from queen.redacted import redacted
from queen.wire.messages import Request, Wire

PermissionName = Literal["produce", "consume", "browse", "configure", "operate", "destroy", "admin"]
RoleName = Literal["admin", "read-write", "read-only", "write-only"]
Pattern = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
"""A name in which only ``*`` is special: it matches any characters."""


class Scope(Request, frozen=True, kw_only=True, omit_defaults=True):
    """Queues by name, by namespace, or by both."""

    namespace: Pattern | None = None
    queue: Pattern | None = None

    def __post_init__(self) -> None:
        if self.namespace is None and self.queue is None:
            raise ValueError("a scope needs a queue or a namespace")


class TokenRequest(Request, frozen=True, kw_only=True):
    """A new API key: with a role or with permissions, for all queues or some."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    role: RoleName | None = None
    permissions: Annotated[list[PermissionName], msgspec.Meta(min_length=1)] | None = None
    scopes: Annotated[list[Scope], msgspec.Meta(min_length=1, max_length=100)] | None = None
    expires_at: datetime | None = None
    requests_per_second: Annotated[float, msgspec.Meta(gt=0, le=1_000_000)] | None = None

    def __post_init__(self) -> None:
        if (self.role is None) == (self.permissions is None):
            raise ValueError("a key needs a role or permissions")
        if self.expires_at is not None and self.expires_at.tzinfo is None:
            raise ValueError("expiresAt needs a time zone")
        if not self.name.isprintable():
            raise ValueError("a name must not contain control characters")


class RotateRequest(Request, frozen=True, kw_only=True):
    """How long the old secret stays valid besides the new one."""

    grace_seconds: Annotated[float, msgspec.Meta(ge=0, le=604_800)] = 0


class Token(Wire, frozen=True, kw_only=True):
    """An API key without its secret."""

    id: str
    name: str
    role: str | None
    permissions: list[str]
    scopes: list[Scope] | None
    expires_at: datetime | None
    requests_per_second: float | None
    created_at: datetime
    created_by: str
    revoked_at: datetime | None


class NewToken(Token, frozen=True, kw_only=True):
    """An API key with its secret, which only this response contains."""

    token: str

    def __repr__(self) -> str:
        return redacted(self, ("token",))


class TokenList(Wire, frozen=True, kw_only=True):
    """A page of API keys, by id."""

    tokens: list[Token]
    next_cursor: str | None


class Revoked(Wire, frozen=True, kw_only=True):
    """The API key is no longer accepted."""

    id: str
    revoked: bool = True


class Me(Wire, frozen=True, kw_only=True):
    """The caller and its permissions."""

    name: str
    kind: Literal["anonymous", "key", "jwt"]
    permissions: list[str]
    scopes: list[Scope] | None
    requests_per_second: float | None


class Ticket(Wire, frozen=True, kw_only=True):
    """A one-time ticket for a WebSocket, with its expiry."""

    ticket: str
    expires_at: datetime


class AuditRecord(Wire, frozen=True, kw_only=True):
    """An audited call: its caller, route, source and changes."""

    actor: str
    action: str
    """Method and route: ``POST /api/v1/configure``."""
    permission: str
    queue: str | None
    path: str
    source: str | None
    """The client's address."""
    request_id: str
    status: int
    before: msgspec.Raw
    after: msgspec.Raw
    revealed: list[str] | None = None
    """Ids of revealed messages; null if the call did not ask to reveal any."""
    count: int = 1
    """
    Calls that this record stands for.

    Repeated reads and rejected calls of a caller are counted, and recorded once per minute for each
    route and status. Such a record lacks ``queue`` and ``requestId``, and ``path`` is the route.
    """


class AuditEntry(Wire, frozen=True, kw_only=True):
    """A record and its position in the hash chain."""

    id: str
    at: datetime
    record: AuditRecord


class AuditPage(Wire, frozen=True, kw_only=True):
    """Records, newest first."""

    records: list[AuditEntry]
    next_cursor: str | None
