"""Analytics over time, and the health of a server."""

from typing import Any

import msgspec

from queen.client.admin.base import Calls, name_of
from queen.client.transport.base import decoded
from queen.wire import analytics as wire


class Analytics(Calls):
    """Analytics of `queen.admin`, all with ``from_``, ``to`` and ``bucket_seconds``."""

    async def analytics(self, **query: Any) -> wire.ScopeAnalytics:  # noqa: ANN401 - of ScopeQuery
        """Return counts, depths and latencies of all queues, or of a namespace or task."""
        return await self._get("/analytics", wire.ScopeAnalytics, query)

    async def analytics_of_queues(self, **query: Any) -> wire.QueuesAnalytics:  # noqa: ANN401
        """Return counts, depths and latencies of each queue."""
        return await self._get("/analytics/queues", wire.QueuesAnalytics, query)

    async def analytics_of_queue(self, queue: str, **query: Any) -> wire.QueueAnalytics:  # noqa: ANN401
        """Return counts, depths and latencies of one queue and its groups."""
        return await self._get(f"/analytics/queue/{name_of(queue)}", wire.QueueAnalytics, query)

    async def throughput(self, **query: Any) -> wire.Throughput:  # noqa: ANN401
        """Return pushed, popped and acknowledged messages over time."""
        return await self._get("/analytics/throughput", wire.Throughput, query)

    async def queue_depths(self, **query: Any) -> wire.QueueDepths:  # noqa: ANN401
        """Return depths and the age of the oldest message over time."""
        return await self._get("/analytics/queue-depths", wire.QueueDepths, query)

    async def series(self, metric: str, **query: Any) -> wire.Series:  # noqa: ANN401
        """Return one metric of a queue, namespace or group over time."""
        return await self._get("/analytics/series", wire.Series, {"metric": metric, **query})

    async def health(self) -> dict[str, Any]:
        """Return the server's health. Raises an error, such as `DatabaseUnavailable`."""
        reply = await self._transport.exchange("GET", "/health")
        return decoded(reply, msgspec.json.decode)

    async def metrics(self, *, per_object: bool = False) -> str:
        """Prometheus text."""
        path = "/metrics/per-object" if per_object else "/metrics"
        return (await self._transport.exchange("GET", path)).body.decode()
