# Written by `python -m tools.write_sync_types` from the classes that are awaited: change those.
# ruff: noqa: ANN401 - where those have Any, for a reason that stands there, so has this
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from threading import Event
from typing import Any, Generic, Self, overload

from typing_extensions import TypeVar

from queen.client.config import Config
from queen.client.durations import Duration
from queen.client.transport.base import Transport
from queen.wire import access as _access, analytics as _analytics, resources as _resources
from queen.wire.messages import Acknowledged, AckResult, Pushed, PushItem
from queen.wire.options import Configured
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
    def transaction(self) -> SyncTransaction: ...
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
    def namespace(self, name: str) -> Self: ...
    def task(self, name: str) -> Self: ...
    def partition(self, name: str) -> Self: ...
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
    def group(self, name: str) -> Self: ...
    def batch(self, size: int) -> Self: ...
    def partitions(self, count: int) -> Self: ...
    def wait(self, is_waiting: bool = True) -> Self: ...
    def timeout_millis(self, millis: Duration) -> Self: ...
    def auto_ack(self, is_on: bool = True) -> Self:
        """Acknowledge in the pop itself, or in a consumer when the handler returns."""
    def concurrency(self, count: int) -> Self: ...
    def limit(self, count: int | None) -> Self: ...
    def idle_millis(self, millis: Duration | None) -> Self: ...
    def lease(self, seconds: Duration) -> Self:
        """Set the lease of these deliveries, instead of the queue's leaseTime."""
    def renew_lease(self, is_on: bool = True, interval_millis: Duration | None = None) -> Self: ...
    def each(self) -> Self:
        """Call the handler with one message at a time, regardless of the batch."""
    def subscription_mode(self, mode: str) -> Self: ...
    def subscription_from(self, instant: str | datetime) -> Self: ...
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
    def id(self) -> str: ...
    @property
    def transaction_id(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def partition(self) -> str: ...
    @property
    def partition_id(self) -> str: ...
    @property
    def offset(self) -> int: ...
    @property
    def attempt(self) -> int:
        """1 for the first delivery; counts failures and expired leases."""
    @property
    def retry_count(self) -> int: ...
    @property
    def priority(self) -> int: ...
    @property
    def headers(self) -> dict[str, str]: ...
    @property
    def trace_id(self) -> str | None: ...
    @property
    def created_at(self) -> datetime: ...
    @property
    def lease_id(self) -> str | None:
        """None for a message that was acknowledged by its pop."""
    @property
    def lease_expires_at(self) -> datetime | None: ...
    @property
    def lease_seconds(self) -> float:
        """The queue's lease time."""
    @property
    def consumer_group(self) -> str | None: ...
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
    def partition(self, name: str) -> SyncTransaction: ...
    def push(self, items: Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> SyncTransaction: ...
    def advance(self, step: AdvanceOperation) -> SyncTransaction:
        """Complete the workflow step of an acked message."""
    def commit(self) -> TransactionResponse:
        """Apply all operations together or not at all, or raise an error."""

class SyncDeadLetters:
    def limit(self, count: int) -> SyncDeadLetters: ...
    def cursor(self, cursor: str | None) -> SyncDeadLetters:
        """Continue a list at its ``nextCursor``."""
    def from_(self, instant: str | datetime) -> SyncDeadLetters: ...
    def to(self, instant: str | datetime) -> SyncDeadLetters: ...
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
    def namespaces(self) -> Iterator[_resources.Scope]: ...
    def tasks(self) -> Iterator[_resources.Scope]: ...
    def queues(self, **filters: Any) -> Iterator[_resources.QueueSummary]: ...
    def queue(self, name: str) -> _resources.QueueDetail: ...
    def partitions(self, queue: str, **filters: Any) -> Iterator[_resources.PartitionInfo]: ...
    def deliveries(self, queue: str, **filters: Any) -> Iterator[_resources.DeliveryInfo]: ...
    def release_delivery(self, queue: str, delivery_id: str) -> _resources.DeliveryReleased:
        """Release a delivery by its ``id`` in ``deliveries``. Its consumer loses the lease."""
    def pause(self, queue: str) -> _resources.Paused: ...
    def resume(self, queue: str) -> _resources.Paused: ...
    def purge(self, queue: str, **request: Any) -> _resources.Operation: ...
    def count_purge(self, queue: str, **request: Any) -> _resources.Counted:
        """Count the messages that a purge would remove."""
    def delete_queue(self, queue: str) -> _resources.Operation: ...
    def groups(self, **filters: Any) -> Iterator[_resources.GroupSummary]: ...
    def group_partitions(
        self, group: str, queue: str, **filters: Any
    ) -> Iterator[_resources.GroupPartition]: ...
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
    ) -> _resources.Sought: ...
    def delete_group(self, group: str, queue: str | None = None) -> _resources.GroupDeleted: ...
    def messages(self, queue: str, **filters: Any) -> Iterator[_resources.MessageInfo]: ...
    def message(self, id_: str, *, reveal: bool = False) -> _resources.MessageDetail:
        """Return a message. Encrypted payloads are ``masked`` unless ``reveal`` is set."""
    def retry(self, id_: str, group: str | None = None) -> _resources.MessageChanged: ...
    def give_up(
        self, id_: str, group: str | None = None, *, error: str | None = None
    ) -> _resources.MessageChanged:
        """Dead-letter a message now."""
    def redact(self, id_: str) -> _resources.MessageChanged: ...
    def dead_letters(self, **filters: Any) -> Iterator[_resources.DeadLetter]: ...
    def dead_letter(self, id_: str, *, reveal: bool = False) -> _resources.DeadLetter: ...
    def dead_letter_errors(self, queue: str) -> _resources.ErrorKinds: ...
    def redrive(self, **request: Any) -> _resources.Counted | _resources.Operation:
        """Redeliver dead letters. Returns a count, or an operation that continues in steps."""
    def delete_dead_letter(self, id_: str) -> _resources.Counted: ...
    def delete_dead_letters(self, ids: Sequence[str]) -> _resources.Counted | _resources.Operation:
        """Delete these dead letters. Returns a count, or an operation that continues in steps."""
    def purge_dead_letters(self, queue: str, **filters: Any) -> _resources.Operation: ...
    def count_dead_letters(self, queue: str, **filters: Any) -> _resources.Counted:
        """Count the dead letters that a purge would remove."""
    def traces(self, name: str) -> Iterator[_resources.TraceEvent]: ...
    def traces_of(self, partition_id: str, transaction_id: str) -> Iterator[_resources.TraceEvent]:
        """Iterate over the trace events of one message."""
    def trace_names(self, prefix: str = "") -> Iterator[_resources.TraceName]: ...
    def operations(self, **filters: Any) -> Iterator[_resources.Operation]: ...
    def operation(self, id_: str) -> _resources.Operation: ...
    def cancel_operation(self, id_: str) -> _resources.Operation: ...
    def finished(self, operation: _resources.Operation) -> _resources.Operation:
        """Wait until an operation has ended, successfully or not."""
    def settings(self) -> _resources.Config:
        """Return the server's effective settings, with secrets masked."""
    def maintenance(self, *, of_pops: bool = False) -> _resources.Maintenance: ...
    def set_maintenance(self, enabled: bool, *, of_pops: bool = False) -> _resources.Maintenance:
        """Buffer pushes on disk, or stop pops with ``of_pops``, on all servers."""
    def tables(self) -> _resources.Tables: ...
    def migrations(self) -> _resources.Migrations: ...
    def upkeep(self) -> _resources.Duties:
        """Return the background tasks and their last runs."""
    def buffer(self) -> _resources.Buffer:
        """Return the state of the server's file buffer."""
    def flush_buffer(self) -> _resources.Buffer:
        """Store buffered pushes now."""
    def retry_failed_buffer(self, *, doubtful: bool = False) -> _resources.BufferRetried:
        """Retry pushes that could not be stored; ``doubtful`` includes possibly stored ones."""
    def instances(self) -> Iterator[_resources.Instance]: ...
    def pipelines(self) -> Iterator[_resources.Pipeline]: ...
    def pipeline(self, name: str) -> _resources.Pipeline: ...
    def analytics(self, **query: Any) -> _analytics.ScopeAnalytics: ...
    def analytics_of_queues(self, **query: Any) -> _analytics.QueuesAnalytics: ...
    def analytics_of_queue(self, queue: str, **query: Any) -> _analytics.QueueAnalytics: ...
    def throughput(self, **query: Any) -> _analytics.Throughput: ...
    def queue_depths(self, **query: Any) -> _analytics.QueueDepths: ...
    def series(self, metric: str, **query: Any) -> _analytics.Series: ...
    def health(self) -> dict[str, Any]:
        """Return the server's health. Raises an error, such as `DatabaseUnavailable`."""
    def metrics(self, *, per_object: bool = False) -> str:
        """Prometheus text."""
    def me(self) -> _access.Me:
        """Return the identity of this client and its permissions."""
    def ticket(self) -> _access.Ticket:
        """Create a one-time ticket for a WebSocket."""
    def tokens(self) -> Iterator[_access.Token]: ...
    def create_token(self, **request: Any) -> _access.NewToken:
        """Create an API key. Only this response contains its secret."""
    def rotate_token(self, id_: str, **request: Any) -> _access.NewToken: ...
    def revoke_token(self, id_: str) -> _access.Revoked: ...
    def audit(self, **filters: Any) -> Iterator[_access.AuditEntry]: ...
    def schedules(self, **filters: Any) -> Iterator[_resources.Schedule]: ...
    def schedule(self, name: str, *, reveal: bool = False) -> _resources.ScheduleDetail: ...
    def put_schedule(
        self, name: str, *, queue: str, cron: str, data: Any = None, **options: Any
    ) -> _resources.ScheduleDetail:
        """Create or change a schedule. Its next tick stays if possible."""
    def pause_schedule(self, name: str) -> _resources.Schedule: ...
    def resume_schedule(self, name: str) -> _resources.Schedule:
        """Resume with the next tick from now on."""
    def run_schedule(self, name: str) -> Pushed:
        """Push the schedule's message now, in addition to its ticks."""
    def delete_schedule(self, name: str) -> _resources.ScheduleDeleted: ...
