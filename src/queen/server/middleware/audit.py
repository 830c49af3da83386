"""Write the audit record of calls that change or reveal something."""

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
    Record a call of a caller that was let in, whatever came of it.

    The record is stored before the response is sent. If it cannot be stored, the response to a
    change says that the outcome is unknown. Repeated reads and rejected calls are counted.
    """
    audited = call.audited
    queue: str | None = audited.get("queue", call.parameters.get("queue"))
    record = AuditRecord(
        actor=call.caller.name,
        action=f"{route.method} {route.path}",
        permission=route.permission or "browse",
        queue=queue and queue.replace("\0", "\\0"),  # PostgreSQL cannot hold it.
        path=readable(call.scope["raw_path"] or call.scope["path"].encode()),
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
        raise errors.OutcomeUnknown(f"done, but not in the audit log: {error}") from error


def source(call: Call) -> str | None:
    """The address of the client; behind a proxy, the one that the proxy saw."""
    if call.state.settings.behind_proxy and (forwarded := call.header(b"x-forwarded-for")):
        # The last is the proxy's own word; those before it are the client's.
        return readable(forwarded.rpartition(",")[2].strip().encode("latin-1", "replace"))
    client = call.scope.get("client")
    return None if client is None else str(client[0])


def readable(raw: bytes) -> str:
    """Bytes of a client as letters that no terminal obeys."""
    return raw[:_MOST_LETTERS].decode("ascii", "backslashreplace").encode("unicode_escape").decode()


def _raw(value: Any) -> msgspec.Raw:  # noqa: ANN401 - whatever JSON can hold
    encoded = _ENCODE(value)
    if len(encoded) > _MOST_BYTES:
        encoded = _ENCODE({"bytes": len(encoded)})
    return msgspec.Raw(encoded)
