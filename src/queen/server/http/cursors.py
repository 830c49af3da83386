"""Keyset pagination, in which every page costs the same."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import msgspec

from queen import errors
from queen.server.http.call import Call
from queen.server.http.timestamps import in_utc
from queen.store.connection.database import Record

T = TypeVar("T", bound=tuple[Any, ...])
Int = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Priority = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Level = Annotated[int, msgspec.Meta(ge=-1, le=9)]
DUE = tuple[datetime, Int]
"""A position in the list of scheduled messages."""
LARGEST = 1e300
"""Start of a list that is sorted by a number, the largest first."""
FIRST_DUE = (datetime(1, 1, 1, tzinfo=UTC), 0)


def limit_of(call: Call, wanted: int | None) -> int:
    """Return the page size, up to the server's limit."""
    settings = call.state.settings
    return min(wanted or settings.api_default_limit, settings.api_max_limit)


def cursor_to(*place: object) -> str:
    """Encode a position as an opaque string."""
    return urlsafe_b64encode(msgspec.json.encode(place)).rstrip(b"=").decode()


def cursor_after(rows: Sequence[Record], limit: int, *columns: str) -> str | None:
    """Encode the position after a page by these columns; None if the page is not full."""
    return cursor_to(*(rows[-1][name] for name in columns)) if len(rows) == limit else None


def place_of(cursor: str | None, type_: type[T], start: T) -> T:
    """Decode the position of a cursor; without one, the start of the list."""
    if cursor is None:
        return start
    try:
        raw = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        place = msgspec.json.decode(raw, type=type_)
        for each in place:
            if isinstance(each, datetime):
                in_utc(each, "/cursor")
        return place
    except (ValueError, UnicodeError, msgspec.DecodeError) as error:
        raise errors.BadRequest("invalid cursor: it does not belong to this list") from error
