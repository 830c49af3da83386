"""`Worker`: runs the jobs of queues in this process, until it is drained."""

import asyncio
import contextlib
import signal
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from queen import errors
from queen.client.durations import LONG_SECONDS, Duration, seconds_of
from queen.jobs.pool.environment import concurrency_of, set_log_level
from queen.jobs.worker.attempt import Attempts, WorkerStats
from queen.jobs.worker.executor import Running
from queen.jobs.worker.leases import Held, Holding
from queen.jobs.worker.prefetch import Lane
from queen.jobs.worker.settle import Settling
from queen.jobs.worker.stats import Tallies
from queen.wire.jobs import Envelope

if TYPE_CHECKING:
    from queen.jobs.app import QueueManager

_IN_A_ROW: Final = 100
"""Jobs that never wait are run in a row by one runner; then others get their turn."""


class Worker:
    """
    Usage::

        worker = Worker(jobs, concurrency=20)
        await worker.run(handle_signals=True)
    """

    def __init__(
        self,
        app: "QueueManager",
        *,
        queues: Sequence[str] | None = None,
        concurrency: int | None = None,
        lease_seconds: Duration = 3.0,
        renew_seconds: Duration = 1.0,
        shutdown_timeout: Duration = "30s",
    ) -> None:
        self._app = app
        self._queen = app.queen
        self.queues = list(queues) if queues is not None else app.queues
        self.concurrency = concurrency_of(concurrency)
        """Jobs of each queue that run at once."""
        self._lease_seconds = seconds_of(lease_seconds, "lease_seconds")
        self._renew_seconds = seconds_of(renew_seconds, "renew_seconds")
        self._stats = WorkerStats()
        self._stop = asyncio.Event()
        self._now = asyncio.Event()
        self._over = asyncio.Event()
        self._shutdown_seconds = seconds_of(shutdown_timeout, "shutdown_timeout", most=LONG_SECONDS)
        self._lanes: list[Lane] = []
        self._runners: list[asyncio.Task[None]] = []

    @property
    def stats(self) -> WorkerStats:
        """As it stands."""
        return msgspec.structs.replace(
            self._stats,
            running=sum(lane.pace.running for lane in self._lanes),
            waiting=sum(len(lane.waiting) for lane in self._lanes),
        )

    @property
    def busy(self) -> float:
        """Share of its places that are taken now, in its busiest queue."""
        shares = (lane.busy for lane in self._lanes)
        return max(shares, default=0.0)

    async def ready(self) -> None:
        """Tell the server of its queues; raises what is wrong before anything runs."""
        set_log_level()
        if not self.queues:
            raise errors.BadRequest("no processor is registered: @jobs.processor(queue)")
        await self._app.configure(self.queues)
        await self._app.put_schedules(self.queues)

    async def run(self, *, handle_signals: bool = False) -> None:
        """
        Run jobs until `stop` or `drain`; with ``handle_signals`` until SIGTERM or SIGINT.

        Then nothing new begins, what runs has ``shutdown_timeout`` to end, and the rest goes back.
        A second signal gives it no more time.
        """
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGTERM, signal.SIGINT) if handle_signals else ()
        for number in numbers:
            loop.add_signal_handler(number, lambda: self.stop(now=self._stop.is_set()))
        try:
            await self.ready()
            await self._run()
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)
            self._over.set()

    async def _run(self) -> None:
        running = Running(self.concurrency * len(self.queues))
        tallies = Tallies(self.queues)
        self._holding = Holding(
            self._app.calls,
            lease_seconds=self._lease_seconds,
            renew_seconds=self._renew_seconds,
            gone=self._gone,
            tallies=tallies,
        )
        self._settling = Settling(
            self._queen,
            lease_seconds=self._lease_seconds,
            holding=self._holding,
            is_busy=lambda: any(lane.waiting for lane in self._lanes),
            settled=self._settled,
        )
        self._attempts = Attempts(
            self._app, running, self._holding, self._settling, self._stats, tallies
        )
        self._lanes = [self._lane(queue) for queue in self.queues]
        works = [
            asyncio.create_task(self._holding.renew_for_ever()),
            asyncio.create_task(self._settling.settle_for_ever()),
        ]
        fetchers = [asyncio.create_task(lane.fetch()) for lane in self._lanes]
        self._runners = [
            asyncio.create_task(self._run_lane(lane))
            for lane in self._lanes
            for _ in range(lane.concurrency)
        ]
        try:
            await self._until_stopped([*works, *fetchers, *self._runners])
        finally:
            await asyncio.shield(self._end(fetchers))
            for work in works:
                work.cancel()
            await asyncio.gather(*works, return_exceptions=True)
            running.close()

    def stop(self, *, now: bool = False) -> None:
        """
        Let `run` end: what runs is finished, what has not begun goes back.

        ``now``: what runs is cancelled, and goes back too.
        """
        self._stop.set()
        if now:
            self._now.set()

    async def drain(self) -> None:
        """`stop`, and wait until `run` has ended."""
        self.stop()
        await self._over.wait()

    async def _until_stopped(self, works: list[asyncio.Task[None]]) -> None:
        stop = asyncio.create_task(self._stop.wait())
        try:
            # None of them ends by itself: one that does has failed, and says how.
            done, _ = await asyncio.wait([stop, *works], return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            stop.cancel()

    async def _end(self, fetchers: list[asyncio.Task[None]]) -> None:
        self._stop.set()
        await self._give_back([held for lane in self._lanes for held in lane.empty()])
        # Each releases the jobs of the response that is on its way to it, and ends soon.
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
        await self._settling.finish()

    async def _give_back(self, unbegun: list[Held]) -> None:
        """What was popped and not begun: by whole deliveries, else one by one."""
        for lease_id, rest in self._holding.by_lease(unbegun).items():
            if lease_id is None:
                for held in rest:
                    self._attempts.give_back(held)
                continue
            with contextlib.suppress(errors.QueenError):  # Then they come when the lease is over.
                await self._queen.release(lease_id)
            for held in rest:
                self._holding.let_go(held)

    def _lane(self, queue: str) -> Lane:
        is_one_by_one, has_rate = self._app.limits_of(queue)
        return Lane(
            self._queen.queue(queue, type=Envelope).lease(self._lease_seconds),
            concurrency=self.concurrency,
            is_one_by_one=is_one_by_one,
            is_limited=is_one_by_one or has_rate,
            hold=self._holding.hold,
            stopping=self._stop,
        )

    async def _run_lane(self, lane: Lane) -> None:
        runner = asyncio.current_task()
        assert runner is not None
        while not lane.is_stopping:
            held = lane.take()
            if held is None:
                await lane.some()
                continue
            began = time.monotonic()
            lane.pace.begin(began)
            try:
                await self._run_in_a_row(lane, held, runner, began)
            finally:
                lane.pace.end(time.monotonic())
            await asyncio.sleep(0)

    async def _run_in_a_row(
        self, lane: Lane, held: Held | None, runner: "asyncio.Task[None]", began: float
    ) -> None:
        pace, attempts = lane.pace, self._attempts
        left = _IN_A_ROW
        while held is not None:
            try:
                await attempts.run(held, runner)
            finally:
                ended = time.monotonic()
                pace.done += 1
                if held.job is not None and held.tally is not None:
                    held.tally.took(ended - began)
                held.job = None
                began = ended
            left -= 1
            held = lane.take() if left else None

    # What is heard of jobs.

    def _settled(self, held: Held, is_taken: bool) -> None:
        if not is_taken and not held.is_gone:
            self._stats.lost += 1

    def _gone(self, held: Held) -> None:
        if held.is_cancelled:
            self._stats.cancelled += 1
        else:
            self._stats.lost += 1
