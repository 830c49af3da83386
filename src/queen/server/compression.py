"""Bodies that clients get compressed if they accept gzip."""

import asyncio
import gzip
from typing import Final


class Compressible:
    """A body in memory. Its compressed form is created on first use and kept."""

    def __init__(self, body: bytes) -> None:
        self.body: Final = body
        self._compressed: bytes | None = None

    async def encode(self, accept_encoding: str | None) -> tuple[bytes, dict[str, str]]:
        """Return the body in the best form that the client accepts, and its headers."""
        if accepts_gzip(accept_encoding):
            if self._compressed is None:
                # In a thread, because a large body takes long enough to delay other requests.
                self._compressed = await asyncio.to_thread(gzip.compress, self.body, mtime=0)
            if len(self._compressed) < len(self.body):
                headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
                return self._compressed, headers
        return self.body, {"Vary": "Accept-Encoding"}


def accepts_gzip(accept_encoding: str | None) -> bool:
    """Whether a client accepts gzip."""
    weights: dict[str, float] = {}
    for each in (accept_encoding or "").split(","):
        name, _, weight = each.partition(";")
        try:
            weights[name.strip().lower()] = float(weight.strip().removeprefix("q=") or 1)
        except ValueError:
            weights[name.strip().lower()] = 0.0
    return weights.get("gzip", weights.get("*", 0.0)) > 0
