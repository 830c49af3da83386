"""Idempotent producers: which callers share one, and which request a sequence number is of."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
from msgspec import structs

from queen import errors
from queen.wire.messages import PushItem

SHARED: Final = "*"
"""The scope of callers that may use every queue."""
_DIGEST_BYTES: Final = 16
_TRACE_HEADERS: Final = ("traceparent", "tracestate")


class Producer(NamedTuple):
    """A numbered request of a producer."""

    id: str
    sequence: int
    scope: str = SHARED
    """Which callers share the producer: derived by the server, never sent by a client."""
    digest: bytes | None = None
    """Of the request; None: it cannot be told from another one."""

    @property
    def key(self) -> str:
        """
        As SQL takes it; no id has a control character.

        Without a scope it is of a release before scopes, and is judged by all scopes of its id.
        """
        return f"{self.id}\x1f{self.scope}" if self.scope else self.id

    def mint(self, index: int) -> str:
        """A transactionId for an item that needs one: the same for each attempt."""
        text = f"{self.key}\x1f{self.sequence}\x1f{index}"
        return str(UUID(bytes=sha256(text.encode()).digest()[:16], version=4))


def digest_of(items: Sequence[PushItem], *others: object) -> bytes:
    """Of a request as it was decoded. Headers of tracing differ from attempt to attempt."""
    told = ([_untraced(each) if each.headers else each for each in items], *others)
    try:
        text = msgspec.json.encode(told)
    except UnicodeEncodeError:  # A lone surrogate: the request will be rejected for it.
        text = repr(told).encode("utf-8", "surrogatepass")
    return sha256(text).digest()[:_DIGEST_BYTES]


def _untraced(item: PushItem) -> PushItem:
    headers = {k: v for k, v in (item.headers or {}).items() if k not in _TRACE_HEADERS}
    return structs.replace(item, headers=headers or None)


def stale(producer: Producer) -> errors.SequenceStale:
    return errors.SequenceStale(f"producer {producer.id} is past sequence {producer.sequence}")


def is_another(producer: Producer, digest: bytes | None) -> bool:
    """Whether a request with this digest, under the same number, is known to be another one."""
    return None not in (producer.digest, digest) and producer.digest != digest
