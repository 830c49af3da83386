"""All streams of one process."""

import asyncio
from collections.abc import Callable

from queen.server.http.call import Call
from queen.server.stream.connection import StreamConnection
from queen.server.stream.observer import StreamObserver


class Streams:
    """Opens streams, and drains them."""

    def __init__(self, observer: StreamObserver) -> None:
        self._observer = observer
        self._open: set[StreamConnection] = set()
        self._is_idle = asyncio.Event()

    def open(self, call: Call, on_end: Callable[[], None]) -> StreamConnection:
        """Create the protocol of an accepted stream. ``on_end``: called when it has ended."""

        def end() -> None:
            self._open.discard(stream)
            self._changed()
            on_end()

        stream = StreamConnection(call, self._observer, end)
        self._open.add(stream)
        self._changed()
        if call.state.is_draining:
            asyncio.get_running_loop().call_soon(stream.drain)
        return stream

    def stop(self) -> None:
        """Accept no more operations, and end all waiting pops."""
        for stream in list(self._open):
            stream.drain()

    async def drained(self) -> None:
        """Wait until all streams have finished their operations and are closed."""
        while self._open:
            self._is_idle.clear()
            await self._is_idle.wait()

    def _changed(self) -> None:
        self._observer.metrics.connections = len(self._open)
        if not self._open:
            self._is_idle.set()
