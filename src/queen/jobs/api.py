"""Calls of the routes under `/jobs`."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from queen.client.admin.base import API, Calls, name_of
from queen.wire.job_queues import (
    AllMetrics,
    CleanRequest,
    HeldJob,
    QueueMetrics,
    RenewRequest,
    RenewResponse,
    WorkerInfo,
    WorkerReport,
    Workers,
)
from queen.wire.jobs import JobChanged, JobInfo, JobRequest, Jobs
from queen.wire.resources import Operation, OperationStarted


class JobCalls(Calls):
    """Reads jobs and changes their state."""

    async def job(
        self,
        queue: str,
        id_: str,
        *,
        key: str | None = None,
        wait_seconds: float = 0,
        reveal: bool = False,
    ) -> JobInfo:
        """Return a job. With ``wait_seconds``, as soon as it has ended."""
        query = {"key": key, "reveal": reveal or None}
        return await self._get(_job(queue, id_), JobInfo, query, wait_seconds=wait_seconds)

    def jobs(self, queue: str, **filters: Any) -> AsyncIterator[JobInfo]:  # noqa: ANN401
        """List the jobs of a queue, newest first."""
        return self._pages("/jobs", Jobs, "jobs", {"queue": queue, **filters})

    async def cancel(self, queue: str, id_: str, *, key: str | None = None) -> JobChanged:
        return await self._change(queue, id_, "cancel", key)

    async def retry(self, queue: str, id_: str, *, key: str | None = None) -> JobChanged:
        return await self._change(queue, id_, "retry", key)

    async def _change(self, queue: str, id_: str, verb: str, key: str | None) -> JobChanged:
        body = JobRequest(key=key or "Default")
        return await self._send("POST", f"{_job(queue, id_)}/{verb}", body, JobChanged)

    async def report_progress(
        self, queue: str, id_: str, lease_id: str, progress: msgspec.Raw, key: str
    ) -> None:
        """Store the progress of a job. Repeating the call has no further effect."""
        body = {"leaseId": lease_id, "progress": progress, "key": key}
        path = f"{API}{_job(queue, id_)}/progress"
        await self._transport.exchange("POST", path, msgspec.json.encode(body))

    async def renew(
        self,
        lease_ids: Sequence[str],
        seconds: float,
        jobs: Sequence[HeldJob],
        report: WorkerReport | None = None,
    ) -> RenewResponse:
        """Renew the leases of a worker. Returns which of its jobs are lost or cancelled."""
        body = RenewRequest(
            lease_ids=list(lease_ids), seconds=seconds, jobs=list(jobs), report=report
        )
        return await self._send("POST", "/jobs/renew", body, RenewResponse, is_repeatable=True)

    async def metrics(self, queue: str | None = None) -> list[QueueMetrics]:
        """Return the metrics of one queue, or of all queues that have jobs."""
        pages = self._pages("/jobs/metrics", AllMetrics, "queues", {"queue": queue})
        return [each async for each in pages]

    async def workers(self) -> list[WorkerInfo]:
        """List the workers that have reported recently."""
        return (await self._send("GET", "/jobs/workers", None, Workers)).workers

    async def clean(self, request: CleanRequest) -> Operation:
        """Delete old jobs in an operation, which runs on the server."""
        return (await self._send("POST", "/jobs/clean", request, OperationStarted)).operation


def _job(queue: str, id_: str) -> str:
    return f"/jobs/{name_of(queue)}/{name_of(id_)}"
