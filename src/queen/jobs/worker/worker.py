"""`Worker`: runs the jobs of queues in this process until it is drained."""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from queen import errors
from queen.client.durations import LONG_SECONDS, Duration, seconds_of
from queen.client.runner import handling_signals
from queen.jobs.environment import concurrency_of, set_log_level
from queen.jobs.registry import Registry
from queen.jobs.worker.attempt import AttemptRunner
from queen.jobs.worker.executor import Executor
from queen.jobs.worker.leases import LeasedJob, LeaseKeeper
from queen.jobs.worker.prefetch import Prefetch
from queen.jobs.worker.settle import AckBatcher
from queen.jobs.worker.stats import WorkerCounters, WorkerStats

_IN_A_ROW: Final = 100
"""Maximum jobs in a row that never await, before other tasks get their turn."""


class Worker:
    """
    Usage::

        worker = Worker(jobs, concurrency=20)
        await worker.run(handle_signals=True)
    """

    def __init__(
        self,
        app: Registry,
        *,
        queues: Sequence[str] | None = None,
        concurrency: int | None = None,
        lease_seconds: Duration = 3.0,
        renew_seconds: Duration = 1.0,
        shutdown_timeout: Duration = "30s",
    ) -> None:
        self._app = app
        self.queues = list(queues) if queues is not None else app.queues
        """The queues whose jobs it runs."""
        self.concurrency = concurrency_of(concurrency)
        """Concurrent jobs per queue."""
        self._lease_seconds = seconds_of(lease_seconds, "lease_seconds")
        self._renew_seconds = seconds_of(renew_seconds, "renew_seconds")
        self._stats = WorkerStats()
        self._stop = asyncio.Event()
        self._now = asyncio.Event()
        self._over = asyncio.Event()
        self._shutdown_seconds = seconds_of(shutdown_timeout, "shutdown_timeout", most=LONG_SECONDS)
        self._prefetches: list[Prefetch] = []
        self._runners: list[asyncio.Task[None]] = []

    @property
    def stats(self) -> WorkerStats:
        """The current counts."""
        return msgspec.structs.replace(
            self._stats,
            running=sum(prefetch.rate.running for prefetch in self._prefetches),
            waiting=sum(len(prefetch.waiting) for prefetch in self._prefetches),
        )

    @property
    def busy(self) -> float:
        """Share of its concurrency in use now, in its busiest queue."""
        shares = (prefetch.busy for prefetch in self._prefetches)
        return max(shares, default=0.0)

    async def ready(self) -> None:
        """Configure its queues. Raises configuration errors before any job runs."""
        set_log_level()
        if not self.queues:
            raise errors.BadRequest("no processor is registered: @jobs.processor(queue)")
        await self._app.configure(self.queues)
        await self._app.put_schedules(self.queues)

    async def run(self, *, handle_signals: bool = False) -> None:
        """
        Run jobs until `stop` or `drain`, or with ``handle_signals`` until SIGTERM or SIGINT.

        Then the worker stops fetching jobs, running jobs have ``shutdown_timeout`` to end, and the
        others are released. A second signal cancels running jobs.
        """
        on_signal = (lambda: self.stop(now=self._stop.is_set())) if handle_signals else None
        try:
            with handling_signals(on_signal):
                await self.ready()
                await self._run()
        finally:
            self._over.set()

    async def _run(self) -> None:
        executor = Executor(self.concurrency * len(self.queues))
        counters = WorkerCounters(self.queues)
        self._leases = LeaseKeeper(
            self._app.calls,
            lease_seconds=self._lease_seconds,
            renew_seconds=self._renew_seconds,
            on_gone=self._gone,
            counters=counters,
        )
        self._acks = AckBatcher(
            self._app.queen,
            lease_seconds=self._lease_seconds,
            leases=self._leases,
            is_busy=lambda: any(prefetch.waiting for prefetch in self._prefetches),
            on_settled=self._settled,
        )
        self._attempts = AttemptRunner(
            self._app, executor, self._leases, self._acks, self._stats, counters
        )
        self._prefetches = [self._prefetch(queue) for queue in self.queues]
        works = [
            asyncio.create_task(self._leases.renew_forever()),
            asyncio.create_task(self._acks.flush_forever()),
        ]
        fetchers = [asyncio.create_task(prefetch.fetch()) for prefetch in self._prefetches]
        self._runners = [
            asyncio.create_task(self._run_jobs(prefetch))
            for prefetch in self._prefetches
            for _ in range(prefetch.concurrency)
        ]
        try:
            await self._until_stopped([*works, *fetchers, *self._runners])
        finally:
            await asyncio.shield(self._end(fetchers))
            for work in works:
                work.cancel()
            await asyncio.gather(*works, return_exceptions=True)
            executor.close()

    def stop(self, *, now: bool = False) -> None:
        """
        End `run`: running jobs finish, the others are released.

        ``now``: running jobs are cancelled and released too.
        """
        self._stop.set()
        if now:
            self._now.set()

    async def drain(self) -> None:
        """Call `stop`, and wait until `run` has ended."""
        self.stop()
        await self._over.wait()

    async def _until_stopped(self, works: list[asyncio.Task[None]]) -> None:
        stop = asyncio.create_task(self._stop.wait())
        try:
            # These tasks never return: if one ends, it has failed.
            done, _ = await asyncio.wait([stop, *works], return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            stop.cancel()

    async def _end(self, fetchers: list[asyncio.Task[None]]) -> None:
        self._stop.set()
        await self._release(
            [leased for prefetch in self._prefetches for leased in prefetch.empty()]
        )
        # Each one releases the jobs of the response that it still receives, and ends soon.
        await asyncio.gather(*fetchers, return_exceptions=True)
        ended = asyncio.gather(*self._runners, return_exceptions=True)
        now = asyncio.create_task(self._now.wait())
        await asyncio.wait(
            [ended, now], timeout=self._shutdown_seconds, return_when=asyncio.FIRST_COMPLETED
        )
        now.cancel()
        self._attempts.is_ending = True
        for runner in self._runners:
            runner.cancel()
        await ended
        await self._acks.finish()

    async def _release(self, unstarted: list[LeasedJob]) -> None:
        """Release jobs that have not started, by whole deliveries where possible."""
        for lease_id, rest in self._leases.by_lease(unstarted).items():
            if lease_id is None:
                for leased in rest:
                    self._attempts.release(leased)
                continue
            with contextlib.suppress(errors.QueenError):  # Else they are redelivered later.
                await self._app.queen.release(lease_id)
            for leased in rest:
                self._leases.remove(leased)

    def _prefetch(self, queue: str) -> Prefetch:
        is_one_by_one, has_rate = self._app.limits_of(queue)
        return Prefetch(
            self._app.queen,
            self._app.queen.queue(queue).lease(self._lease_seconds).pop_request,
            concurrency=self.concurrency,
            is_one_by_one=is_one_by_one,
            is_limited=is_one_by_one or has_rate,
            on_popped=self._leases.add,
            stopping=self._stop,
        )

    async def _run_jobs(self, prefetch: Prefetch) -> None:
        runner = asyncio.current_task()
        assert runner is not None
        while not prefetch.is_stopping:
            leased = prefetch.take()
            if leased is None:
                await prefetch.wait()
                continue
            began = time.monotonic()
            prefetch.rate.begin(began)
            try:
                await self._run_in_a_row(prefetch, leased, runner, began)
            finally:
                prefetch.rate.end(time.monotonic())
            await asyncio.sleep(0)

    async def _run_in_a_row(
        self,
        prefetch: Prefetch,
        leased: LeasedJob | None,
        runner: "asyncio.Task[None]",
        began: float,
    ) -> None:
        rate, attempts = prefetch.rate, self._attempts
        left = _IN_A_ROW
        while leased is not None:
            try:
                await attempts.run(leased, runner)
            finally:
                ended = time.monotonic()
                rate.done += 1
                if leased.job is not None and leased.counters is not None:
                    leased.counters.took(ended - began)
                leased.job = None
                began = ended
            left -= 1
            leased = prefetch.take() if left else None

    def _settled(self, leased: LeasedJob, is_taken: bool) -> None:
        if not is_taken and not leased.is_gone:
            self._stats.lost += 1

    def _gone(self, leased: LeasedJob) -> None:
        if leased.is_cancelled:
            self._stats.cancelled += 1
        else:
            self._stats.lost += 1
