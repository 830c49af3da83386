"""A connection to PostgreSQL, with what asyncpg's own class lacks."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import asyncpg

Record = asyncpg.Record

if TYPE_CHECKING:
    _Base = asyncpg.Connection[Record]
else:
    _Base = asyncpg.Connection

_FIRST_UNFIXED_OID: Final = 10_000
"""Types below are part of PostgreSQL and have the same oid on every server."""
_TYPES: Final[dict[int, Record]] = {}
"""Descriptions of PostgreSQL's own types, by oid. The first connection of a process reads them."""


class _NoStatement(NamedTuple):
    """Takes the place of the query for types if their descriptions are known."""

    name: str = "none"


class Connection(_Base):
    """
    A connection that detects a commit without the confirmation of a standby.

    It reads the descriptions of types once per process, because the query takes 2.5 ms.
    """

    free_since: float = 0.0
    """When it was returned to its pool, by the clock of the event loop."""
    _warning: str | None = None

    def take_warning(self) -> str | None:
        """Why the last commit may be only on the primary. Returned once."""
        warning, self._warning = self._warning, None
        return warning

    def _process_log_message(self, fields: dict[str, str], last_query: str) -> None:
        del last_query
        # The wait was cancelled. PostgreSQL reports that in a warning and otherwise returns
        # success.
        if fields.get("R") == "SyncRepWaitForLSN":
            self._warning = fields.get("M", "the standby did not confirm")

    async def _introspect_types(
        self,
        typeoids: Iterable[int],
        timeout: float | None,  # noqa: ASYNC109 - as asyncpg calls it
    ) -> tuple[list[Record], Any]:
        """Describe types that asyncpg doesn't know, such as arrays. asyncpg calls this."""
        wanted = set(typeoids)
        if wanted <= _TYPES.keys():
            return [_TYPES[oid] for oid in wanted], _NoStatement()
        read = super()._introspect_types  # pyright: ignore
        types, statement = await cast("Any", read)(wanted, timeout)
        for each in types:
            # A composite type and a domain need the descriptions of other types too.
            if each["oid"] < _FIRST_UNFIXED_OID and each["kind"] not in (b"c", b"d"):
                _TYPES[each["oid"]] = each
        return types, statement
