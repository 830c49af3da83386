"""Recurring messages."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from queen.client.admin.base import Calls, name_of
from queen.wire import resources as wire
from queen.wire.messages import Pushed


class Schedules(Calls):
    """The schedules of `queen.admin`."""

    def schedules(self, **filters: Any) -> AsyncIterator[wire.Schedule]:  # noqa: ANN401
        """Iterate over schedules by name, of one ``queue`` or of all."""
        return self._pages("/schedules", wire.Schedules, "schedules", filters)

    async def schedule(self, name: str, *, reveal: bool = False) -> wire.ScheduleDetail:
        """Return a schedule with its payload, which is masked if its queue is encrypted."""
        query = {"reveal": reveal or None}
        return await self._get(_schedule(name), wire.ScheduleDetail, query)

    async def put_schedule(
        self,
        name: str,
        *,
        queue: str,
        cron: str,
        data: Any = None,  # noqa: ANN401 - whatever JSON can hold
        **options: Any,  # noqa: ANN401 - of ScheduleRequest
    ) -> wire.ScheduleDetail:
        """Create or change a schedule. Its next tick stays if possible."""
        payload = msgspec.json.encode(data)
        body = wire.ScheduleRequest(
            name=name, queue=queue, cron=cron, payload=msgspec.Raw(payload), **options
        )
        return await self._send("POST", "/schedules", body, wire.ScheduleDetail)

    async def pause_schedule(self, name: str) -> wire.Schedule:
        """Stop a schedule until `resume_schedule`."""
        return await self._send("POST", f"{_schedule(name)}/pause", None, wire.Schedule)

    async def resume_schedule(self, name: str) -> wire.Schedule:
        """Resume with the next tick from now on."""
        return await self._send("POST", f"{_schedule(name)}/resume", None, wire.Schedule)

    async def run_schedule(self, name: str) -> Pushed:
        """Push the schedule's message now, in addition to its ticks."""
        return await self._send("POST", f"{_schedule(name)}/run", None, Pushed)

    async def delete_schedule(self, name: str) -> wire.ScheduleDeleted:
        """Delete a schedule. Messages that it pushed stay."""
        return await self._send("DELETE", _schedule(name), None, wire.ScheduleDeleted)


def _schedule(name: str) -> str:
    return f"/schedules/{name_of(name)}"
