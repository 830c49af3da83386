"""Choose the server of a request: by key, in turn, or the same one; skip failed servers."""

import time
from bisect import bisect
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from hashlib import blake2b

import msgspec

from queen.client.config import Strategy


class Server(msgspec.Struct, eq=False):
    """
    One server and its circuit breaker.

    A failure opens the circuit, and requests skip the server for a while. After that, one trial
    request goes to it, and the others still skip it. If the trial takes long, another one is
    allowed: the first may be a long poll, which a healthy server delays.
    """

    url: str
    retry_at: float = 0.0
    trial_ends_at: float = 0.0

    def admits(self, now: float) -> bool:
        """Whether a request may go here instead of to a healthy server."""
        return self.retry_at == 0.0 or max(self.retry_at, self.trial_ends_at) <= now


class Servers:
    """
    The servers of one client.

    ``affinity`` sends a key to the same server every time, to share its waiters and its cache. If a
    server fails, only its own keys move, spread over the others.
    """

    def __init__(
        self,
        urls: Sequence[str],
        strategy: Strategy,
        *,
        points: int,
        retry_after_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.all = [Server(url) for url in urls]
        self._strategy = strategy
        self._retry_after_seconds = retry_after_seconds
        self._clock = clock
        self._turn = -1
        self._session = 0
        self._ring = sorted(
            (_hash(f"{server.url}#{point}"), at)
            for at, server in enumerate(self.all)
            for point in range(points)
        )
        self._places = [place for place, _ in self._ring]
        self._walk = lru_cache(4096)(self._walk_of)

    def choose(
        self, key: str | None, tried: Sequence[Server] = (), preferred: Collection[str] = ()
    ) -> Server:
        """
        Choose a server, if possible one that this request has not tried yet.

        ``preferred``: URLs of servers to try before the others.
        """
        if len(self.all) == 1:
            return self.all[0]
        now = self._clock()
        order = [server for server in self._order(key) if server not in tried]
        if not order:
            order = self._order(key)
        if preferred:
            order = sorted(order, key=lambda each: each.url not in preferred)
        server = next((each for each in order if each.admits(now)), order[0])
        if server.retry_at:
            server.trial_ends_at = now + self._retry_after_seconds
        return server

    def home(self, key: str | None) -> Server:
        """Return the server of a key, even if it has failed."""
        return self.all[0] if len(self.all) == 1 else self._order(key)[0]

    def failed(self, server: Server) -> None:
        """Skip this server for a while."""
        server.retry_at = self._clock() + self._retry_after_seconds
        server.trial_ends_at = 0.0
        if self.all[self._session] is server:
            self._session = (self._session + 1) % len(self.all)

    def answered(self, server: Server) -> None:
        server.retry_at = server.trial_ends_at = 0.0

    def left(self, server: Server) -> None:
        """End a trial without a result, because its caller cancelled it."""
        server.trial_ends_at = 0.0

    def _order(self, key: str | None) -> list[Server]:
        if self._strategy == "affinity" and key is not None:
            return self._walk(key)
        if self._strategy == "session":
            first = self._session
        else:
            self._turn = first = (self._turn + 1) % len(self.all)
        return self.all[first:] + self.all[:first]

    def _walk_of(self, key: str) -> list[Server]:
        """Return the servers in the order of the hash ring, from the key on."""
        at = bisect(self._places, _hash(key))
        around = (server for _, server in (*self._ring[at:], *self._ring[:at]))
        return [self.all[each] for each in dict.fromkeys(around)]


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
