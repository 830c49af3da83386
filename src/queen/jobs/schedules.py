"""Recurring jobs: by a cron expression, or at a fixed interval."""

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
"""Queue of recurring jobs without a queue."""
Missed = Literal["skip", "once", "all"]

_UNITS: Final = ((1, 60), (60, 60), (3600, 24))
"""Seconds, minutes and hours, and how many of them make up the next unit."""


@dataclass(frozen=True)
class Recurring:
    """A job that the server adds at each tick, exactly once in the cluster."""

    processor: Processor[Any, Any, Any]
    cron: str
    tz: str
    missed: Missed
    data: Any
    priority: JobPriority

    @property
    def name(self) -> str:
        """The name of the schedule in `queen cron ls`."""
        return f"{self.processor.queue}.{self.processor.name}"

    async def put(self, queen: "Queen") -> None:
        """Create or update the schedule. Its next tick is kept if possible."""
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
    Return the cron expression of an interval: ``"30s"``, ``"15m"``, ``"6h"``, ``"1d"``.

    The interval must divide the minute, the hour or the day, so that ticks are evenly spaced.
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
        f"{interval!r} does not divide a minute, an hour or a day. A plain number is seconds. For"
        " other intervals write a cron expression: @jobs.cron(…)."
    )
