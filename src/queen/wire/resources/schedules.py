"""Messages that come again and again."""

from datetime import datetime
from typing import Literal

import msgspec

from queen.wire.messages import Payload, Request, Wire
from queen.wire.resources.paging import Name, PageQuery

Missed = Literal["skip", "once", "all"]


class ScheduleRequest(Request, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule to make, or what one of that name is to be."""

    name: str
    queue: str
    cron: str
    """Five fields, or six with seconds first; or @hourly, @daily, @weekly, @monthly, @yearly."""
    payload: Payload
    partition: str = "Default"
    time_zone: str = "UTC"
    missed: Missed = "once"
    """What becomes of ticks that were more than a minute late."""
    headers: dict[str, str] | None = None
    ttl_seconds: float | None = None
    priority: int | None = None
    paused: bool | None = None
    """None: as it was."""


class Schedule(Wire, frozen=True, kw_only=True):
    """A schedule, without its payload."""

    name: str
    queue: str
    partition: str
    cron: str
    time_zone: str
    missed: Missed
    paused: bool
    next_at: datetime | None
    """The tick that is waited for."""
    last_at: datetime | None
    """The last tick that was pushed."""
    error: str | None
    """Why the tick that is waited for could not be pushed; it is tried again."""
    created_at: datetime


class ScheduleDetail(Schedule, frozen=True, kw_only=True):
    """A schedule, and what each of its messages is."""

    payload: msgspec.Raw
    masked: bool = False
    """It is sealed and was not asked to be revealed: what follows, and ``payload``, is null."""
    headers: dict[str, str] | None
    ttl_seconds: float | None
    priority: int | None


class Schedules(Wire, frozen=True, kw_only=True):
    """A page of schedules, by name."""

    schedules: list[Schedule]
    next_cursor: str | None


class SchedulesQuery(PageQuery, frozen=True, kw_only=True):
    """Of one queue, or of all."""

    queue: Name | None = None


class ScheduleDeleted(Wire, frozen=True, kw_only=True):
    """It has no further tick; messages that were pushed stay."""

    success: bool
    name: str
