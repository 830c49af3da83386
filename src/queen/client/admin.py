"""Management: queues, groups, messages, dead letters, operations, the system."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from queen.wire import resources as wire

if TYPE_CHECKING:
    from queen.client.client import Queen

T = TypeVar("T")

_API = "/api/v1"


class Admin:
    """
    Everything that an operator may do, by the routes of the contract.

    Usage::

        async for queue in queen.admin.queues(namespace="shop"):
            print(queue.name, queue.pending)
    """

    def __init__(self, queen: "Queen") -> None:
        self._queen = queen

    # Queues.

    async def overview(self) -> wire.Overview:
        return await self._get("/resources/overview", wire.Overview)

    def queues(self, **filters: Any) -> AsyncIterator[wire.QueueSummary]:  # noqa: ANN401
        return self._pages("/resources/queues", wire.Queues, "queues", filters)

    async def queue(self, name: str) -> wire.QueueDetail:
        return await self._get(_queue(name), wire.QueueDetail)

    def partitions(self, queue: str, **filters: Any) -> AsyncIterator[wire.PartitionInfo]:  # noqa: ANN401
        return self._pages(f"{_queue(queue)}/partitions", wire.Partitions, "partitions", filters)

    def deliveries(self, queue: str, **filters: Any) -> AsyncIterator[wire.DeliveryInfo]:  # noqa: ANN401
        return self._pages(f"{_queue(queue)}/deliveries", wire.Deliveries, "deliveries", filters)

    async def pause(self, queue: str) -> wire.Paused:
        return await self._send("POST", f"{_queue(queue)}/pause", None, wire.Paused)

    async def resume(self, queue: str) -> wire.Paused:
        return await self._send("POST", f"{_queue(queue)}/resume", None, wire.Paused)

    async def purge(self, queue: str, **request: Any) -> wire.Operation:  # noqa: ANN401 - of PurgeRequest
        body = wire.PurgeRequest(**request)
        return (
            await self._send("POST", f"{_queue(queue)}/purge", body, wire.OperationStarted)
        ).operation

    async def delete_queue(self, queue: str) -> wire.Operation:
        return (await self._send("DELETE", _queue(queue), None, wire.OperationStarted)).operation

    # Groups.

    def groups(self, **filters: Any) -> AsyncIterator[wire.GroupSummary]:  # noqa: ANN401
        return self._pages("/consumer-groups", wire.Groups, "consumer_groups", filters)

    def group_partitions(
        self,
        group: str,
        queue: str,
        **filters: Any,  # noqa: ANN401
    ) -> AsyncIterator[wire.GroupPartition]:
        path = f"{_group(group, queue)}/partitions"
        return self._pages(path, wire.GroupPartitions, "partitions", filters)

    async def seek(
        self,
        group: str,
        queue: str,
        *,
        partition: str | None = None,
        to: datetime | None = None,
        to_start: bool = False,
        to_end: bool = False,
        offset: int | None = None,
    ) -> wire.Sought:
        path = _group(group, queue)
        if partition is not None:
            path += f"/partitions/{quote(partition, safe='')}"
        body = wire.SeekRequest(timestamp=to, to_start=to_start, to_end=to_end, offset=offset)
        return await self._send("POST", f"{path}/seek", body, wire.Sought)

    async def delete_group(self, group: str, queue: str | None = None) -> wire.GroupDeleted:
        path = (
            f"/consumer-groups/{quote(group, safe='')}" if queue is None else _group(group, queue)
        )
        return await self._send("DELETE", path, None, wire.GroupDeleted)

    # Messages and dead letters.

    def messages(self, queue: str, **filters: Any) -> AsyncIterator[wire.MessageInfo]:  # noqa: ANN401
        return self._pages("/messages", wire.Messages, "messages", {"queue": queue, **filters})

    async def message(self, id_: str) -> wire.MessageDetail:
        return await self._get(f"/messages/{quote(id_, safe='')}", wire.MessageDetail)

    async def retry(self, id_: str, group: str | None = None) -> wire.MessageChanged:
        body = wire.RetryRequest(consumer_group=group)
        path = f"/messages/{quote(id_, safe='')}/retry"
        return await self._send("POST", path, body, wire.MessageChanged)

    async def redact(self, id_: str) -> wire.MessageChanged:
        path = f"/messages/{quote(id_, safe='')}"
        return await self._send("DELETE", path, None, wire.MessageChanged)

    def dead_letters(self, **filters: Any) -> AsyncIterator[wire.DeadLetter]:  # noqa: ANN401
        return self._pages("/dlq", wire.DeadLetters, "messages", filters)

    async def dead_letter(self, id_: str) -> wire.DeadLetter:
        return await self._get(f"/dlq/{quote(id_, safe='')}", wire.DeadLetter)

    async def dead_letter_errors(self, queue: str) -> wire.ErrorKinds:
        return await self._get("/dlq/errors", wire.ErrorKinds, {"queue": queue})

    async def redrive(self, **request: Any) -> wire.Counted | wire.Operation:  # noqa: ANN401 - of RedriveRequest
        """Deliver dead letters again: a count at once, or the operation that goes on with it."""
        body = msgspec.json.encode(msgspec.convert(request, wire.RedriveRequest))
        reply = await self._queen.transport.exchange("POST", f"{_API}/dlq/redrive", body)
        if reply.status == 202:
            return msgspec.json.decode(reply.body, type=wire.OperationStarted).operation
        return msgspec.json.decode(reply.body, type=wire.Counted)

    # Traces.

    def traces(self, name: str) -> AsyncIterator[wire.TraceEvent]:
        return self._pages(f"/traces/by-name/{quote(name, safe='')}", wire.Traces, "traces", {})

    # Operations and the system.

    def operations(self, **filters: Any) -> AsyncIterator[wire.Operation]:  # noqa: ANN401
        return self._pages("/operations", wire.Operations, "operations", filters)

    async def operation(self, id_: str) -> wire.Operation:
        started = await self._get(f"/operations/{quote(id_, safe='')}", wire.OperationStarted)
        return started.operation

    async def cancel_operation(self, id_: str) -> wire.Operation:
        path = f"/operations/{quote(id_, safe='')}"
        return (await self._send("DELETE", path, None, wire.OperationStarted)).operation

    async def finished(self, operation: wire.Operation) -> wire.Operation:
        """Wait until long work has ended, well or not."""
        pause = 0.05
        while operation.state == "running":
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)
            operation = await self.operation(operation.id)
        return operation

    async def tables(self) -> wire.Tables:
        return await self._get("/system/tables", wire.Tables)

    async def migrations(self) -> wire.Migrations:
        return await self._get("/system/migrations", wire.Migrations)

    def instances(self) -> AsyncIterator[wire.Instance]:
        return self._pages("/system/instances", wire.Instances, "instances", {})

    # What they share.

    async def _get(self, path: str, type_: type[T], query: dict[str, Any] | None = None) -> T:
        reply = await self._queen.transport.exchange("GET", _API + path + _query(query or {}))
        return msgspec.json.decode(reply.body, type=type_)

    async def _send(self, method: str, path: str, body: object, type_: type[T]) -> T:
        sent = None if body is None else msgspec.json.encode(body)
        reply = await self._queen.transport.exchange(method, _API + path, sent)
        return msgspec.json.decode(reply.body, type=type_)

    async def _pages(
        self, path: str, type_: type[Any], field: str, filters: dict[str, Any]
    ) -> AsyncIterator[Any]:
        """Every element of a list, page by page."""
        cursor: str | None = None
        while True:
            page = await self._get(path, type_, {**filters, "cursor": cursor})
            for each in getattr(page, field):
                yield each
            cursor = page.next_cursor
            if cursor is None:
                return


def _queue(name: str) -> str:
    return f"/resources/queues/{quote(name, safe='')}"


def _group(group: str, queue: str) -> str:
    return f"/consumer-groups/{quote(group, safe='')}/queues/{quote(queue, safe='')}"


def _query(given: dict[str, Any]) -> str:
    """Parameters in the names of the wire; what is None is left out."""
    pairs = {
        _camel(name): value.isoformat() if isinstance(value, datetime) else value
        for name, value in given.items()
        if value is not None
    }
    return f"?{urlencode(pairs)}" if pairs else ""


def _camel(name: str) -> str:
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)
