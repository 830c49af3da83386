"""Requests of the admin API: paths, parameters, pages."""

from collections.abc import AsyncIterator
from datetime import datetime
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from queen.client.connection import Connection
from queen.client.transport.base import Reply, Transport, decoded

T = TypeVar("T")

API = "/api/v1"


class Calls:
    """Calls of the admin API."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def _transport(self) -> Transport:
        return self._connection.transport

    async def _get(
        self,
        path: str,
        type_: type[T],
        query: dict[str, Any] | None = None,
        *,
        wait_seconds: float = 0,
    ) -> T:
        """Read a resource. With ``wait_seconds``, the server responds as soon as it has ended."""
        given = query or {}
        if wait_seconds > 0:
            given = {**given, "wait": True, "timeout": round(wait_seconds * 1000)}
        path = API + path + query_of(given)
        reply = await self._transport.exchange("GET", path, wait_seconds=wait_seconds)
        return answer(reply, type_)

    async def _send(
        self,
        method: str,
        path: str,
        body: object,
        type_: type[T],
        *,
        is_repeatable: bool = False,
        headers: dict[str, str] | None = None,
    ) -> T:
        """Send a request. By default it is repeated only if it was certainly not applied."""
        sent = None if body is None else msgspec.json.encode(body)
        reply = await self._transport.exchange(
            method, API + path, sent, is_repeatable=is_repeatable, headers=headers
        )
        return answer(reply, type_)

    async def _pages(
        self, path: str, type_: type[Any], field: str, filters: dict[str, Any]
    ) -> AsyncIterator[Any]:
        """Yield the elements of a list, page by page."""
        cursor: str | None = None
        while True:
            page = await self._get(path, type_, {**filters, "cursor": cursor})
            for each in getattr(page, field):
                yield each
            cursor = page.next_cursor
            if cursor is None:
                return


def answer(reply: Reply, type_: type[T]) -> T:
    """Decode the body of a reply."""
    return decoded(reply, partial(msgspec.json.decode, type=type_))


def name_of(text: str) -> str:
    """Quote a name for use as one segment of a path."""
    return quote(text, safe="")


def query_of(given: dict[str, Any]) -> str:
    """Build a query string with the names of the HTTP API, without parameters that are None."""
    pairs = {_camel(name): _text(value) for name, value in given.items() if value is not None}
    return f"?{urlencode(pairs)}" if pairs else ""


def _text(value: Any) -> Any:  # noqa: ANN401 - whatever a parameter may be
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else value


def _camel(name: str) -> str:
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)
