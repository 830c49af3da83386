"""State that all parts of a client share: options, transport, producers, codecs."""

import asyncio
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from queen.client.config import Config
from queen.client.payloads import Codec
from queen.client.producer_ids import Producers
from queen.client.transport.base import Transport
from queen.client.transport.http import HttpTransport

T = TypeVar("T")


class Connection:
    """Creating one does no I/O, needs no event loop and installs no signal handler."""

    def __init__(
        self,
        where: "str | Sequence[str] | Mapping[str, Any] | None" = None,
        *,
        transport: Transport | None = None,
        **options: Any,  # noqa: ANN401 - fields of Config
    ) -> None:
        self.config = Config.of(where, **options)
        """The options of the client."""
        self.transport: Transport = transport or HttpTransport(self.config)
        """Sends requests to a server."""
        self._producers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Producers] = (
            weakref.WeakKeyDictionary()
        )
        self._codecs: dict[Any, Codec[Any]] = {}

    def producers(self) -> Producers:
        """The producers of the running event loop."""
        loop = asyncio.get_running_loop()
        found = self._producers.get(loop)
        if found is None:
            found = self._producers[loop] = Producers()
        return found

    def codec(self, type_: "type[T] | None") -> Codec[T]:
        """Return the codec of a type, created once."""
        found = self._codecs.get(type_)
        if found is None:
            found = self._codecs[type_] = Codec(type_)
        return found
