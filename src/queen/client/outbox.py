"""
Push inside the application's own database transaction.

For applications whose tables are in Queen's database. The message reaches its queue shortly after
the commit, exactly once, and never after a rollback.
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from queen import errors
from queen.client.client import Queen

_SQL: Final = """
select queen.enqueue(
  item ->> 'queue',
  item -> 'payload',
  partition => coalesce(item ->> 'partition', 'Default'),
  transaction_id => item ->> 'transactionId',
  delay_seconds => cast(item ->> 'delaySeconds' as double precision),
  available_at => cast(item ->> 'availableAt' as timestamptz),
  ttl_seconds => cast(item ->> 'ttlSeconds' as double precision),
  priority => cast(item ->> 'priority' as integer),
  headers => item -> 'headers',
  trace_id => item ->> 'traceId'
)
from json_array_elements(cast({items} as json)) as item
"""
_BUILDER: Final = Queen()
"""Checks and encodes items as a push does. It never sends them."""

Items = Sequence[Mapping[str, Any]] | Mapping[str, Any]


async def push(connection: Any, queue: str, items: Items, *, partition: str = "Default") -> None:  # noqa: ANN401
    """
    Push in the transaction of a connection of asyncpg, psycopg or SQLAlchemy.

    Usage::

        async with connection.transaction():
            await connection.execute("insert into orders …")
            await outbox.push(connection, "orders", [{"data": {"id": 7}}], partition="customer-7")
    """
    result = _execute(connection, _body(queue, items, partition))
    if inspect.isawaitable(result):
        await result


def push_sync(connection: Any, queue: str, items: Items, *, partition: str = "Default") -> None:  # noqa: ANN401
    """Push through a connection without ``await``: psycopg, SQLAlchemy, Django."""
    if inspect.isawaitable(_execute(connection, _body(queue, items, partition))):
        raise errors.BadRequest("this connection is asynchronous. Use `outbox.push` with await.")


def _body(queue: str, items: Items, partition: str) -> str:
    built = _BUILDER.queue(queue).partition(partition).items(items)
    return msgspec.json.encode(built).decode()


def _execute(connection: Any, body: str) -> Any:  # noqa: ANN401 - a coroutine, or any result
    """Send the statement in the way this kind of connection expects."""
    kind = type(connection).__module__.partition(".")[0]
    if kind == "asyncpg":
        return connection.execute(_SQL.format(items="$1"), body)
    if kind == "sqlalchemy":
        from sqlalchemy import text

        return connection.execute(text(_SQL.format(items=":items")), {"items": body})
    if kind == "psycopg":
        return connection.execute(_SQL.format(items="%s"), (body,))
    if not hasattr(connection, "cursor"):
        raise errors.BadRequest(f"{type(connection).__qualname__} is not a supported connection")
    with connection.cursor() as cursor:  # Django, and others with the DB-API.
        cursor.execute(_SQL.format(items="%s"), (body,))
    return None
