"""Recurring messages."""

from datetime import datetime
from typing import Literal

import msgspec

from queen.wire.messages import Payload, Request, Wire
from queen.wire.resources.paging import Name, PageQuery

Missed = Literal["skip", "once", "all"]


class ScheduleRequest(Request, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule to create or change."""

    name: str
    queue: str
    cron: str
    """Five fields, or six with seconds first; or @hourly, @daily, @weekly, @monthly, @yearly."""
    payload: Payload
    partition: str = "Default"
    time_zone: str = "UTC"
    missed: Missed = "once"
    """What happens with ticks that are more than a minute late."""
    headers: dict[str, str] | None = None
    ttl_seconds: float | None = None
    priority: int | None = None
    paused: bool | None = None
    """None: unchanged."""


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
    """The next tick."""
    last_at: datetime | None
    """The last tick that was pushed."""
    error: str | None
    """Why the next tick could not be pushed. It is retried."""
    created_at: datetime


class ScheduleDetail(Schedule, frozen=True, kw_only=True):
    """A schedule, with the contents of its messages."""

    payload: msgspec.Raw
    masked: bool = False
    """The message is encrypted and not revealed: ``payload`` and the next fields are null."""
    headers: dict[str, str] | None
    ttl_seconds: float | None
    priority: int | None


class Schedules(Wire, frozen=True, kw_only=True):
    """A page of schedules, by name."""

    schedules: list[Schedule]
    next_cursor: str | None


class SchedulesQuery(PageQuery, frozen=True, kw_only=True):
    """The schedules of one queue, or of all."""

    queue: Name | None = None


class ScheduleDeleted(Wire, frozen=True, kw_only=True):
    """The schedule has no more ticks. Pushed messages stay."""

    success: bool
    name: str
