# Written by `python -m tools.write_sync_types` from the classes that are awaited: change those.
# ruff: noqa: ANN401 - where those have Any, for a reason that stands there, so has this
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from threading import Event
from typing import Any, Generic, Literal, Self, overload

from typing_extensions import TypeVar

from queen.client.config import Config
from queen.client.durations import Duration
from queen.client.transport.base import Transport
from queen.wire import access as _access, analytics as _analytics, resources as _resources
from queen.wire.messages import Acknowledged, AckResult, Pushed, PushItem
from queen.wire.options import Configured, ConfigureRequest, QueueConfiguration, QueueOptions
from queen.wire.transactions import AdvanceOperation, TransactionResponse

T = TypeVar("T", default=Any)
H = TypeVar("H", bound=Callable[..., Any])
Settleable = Mapping[str, Any] | str

class SyncQueen:
    config: Config
    @classmethod
    def from_env(cls) -> Self:
        """Create a client configured by QUEEN_BASE_URL and the CLIENT_ variables."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def close(self) -> None:
        """Stop consumers, flush buffers, close connections, end the thread."""
    def run(self, *, handle_signals: bool = False) -> None:
        """Run all registered handlers until `stop`, or with ``handle_signals`` until SIGTERM."""
    def stop(self, *, now: bool = False) -> None:
        """End `run`; with ``now`` handlers are cancelled."""
    @property
    def admin(self) -> SyncAdmin:
        """The admin API."""
    @overload
    def queue(self, name: str | None = None) -> SyncQueue[Any]: ...
    @overload
    def queue(self, name: str | None = None, *, type: type[T]) -> SyncQueue[T]: ...
    def transaction(
        self, *, across_shards: Literal["reject", "outbox"] = "reject"
    ) -> SyncTransaction:
        """Start a transaction of acks and pushes. Its `commit` sends it."""
    def flush_all_buffers(self) -> None:
        """Send all buffered messages, and wait until they are stored."""
    def get_buffer_stats(self) -> dict[str, Any]:
        """Return the number of buffered messages, and counts of their flushes."""
    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
    def __init__(
        self,
        where: str | Sequence[str] | Mapping[str, Any] | None = None,
        *,
        transport: Transport | None = None,
        **options: Any,
    ) -> None: ...
    def push(
        self,
        items: Sequence[PushItem | Mapping[str, Any]] | Mapping[str, Any],
        *,
        key: str | None = None,
    ) -> list[Pushed]:
        """Store items durably; a repeat after a lost response stores nothing twice."""
    def ack(
        self,
        messages: Settleable | Sequence[Settleable],
        status: bool | str = True,
        context: Mapping[str, Any] | None = None,
    ) -> Acknowledged | list[AckResult]:
        """Acknowledge messages: True is completed, False failed; or ``retry``, ``dlq``."""
    def settle(
        self, outcomes: Sequence[tuple[Settleable, bool | str, Mapping[str, Any] | None]]
    ) -> list[AckResult]:
        """Acknowledge each message with its own status, in one call; raises the first rejection."""
    def renew(
        self, messages: Settleable | Sequence[Settleable], *, seconds: Duration | None = None
    ) -> list[datetime]:
        """Extend the leases of messages, in one call; raises LeaseLost if a lease is lost."""
    def extend(
        self, lease_ids: Sequence[str], *, seconds: Duration | None = None
    ) -> dict[str, datetime | None]:
        """Extend leases and return their new ends; None for a lease that is lost."""
    def release(self, lease_id: str) -> None:
        """Return the rest of a delivery to the queue immediately, without counting an attempt."""
    def record_trace(self, message: SyncMessage[Any], event: Mapping[str, Any]) -> None:
        """Record a trace event of a message."""

class SyncQueue(Generic[T]):
    name: str | None
    def namespace(self, name: str) -> Self:
        """Select all queues of a namespace, or set the namespace for `create`."""
    def task(self, name: str) -> Self:
        """Select all queues of a task, or set the task for `create`."""
    def partition(self, name: str) -> Self:
        """Select a partition. Messages of one partition are delivered in order."""
    def config(self, options: Mapping[str, Any]) -> Self:
        """Set options for `create`. Other options keep their values."""
    def create(self) -> Configured:
        """Create the queue, or change the options given to `config`."""
    def delete(self) -> None:
        """Delete the queue with its messages; dead letters stay."""
    def buffer(
        self, options: Mapping[str, Any] | None = None, **others: Any
    ) -> SyncBufferedQueue[T]:
        """Buffer pushes. They are sent at a message count or after an interval."""
    @overload
    def push(
        self: SyncBufferedQueue[T], items: Sequence[Mapping[str, Any]] | Mapping[str, Any]
    ) -> SyncBuffered: ...
    @overload
    def push(self, items: Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> list[Pushed]: ...
    def items(self, given: Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> list[PushItem]:
        """The items of a push."""
    def flush_buffer(self) -> None:
        """Send the buffered messages of this queue and partition, and wait for their storage."""
    def group(self, name: str) -> Self:
        """Set the consumer group. Each group receives every message."""
    def batch(self, size: int) -> Self:
        """Set the largest number of messages per pop. Default: 1."""
    def partitions(self, count: int) -> Self:
        """Set the largest number of partitions per pop. Default: 1 for a queue."""
    def wait(self, is_waiting: bool = True) -> Self:
        """Wait for messages if there are none. Consumers always wait."""
    def timeout_millis(self, millis: Duration) -> Self:
        """Set how long a pop waits for messages. Default: 30000."""
    def auto_ack(self, is_on: bool = True) -> Self:
        """Acknowledge in the pop itself, or in a consumer when the handler returns."""
    def concurrency(self, count: int) -> Self:
        """Set the number of handlers that a consumer runs at the same time. Default: 1."""
    def limit(self, count: int | None) -> Self:
        """Stop the consumer after this number of messages."""
    def idle_millis(self, millis: Duration | None) -> Self:
        """Stop the consumer if no message arrives for this time."""
    def lease(self, seconds: Duration) -> Self:
        """Set the lease of these deliveries, instead of the queue's leaseTime."""
    def renew_lease(self, is_on: bool = True, interval_millis: Duration | None = None) -> Self:
        """Extend leases while their handler runs, by default three times per lease time."""
    def each(self) -> Self:
        """Call the handler with one message at a time, regardless of the batch."""
    def subscription_mode(self, mode: str) -> Self:
        """Let a new group start with the oldest message (``all``), or only with ``new`` ones."""
    def subscription_from(self, instant: str | datetime) -> Self:
        """Let a new group start with messages that were pushed at or after this time."""
    def on_success(self, callback: Callable[[Any], Any]) -> Self:
        """Call back with the handled message or list, after its ack."""
    def on_error(self, callback: Callable[[Any, BaseException], Any]) -> Self:
        """Call back with the failed message or list and the exception, after the nack."""
    def on_lease_lost(self, callback: Callable[[SyncMessage[T]], Any]) -> Self:
        """Call back when a lease is lost, instead of cancelling the handler."""
    def pop(self) -> list[SyncMessage[T]]:
        """Pop messages; an empty list if there are none."""
    @overload
    def consume(
        self, handler: Callable[[SyncMessage[T]], object], signal: Event | None = None
    ) -> None: ...
    @overload
    def consume(
        self, handler: Callable[[list[SyncMessage[T]]], object], signal: Event | None = None
    ) -> None: ...
    def start(
        self, handler: Callable[[Any], object], *, signal: Event | None = None
    ) -> SyncConsumption:
        """Start consuming in the background. Use the returned handle to wait for it or stop it."""
    def handler(self, function: H) -> H:
        """Register a function that `queen.run` consumes with; returns it unchanged."""
    def receive(self) -> AbstractContextManager[SyncMessage[T]]:
        """Wait for one message: ack when the block ends, nack when it raises."""
    def dlq(self, group: str | None = None) -> SyncDeadLetters:
        """The queue's dead letters, of one group or all."""
    @property
    def key(self) -> str:
        """Affinity key: requests with the same key go to the same server."""

