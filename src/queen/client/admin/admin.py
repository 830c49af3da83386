"""The admin API: queues, groups, messages, dead letters, operations, the system."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from queen.client.admin.analytics import Analytics
from queen.client.admin.base import API, answer, name_of, query_of
from queen.client.admin.schedules import Schedules
from queen.client.admin.shards import ShardCalls
from queen.client.admin.tokens import Access
from queen.client.backoff import Backoff
from queen.wire import resources as wire
from queen.wire.options import (
    Configured,
    ConfigureRequest,
    QueueConfiguration,
    QueueOptions,
)


class Admin(Analytics, Access, Schedules, ShardCalls):
    """
    All admin routes of the HTTP API.

    Usage::

        async for queue in queen.admin.queues(namespace="shop"):
            print(queue.name, queue.pending)
    """

    # Queues.

    async def overview(self, *, worst: int = 0) -> wire.Overview:
        """Return totals over all queues, and up to ``worst`` queues of each kind of problem."""
        return await self._get("/resources/overview", wire.Overview, {"worst": worst or None})

    def namespaces(self) -> AsyncIterator[wire.Scope]:
        """Iterate over namespaces with their totals."""
        return self._pages("/resources/namespaces", wire.Namespaces, "namespaces", {})

    def tasks(self) -> AsyncIterator[wire.Scope]:
        """Iterate over tasks with their totals."""
        return self._pages("/resources/tasks", wire.Tasks, "tasks", {})

    def queues(self, **filters: Any) -> AsyncIterator[wire.QueueSummary]:  # noqa: ANN401
        """Iterate over queues, by ``namespace``, ``task`` or ``search``, sorted by ``sort``."""
        return self._pages("/resources/queues", wire.Queues, "queues", filters)

    async def queue(self, name: str) -> wire.QueueDetail:
        """Return a queue with its options, counts and groups."""
        return await self._get(_queue(name), wire.QueueDetail)

    def configurations(self, **filters: Any) -> AsyncIterator[QueueConfiguration]:  # noqa: ANN401
        """Iterate over queues with their options, by name, without counts."""
        return self._pages("/configure", wire.QueueConfigurations, "queues", filters)

    async def default_options(self) -> QueueOptions:
        """Return the options of a new queue."""
        page = await self._get("/configure", wire.QueueConfigurations, {"limit": 1})
        return page.defaults

    async def configure(
        self, request: ConfigureRequest, *, version: int | None = None
    ) -> Configured:
        """
        Create or change a queue.

        With a ``version``, raise VersionMismatch if the queue has another one. 0: it must not
        exist.
        """
        headers = None if version is None else {"If-Match": str(version)}
        return await self._send("POST", "/configure", request, Configured, headers=headers)

    def partitions(self, queue: str, **filters: Any) -> AsyncIterator[wire.PartitionInfo]:  # noqa: ANN401
        """Iterate over the partitions of a queue, by ``prefix`` or ``state``."""
        return self._pages(f"{_queue(queue)}/partitions", wire.Partitions, "partitions", filters)

    def deliveries(self, queue: str, **filters: Any) -> AsyncIterator[wire.DeliveryInfo]:  # noqa: ANN401
        """Iterate over leased and waiting deliveries of a queue."""
        return self._pages(f"{_queue(queue)}/deliveries", wire.Deliveries, "deliveries", filters)

    async def release_delivery(self, queue: str, delivery_id: str) -> wire.DeliveryReleased:
        """Release a delivery by its ``id`` in ``deliveries``. Its consumer loses the lease."""
        path = f"{_queue(queue)}/deliveries/{name_of(delivery_id)}/release"
        return await self._send("POST", path, None, wire.DeliveryReleased)

    async def pause(self, queue: str) -> wire.Paused:
        """Stop the delivery of messages of a queue. Pushes are still accepted."""
        return await self._send("POST", f"{_queue(queue)}/pause", None, wire.Paused)

    async def resume(self, queue: str) -> wire.Paused:
        """Deliver messages of a paused queue again."""
        return await self._send("POST", f"{_queue(queue)}/resume", None, wire.Paused)

    async def purge(self, queue: str, **request: Any) -> wire.Operation:  # noqa: ANN401 - of PurgeRequest
        """Delete messages of a queue: ``scope`` is ``completed`` or ``all``."""
        return await self._start("POST", f"{_queue(queue)}/purge", wire.PurgeRequest(**request))

    async def count_purge(self, queue: str, **request: Any) -> wire.Counted:  # noqa: ANN401 - of PurgeRequest
        """Count the messages that a purge would remove."""
        body = wire.PurgeRequest(**request, dry_run=True)
        return await self._send("POST", f"{_queue(queue)}/purge", body, wire.Counted)

    async def delete_queue(self, queue: str) -> wire.Operation:
        """Delete a queue with its messages. Dead letters stay."""
        return await self._start("DELETE", _queue(queue))

    # Groups.

    def groups(self, **filters: Any) -> AsyncIterator[wire.GroupSummary]:  # noqa: ANN401
        """Iterate over consumer groups with their positions and lag."""
        return self._pages("/consumer-groups", wire.Groups, "consumer_groups", filters)

    def group_partitions(
        self,
        group: str,
        queue: str,
        **filters: Any,  # noqa: ANN401
    ) -> AsyncIterator[wire.GroupPartition]:
        """Iterate over the positions of a group in the partitions of a queue."""
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
        """Move a group to a time, the start, the end, or an offset. Current leases are lost."""
        path = _group(group, queue)
        if partition is not None:
            path += f"/partitions/{name_of(partition)}"
        body = wire.SeekRequest(timestamp=to, to_start=to_start, to_end=to_end, offset=offset)
        return await self._send("POST", f"{path}/seek", body, wire.Sought)

    async def delete_group(self, group: str, queue: str | None = None) -> wire.GroupDeleted:
        """Delete a group in one queue, or in all queues."""
        path = f"/consumer-groups/{name_of(group)}" if queue is None else _group(group, queue)
        return await self._send("DELETE", path, None, wire.GroupDeleted)

    # Messages and dead letters.

    def messages(self, queue: str, **filters: Any) -> AsyncIterator[wire.MessageInfo]:  # noqa: ANN401
        """Iterate over messages of a queue, by ``status``, ``partition``, time or payload."""
        return self._pages("/messages", wire.Messages, "messages", {"queue": queue, **filters})

    async def message(self, id_: str, *, reveal: bool = False) -> wire.MessageDetail:
        """Return a message. Encrypted payloads are ``masked`` unless ``reveal`` is set."""
        path = f"/messages/{name_of(id_)}"
        return await self._get(path, wire.MessageDetail, {"reveal": reveal or None})

    async def retry(self, id_: str, group: str | None = None) -> wire.MessageChanged:
        """Redeliver a message that waits for its next attempt, or a dead letter, now."""
        body = wire.RetryRequest(consumer_group=group)
        path = f"/messages/{name_of(id_)}/retry"
        return await self._send("POST", path, body, wire.MessageChanged)

    async def give_up(
        self, id_: str, group: str | None = None, *, error: str | None = None
    ) -> wire.MessageChanged:
        """Dead-letter a message now."""
        body = wire.GiveUpRequest(consumer_group=group, error=error)
        return await self._send("POST", f"/messages/{name_of(id_)}/dlq", body, wire.MessageChanged)

    async def redact(self, id_: str) -> wire.MessageChanged:
        """Erase the payload and headers of a message. Its offset stays."""
        path = f"/messages/{name_of(id_)}"
        return await self._send("DELETE", path, None, wire.MessageChanged)

    def dead_letters(self, **filters: Any) -> AsyncIterator[wire.DeadLetter]:  # noqa: ANN401
        """Iterate over dead letters, by ``queue``, ``consumer_group`` or time."""
        return self._pages("/dlq", wire.DeadLetters, "messages", filters)

    async def dead_letter(self, id_: str, *, reveal: bool = False) -> wire.DeadLetter:
        """Return a dead letter. Encrypted payloads are masked unless ``reveal`` is set."""
        path = f"/dlq/{name_of(id_)}"
        return await self._get(path, wire.DeadLetter, {"reveal": reveal or None})

    async def dead_letter_errors(self, queue: str) -> wire.ErrorKinds:
        """Count the dead letters of a queue by their error."""
        return await self._get("/dlq/errors", wire.ErrorKinds, {"queue": queue})

    async def redrive(self, **request: Any) -> wire.Counted | wire.Operation:  # noqa: ANN401 - of RedriveRequest
        """Redeliver dead letters. Returns a count, or an operation that continues in steps."""
        return await self._begin("/dlq/redrive", msgspec.convert(request, wire.RedriveRequest))

    async def _begin(self, path: str, request: object) -> wire.Counted | wire.Operation:
        body = msgspec.json.encode(request)
        reply = await self._transport.exchange("POST", f"{API}{path}", body, is_repeatable=False)
        if reply.status == 202:
            return answer(reply, wire.OperationStarted).operation
        return answer(reply, wire.Counted)

    async def delete_dead_letter(self, id_: str) -> wire.Counted:
        """Delete a dead letter."""
        return await self._send("DELETE", f"/dlq/{name_of(id_)}", None, wire.Counted)

    async def delete_dead_letters(self, ids: Sequence[str]) -> wire.Counted | wire.Operation:
        """Delete these dead letters. Returns a count, or an operation that continues in steps."""
        request = wire.PurgeLettersRequest(filter=wire.RedriveFilter(ids=list(ids)))
        return await self._begin("/dlq/purge", request)

    async def purge_dead_letters(self, queue: str, **filters: Any) -> wire.Operation:  # noqa: ANN401
        """Delete the dead letters of a queue that match the filters."""
        return await self._start("DELETE", f"/dlq{query_of({'queue': queue, **filters})}")

    async def count_dead_letters(self, queue: str, **filters: Any) -> wire.Counted:  # noqa: ANN401
        """Count the dead letters that a purge would remove."""
        path = f"/dlq{query_of({'queue': queue, **filters, 'dryRun': 'true'})}"
        return await self._send("DELETE", path, None, wire.Counted)

    # Traces.

    def traces(self, name: str) -> AsyncIterator[wire.TraceEvent]:
        """Iterate over trace events with this name, of all messages."""
        return self._pages(f"/traces/by-name/{name_of(name)}", wire.Traces, "traces", {})

    def traces_of(self, partition_id: str, transaction_id: str) -> AsyncIterator[wire.TraceEvent]:
        """Iterate over the trace events of one message."""
        path = f"/traces/{name_of(partition_id)}/{name_of(transaction_id)}"
        return self._pages(path, wire.Traces, "traces", {})

    def trace_names(self, prefix: str = "") -> AsyncIterator[wire.TraceName]:
        """Iterate over the names of traces, by prefix."""
        filters = {"prefix": prefix or None}
        return self._pages("/traces/names", wire.TraceNames, "names", filters)

    # Operations and the system.

    def operations(self, **filters: Any) -> AsyncIterator[wire.Operation]:  # noqa: ANN401
        """Iterate over long-running operations, such as purges and redrives."""
        return self._pages("/operations", wire.Operations, "operations", filters)

    async def operation(self, id_: str) -> wire.Operation:
        """Return the state and progress of an operation."""
        started = await self._get(f"/operations/{name_of(id_)}", wire.OperationStarted)
        return started.operation

    async def cancel_operation(self, id_: str) -> wire.Operation:
        """Cancel an operation. Its completed steps stay."""
        return await self._start("DELETE", f"/operations/{name_of(id_)}")

    async def _start(self, method: str, path: str, body: object = None) -> wire.Operation:
        return (await self._send(method, path, body, wire.OperationStarted)).operation

    async def finished(self, operation: wire.Operation) -> wire.Operation:
        """Wait until an operation has ended, successfully or not."""
        backoff = Backoff(first_seconds=0.05, max_seconds=1.0)
        while operation.state == "running":
            await asyncio.sleep(backoff.next())
            operation = await self.operation(operation.id)
        return operation

    async def settings(self) -> wire.Config:
        """Return the server's effective settings, with secrets masked."""
        return await self._get("/system/config", wire.Config)

    async def maintenance(self, *, of_pops: bool = False) -> wire.Maintenance:
        """Return whether maintenance mode is on, for pushes or with ``of_pops`` for pops."""
        return await self._get(_maintenance(of_pops), wire.Maintenance)

    async def set_maintenance(self, enabled: bool, *, of_pops: bool = False) -> wire.Maintenance:
        """Buffer pushes on disk, or stop pops with ``of_pops``, on all servers."""
        body = wire.MaintenanceRequest(enabled=enabled)
        return await self._send("POST", _maintenance(of_pops), body, wire.Maintenance)

    async def tables(self) -> wire.Tables:
        """Return sizes and vacuum times of the tables."""
        return await self._get("/system/tables", wire.Tables)

    async def migrations(self) -> wire.Migrations:
        """Return the schema version and the migrations that were applied."""
        return await self._get("/system/migrations", wire.Migrations)

    async def upkeep(self) -> wire.Duties:
        """Return the background tasks and their last runs."""
        return await self._get("/system/upkeep", wire.Duties)

    async def buffer(self) -> wire.Buffer:
        """Return the state of the server's file buffer."""
        return await self._get("/status/buffers", wire.Buffer)

    async def flush_buffer(self) -> wire.Buffer:
        """Store buffered pushes now."""
        return await self._send("POST", "/system/buffer/flush", None, wire.Buffer)

    async def retry_failed_buffer(self, *, doubtful: bool = False) -> wire.BufferRetried:
        """Retry pushes that could not be stored; ``doubtful`` includes possibly stored ones."""
        path = f"/system/buffer/failed/retry{query_of({'doubtful': 'true' if doubtful else None})}"
        return await self._send("POST", path, None, wire.BufferRetried)

    def instances(self) -> AsyncIterator[wire.Instance]:
        """Iterate over the server processes that use this database."""
        return self._pages("/system/instances", wire.Instances, "instances", {})

    # Spark pipelines.

    def pipelines(self) -> AsyncIterator[wire.Pipeline]:
        """Iterate over Spark pipelines with their progress."""
        return self._pages("/pipelines", wire.Pipelines, "pipelines", {})

    async def pipeline(self, name: str) -> wire.Pipeline:
        """Return a Spark pipeline with its progress."""
        return await self._get(f"/pipelines/{name_of(name)}", wire.Pipeline)

    async def pipeline_series(self, name: str, **query: Any) -> wire.PipelineSeries:  # noqa: ANN401
        """Return rate, lag, batch time and late rows of a Spark pipeline over time."""
        return await self._get(f"/pipelines/{name_of(name)}/series", wire.PipelineSeries, query)

    def holds(self) -> AsyncIterator[wire.Hold]:
        """Iterate over holds, which keep messages from retention."""
        return self._pages("/holds", wire.Holds, "holds", {})

    async def release_hold(self, queue: str, name: str) -> None:
        """Release a hold, so that retention can delete its messages."""
        await self._send("DELETE", f"/holds/{name_of(queue)}/{name_of(name)}", None, wire.Counted)

    def archives(self) -> AsyncIterator[wire.Archive]:
        """Iterate over archives with the messages that each has missed."""
        return self._pages("/archives", wire.Archives, "archives", {})

    async def drop_archive(self, name: str) -> None:
        """Drop an archive and its hold. The lake keeps its data."""
        await self._send("DELETE", f"/archives/{name_of(name)}", None, wire.Counted)


def _queue(name: str) -> str:
    return f"/resources/queues/{name_of(name)}"


def _group(group: str, queue: str) -> str:
    return f"/consumer-groups/{name_of(group)}/queues/{name_of(queue)}"


def _maintenance(of_pops: bool) -> str:
    return f"/system/maintenance{'/pop' if of_pops else ''}"
