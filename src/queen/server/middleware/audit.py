"""Write the audit record of calls that change or reveal data."""

from typing import Any, Final

import msgspec

from queen import errors
from queen.server.http.call import Call, Route
from queen.wire.access import AuditRecord

_ENCODE: Final = msgspec.json.Encoder().encode
_MOST_BYTES: Final = 32 * 2**10
_MOST_LETTERS: Final = 2_000


async def write(call: Call, route: Route, status: int) -> None:
    """
    Record a call of an authenticated caller, whatever its result.

    The record is stored before the response is sent. If it cannot be stored, the response to a
    change is OutcomeUnknown. Repeated reads and rejected calls are only counted.
    """
    audited = call.audited
    queue: str | None = audited.get("queue", call.parameters.get("queue"))
    record = AuditRecord(
        actor=call.caller.name,
        action=f"{route.method} {route.path}",
        permission=route.permission or "browse",
        queue=queue and queue.replace("\0", "\\0"),  # PostgreSQL cannot store NUL.
        path=readable(call.head.raw_path),
        source=source(call),
        request_id=call.request_id,
        status=status,
        before=_raw(audited.get("before")),
        after=_raw(audited.get("after")),
        revealed=audited.get("revealed"),
    )
    log = call.state.audit
    is_read = route.method == "GET" and record.revealed is None
    is_rejected = 400 <= status < 500
    try:
        await (log.append_or_count if is_read or is_rejected else log.append)(record)
    except errors.QueenError as error:
        if status >= 400:
            return
        raise errors.OutcomeUnknown(
            f"the change was applied, but not recorded in the audit log: {error}"
        ) from error


def source(call: Call) -> str | None:
    """Return the client's address; behind a proxy, the one that the proxy received."""
    if call.state.settings.behind_proxy and (forwarded := call.header(b"x-forwarded-for")):
        # The proxy appends the last address. The client can forge the others.
        return readable(forwarded.rpartition(",")[2].strip().encode("latin-1", "replace"))
    client = call.connection.client
    return None if client is None else str(client[0])


def readable(raw: bytes) -> str:
    """Decode bytes of a client to text without control characters."""
    return raw[:_MOST_LETTERS].decode("ascii", "backslashreplace").encode("unicode_escape").decode()


def _raw(value: Any) -> msgspec.Raw:  # noqa: ANN401 - whatever JSON can hold
    encoded = _ENCODE(value)
    if len(encoded) > _MOST_BYTES:
        encoded = _ENCODE({"bytes": len(encoded)})
    return msgspec.Raw(encoded)
