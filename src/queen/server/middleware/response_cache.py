"""Share responses between clients that send the same request."""

import asyncio
import re
import time
from typing import Any, Final

from queen.bounded import BoundedDict
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Handler

_MAX_AGE: Final = re.compile(r"(?:^|[,\s])max-age=(\d{1,3})(?:$|[,\s])")
_MOST_SECONDS: Final = 10
_MOST: Final = 256


class ResponseCache:
    """
    The last responses, by request and by the caller's access.

    Only requests with ``Cache-Control: max-age`` use it. The dashboard sends this header, so fifty
    open dashboards cost as much as one.
    """

    def __init__(self) -> None:
        self._entries = BoundedDict[tuple[Any, ...], tuple[float, asyncio.Task[Answer]]](_MOST)

    async def answer(self, call: Call, handler: Handler) -> Answer:
        """Return a response that is recent enough, or run the handler."""
        max_age = _MAX_AGE.search(call.header(b"cache-control") or "")
        if max_age is None:
            return await handler(call)
        now = time.monotonic()
        caller = call.caller
        key = (
            call.head.raw_path,
            call.head.query_string,
            caller.permissions,
            caller.scopes,
        )
        entry = self._entries.get(key)
        if entry is None or now - entry[0] > min(int(max_age[1]), _MOST_SECONDS):
            entry = self._entries[key] = now, asyncio.create_task(self._run(key, call, handler))
        # A client that disconnects does not cancel the handler for the others.
        return await asyncio.shield(entry[1])

    def clear(self) -> None:
        """Drop all responses after a change."""
        self._entries.clear()

    async def _run(self, key: tuple[Any, ...], call: Call, handler: Handler) -> Answer:
        try:
            return await handler(call)
        except BaseException:
            self._entries.pop(key, None)
            raise
