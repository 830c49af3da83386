"""What a process knows of itself and shows to operators: figures, lines, dashboards."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Final

from queen import errors
from queen.engine.engine import Engine
from queen.engine.metrics.sampler import Sampler
from queen.meters import Heard, Snapshot
from queen.server import logs
from queen.server.http.call import Answer, Call, ClientGone, refusal
from queen.server.live.feed import Dashboards
from queen.server.metrics.host import Seat, Worker
from queen.server.metrics.requests import Meter
from queen.server.middleware.tracing import Tracing
from queen.server.process.watchdog import Watchdog
from queen.settings import Settings
from queen.telemetry import Event

_NONE: Final = contextlib.nullcontext()
_UNKNOWN: Final = "(none)"
"""The route of a call that meets none."""


class Watch:
    """Made once a process; `start` begins to count, store and sample, `close` ends it."""

    def __init__(self, engine: Engine, settings: Settings, seat: Seat | None = None) -> None:
        self._engine = engine
        self._settings = settings
        self.log = logs.get(worker=settings.worker_id or (seat.number if seat else 0))
        self._watchdog = Watchdog(self.log, Watch.answer.__code__)
        self.meter = Meter(engine, settings, self._watchdog)
        self._worker = Worker(seat, self.meter.snapshot) if seat else None
        # One process of a host is enough to stand for the office of the one that samples.
        self._sampler = Sampler(engine.core, settings) if seat is None or seat.place == 0 else None
        self.dashboards = Dashboards(engine, settings, self.meter, self.gather, self.log)
        self._tracing = Tracing(settings) if settings.otel else None
        if self._tracing is not None:
            engine.store.database.span = self._tracing.of_statement
        self._is_database_lost = False
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        database = self._engine.store.database
        database.lost = self._say_lost
        self._is_database_lost = database.is_away
        if not database.is_away:  # Else it is learnt when counters are first stored.
            await self._engine.learn_clock()
        if self._worker is not None:
            await self._worker.open()
        self._tasks = [
            asyncio.create_task(self._watchdog.tick_for_ever()),
            asyncio.create_task(self.meter.tick_for_ever()),
            asyncio.create_task(self._flush_for_ever()),
        ]
        if self._sampler is not None:
            self._tasks.append(asyncio.create_task(self._sample_for_ever(self._sampler)))

    async def close(self) -> None:
        """Store what was counted, and leave the sum with the supervisor."""
        await self.dashboards.close()
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        with contextlib.suppress(errors.QueenError):
            await self._engine.store_counters()
        if self._worker is not None:
            await self._worker.close()
        if self._tracing is not None:
            await asyncio.to_thread(self._tracing.close)

    def spans(self, call: Call) -> AbstractContextManager[None]:
        """What a handler runs in."""
        return _NONE if self._tracing is None else self._tracing.of_call(call)

    async def gather(self) -> Snapshot:
        """The sum over all processes of this host."""
        snapshot = await self._merged()
        snapshot.count_heard()
        return snapshot

    async def workers(self) -> list[Heard]:
        """Workers of jobs that this host heard of in the last seconds."""
        return (await self._merged()).heard

    async def _merged(self) -> Snapshot:
        return await (self._worker.gather() if self._worker else self.meter.snapshot())

    async def answer(self, call: Call, answer: Callable[[Call], Awaitable[Answer]]) -> Answer:
        """Answer a call, count it, and let no error but its own pass unlogged."""
        started_at = time.perf_counter()
        try:
            answered = await answer(call)
        except ClientGone:
            raise
        except errors.QueenError as error:
            answered = refusal(error, call.request_id)
        except Exception as error:
            answered = self.unforeseen(call, error)
        path = call.route.path if call.route else _UNKNOWN
        seconds = time.perf_counter() - started_at
        self.meter.count_request(path, call.method, answered.status, seconds)
        if answered.error is not None:
            self.meter.count_error(answered.error, path)
        if answered.status >= 500 or self._settings.log_level == "debug":
            self._tell(call, answered, seconds)
        return answered

    def unforeseen(self, call: Call, error: Exception) -> Answer:
        """The answer to what nobody foresaw."""
        self._say(call).error(Event.UNEXPECTED, error=error)
        # What it was is for the log alone: it may hold what the caller must not see.
        told = errors.QueenError("an unexpected error; the server's log has it")
        return refusal(told, call.request_id)

    def _tell(self, call: Call, answered: Answer, seconds: float) -> None:
        if call.route is not None and call.route.is_probe:
            return
        log = self._say(call)
        # That the database is away is said once, not by each who meets it.
        is_news = answered.status >= 500 and not (
            self._engine.store.database.is_away
            and answered.error is not None
            and issubclass(answered.error, errors.DatabaseUnavailable)
        )
        tell = log.warning if is_news else log.debug
        code = answered.error.code if answered.error else None
        tell(Event.REQUEST, status=answered.status, code=code, seconds=round(seconds, 6))

    def _say(self, call: Call) -> logs.Log:
        """The log of one call. Its query is left out: a ticket may be in it."""
        return self.log.bind(
            request_id=call.request_id,
            trace_id=call.trace_id,
            method=call.method,
            path=call.scope["path"],
        )

    async def _flush_for_ever(self) -> None:
        """Every few seconds: store what was counted, and leave a copy with the supervisor."""
        while True:
            await asyncio.sleep(self._settings.counters_flush_seconds)
            if self._worker is not None:
                await self._worker.keep()
            try:
                is_stored = await self._engine.store_counters()
            except errors.QueenError as error:
                self._lose(error)
                self.log.warning(Event.COUNTERS_LATE, reason=str(error))
            except Exception as error:
                self.log.error(Event.COUNTERS_LATE, error=error)
            else:
                self._find(is_stored)

    async def _sample_for_ever(self, sampler: Sampler) -> None:
        """While this process is the one that samples, its figures are of the whole database."""
        while True:
            try:
                self.meter.sampled = await sampler.step()
            except errors.QueenError as error:
                self.meter.sampled = Snapshot()
                self._lose(error)
                self.log.warning(Event.SAMPLE_FAILED, reason=str(error))
            except Exception as error:
                self.meter.sampled = Snapshot()
                self.log.error(Event.SAMPLE_FAILED, error=error)
            else:
                self._find(True)
            await asyncio.sleep(self._settings.sample_seconds)

    def _lose(self, error: errors.QueenError) -> None:
        is_away = isinstance(error, errors.DatabaseUnavailable | errors.OutcomeUnknown)
        if is_away and not self._is_database_lost:
            self._is_database_lost = True
            self.log.error(Event.DATABASE_LOST, reason=str(error))

    def _say_lost(self, reason: str) -> None:
        self._lose(errors.DatabaseUnavailable(reason))

    def _find(self, has_answered: bool) -> None:
        if has_answered and self._is_database_lost:
            self._is_database_lost = False
            self.log.info(Event.DATABASE_BACK)
