"""Idempotent producers: the callers that share one, and the request of a sequence number."""

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
    """The digest of the request. None if it cannot be compared with another one."""
    slot: int | None = None
    """The slot of all its partitions, if requests are divided by slot."""

    @property
    def key(self) -> str:
        """
        The key in SQL. The separator is safe, because ids have no control characters.

        Without a scope it is from a release before scopes, and is checked against all scopes of its
        id.
        """
        return f"{self.id}\x1f{self.scope}" if self.scope else self.id

    def mint(self, index: int) -> str:
        """A transactionId for an item without one. All attempts get the same."""
        text = f"{self.key}\x1f{self.sequence}\x1f{index}"
        return str(UUID(bytes=sha256(text.encode()).digest()[:16], version=4))


def digest_of(items: Sequence[PushItem], *others: object) -> bytes:
    """The digest of a decoded request. It excludes tracing headers, which differ per attempt."""
    told = ([_untraced(each) if each.headers else each for each in items], *others)
    try:
        text = msgspec.json.encode(told)
    except UnicodeEncodeError:  # A lone surrogate, for which the request will be rejected.
        text = repr(told).encode("utf-8", "surrogatepass")
    return sha256(text).digest()[:_DIGEST_BYTES]


def _untraced(item: PushItem) -> PushItem:
    headers = {k: v for k, v in (item.headers or {}).items() if k not in _TRACE_HEADERS}
    return structs.replace(item, headers=headers or None)


def stale(producer: Producer) -> errors.SequenceStale:
    return errors.SequenceStale(f"producer {producer.id} is past sequence {producer.sequence}")


def is_another(producer: Producer, digest: bytes | None) -> bool:
    """Return whether a request with this digest and the same number is certainly another one."""
    return None not in (producer.digest, digest) and producer.digest != digest
