"""Jobs that come again and again: by a cron expression, or after each interval."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from queen import errors
from queen.client.durations import Duration, seconds_of
from queen.client.payloads import encode
from queen.jobs.options import JobPriority
from queen.jobs.processor import Processor
from queen.wire.jobs import LEVELS, Envelope

if TYPE_CHECKING:
    from queen.client.client import Queen

QUEUE: Final = "cron"
"""Of recurring jobs that are given no queue."""
Missed = Literal["skip", "once", "all"]

_UNITS: Final = ((1, 60), (60, 60), (3600, 24))
"""Seconds, minutes and hours; how many of each are one of the next."""


@dataclass(frozen=True)
class Recurring:
    """A job that the server adds at each tick: exactly one in the whole cluster."""

    processor: Processor[Any, Any, Any]
    cron: str
    tz: str
    missed: Missed
    data: Any
    priority: JobPriority

    @property
    def name(self) -> str:
        """Of the schedule, as `queen cron ls` shows it."""
        return f"{self.processor.queue}.{self.processor.name}"

    async def put(self, queen: "Queen") -> None:
        """Make the schedule, or let it be what the code says now; its next tick stays if it can."""
        envelope = Envelope(name=self.processor.name or "", data=encode(self.data))
        await queen.admin.put_schedule(
            self.name,
            queue=self.processor.queue,
            cron=self.cron,
            data=msgspec.Raw(msgspec.json.encode(envelope)),
            time_zone=self.tz,
            missed=self.missed,
            priority=LEVELS[int(self.priority)],
        )


def cron_of(interval: Duration) -> str:
    """
    The expression of an interval: ``"30s"``, ``"15m"``, ``"6h"``, ``"1d"``.

    It has to divide the minute, the hour or the day, so that ticks are evenly apart.
    """
    seconds = seconds_of(interval, "interval")
    if seconds == 86_400:
        return "0 0 0 * * *"
    for at, (unit, most) in enumerate(_UNITS):
        count = seconds / unit
        if count == int(count) and 1 <= count < most and most % count == 0:
            fields = ["0"] * at + [f"*/{int(count)}"] + ["*"] * (5 - at)
            return " ".join(fields)
    raise errors.BadRequest(
        f"{interval!r} divides no minute, hour or day. A plain number is seconds. For other"
        " intervals write a cron expression: @jobs.cron(…)."
    )
