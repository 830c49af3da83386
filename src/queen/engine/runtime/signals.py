"""Events of one process, forwarded to its components and to the other processes."""

from collections.abc import Callable, Collection, Iterable
from typing import Generic, ParamSpec

from queen.settings import Settings
from queen.store.connection.notifications import News, Notifications
from queen.store.store import Store

P = ParamSpec("P")


class Signal(Generic[P]):
    """Calls its subscribers in the order in which they subscribed."""

    __slots__ = ("_subscribers",)

    def __init__(self) -> None:
        self._subscribers: list[Callable[P, None]] = []

    def subscribe(self, subscriber: Callable[P, None]) -> None:
        self._subscribers.append(subscriber)

    def __call__(self, *arguments: P.args, **options: P.kwargs) -> None:
        for subscriber in self._subscribers:
            subscriber(*arguments, **options)


class Signals:
    """
    Connects the components of an engine, which don't know each other.

    Each component subscribes in its constructor. Code that causes an event calls a method here. It
    emits the signal and notifies the other processes, which emit it too. PgBouncer drops
    notifications, so there the periodic tasks of each process find the work.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self.on_messages_stored = Signal[[Collection[int], bool]]()
        """Queue ids, and whether the messages are new (not redelivered)."""
        self.on_groups_ready = Signal[[Collection[int]]]()
        """Ids of groups that have messages again."""
        self.on_everything_ready = Signal[[]]()
        """Any group may have messages."""
        self.on_queues_changed = Signal[[Collection[int] | None]]()
        """Queue ids, or None for any queue."""
        self.on_settled = Signal[[Collection[int | None]]]()
        """Partition ids. None among them means any partition."""
        self.on_workflows_ended = Signal[[Collection[str] | None]]()
        """Workflow ids, or None for workflows of another process."""
        self.on_schedules_changed = Signal[[]]()
        self.on_outbox_filled = Signal[[]]()
        self.on_modes_changed = Signal[[]]()
        """Another process turned maintenance on or off, or redacted a message."""
        self.on_caches_stale = Signal[[]]()
        """Notifications were missed, or the server may have lost its last commits."""
        self.on_database_returned = Signal[[]]()
        self.on_server_replaced = Signal[[]]()
        """The connection reaches another server, where ids may have other meanings."""
        store.database.changed = self._replace_server
        store.database.returned = self.on_database_returned
        self.notifications: Notifications | None = None
        if not store.database.is_pooled:
            self.notifications = Notifications(
                store.database.dsn,
                debounce_seconds=settings.notify_debounce_ms / 1000,
                heard=self._receive,
                application_name=settings.app_name,
            )

    def start(self) -> None:
        """Start to listen for notifications of other processes."""
        if self.notifications is not None:
            self.notifications.start()

    async def close(self) -> None:
        if self.notifications is not None:
            await self.notifications.close()

    def messages_stored(self, queue_ids: Iterable[int], *, is_new: bool = False) -> None:
        """These queues have messages to pop."""
        ids = set(queue_ids)
        self.on_messages_stored(ids, is_new)
        if self.notifications is not None:
            self.notifications.tell(queue_ids=ids)

    def groups_ready(self, group_ids: Iterable[int]) -> None:
        """These groups have messages to pop."""
        ids = set(group_ids)
        if not ids:
            return
        self.on_groups_ready(ids)
        if self.notifications is not None:
            self.notifications.tell(group_ids=ids)

    def queue_changed(self, queue_id: int) -> None:
        """A queue was configured or deleted."""
        self.on_queues_changed([queue_id])
        if self.notifications is not None:
            self.notifications.tell(changed_queue_ids=[queue_id])

    def workflows_ended(self, ids: Collection[str]) -> None:
        """These workflows have ended."""
        if ids:
            self.on_workflows_ended(ids)
            if self.notifications is not None:
                self.notifications.tell(is_workflows=True)

    def schedules_changed(self) -> None:
        """A schedule was created or changed."""
        self.on_schedules_changed()
        if self.notifications is not None:
            self.notifications.tell(is_schedules=True)

    def modes_changed(self) -> None:
        """Maintenance was turned on or off, or a message was redacted. Notifies others."""
        if self.notifications is not None:
            self.notifications.tell(is_modes=True)

    def settled(self, partition_ids: Collection[int | None] = (None,)) -> None:
        """Messages of these partitions were acknowledged by this process."""
        self.on_settled(partition_ids)

    def _replace_server(self) -> None:
        self.on_caches_stale()
        self.on_server_replaced()
        self.on_everything_ready()

    def _receive(self, news: News | None) -> None:
        """Emit the signal of a notification. None: notifications may have been lost."""
        if news is None:
            # A new connection, perhaps to another server, which may have lost recent claims.
            self.on_caches_stale()
        if news is None or news.is_outbox:
            self.on_outbox_filled()
        if news is None or news.is_schedules or news.is_everything:
            self.on_schedules_changed()
        if news is None or news.is_workflows or news.is_everything:
            self.on_workflows_ended(None)
        if news is None or news.is_modes or news.is_everything:
            self.on_modes_changed()
        if news is None:
            self.on_everything_ready()
            return
        if news.is_everything:
            self.on_queues_changed(None)
            self.on_everything_ready()
        if news.changed_queue_ids:
            self.on_queues_changed(news.changed_queue_ids)
        self.on_messages_stored(news.queue_ids, False)
        self.on_groups_ready(news.group_ids)
