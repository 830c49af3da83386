"""The current caller, tickets, API keys, and the audit log."""

from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from queen import errors
from queen.server.auth.api_keys import is_id, new_key, token_of
from queen.server.auth.permissions import Permission
from queen.server.http.answer import Answer
from queen.server.http.call import Call, new_routes
from queen.server.http.cursors import limit_of
from queen.wire.access import (
    AuditEntry,
    AuditPage,
    AuditRecord,
    Me,
    NewToken,
    Revoked,
    RotateRequest,
    Ticket,
    Token,
    TokenList,
    TokenRequest,
)
from queen.wire.messages import Request

_NEWEST: Final = 2**63 - 1


class TokenQuery(Request, frozen=True, kw_only=True):
    """A page of keys, with or without revoked and expired ones."""

    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Largest number of keys on the page, by default at most 1,000; higher values are lowered.
    Default: 100."""
    cursor: str = ""
    """The `nextCursor` of the previous page. Default: the start of the list."""
    revoked: bool = False
    """Whether to include revoked and expired keys. Default: false."""


class AuditQuery(Request, frozen=True, kw_only=True):
    """Filters by caller, action, queue and time."""

    actor: str | None = None
    """Only calls of this caller, for example `key:billing`."""
    action: str | None = None
    """Only calls of this method and route, for example `POST /api/v1/configure`."""
    queue: str | None = None
    """Only calls that concern this queue."""
    from_: datetime | None = msgspec.field(default=None, name="from")
    """Only calls at this time or later, with a time zone."""
    to: datetime | None = None
    """Only calls before this time, with a time zone."""
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Largest number of records on the page, by default at most 1,000; higher values are lowered.
    Default: 100."""
    cursor: str | None = None
    """The `nextCursor` of the previous page. Default: the start of the list."""


ROUTES, route = new_routes()


# Without a permission, because every caller may see itself.
@route("GET /api/v1/auth/me", "Show the current caller", None, {200: Me})
async def me(call: Call) -> Answer:
    """Return the caller as the server authenticated it."""
    caller = call.caller
    return Answer(
        Me(
            name=caller.name,
            kind=caller.kind,
            permissions=sorted(caller.permissions),
            scopes=None if caller.scopes is None else list(caller.scopes),
            requests_per_second=caller.requests_per_second,
        )
    )


@route("POST /api/v1/auth/ticket", "Create a WebSocket ticket", Permission.BROWSE, {201: Ticket})
async def ticket(call: Call) -> Answer:
    """Create a ticket for one WebSocket."""
    return Answer(await call.state.authenticator.make_ticket(call.caller), status=201)


@route("GET /api/v1/tokens", "List keys", Permission.ADMIN, {200: TokenList}, query=TokenQuery)
async def list_tokens(call: Call) -> Answer:
    """List API keys, without their secrets."""
    query = call.query(TokenQuery)
    if query.cursor and not is_id(query.cursor):
        raise errors.BadRequest("invalid cursor: it does not belong to this list")
    limit = limit_of(call, query.limit)
    rows = await call.state.engine.store.keys.list(
        after=query.cursor, limit=limit + 1, with_revoked=query.revoked
    )
    tokens = [token_of(row) for row in rows[:limit]]
    return Answer(
        TokenList(tokens=tokens, next_cursor=tokens[-1].id if len(rows) > limit else None)
    )


@route(
    "POST /api/v1/tokens", "Create an API key", Permission.ADMIN, {201: NewToken}, body=TokenRequest
)
async def make_token(call: Call) -> Answer:
    """Create an API key. Only this response contains its secret."""
    request = await call.body(TokenRequest)
    _check_permissions(call, request)
    await _check_expiry(call, request)
    key = new_key()
    row = await call.state.engine.store.keys.make(
        key.id, key.digest, created_by=call.caller.name, **_fields(request)
    )
    await _refresh(call, key.id)
    token = token_of(row)
    call.audit(after=token)
    return Answer(NewToken(**msgspec.structs.asdict(token), token=key.text), status=201)


@route(
    "POST /api/v1/tokens/{id}",
    "Change an API key",
    Permission.ADMIN,
    {200: Token},
    body=TokenRequest,
    problems=(errors.NotFound,),
)
async def change_token(call: Call) -> Answer:
    """Replace the name, permissions, scopes and limits of a key. Its secret stays the same."""
    request = await call.body(TokenRequest)
    id_ = _key_id(call)
    known = await call.state.engine.store.keys.one(id_)
    call.audit(before=token_of(known))
    _check_permissions(call, request)
    if request.expires_at != known["expires_at"]:
        await _check_expiry(call, request)
    row = await call.state.engine.store.keys.change(id_, **_fields(request))
    await _refresh(call, id_)
    token = token_of(row)
    call.audit(after=token)
    return Answer(token)


