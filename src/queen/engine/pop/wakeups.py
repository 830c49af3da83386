"""Who has work is woken: here at once, in other processes by a notification, all by a slow poll."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Final

from queen import errors
from queen.engine.caches.catalogue import Catalogue
from queen.engine.pop.waiters import Waiters
from queen.settings import Settings
from queen.store.connection.notifications import News, Notifications
from queen.store.store import Store

_LOG: Final = logging.getLogger("queen.engine")


class Wakeups:
    """
    What the verbs say of queues and groups, and what is heard of them.

    ``forget`` is called when nothing that was remembered of the database need be so any more,
    ``append`` when an application put something down,
    ``see_to_schedules`` when one of them was made or changed,
    ``see_to_workflows`` when one of them has ended,
    ``search_again`` with the groups that the slow poll found to have work.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        catalogue: Catalogue,
        waiters: Waiters,
        *,
        forget: Callable[[], None],
        append: Callable[[], None],
        see_to_schedules: Callable[[], None],
        see_to_workflows: Callable[[], None],
        search_again: Callable[[Iterable[int]], None],
    ) -> None:
        self._store = store
        self._settings = settings
        self._catalogue = catalogue
        self._waiters = waiters
        self._forget = forget
        self._append = append
        self._see_to_schedules = see_to_schedules
        self._see_to_workflows = see_to_workflows
        self._search_again = search_again
        self.modes_changed: Callable[[], None] = _nothing
        """Called when another process turned maintenance on or off, or redacted a message."""
        self._task: asyncio.Task[None] | None = None
        self._seen_queue_ids: set[int] = set()
        self._scopes: object = None
        """What the queues of all namespaces were like when they were last looked at."""
        self.notifications: Notifications | None = None
        if not store.database.is_pooled:
            self.notifications = Notifications(
                store.database.dsn,
                debounce_seconds=settings.notify_debounce_ms / 1000,
                heard=self._hear,
                application_name=settings.app_name,
            )

    def start(self) -> None:
        """Begin to listen and to poll, slowly."""
        if self.notifications is not None:
            self.notifications.start()
        self._task = asyncio.create_task(self._poll())

    async def close(self) -> None:
        if self.notifications is not None:
            await self.notifications.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def tell(self, queue_ids: Iterable[int], is_new: bool = False) -> None:
        """These queues have work, or just new messages: wake those here, and tell the others."""
        ids = set(queue_ids)
        self._wake(ids, is_new=is_new)
        if self.notifications is not None:
            self.notifications.tell(queue_ids=ids)

    def tell_groups(self, group_ids: Iterable[int]) -> None:
        """These groups have work: wake those here, and tell the others."""
        ids = set(group_ids)
        self._waiters.wake_groups(ids)
        if self.notifications is not None:
            self.notifications.tell(group_ids=ids)

    def change(self, queue_id: int) -> None:
        """A queue is not what it was, for this process and for all others."""
        self._learn_of_change([queue_id])
        if self.notifications is not None:
            self.notifications.tell(changed_queue_ids=[queue_id])

    def tell_modes(self) -> None:
        """Maintenance was turned on or off, or a message was redacted, for all others."""
        if self.notifications is not None:
            self.notifications.tell(is_modes=True)

    def change_schedules(self) -> None:
        """A schedule was made or changed: tell the others."""
        if self.notifications is not None:
            self.notifications.tell(is_schedules=True)

    def tell_of_workflows(self) -> None:
        """A workflow has ended: tell the others."""
        if self.notifications is not None:
            self.notifications.tell(is_workflows=True)

    def _learn_of_change(self, queue_ids: Collection[int]) -> None:
        self._catalogue.forget_options(queue_ids)
        self._wake(queue_ids)
        # It may have moved into a namespace that somebody reads.
        self._waiters.wake_open()

    def _wake(self, queue_ids: Collection[int], *, is_new: bool = False) -> None:
        self._waiters.wake_queues(queue_ids, is_new=is_new)
        # Not by the highest id: queues commit in another order than they take their ids.
        if unseen := self._unseen(queue_ids):
            self._seen_queue_ids |= unseen
            self._waiters.wake_open()

    def _unseen(self, queue_ids: Collection[int]) -> set[int]:
        if len(self._seen_queue_ids) > self._settings.catalogue_entries:
            self._seen_queue_ids.clear()
        return {each for each in queue_ids if each not in self._seen_queue_ids}

    def _hear(self, news: News | None) -> None:
        """What another process said; None: whatever it may have said was not heard."""
        waiters = self._waiters
        if news is None:
            # The connection is new, and perhaps the server: a crash may have forgotten claims.
            self._forget()
            self._append()
            self.modes_changed()
            self._see_to_schedules()
            self._see_to_workflows()
            waiters.wake_all()
            return
        if news.is_outbox:
            self._append()
        if news.is_schedules or news.is_everything:
            self._see_to_schedules()
        if news.is_workflows or news.is_everything:
            self._see_to_workflows()
        if news.is_everything:
            self._catalogue.forget_options()
            self.modes_changed()
            waiters.wake_all()
        if news.is_modes:
            self.modes_changed()
        if news.changed_queue_ids:
            self._learn_of_change(news.changed_queue_ids)
        self._wake(news.queue_ids)
        waiters.wake_groups(news.group_ids)

    async def _poll_open(self) -> None:
        """Those who wait for a queue that was not there, or for any of a namespace."""
        waiters = self._waiters
        if names := waiters.missing_queues:
            found = await self._store.queues.named(names)
            waiters.wake_missing({row["name"] for row in found})
        if waiters.has_scopes:
            scopes = await self._store.queues.signature()
            if scopes != self._scopes:
                self._scopes = scopes
                waiters.wake_open()

    async def _poll(self) -> None:
        """The safety net behind the wake-ups: one statement for all who wait, however many."""
        while True:
            await asyncio.sleep(self._settings.safety_poll_ms / 1000)
            if not self._waiters.is_anybody_here:
                continue
            waiters = self._waiters
            try:
                await self._poll_open()
                if group_ids := waiters.group_ids:
                    self._search_again(await self._store.groups.ready(group_ids))
            except (errors.ServiceError, errors.OutcomeUnknown):
                pass
            except Exception:
                # Whatever it was, the next round may find it gone.
                _LOG.exception("the slow poll failed")


def _nothing() -> None:
    """Nobody wants to know."""
