"""Finds work for waiting pops if a notification was lost."""

from queen.engine.core import Core
from queen.engine.pop.popper import Popper
from queen.engine.runtime.periodic import PeriodicTask


class SafetyPoll(PeriodicTask):
    """Checks periodically for all waiting pops together, with one statement per kind of check."""

    def __init__(self, core: Core, popper: Popper) -> None:
        self._store = core.store
        self._popper = popper
        self._seconds = core.settings.safety_poll_ms / 1000
        self._scopes: object = None
        """The queues of all namespaces at the last check."""
        super().__init__(pause_seconds=self._seconds, retry_seconds=(self._seconds, self._seconds))

    async def run(self) -> float:
        waiters = self._popper.waiters
        if not waiters.is_anybody_here:
            return self._seconds
        if names := waiters.missing_queues:
            found = await self._store.queues.named(names)
            moved = await self._store.queues.moved(names)
            waiters.wake_missing({row["name"] for row in found} | moved)
        if waiters.has_scopes:
            scopes = await self._store.queues.signature()
            if scopes != self._scopes:
                self._scopes = scopes
                waiters.wake_open()
        if group_ids := waiters.group_ids:
            self._popper.claims.search_again(await self._store.groups.ready(group_ids))
        return self._seconds
