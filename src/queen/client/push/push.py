"""Push messages in requests that are stored whole, and once even if they are repeated."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from queen import errors
from queen.client.connection import Connection
from queen.client.producer_ids import Producer
from queen.client.push.items import items_of
from queen.client.transport.base import decoded
from queen.client.transport.http import HttpTransport
from queen.wire.messages import Pushed, PushItem, PushRequest, PushResponse

T = TypeVar("T")

_ENCODE: Final = msgspec.json.Encoder().encode
_DECODE: Final = msgspec.json.Decoder(PushResponse).decode
_CHUNK_ITEMS: Final = 5_000
_CHUNK_BYTES: Final = 16 * 2**20
_POINTER: Final = re.compile(r"/items/(\d+)(?:/.*)?")


class Pusher(Connection):
    """The part of a client that pushes."""

    async def push(
        self,
        items: "Sequence[PushItem | Mapping[str, Any]] | Mapping[str, Any]",
        *,
        key: str | None = None,
    ) -> list[Pushed]:
        """
        Store items durably; a repeat after a lost response stores nothing twice.

        An item names its queue: ``{"queue": …, "partition": …, "data": …}``.

        A request is stored whole or not at all, and a push of more than 5,000 items is several
        requests. Raises PushError if items were rejected, or if only a part was stored.
        """
        results: list[Pushed] = []
        items = items_of(items)
        for chunk in _chunks(items):
            try:
                async with self.producers().lend() as producer:
                    results += (await self.send(chunk, producer, _DECODE, key=key)).messages
            except (errors.ApiError, errors.OutcomeUnknown) as error:
                if not results and not rejected_items(error):
                    raise  # The error's type shows whether the outcome is known.
                raise _not_all(error, results, items[len(results) :]) from error
        return results

    async def send(
        self,
        items: Sequence[PushItem],
        producer: Producer,
        decode: Callable[[bytes], T],
        *,
        key: str | None,
    ) -> T:
        """Send one request with the producer's sequence number, so that a repeat is stored once."""
        request = PushRequest(
            items=list(items), producer_id=producer.id, sequence=producer.sequence
        )
        try:
            body = _ENCODE(request)
        except (TypeError, ValueError) as error:
            raise errors.InvalidItem(f"the request cannot be encoded as JSON: {error}") from error
        transport = self.transport
        preferences = transport.preferences if isinstance(transport, HttpTransport) else None
        if preferences is None:
            reply = await transport.exchange("POST", "/api/v1/push", body, key=key)
        else:
            reply = await preferences.push(items, body, key)
        return decoded(reply, decode)


def size_of(item: PushItem) -> int:
    """The approximate size of an item in a request, in bytes."""
    size = len(item.payload)
    return size if item.headers is None else size + len(_ENCODE(item.headers))


def rejected_items(error: errors.QueenError) -> dict[int, str]:
    """The items of a request that the server rejects, by index, with the reasons."""
    problem: Any = error.problem
    if problem is None or problem.errors is msgspec.UNSET:
        return {}
    found = ((_POINTER.fullmatch(each.pointer), each.detail) for each in problem.errors)
    return {int(match[1]): detail for match, detail in found if match is not None}


def _not_all(
    error: errors.QueenError, stored: list[Pushed], rest: Sequence[PushItem]
) -> errors.PushError:
    """The error for a push that was not stored completely, with each item that is not durable."""
    rejected = rejected_items(error)
    failed = [
        errors.Unstored(item, error.code, rejected[at])
        if at in rejected
        else errors.Unstored(item, "not_stored", "another item of the push was rejected")
        for at, item in enumerate(rest)
    ]
    if not rejected:
        failed = [errors.Unstored(item, error.code, str(error)) for item in rest]
    text = f"{len(failed)} of {len(failed) + len(stored)} items are not stored: {error}"
    return errors.PushError(text, stored=stored, failed=failed)


def _chunks(items: Sequence[PushItem]) -> list[Sequence[PushItem]]:
    """Items per request, bounded in number and bytes."""
    size = sum(map(size_of, items))
    if len(items) <= _CHUNK_ITEMS and size <= _CHUNK_BYTES:
        return [items]
    chunks: list[Sequence[PushItem]] = []
    first = size = 0
    for at, item in enumerate(items):
        own = size_of(item)
        if at > first and (at - first >= _CHUNK_ITEMS or size + own > _CHUNK_BYTES):
            chunks.append(items[first:at])
            first, size = at, 0
        size += own
    return [*chunks, items[first:]]
