"""Which server an exchange goes to: by key, in turn, or the same; away from those that fail."""

import time
from bisect import bisect
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b

from queen.client.config import Strategy


class Server:
    """
    One server and its circuit.

    Closed while it answers. A failure opens it: for a while it is left alone. Then one exchange may
    try it; all others stay away until that one is answered. Another may try it when that takes
    long: it may be a long poll, which a healthy server answers late.
    """

    __slots__ = ("retry_at", "trial_ends_at", "url")

    def __init__(self, url: str) -> None:
        self.url = url
        self.retry_at = 0.0
        self.trial_ends_at = 0.0

    def admits(self, now: float) -> bool:
        """Whether an exchange should go here rather than to a server that is well."""
        return self.retry_at == 0.0 or max(self.retry_at, self.trial_ends_at) <= now


class Servers:
    """
    The servers of one client.

    ``affinity`` sends one key to one server, so that its waiters and its cache serve it; when a
    server leaves, its keys are shared out among the others, and no other key moves.
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

    def choose(self, key: str | None, tried: Sequence[Server] = ()) -> Server:
        """Where to go now: not where this exchange failed before, if there is another."""
        if len(self.all) == 1:
            return self.all[0]
        now = self._clock()
        order = [server for server in self._order(key) if server not in tried]
        if not order:
            order = self._order(key)
        server = next((each for each in order if each.admits(now)), order[0])
        if server.retry_at:
            server.trial_ends_at = now + self._retry_after_seconds
        return server

    def home(self, key: str | None) -> Server:
        """Where to go however that server is."""
        return self.all[0] if len(self.all) == 1 else self._order(key)[0]

    def failed(self, server: Server) -> None:
        """Leave it alone for a while."""
        server.retry_at = self._clock() + self._retry_after_seconds
        server.trial_ends_at = 0.0
        if self.all[self._session] is server:
            self._session = (self._session + 1) % len(self.all)

    def answered(self, server: Server) -> None:
        server.retry_at = 0.0
        server.trial_ends_at = 0.0

    def left(self, server: Server) -> None:
        """The exchange was given up by its caller: nothing is known of the server."""
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
        """The servers in the order in which the ring names them after the key's place."""
        at = bisect(self._places, _hash(key))
        around = (server for _, server in (*self._ring[at:], *self._ring[:at]))
        return [self.all[each] for each in dict.fromkeys(around)]


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