class SyncBufferedQueue(SyncQueue[T], Generic[T]): ...

class SyncMessage(Mapping[str, Any], Generic[T]):
    is_lost: bool
    is_settled: bool
    is_delivery_over: bool
    @property
    def data(self) -> T:
        """The payload, decoded on first access; raises UndecodablePayload."""
    @property
    def raw(self) -> bytes:
        """The payload, byte for byte as it was pushed."""
    @property
    def id(self) -> str:
        """The id of the message, unique in all queues."""
    @property
    def transaction_id(self) -> str:
        """The id that the producer set, or the message's own id."""
    @property
    def queue(self) -> str:
        """The name of the queue."""
    @property
    def partition(self) -> str:
        """The name of the partition."""
    @property
    def partition_id(self) -> str:
        """The id of the partition."""
    @property
    def offset(self) -> int:
        """The position in the partition. The first message has offset 0."""
    @property
    def attempt(self) -> int:
        """1 for the first delivery; counts failures and expired leases."""
    @property
    def retry_count(self) -> int:
        """The number of earlier deliveries that failed or expired."""
    @property
    def priority(self) -> int:
        """The priority of the message. Higher values are delivered first."""
    @property
    def headers(self) -> dict[str, str]:
        """The headers that the producer set."""
    @property
    def trace_id(self) -> str | None:
        """The trace id that the producer set, or None."""
    @property
    def created_at(self) -> datetime:
        """The time when the server stored the message."""
    @property
    def lease_id(self) -> str | None:
        """None for a message that was acknowledged by its pop."""
    @property
    def lease_expires_at(self) -> datetime | None:
        """The time when the lease expires, as of the pop. None without a lease."""
    @property
    def lease_seconds(self) -> float:
        """The queue's lease time."""
    @property
    def consumer_group(self) -> str | None:
        """The group that received the message, or None for the default group."""
    def ack(self) -> None:
        """Acknowledge the message as completed."""
    def nack(self, error: str | None = None, *, delay: Duration | None = None) -> None:
        """Reject the message: it is redelivered after its backoff, or after ``delay``."""
    def extend(self, seconds: Duration | None = None) -> datetime:
        """Extend the lease and return its new end. Raises AlreadySettled if the pop acked it."""
    def trace(self, event: Mapping[str, Any]) -> None:
        """Record an event of this message: ``traceName``, ``eventType``, ``data``."""
    def __getitem__(self, name: str) -> Any: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __hash__(self) -> int: ...