@route(
    "POST /api/v1/tokens/{id}/rotate",
    "Rotate an API key",
    Permission.ADMIN,
    {200: NewToken},
    body=RotateRequest,
    problems=(errors.NotFound,),
)
async def rotate_token(call: Call) -> Answer:
    """Create a new secret for a key. Only this response contains it."""
    request = await call.body(RotateRequest)
    key = new_key(_key_id(call))
    known = await call.state.engine.store.keys.one(key.id)
    call.audit(before={name: known[name] for name in ("id", "name", "role", "permissions")})
    if not call.caller.covers(known["role"], known["permissions"]):
        # The caller gets the new secret, and with it all permissions of the key.
        raise errors.Forbidden(
            f"{call.caller.name} may not rotate this API key, because the key has permissions that "
            "the caller lacks. Use a key with at least the same permissions."
        )
    row = await call.state.engine.store.keys.rotate(
        key.id, key.digest, grace_seconds=request.grace_seconds
    )
    await _refresh(call, key.id)
    token = token_of(row)
    call.audit(after=token)
    return Answer(NewToken(**msgspec.structs.asdict(token), token=key.text))


@route(
    "DELETE /api/v1/tokens/{id}",
    "Revoke an API key",
    Permission.ADMIN,
    {200: Revoked},
    problems=(errors.NotFound,),
)
async def revoke_token(call: Call) -> Answer:
    """Revoke a key. Every process rejects it within a second."""
    row = await call.state.engine.store.keys.revoke(_key_id(call))
    await _refresh(call, row["id"])
    call.audit(before={"id": row["id"], "name": row["name"]})
    return Answer(Revoked(id=row["id"]))


@route(
    "GET /api/v1/audit", "List the audit log", Permission.ADMIN, {200: AuditPage}, query=AuditQuery
)
async def list_audit(call: Call) -> Answer:
    """List audited calls, newest first."""
    query = call.query(AuditQuery)
    limit = limit_of(call, query.limit)
    before = _NEWEST
    if query.cursor is not None:
        if not query.cursor.isdigit() or len(query.cursor) > 18:
            raise errors.BadRequest("invalid cursor: it does not belong to this list")
        before = int(query.cursor)
    if any("\0" in (text or "") for text in (query.actor, query.action, query.queue)):
        raise errors.BadRequest("names must not contain NUL")  # PostgreSQL rejects it.
    for instant in (query.from_, query.to):
        if instant is not None and instant.tzinfo is None:
            raise errors.BadRequest("from and to need a time zone")
    rows = await call.state.engine.store.audit.list(
        before=before,
        limit=limit + 1,
        actor=query.actor,
        action=query.action,
        queue=query.queue,
        start=query.from_,
        end=query.to,
    )
    entries = [
        AuditEntry(
            id=str(row["id"]),
            at=row["at"],
            record=msgspec.json.decode(row["record"], type=AuditRecord),
        )
        for row in rows[:limit]
    ]
    return Answer(
        AuditPage(records=entries, next_cursor=entries[-1].id if len(rows) > limit else None)
    )


def _check_permissions(call: Call, request: TokenRequest) -> None:
    if not call.caller.covers(request.role, request.permissions):
        raise errors.Forbidden("an API key cannot have permissions that its creator lacks")


async def _check_expiry(call: Call, request: TokenRequest) -> None:
    if request.expires_at is not None:
        now: datetime = (await call.state.engine.store.database.fetch("now"))[0]["now"]
        if request.expires_at <= now:
            raise errors.BadRequest("expiresAt must be in the future")


def _fields(request: TokenRequest) -> dict[str, Any]:
    """Return the columns of a key."""
    scopes = None if request.scopes is None else msgspec.to_builtins(request.scopes)
    return {**msgspec.structs.asdict(request), "scopes": scopes}


def _key_id(call: Call) -> str:
    """Return the key id in the path, without a lookup if it cannot be one."""
    id_ = call.parameters["id"]
    if not is_id(id_):
        raise errors.NotFound("the API key does not exist")
    return id_


async def _refresh(call: Call, key_id: str) -> None:
    if (keys := call.state.authenticator.keys) is not None:
        await keys.refresh(key_id)
