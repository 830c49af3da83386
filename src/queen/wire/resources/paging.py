"""Common fields of lists."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from queen.wire.messages import Request

Instant = Annotated[datetime, Meta(tz=True)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
# PostgreSQL stores every character except NUL. The pattern is also valid in JavaScript, because the
# OpenAPI document contains it.
Text = Annotated[str, Meta(pattern=r"^[^\x00]*$")]
Name = Annotated[str, Meta(min_length=1, pattern=r"^[^\x00]*$")]


class RevealQuery(Request, frozen=True, kw_only=True):
    """Whether to show encrypted payloads unmasked. Needs `consume`, and is logged."""

    reveal: bool = False
    """Whether to decrypt payloads of an encrypted queue. Needs the permission `consume`, and is
    recorded in the audit log. Default: false."""


class PageQuery(Request, frozen=True, kw_only=True):
    """A page of a list; ``cursor`` is the ``nextCursor`` of the previous page."""

    limit: Annotated[int, Meta(ge=1)] | None = None
    """Largest number of entries on the page, by default at most 1,000; higher values are lowered.
    Default: 100."""
    cursor: Text | None = None
    """The `nextCursor` of the previous page. Default: the start of the list."""