class SyncConsumption:
    def wait(self) -> None:
        """Wait until it has ended, and raise the error that ended it."""
    def stop(self, *, now: bool = False) -> None:
        """Stop popping immediately, wait for the handlers, and release unhandled messages."""

class SyncBuffered(Sequence[Pushed]):
    @overload
    def __getitem__(self, index: int) -> Pushed: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Pushed]: ...
    def __len__(self) -> int: ...
    def stored(self) -> None:
        """Wait until all items are durable; raises PushError with those that are not."""

class SyncTransaction:
    def ack(
        self,
        messages: Settleable | Sequence[Settleable],
        status: bool | str = True,
        context: Mapping[str, Any] | None = None,
    ) -> SyncTransaction:
        """Acknowledge messages in the transaction; every ack carries its lease."""
    def queue(self, name: str) -> SyncTransaction:
        """Set the queue of the next pushes."""
    def partition(self, name: str) -> SyncTransaction:
        """Set the partition of the next pushes."""
    def push(self, items: Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> SyncTransaction:
        """Push messages to the current queue, with the arguments of `Queue.push`."""
    def advance(self, step: AdvanceOperation) -> SyncTransaction:
        """Complete the workflow step of an acked message."""
    def commit(self) -> TransactionResponse:
        """Apply all operations together or not at all, or raise an error."""

class SyncDeadLetters:
    def limit(self, count: int) -> SyncDeadLetters:
        """Set the largest number of dead letters that `get` returns. Default: 100."""
    def cursor(self, cursor: str | None) -> SyncDeadLetters:
        """Continue a list at its ``nextCursor``."""
    def from_(self, instant: str | datetime) -> SyncDeadLetters:
        """Select dead letters from this time on."""
    def to(self, instant: str | datetime) -> SyncDeadLetters:
        """Select dead letters before this time."""
    def reveal(self) -> SyncDeadLetters:
        """Return encrypted payloads instead of masked ones: needs `consume`, and is logged."""
    def get(self) -> dict[str, Any]:
        """Return ``{"messages": […], "total": …, "nextCursor": …}``, newest first."""
    def redrive(self, *, rate: float | None = None) -> dict[str, Any]:
        """Redeliver to the group that failed. Returns the count or the operation."""
    def purge(self) -> dict[str, Any]:
        """Delete them permanently."""

class SyncAdmin:
    def overview(self, *, worst: int = 0) -> _resources.Overview:
        """Return totals over all queues, and up to ``worst`` queues of each kind of problem."""
    def namespaces(self) -> Iterator[_resources.Scope]:
        """Iterate over namespaces with their totals."""
    def tasks(self) -> Iterator[_resources.Scope]:
        """Iterate over tasks with their totals."""
    def queues(self, **filters: Any) -> Iterator[_resources.QueueSummary]:
        """Iterate over queues, by ``namespace``, ``task`` or ``search``, sorted by ``sort``."""
    def queue(self, name: str) -> _resources.QueueDetail:
        """Return a queue with its options, counts and groups."""
    def configurations(self, **filters: Any) -> Iterator[QueueConfiguration]:
        """Iterate over queues with their options, by name, without counts."""
    def default_options(self) -> QueueOptions:
        """Return the options of a new queue."""
    def configure(self, request: ConfigureRequest, *, version: int | None = None) -> Configured:
        """Create or change a queue."""
    def partitions(self, queue: str, **filters: Any) -> Iterator[_resources.PartitionInfo]:
        """Iterate over the partitions of a queue, by ``prefix`` or ``state``."""
    def deliveries(self, queue: str, **filters: Any) -> Iterator[_resources.DeliveryInfo]:
        """Iterate over leased and waiting deliveries of a queue."""
    def release_delivery(self, queue: str, delivery_id: str) -> _resources.DeliveryReleased:
        """Release a delivery by its ``id`` in ``deliveries``. Its consumer loses the lease."""
    def pause(self, queue: str) -> _resources.Paused:
        """Stop the delivery of messages of a queue. Pushes are still accepted."""
    def resume(self, queue: str) -> _resources.Paused:
        """Deliver messages of a paused queue again."""
    def purge(self, queue: str, **request: Any) -> _resources.Operation:
        """Delete messages of a queue: ``scope`` is ``completed`` or ``all``."""
    def count_purge(self, queue: str, **request: Any) -> _resources.Counted:
        """Count the messages that a purge would remove."""
    def delete_queue(self, queue: str) -> _resources.Operation:
        """Delete a queue with its messages. Dead letters stay."""
    def groups(self, **filters: Any) -> Iterator[_resources.GroupSummary]:
        """Iterate over consumer groups with their positions and lag."""
    def group_partitions(
        self, group: str, queue: str, **filters: Any
    ) -> Iterator[_resources.GroupPartition]:
        """Iterate over the positions of a group in the partitions of a queue."""
    def seek(
        self,
        group: str,
        queue: str,
        *,
        partition: str | None = None,
        to: datetime | None = None,
        to_start: bool = False,
        to_end: bool = False,
        offset: int | None = None,
    ) -> _resources.Sought:
        """Move a group to a time, the start, the end, or an offset. Current leases are lost."""
    def delete_group(self, group: str, queue: str | None = None) -> _resources.GroupDeleted:
        """Delete a group in one queue, or in all queues."""
    def messages(self, queue: str, **filters: Any) -> Iterator[_resources.MessageInfo]:
        """Iterate over messages of a queue, by ``status``, ``partition``, time or payload."""
    def message(self, id_: str, *, reveal: bool = False) -> _resources.MessageDetail:
        """Return a message. Encrypted payloads are ``masked`` unless ``reveal`` is set."""
    def retry(self, id_: str, group: str | None = None) -> _resources.MessageChanged:
        """Redeliver a message that waits for its next attempt, or a dead letter, now."""
    def give_up(
        self, id_: str, group: str | None = None, *, error: str | None = None
    ) -> _resources.MessageChanged:
        """Dead-letter a message now."""
    def redact(self, id_: str) -> _resources.MessageChanged:
        """Erase the payload and headers of a message. Its offset stays."""
    def dead_letters(self, **filters: Any) -> Iterator[_resources.DeadLetter]:
        """Iterate over dead letters, by ``queue``, ``consumer_group`` or time."""
    def dead_letter(self, id_: str, *, reveal: bool = False) -> _resources.DeadLetter:
        """Return a dead letter. Encrypted payloads are masked unless ``reveal`` is set."""
    def dead_letter_errors(self, queue: str) -> _resources.ErrorKinds:
        """Count the dead letters of a queue by their error."""
    def redrive(self, **request: Any) -> _resources.Counted | _resources.Operation:
        """Redeliver dead letters. Returns a count, or an operation that continues in steps."""
    def delete_dead_letter(self, id_: str) -> _resources.Counted:
        """Delete a dead letter."""
    def delete_dead_letters(self, ids: Sequence[str]) -> _resources.Counted | _resources.Operation:
        """Delete these dead letters. Returns a count, or an operation that continues in steps."""
    def purge_dead_letters(self, queue: str, **filters: Any) -> _resources.Operation:
        """Delete the dead letters of a queue that match the filters."""
    def count_dead_letters(self, queue: str, **filters: Any) -> _resources.Counted:
        """Count the dead letters that a purge would remove."""
    def traces(self, name: str) -> Iterator[_resources.TraceEvent]:
        """Iterate over trace events with this name, of all messages."""
    def traces_of(self, partition_id: str, transaction_id: str) -> Iterator[_resources.TraceEvent]:
        """Iterate over the trace events of one message."""
    def trace_names(self, prefix: str = "") -> Iterator[_resources.TraceName]:
        """Iterate over the names of traces, by prefix."""
    def operations(self, **filters: Any) -> Iterator[_resources.Operation]:
        """Iterate over long-running operations, such as purges and redrives."""
    def operation(self, id_: str) -> _resources.Operation:
        """Return the state and progress of an operation."""
    def cancel_operation(self, id_: str) -> _resources.Operation:
        """Cancel an operation. Its completed steps stay."""
    def finished(self, operation: _resources.Operation) -> _resources.Operation:
        """Wait until an operation has ended, successfully or not."""
    def settings(self) -> _resources.Config:
        """Return the server's effective settings, with secrets masked."""
    def maintenance(self, *, of_pops: bool = False) -> _resources.Maintenance:
        """Return whether maintenance mode is on, for pushes or with ``of_pops`` for pops."""
    def set_maintenance(self, enabled: bool, *, of_pops: bool = False) -> _resources.Maintenance:
        """Buffer pushes on disk, or stop pops with ``of_pops``, on all servers."""
    def tables(self) -> _resources.Tables:
        """Return sizes and vacuum times of the tables."""
    def migrations(self) -> _resources.Migrations:
        """Return the schema version and the migrations that were applied."""
    def upkeep(self) -> _resources.Duties:
        """Return the background tasks and their last runs."""
    def buffer(self) -> _resources.Buffer:
        """Return the state of the server's file buffer."""
    def flush_buffer(self) -> _resources.Buffer:
        """Store buffered pushes now."""
    def retry_failed_buffer(self, *, doubtful: bool = False) -> _resources.BufferRetried:
        """Retry pushes that could not be stored; ``doubtful`` includes possibly stored ones."""
    def instances(self) -> Iterator[_resources.Instance]:
        """Iterate over the server processes that use this database."""
    def pipelines(self) -> Iterator[_resources.Pipeline]:
        """Iterate over Spark pipelines with their progress."""
    def pipeline(self, name: str) -> _resources.Pipeline:
        """Return a Spark pipeline with its progress."""
    def pipeline_series(self, name: str, **query: Any) -> _resources.PipelineSeries:
        """Return rate, lag, batch time and late rows of a Spark pipeline over time."""
    def holds(self) -> Iterator[_resources.Hold]:
        """Iterate over holds, which keep messages from retention."""
    def release_hold(self, queue: str, name: str) -> None:
        """Release a hold, so that retention can delete its messages."""
    def archives(self) -> Iterator[_resources.Archive]:
        """Iterate over archives with the messages that each has missed."""
    def drop_archive(self, name: str) -> None:
        """Drop an archive and its hold. The lake keeps its data."""
    def analytics(self, **query: Any) -> _analytics.ScopeAnalytics:
        """Return counts, depths and latencies of all queues, or of a namespace or task."""
    def analytics_of_queues(self, **query: Any) -> _analytics.QueuesAnalytics:
        """Return counts, depths and latencies of each queue."""
    def analytics_of_queue(self, queue: str, **query: Any) -> _analytics.QueueAnalytics:
        """Return counts, depths and latencies of one queue and its groups."""
    def throughput(self, **query: Any) -> _analytics.Throughput:
        """Return pushed, popped and acknowledged messages over time."""
    def queue_depths(self, **query: Any) -> _analytics.QueueDepths:
        """Return depths and the age of the oldest message over time."""
    def series(self, metric: str, **query: Any) -> _analytics.Series:
        """Return one metric of a queue, namespace or group over time."""
    def health(self) -> dict[str, Any]:
        """Return the server's health. Raises an error, such as `DatabaseUnavailable`."""
    def metrics(self, *, per_object: bool = False) -> str:
        """Prometheus text."""
    def me(self) -> _access.Me:
        """Return the identity of this client and its permissions."""
    def ticket(self) -> _access.Ticket:
        """Create a one-time ticket for a WebSocket."""
    def tokens(self, **filters: Any) -> Iterator[_access.Token]:
        """Iterate over API keys, without their secrets."""
    def create_token(self, **request: Any) -> _access.NewToken:
        """Create an API key. Only this response contains its secret."""
    def change_token(self, id_: str, **request: Any) -> _access.Token:
        """Replace everything about an API key except its secret."""
    def rotate_token(self, id_: str, **request: Any) -> _access.NewToken:
        """Replace the secret of an API key. The old one stays valid for ``grace_seconds``."""
    def revoke_token(self, id_: str) -> _access.Revoked:
        """Revoke an API key. Servers reject it within a second."""
    def audit(self, **filters: Any) -> Iterator[_access.AuditEntry]:
        """Iterate over the audit log, newest first."""
    def schedules(self, **filters: Any) -> Iterator[_resources.Schedule]:
        """Iterate over schedules by name, of one ``queue`` or of all."""
    def schedule(self, name: str, *, reveal: bool = False) -> _resources.ScheduleDetail:
        """Return a schedule with its payload, which is masked if its queue is encrypted."""
    def put_schedule(
        self, name: str, *, queue: str, cron: str, data: Any = None, **options: Any
    ) -> _resources.ScheduleDetail:
        """Create or change a schedule. Its next tick stays if possible."""
    def pause_schedule(self, name: str) -> _resources.Schedule:
        """Stop a schedule until `resume_schedule`."""
    def resume_schedule(self, name: str) -> _resources.Schedule:
        """Resume with the next tick from now on."""
    def run_schedule(self, name: str) -> Pushed:
        """Push the schedule's message now, in addition to its ticks."""
    def delete_schedule(self, name: str) -> _resources.ScheduleDeleted:
        """Delete a schedule. Messages that it pushed stay."""
    def shards(self) -> _resources.Shards:
        """Return all databases, and the slots that have queues or are moving."""
    def cluster(self) -> _resources.ClusterMap:
        """Return the slots of each database, and which server prefers which databases."""
    def move_slots(
        self,
        to: str,
        *,
        slot: int | None = None,
        queue: str | None = None,
        namespace: str | None = None,
    ) -> _resources.Operation:
        """Move a slot, a queue or a namespace to another database, while it is in use."""
    def drain(self, database: str) -> _resources.Operation:
        """Move all slots of a database evenly to the others."""
    def rebalance(
        self, *, dry_run: bool = False, moves: Sequence[_resources.PlannedMove] | None = None
    ) -> _resources.Rebalanced:
        """Move slots so that the load of all databases is even, or only return the plan."""
    def pins(self) -> list[_resources.Pin]:
        """Return the partitions that have a slot of their own."""
    def pin(self, queue: str, partition: str, database: str) -> _resources.Pinned:
        """Give a partition of a spread queue, which does not exist yet, a slot in a database."""
    def unpin(self, queue: str, partition: str) -> _resources.Unpinned:
        """Remove the pin of a partition that does not exist."""
    def remove_database(self, name: str) -> _resources.ShardRemoved:
        """Remove a database that owns no slots. Its name and number are never used again."""
