"""Bodies of API keys, tickets and the audit log."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from queen.redacted import redacted
from queen.wire.messages import Manager, Request, Wire

PermissionName = Literal["produce", "consume", "browse", "configure", "operate", "destroy", "admin"]
RoleName = Literal["admin", "read-write", "read-only", "write-only"]
Pattern = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
"""A name in which only ``*`` is special: it matches any characters."""


class Scope(Request, frozen=True, kw_only=True, omit_defaults=True):
    """Queues by name, by namespace, or by both."""

    namespace: Pattern | None = None
    """Pattern of namespaces, in which `*` matches any characters. Default: every namespace."""
    queue: Pattern | None = None
    """Pattern of queue names, in which `*` matches any characters. Default: every queue."""

    def __post_init__(self) -> None:
        if self.namespace is None and self.queue is None:
            raise ValueError("a scope needs a queue or a namespace")


class TokenRequest(Request, frozen=True, kw_only=True):
    """An API key: with a role or with permissions, for all queues or some."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    """Name of the key, 1 to 255 characters, shown in the audit log."""
    role: RoleName | None = None
    """Role that defines the permissions. Excludes `permissions`."""
    permissions: Annotated[list[PermissionName], msgspec.Meta(min_length=1)] | None = None
    """Permissions of the key. Excludes `role`."""
    scopes: Annotated[list[Scope], msgspec.Meta(min_length=1, max_length=100)] | None = None
    """Queues that the key may use, at most 100 patterns. Default: all queues."""
    expires_at: datetime | None = None
    """Time when the key expires, with a time zone. Default: never."""
    requests_per_second: Annotated[float, msgspec.Meta(gt=0, le=1_000_000)] | None = None
    """Largest number of requests per second. Default: no limit."""
    managed_by: Manager | None = None
    """Name of the configuration that owns the key. `queen apply` sets it."""

    def __post_init__(self) -> None:
        if (self.role is None) == (self.permissions is None):
            raise ValueError("a key needs a role or permissions")
        if self.expires_at is not None and self.expires_at.tzinfo is None:
            raise ValueError("expiresAt needs a time zone")
        if not self.name.isprintable():
            raise ValueError("a name must not contain control characters")


class RotateRequest(Request, frozen=True, kw_only=True):
    """The time for which the old secret stays valid."""

    grace_seconds: Annotated[float, msgspec.Meta(ge=0, le=604_800)] = 0
    """Seconds for which the old secret stays valid, at most 604,800. Default: 0."""


class Token(Wire, frozen=True, kw_only=True):
    """An API key without its secret."""

    id: str
    """Id of the key, which is also part of its secret."""
    name: str
    """Name of the key."""
    role: str | None
    """Role that defines the permissions; null if they are listed."""
    permissions: list[str]
    """Permissions of the key."""
    scopes: list[Scope] | None
    """Queues that the key may use; null: all queues."""
    expires_at: datetime | None
    """Time when the key expires; null: never."""
    requests_per_second: float | None
    """Largest number of requests per second; null: no limit."""
    created_at: datetime
    """Time when the key was created."""
    created_by: str
    """Caller that created the key."""
    revoked_at: datetime | None
    """Time when the key was revoked; null if it was not."""
    managed_by: str | None = None
    """Name of the configuration that owns the key."""


class NewToken(Token, frozen=True, kw_only=True):
    """An API key with its secret, which only this response contains."""

    token: str
    """Secret of the key, for the header `Authorization: Bearer`. It is not stored and cannot be
    shown again."""

    def __repr__(self) -> str:
        return redacted(self, ("token",))


class TokenList(Wire, frozen=True, kw_only=True):
    """A page of API keys, by id."""

    tokens: list[Token]
    """API keys of this page."""
    next_cursor: str | None
    """Cursor of the next page; null at the end of the list."""


class Revoked(Wire, frozen=True, kw_only=True):
    """The API key is no longer accepted."""

    id: str
    """Id of the revoked key."""
    revoked: bool = True
    """Always true."""


class Me(Wire, frozen=True, kw_only=True):
    """The caller and its permissions."""

    name: str
    """Name of the caller: `key:` and the name of its API key, `jwt:` and the subject of its token,
    or `anonymous`."""
    kind: Literal["anonymous", "key", "jwt"]
    """Kind of credentials: an API `key`, a `jwt`, or `anonymous` on a server without
    authentication."""
    permissions: list[str]
    """Permissions of the caller."""
    scopes: list[Scope] | None
    """Queues that the caller may use; null: all queues."""
    requests_per_second: float | None
    """Largest number of requests per second; null: no limit."""


class Ticket(Wire, frozen=True, kw_only=True):
    """A one-time ticket for a WebSocket, with its expiry."""

    ticket: str
    """Ticket for the parameter `ticket` of `/ws/dashboard`. It can be used once."""
    expires_at: datetime
    """Time when the ticket expires, 30 seconds after its creation."""


class AuditRecord(Wire, frozen=True, kw_only=True):
    """An audited call: its caller, route, source and changes."""

    actor: str
    """Name of the caller."""
    action: str
    """Method and route, for example `POST /api/v1/configure`."""
    permission: str
    """Permission that the route requires."""
    queue: str | None
    """Name of the queue; null if the call does not concern a single one."""
    path: str
    """Path of the request, with its names."""
    source: str | None
    """Address of the client; null if it is unknown."""
    request_id: str
    """Id of the request, as in the server's log."""
    status: int
    """HTTP status of the response."""
    before: msgspec.Raw
    """State of the changed object before the call, without payloads; null if it was not
    recorded."""
    after: msgspec.Raw
    """State of the changed object after the call, without payloads; null if it was not recorded."""
    revealed: list[str] | None = None
    """Ids of decrypted messages; null if the call did not ask to reveal any."""
    count: int = 1
    """Number of calls that this record stands for. Repeated reads and rejected calls are counted
    once per minute, without `queue` and `requestId`, and with the route as `path`."""


class AuditEntry(Wire, frozen=True, kw_only=True):
    """A record and its position in the hash chain."""

    id: str
    """Id of the record."""
    at: datetime
    """Time when the record was stored."""
    record: AuditRecord
    """The audited call."""


class AuditPage(Wire, frozen=True, kw_only=True):
    """Records, newest first."""

    records: list[AuditEntry]
    """Records of this page, newest first."""
    next_cursor: str | None
    """Cursor of the next page; null at the end of the list."""
