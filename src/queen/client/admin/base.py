"""How management is asked for: paths, parameters, pages."""

from collections.abc import AsyncIterator
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from queen.client.transport.base import Reply, decoded

if TYPE_CHECKING:
    from queen.client.client import Queen

T = TypeVar("T")

API = "/api/v1"


class Calls:
    """What the parts of `queen.admin` share."""

    def __init__(self, queen: "Queen") -> None:
        self._queen = queen

    async def _get(self, path: str, type_: type[T], query: dict[str, Any] | None = None) -> T:
        reply = await self._queen.transport.exchange("GET", API + path + query_of(query or {}))
        return answer(reply, type_)

    async def _send(self, method: str, path: str, body: object, type_: type[T]) -> T:
        """Sent again only if nothing was applied: most of this must not be done twice."""
        sent = None if body is None else msgspec.json.encode(body)
        reply = await self._queen.transport.exchange(method, API + path, sent, is_repeatable=False)
        return answer(reply, type_)

    async def _pages(
        self, path: str, type_: type[Any], field: str, filters: dict[str, Any]
    ) -> AsyncIterator[Any]:
        """Every element of a list, page by page."""
        cursor: str | None = None
        while True:
            page = await self._get(path, type_, {**filters, "cursor": cursor})
            for each in getattr(page, field):
                yield each
            cursor = page.next_cursor
            if cursor is None:
                return


def answer(reply: Reply, type_: type[T]) -> T:
    """What a server answered, as a struct."""
    return decoded(reply, partial(msgspec.json.decode, type=type_))


def name_of(text: str) -> str:
    """A name as one step of a path."""
    return quote(text, safe="")


def query_of(given: dict[str, Any]) -> str:
    """Parameters in the names of the wire; what is None is left out."""
    pairs = {_camel(name): _text(value) for name, value in given.items() if value is not None}
    return f"?{urlencode(pairs)}" if pairs else ""


def _text(value: Any) -> Any:  # noqa: ANN401 - whatever a parameter may be
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else value


def _camel(name: str) -> str:
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)
