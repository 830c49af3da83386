"""The queues of the demo, which is an online shop, and their load at any time."""

import math
from typing import Any, Final

import msgspec

_DAY_SECONDS: Final = 86_400
RETENTION_SECONDS: Final = 300
"""The demo deletes messages soon, because it pushes millions per hour."""


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """A queue, its consumer groups, and its typical load."""

    queue: str
    task: str
    groups: tuple[str, ...]
    """Empty for a queue whose consumer is a job worker."""
    per_second: float
    """Mean rate of pushes."""
    key: str
    """The first word of a partition name."""
    keys: int
    """Number of partitions."""
    is_ordered: bool = True
    wait_seconds: float
    """Typical time between push and pop."""
    work_seconds: float
    """Typical processing time."""
    failures: float = 0.0
    """Share of the messages whose first attempt fails."""

    def rate_at(self, seconds: float) -> float:
        """Return the pushes per second at a Unix time. History and load follow the same curve."""
        phase = len(self.queue)
        day = math.sin(2 * math.pi * (seconds / _DAY_SECONDS - 0.25))
        hour = math.sin(seconds / 611 + phase)
        minute = math.sin(seconds / 83 + 2 * phase)
        return self.per_second * (1 + 0.2 * day + 0.12 * hour + 0.04 * minute)

    def options(self) -> dict[str, Any]:
        """Return the queue options."""
        return {
            "ordered": self.is_ordered,
            "retryLimit": 2,
            "retentionEnabled": True,
            "retentionSeconds": 12 * RETENTION_SECONDS,
            "completedRetentionSeconds": RETENTION_SECONDS,
        }


CLICKS: Final = Stream(
    queue="demo.clicks",
    key="page",
    task="track",
    groups=("analytics", "archive"),
    per_second=1500,
    keys=16,
    wait_seconds=0.05,
    work_seconds=0.02,
)
SENSORS: Final = Stream(
    queue="demo.sensors",
    key="device",
    task="monitor",
    groups=("alarms",),
    per_second=700,
    keys=40,
    wait_seconds=0.06,
    work_seconds=0.02,
)
ORDERS: Final = Stream(
    queue="demo.orders",
    key="customer",
    task="sell",
    groups=("billing", "warehouse"),
    per_second=400,
    keys=40,
    wait_seconds=0.06,
    work_seconds=0.04,
)
PAYMENTS: Final = Stream(
    queue="demo.payments",
    key="card",
    task="sell",
    groups=("ledger",),
    per_second=40,
    keys=20,
    wait_seconds=0.08,
    work_seconds=0.03,
    failures=0.01,
)
"""The only queue that needs attention: some of its messages become dead letters."""

EMAILS: Final = Stream(
    queue="demo.emails",
    key="Default",
    task="notify",
    groups=(),
    per_second=8,
    keys=1,
    is_ordered=False,
    wait_seconds=0.02,
    work_seconds=0.15,
)
TRIPS: Final = Stream(
    queue="demo.trips",
    key="Default",
    task="travel",
    groups=(),
    per_second=0.7,
    keys=1,
    is_ordered=False,
    wait_seconds=0.02,
    work_seconds=2,
)

MESSAGES: Final = (CLICKS, SENSORS, ORDERS, PAYMENTS)
"""Queues whose consumers are message handlers."""
STREAMS: Final = (*MESSAGES, EMAILS, TRIPS)
