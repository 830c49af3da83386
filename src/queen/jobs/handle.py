"""`JobHandle`: observe and control a job that was added."""

import math
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Generic, TypeVar

import msgspec

from queen import errors
from queen.client.durations import LONG_SECONDS, Duration, seconds_of
from queen.client.payloads import Codec
from queen.jobs.api import JobCalls
from queen.wire.jobs import JobInfo, JobStatus
from queen.wire.messages import Pushed

R = TypeVar("R")
T = TypeVar("T")

_ENDED: Final = ("completed", "failed", "cancelled")
_WAIT_SECONDS: Final = 30.0
"""Longest wait of one request. After it, another request waits."""
_ANY: Final = Codec[Any](None)


class JobHandle(msgspec.Struct, Generic[R], eq=False, gc=False):
    """
    A job, identified by its queue and id.

    Usage::

        handle = await jobs.add_job("email", "send-welcome", {"to": "a@b.c"})
        print(handle.id, await handle.status())
        result = await handle.result(timeout="1m")
    """

    _calls: JobCalls
    queue: str
    """The name of the queue."""
    _id: str | None
    key: str | None = None
    """The key of the job, or None."""
    _codec: Codec[Any] = _ANY
    is_duplicate: bool = False
    """A job with the same ``unique`` existed already, and this is its handle."""

    @property
    def id(self) -> str:
        """The id in the queue. Raises OutcomeUnknown if the response with the id was lost."""
        if self._id is None:
            raise errors.OutcomeUnknown("the job was added, but the response with its id was lost")
        return self._id

    async def info(self) -> JobInfo:
        """Return the job's state, data, result and error."""
        return await self._calls.job(self.queue, self.id, key=self.key)

    async def status(self) -> JobStatus:
        """Return the status, for example ``waiting`` or ``completed``."""
        return (await self.info()).status

    async def progress(self) -> Any:  # noqa: ANN401 - whatever was reported
        """Return the progress that its processor reported last, or None."""
        return _ANY.decode((await self._revealed(await self.info())).progress)

    async def result(self, *, timeout: Duration | None = None) -> R:  # noqa: ASYNC109 - "1m" too
        """
        Wait for the end, and return the value that its processor returned.

        Raises JobFailed, JobCancelled, TimeoutError after ``timeout``, and Forbidden if the queue
        is encrypted and the caller may not `consume`.
        """
        job = await self.wait(timeout=timeout)
        if job.status == "failed":
            raise errors.JobFailed(job.error or "the job failed")
        if job.status == "cancelled":
            raise errors.JobCancelled(f"job {self.id} was cancelled")
        return self._codec.decode((await self._revealed(job)).result)

    async def _revealed(self, job: JobInfo) -> JobInfo:
        """Return the job decrypted, which callers may read if they may consume it."""
        if not job.masked:
            return job
        return await self._calls.job(self.queue, self.id, key=self.key, reveal=True)

    async def wait(self, *, timeout: Duration | None = None) -> JobInfo:  # noqa: ASYNC109
        """Wait until the job is completed, failed or cancelled. Raises TimeoutError."""
        show = partial(self._calls.job, self.queue, self.id, key=self.key)
        job = await wait_for_end(show, lambda job: job.status in _ENDED, timeout)
        if job.status not in _ENDED:
            raise TimeoutError(f"job {self.id} is {job.status} after {timeout}")
        return job

    async def cancel(self) -> JobStatus:
        """
        Cancel the job and return its previous status.

        If it is running, its processor is cancelled within two seconds. Raises AlreadySettled for
        a job that has ended.
        """
        changed = await self._calls.cancel(self.queue, self.id, key=self.key)
        return changed.was or "waiting"

    async def retry(self) -> None:
        """Run a failed job again. A job that waits for its next attempt becomes due now."""
        await self._calls.retry(self.queue, self.id, key=self.key)

    def __repr__(self) -> str:
        return f"JobHandle({self.queue}/{self._id})"


async def wait_for_end(
    show: Callable[..., Awaitable[T]], has_ended: Callable[[T], bool], within: Duration | None
) -> T:
    """Call ``show`` until its result has ended, or the time is over. Returns the last result."""
    seconds = math.inf if within is None else seconds_of(within, "timeout", most=LONG_SECONDS)
    until = time.monotonic() + seconds
    while True:
        left = max(until - time.monotonic(), 0.001)
        found = await show(wait_seconds=min(left, _WAIT_SECONDS))
        if has_ended(found) or time.monotonic() >= until:
            return found


def handle_of(
    calls: JobCalls, queue: str, pushed: Pushed, key: str | None, codec: "Codec[Any] | None"
) -> JobHandle[Any]:
    """Return the handle of a pushed job."""
    is_duplicate = pushed.status == "duplicate"
    return JobHandle(calls, queue, pushed.transaction_id, key, codec or _ANY, is_duplicate)
