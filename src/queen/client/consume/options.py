"""What to pop and how to consume it."""

from collections.abc import Callable
from typing import Any, Self
from urllib.parse import quote, urlencode

import msgspec

from queen import errors
from queen.client.message import Message


class ConsumeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a pop or a consumer; the defaults are those of a pop."""

    batch: int = 1
    partitions: int | None = None
    """None is one partition of a queue; for a namespace or task, as many as fill the batch."""
    wait: bool | None = None
    timeout_millis: int = 30_000
    auto_ack: bool | None = None
    group: str | None = None
    subscription_mode: str | None = None
    subscription_from: str | None = None
    lease_seconds: float | None = None
    concurrency: int | None = None
    """None is the value of the client's configuration."""
    limit: int | None = None
    idle_millis: int | None = None
    renews_lease: bool = False
    renew_interval_millis: int | None = None
    is_each: bool = False
    on_success: "Callable[[Any], Any] | None" = None
    on_error: "Callable[[Any, BaseException], Any] | None" = None
    on_lease_lost: "Callable[[Message[Any]], Any] | None" = None

    def replaced(self, **changes: Any) -> Self:  # noqa: ANN401 - of these fields
        for name in ("batch", "partitions", "concurrency"):
            if changes.get(name, 1) < 1:
                raise errors.BadRequest(f"{name} must be at least 1")
        return msgspec.structs.replace(self, **changes)


class PopRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A pop from a queue, from one partition, or from all queues of a namespace and task."""

    queue: str | None
    partition: str | None = None
    namespace: str | None = None
    task: str | None = None
    options: ConsumeOptions = ConsumeOptions()

    def replaced(self, **changes: Any) -> Self:  # noqa: ANN401 - of ConsumeOptions
        """The same request with other options."""
        return msgspec.structs.replace(self, options=self.options.replaced(**changes))

    @property
    def key(self) -> str:
        """Affinity key: requests with the same key go to the same server."""
        name = self.queue or f"{self.namespace or ''}/{self.task or ''}"
        return f"{name}:{self.partition or '*'}:{self.options.group or ''}"

    @property
    def wait_seconds(self) -> float:
        """The longest time that the server may delay its response; 0 without a long poll."""
        return self.options.timeout_millis / 1000 if self.options.wait else 0.0

    @property
    def path(self) -> str:
        """The path and query string of the request."""
        options = self.options
        query: dict[str, Any] = {
            "batch": options.batch,
            "partitions": options.partitions,
            "wait": "true" if options.wait else None,
            "timeout": options.timeout_millis if options.wait else None,
            "consumerGroup": options.group,
            "autoAck": "true" if options.auto_ack else None,
            "subscriptionMode": options.subscription_mode,
            "subscriptionFrom": options.subscription_from,
            "leaseSeconds": options.lease_seconds,
            "layout": "runs",
        }
        if self.queue is None:
            path = "/api/v1/pop"
            query |= {"namespace": self.namespace, "task": self.task}
        else:
            path = f"/api/v1/pop/queue/{quote(self.queue, safe='')}"
            if self.partition is not None:
                path += f"/partition/{quote(self.partition, safe='')}"
        return f"{path}?{urlencode({k: v for k, v in query.items() if v is not None})}"
