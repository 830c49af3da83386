"""Which server an exchange goes to: by key, in turn, or the same; away from those that fail."""

import time
from bisect import bisect
from collections.abc import Sequence
from hashlib import blake2b

from queen.client.config import Strategy


class Server:
    """One server, and whether it was well when last met."""

    __slots__ = ("retry_at", "url")

    def __init__(self, url: str) -> None:
        self.url = url
        self.retry_at = 0.0

    @property
    def is_well(self) -> bool:
        return self.retry_at <= time.monotonic()


class Servers:
    """
    The servers of one client.

    ``affinity`` sends one key to one server, so that its waiters and its cache serve it; when a
    server leaves, only its own keys move.
    """

    def __init__(
        self, urls: Sequence[str], strategy: Strategy, *, points: int, retry_after_seconds: float
    ) -> None:
        self.all = [Server(url) for url in urls]
        self._strategy = strategy
        self._retry_after_seconds = retry_after_seconds
        self._turn = 0
        self._session = 0
        self._ring = sorted(
            (_hash(f"{server.url}#{point}"), at)
            for at, server in enumerate(self.all)
            for point in range(points)
        )
        self._places = [place for place, _ in self._ring]

    def in_order(self, key: str | None) -> list[Server]:
        """All servers, those to try first in front; whoever failed lately comes last."""
        if len(self.all) == 1:
            return self.all
        if self._strategy == "affinity" and key is not None:
            first = self._ring[bisect(self._places, _hash(key)) % len(self._ring)][1]
        elif self._strategy == "session":
            first = self._session
        else:
            self._turn = first = (self._turn + 1) % len(self.all)
        order = self.all[first:] + self.all[:first]
        return sorted(order, key=lambda server: not server.is_well)

    def failed(self, server: Server) -> None:
        """Leave it alone for a while."""
        server.retry_at = time.monotonic() + self._retry_after_seconds
        if self.all[self._session] is server:
            self._session = (self._session + 1) % len(self.all)

    def answered(self, server: Server) -> None:
        server.retry_at = 0.0


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
