"""The structs that cross the border of the engine, and later HTTP."""

from datetime import datetime
from typing import Literal

import msgspec


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Fields are snake_case here and camelCase on the wire."""


class Request(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Closed: a misspelt option is refused, not ignored. Answers stay open for older clients."""


class PushItem(Request, frozen=True, kw_only=True):
    """The shape alone; limits that an operator sets are the engine's to check."""

    queue: str
    payload: bytes | msgspec.Raw
    """JSON as it was sent: checked and carried, never rebuilt."""
    partition: str = "Default"
    transaction_id: str | None = None
    trace_id: str | None = None
    headers: dict[str, str] | None = None
    delay_seconds: float | None = None
    available_at: datetime | None = None
    ttl_seconds: float | None = None
    priority: int | None = None


class Extra(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """What some messages have and most have not: stored beside the payloads as JSON."""

    transaction_id: str | None = None
    trace_id: str | None = None
    headers: dict[str, str] | None = None
    producer_id: str | None = None


class Pushed(Wire, frozen=True, kw_only=True):
    """What became of one item of a push. id and offset are None while it has no place yet."""

    status: Literal["queued", "duplicate", "failed"]
    id: str | None = None
    transaction_id: str | None = None
    partition_id: int | None = None
    offset: int | None = None
    code: str | None = None
    error: str | None = None


class PopRequest(Request, frozen=True, kw_only=True):
    """Where to look (a queue, or a namespace and/or task), for whom, how much, how long."""

    queue: str | None = None
    partition: str | None = None
    namespace: str | None = None
    task: str | None = None
    consumer_group: str | None = None
    batch: int = 1
    partitions: int = 1
    wait: bool = False
    timeout_seconds: float = 30.0
    auto_ack: bool = False
    subscription_mode: Literal["all", "new"] | None = None
    subscription_from: datetime | None = None
    lease_seconds: float | None = None


class Message(Wire, frozen=True, kw_only=True):
    """One delivered message."""

    id: str
    transaction_id: str
    queue: str
    partition: str
    data: msgspec.Raw
    attempt: int
    priority: int
    created_at: datetime
    partition_id: int
    lease_id: str | None
    lease_expires_at: datetime | None
    consumer_group: str | None
    offset: int
    headers: dict[str, str]
    trace_id: str | None


class Acknowledgment(Request, frozen=True, kw_only=True):
    """What became of one message: named by its id, or by the transactionId that it has."""

    transaction_id: str | None = None
    id: str | None = None
    status: str = "completed"
    error: str | None = None
    partition_id: int | None = None
    lease_id: str | None = None
    consumer_group: str | None = None
    delay_seconds: float | None = None


class Acknowledged(Wire, frozen=True, kw_only=True):
    """The answer to one acknowledgment."""

    transaction_id: str | None
    success: bool
    noop: bool = False
    dlq: bool = False
    lease_released: bool = False
    retry_seconds: float | None = None
    code: str | None = None
    error: str | None = None
