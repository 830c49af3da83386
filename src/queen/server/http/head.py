"""The head of a request, and the connection that it came on."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from starlette.types import Scope

from queen.server.http.scope_keys import ABORT, DISCONNECT, SWITCH, Disconnect


class Connection(NamedTuple):
    """The client's connection, as far as handlers need it."""

    client: tuple[str, int] | None = None
    disconnect: Disconnect | None = None
    """None: the app runs on another server."""
    abort: Callable[[], None] | None = None
    """For a WebSocket: end it without a close frame."""
    switch: Callable[[Any], None] | None = None
    """For the request of a stream: hand the connection to the stream. Takes the `Call`."""

    @classmethod
    def of(cls, scope: Scope) -> "Connection":
        return cls(scope.get("client"), scope.get(DISCONNECT), scope.get(ABORT), scope.get(SWITCH))


class Head:
    """The request line and the headers of a request. Requests with equal heads may share it."""

    __slots__ = ("headers", "method", "path", "queries", "query_string", "raw_path", "scheme")

    def __init__(self, scope: Scope) -> None:
        self.scheme: Final[str] = scope["scheme"]
        self.method: Final[str] = scope.get("method", "GET")
        self.path: Final[str] = scope["path"]
        """Decoded."""
        self.raw_path: Final[bytes] = scope["raw_path"] or self.path.encode()
        self.query_string: Final[bytes] = scope["query_string"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        """By name in lower case."""
        self.queries: dict[type[Any], Any] = {}
        """The query string, decoded to each type that was requested."""
