"""Answers to what many ask at once: found once, for all who take one that is a moment old."""

import asyncio
import re
import time
from typing import Any, Final

from queen.server.http.call import Answer, Call, Handler

_MAX_AGE: Final = re.compile(r"(?:^|[,\s])max-age=(\d{1,3})(?:$|[,\s])")
_MOST_SECONDS: Final = 10
_MOST: Final = 256
"""Questions that are remembered; beyond them all are forgotten, which costs one answer each."""


class Answers:
    """
    What was answered last, by question and by what the asker may see.

    Nobody gets such an answer who does not ask for it: a dashboard does, for of fifty that are open
    one would cost what all do.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], tuple[float, asyncio.Task[Answer]]] = {}

    async def of(self, call: Call, handler: Handler) -> Answer:
        said = _MAX_AGE.search(call.header(b"cache-control") or "")
        if said is None:
            return await handler(call)
        now = time.monotonic()
        caller = call.caller
        question = (
            call.scope["raw_path"] or call.scope["path"],
            call.scope["query_string"],
            caller.permissions,
            caller.scopes,
        )
        known = self._known.get(question)
        if known is None or now - known[0] > min(int(said[1]), _MOST_SECONDS):
            if len(self._known) >= _MOST:
                self._known.clear()
            known = now, asyncio.create_task(self._find(question, call, handler))
            self._known[question] = known
        # Who goes away takes nothing from the others.
        return await asyncio.shield(known[1])

    def forget(self) -> None:
        """Something was changed here, and is to be seen."""
        self._known.clear()

    async def _find(self, question: tuple[Any, ...], call: Call, handler: Handler) -> Answer:
        try:
            return await handler(call)
        except BaseException:
            self._known.pop(question, None)
            raise
