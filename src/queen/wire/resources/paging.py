"""Common fields of lists."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from queen.wire.messages import Request

Instant = Annotated[datetime, Meta(tz=True)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
# PostgreSQL stores every character except NUL.
Text = Annotated[str, Meta(pattern=r"^[^\x00]*\Z")]
Name = Annotated[str, Meta(min_length=1, pattern=r"^[^\x00]*\Z")]


class RevealQuery(Request, frozen=True, kw_only=True):
    """Whether to show encrypted payloads unmasked. Needs `consume`, and is logged."""

    reveal: bool = False


class PageQuery(Request, frozen=True, kw_only=True):
    """A page of a list; ``cursor`` is the ``nextCursor`` of the previous page."""

    limit: Annotated[int, Meta(ge=1)] | None = None
    cursor: Text | None = None
