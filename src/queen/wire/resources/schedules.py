"""Recurring messages."""

from datetime import datetime
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from queen.wire.messages import Manager, Payload, Request, Wire
from queen.wire.resources.paging import Name, PageQuery

Missed = Literal["skip", "once", "all"]


class ScheduleRequest(Request, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule to create or change."""

    name: str
    """Name of the schedule, 1 to 200 bytes. An existing schedule of this name is changed."""
    queue: str
    """Name of the queue that receives the messages."""
    cron: str
    """Five fields, or six with seconds first; or `@hourly`, `@daily`, `@weekly`, `@monthly`,
    `@yearly`."""
    payload: Payload
    """Payload of the messages: any JSON value."""
    partition: str = "Default"
    """Partition of the messages. Default: `Default`."""
    time_zone: str = "UTC"
    """Time zone of `cron` by its IANA name, for example `Europe/Berlin`. Default: `UTC`."""
    missed: Missed = "once"
    """Effect of ticks that are more than a minute late: `skip` them, push one message for all of
    them (`once`, the default), or `all` of their messages."""
    headers: dict[str, str] | None = None
    """Headers of the messages by name: at most 64, and 8 KiB in total. Default: none."""
    ttl_seconds: float | None = None
    """Seconds until an undelivered message expires. Default: the queue's `ttl`."""
    priority: int | None = None
    """Priority of the messages from 0 to 9, higher first; only for unordered queues. Default: 0."""
    paused: bool | None = None
    """Whether the schedule is paused. Default: unchanged, or false for a new schedule."""
    managed_by: Manager | UnsetType | None = UNSET
    """Name of the configuration that owns the schedule. Absent: unchanged. Null: no owner."""


class Schedule(Wire, frozen=True, kw_only=True):
    """A schedule, without its payload."""

    name: str
    """Name of the schedule."""
    queue: str
    """Name of the queue that receives the messages."""
    partition: str
    """Partition of the messages."""
    cron: str
    """Cron expression of the ticks."""
    time_zone: str
    """Time zone of `cron` by its IANA name."""
    missed: Missed
    """Effect of ticks that are more than a minute late: `skip`, `once` or `all`."""
    paused: bool
    """Whether the schedule is paused."""
    next_at: datetime | None
    """Time of the next tick; null if there is none."""
    last_at: datetime | None
    """Time of the last tick that was pushed; null if there was none."""
    error: str | None
    """Reason why the current tick could not be pushed. It is retried. Otherwise null."""
    created_at: datetime
    """Time when the schedule was created."""
    managed_by: str | None = None
    """Name of the configuration that owns the schedule. `queen apply` sets it."""


class ScheduleDetail(Schedule, frozen=True, kw_only=True):
    """A schedule, with the contents of its messages."""

    payload: msgspec.Raw
    """Payload of the messages; null if it is masked."""
    masked: bool = False
    """True if the message is encrypted and not revealed: `payload`, `headers`, `ttlSeconds` and
    `priority` are null."""
    headers: dict[str, str] | None
    """Headers of the messages by name; null if they have none."""
    ttl_seconds: float | None
    """Seconds until an undelivered message expires; null: the queue's `ttl`."""
    priority: int | None
    """Priority of the messages from 0 to 9; null: 0."""


class Schedules(Wire, frozen=True, kw_only=True):
    """A page of schedules, by name."""

    schedules: list[Schedule]
    """Schedules of this page."""
    next_cursor: str | None
    """Cursor of the next page; null at the end of the list."""


class SchedulesQuery(PageQuery, frozen=True, kw_only=True):
    """The schedules of one queue, or of all."""

    queue: Name | None = None
    """Only schedules of this queue."""


class ScheduleDeleted(Wire, frozen=True, kw_only=True):
    """The schedule has no more ticks. Pushed messages stay."""

    success: bool
    """Always true: a rejected request returns a problem instead."""
    name: str
    """Name of the deleted schedule."""
