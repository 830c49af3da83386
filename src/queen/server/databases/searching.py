"""Requests for objects that can be in any database."""

from typing import Final

from queen import errors
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Route

_ABSENT: Final = errors.NotFound.http_status


async def answer(call: Call, route: Route) -> Answer:
    """Call the handler for each database until one has the object."""
    failures: list[errors.QueenError] = []
    for engine in call.state.cluster.engines.values():
        own = call.at(engine)
        try:
            found = await route.handler(own)
        except errors.QueenError as error:
            # Callers with scopes get the same error for an absent object as for a foreign one.
            is_absent = isinstance(error, errors.Forbidden) or error.http_status == _ABSENT
            # A slot that has moved is in another database.
            elsewhere = errors.DatabaseUnavailable | errors.SlotMoved
            if not (is_absent or isinstance(error, elsewhere)):
                raise
            failures.append(error)
            call.kept = own.kept
        else:
            call.audited = own.audited
            return found
    # It may be in an unavailable database, or arrive with a slot that is moving.
    moved = [each for each in failures if isinstance(each, errors.SlotMoved)]
    raise next((each for each in (*moved, *failures) if each.http_status >= 500), failures[0])
