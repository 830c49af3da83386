"""Detect stalls of the event loop, with their duration and route."""

import asyncio
import sys
import threading
import time
from types import CodeType, FrameType
from typing import Final

import msgspec

from queen.meters import Histogram
from queen.server import logs
from queen.telemetry import Event

STALL_SECONDS: Final = 0.25
_TICK_SECONDS: Final = 0.05


class _Place(msgspec.Struct, frozen=True):
    """The code that ran when the loop stalled."""

    route: str | None = None
    code: str | None = None


class Watchdog:
    """
    Measures the delay of a timer, and records delays above 250 ms as stalls.

    A thread finds the code that runs during a stall. If that is one long call into C, the thread
    runs as soon as the call returns, before its caller continues.
    """

    def __init__(self, log: logs.Log, answering: CodeType) -> None:
        """``answering``: the code whose variable ``call`` is the current request."""
        self._log = log
        self._answering = answering
        self.stalls = Histogram()
        self._worst = 0.0
        self._ticked_at = time.monotonic()
        self._seen_at = 0.0
        """The last tick before the stall that the thread detected last."""
        self._place = _Place()
        self._is_over = threading.Event()

    async def tick_forever(self) -> None:
        thread = threading.Thread(
            target=self._watch, args=(threading.get_ident(),), name="watchdog", daemon=True
        )
        thread.start()
        try:
            while True:
                self._ticked_at = time.monotonic()
                await asyncio.sleep(_TICK_SECONDS)
                late = time.monotonic() - self._ticked_at - _TICK_SECONDS
                self._worst = max(self._worst, late)
                if late > STALL_SECONDS:
                    self._record(late)
        finally:
            self._is_over.set()

    def take_worst(self) -> float:
        """Return the longest delay since the last call."""
        worst, self._worst = self._worst, 0.0
        return worst

    def _record(self, seconds: float) -> None:
        self.stalls.observe(seconds)
        place = self._place if self._seen_at == self._ticked_at else _Place()
        self._log.warning(
            Event.LOOP_STALLED, seconds=round(seconds, 3), route=place.route, code=place.code
        )

    def _watch(self, loop_thread: int) -> None:
        while not self._is_over.wait(_TICK_SECONDS):
            ticked_at = self._ticked_at
            is_late = time.monotonic() - ticked_at > _TICK_SECONDS + STALL_SECONDS / 2
            if is_late and self._seen_at != ticked_at:
                frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage] - documented
                self._place = self._find(frames.get(loop_thread))
                self._seen_at = ticked_at

    def _find(self, frame: FrameType | None) -> _Place:
        route: str | None = None
        code: str | None = None
        while frame is not None:
            module = str(frame.f_globals.get("__name__", ""))
            if code is None and module.startswith("queen."):
                code = f"{module}.{frame.f_code.co_qualname}:{frame.f_lineno}"
            if frame.f_code is self._answering:
                found = frame.f_locals["call"].route
                route = found.path if found is not None else None
            frame = frame.f_back
        return _Place(route, code)
