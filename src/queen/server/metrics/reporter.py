"""Store counters, sample the databases, and log when a database becomes unavailable."""

import asyncio
import contextlib

from queen import errors, tasks
from queen.cluster.cluster import Cluster
from queen.engine.engine import Engine
from queen.engine.metrics.sampler import Sampler
from queen.meters import Snapshot
from queen.server import logs
from queen.server.metrics.host import HostMetrics
from queen.settings import Settings
from queen.telemetry import Event


class Reporter:
    """The background tasks of metrics: `start` begins to count, store and sample."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        metrics: HostMetrics,
        log: logs.Log,
        *,
        is_sampling: bool,
    ) -> None:
        """``is_sampling``: true in one process per host, which may become the sampling one."""
        self._settings = settings
        self._metrics = metrics
        self._databases = [
            _DatabaseReporter(
                each,
                settings,
                metrics,
                log if cluster.is_alone else log.bind(database=name),
                is_sampling=is_sampling,
            )
            for name, each in cluster.engines.items()
        ]
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        for each in self._databases:
            await each.start()
        if self._metrics.worker is not None:
            await self._metrics.worker.open()
        metrics = self._metrics.process
        self._tasks = [
            asyncio.create_task(metrics.watchdog.tick_forever()),
            asyncio.create_task(metrics.tick_forever()),
            asyncio.create_task(self._save_forever()),
        ]

    async def close(self) -> None:
        """Store the counters, and save the last snapshot with the supervisor."""
        await tasks.stop(*self._tasks)
        for each in self._databases:
            await each.close()
        if self._metrics.worker is not None:
            await self._metrics.worker.close()

    async def _save_forever(self) -> None:
        """Every few seconds, save a snapshot with the supervisor."""
        while self._metrics.worker is not None:
            await asyncio.sleep(self._settings.counters_flush_seconds)
            await self._metrics.worker.save()


class _DatabaseReporter:
    """The counters and samples of one database."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        metrics: HostMetrics,
        log: logs.Log,
        *,
        is_sampling: bool,
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._metrics = metrics
        self._log = log
        self._sampler = (
            Sampler(engine.store, engine.counters.process, settings) if is_sampling else None
        )
        self._is_database_lost = False
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        database = self._engine.store.database
        database.lost = lambda reason: self._lose(errors.DatabaseUnavailable(reason))
        self._is_database_lost = database.is_away
        if not database.is_away:  # Otherwise the first flush of counters detects it.
            await self._engine.learn_clock()
        self._tasks = [asyncio.create_task(self._flush_forever())]
        if self._sampler is not None:
            self._tasks.append(asyncio.create_task(self._sample_forever(self._sampler)))

    async def close(self) -> None:
        """Store the counters."""
        await tasks.stop(*self._tasks)
        with contextlib.suppress(errors.QueenError):
            await self._engine.store_counters()

    async def _flush_forever(self) -> None:
        """Every few seconds, store the counters."""
        while True:
            await asyncio.sleep(self._settings.counters_flush_seconds)
            try:
                is_stored = await self._engine.store_counters()
            except errors.QueenError as error:
                self._lose(error)
                self._log.warning(Event.COUNTERS_LATE, reason=str(error))
            except Exception as error:
                self._log.error(Event.COUNTERS_LATE, error=error)
            else:
                if is_stored:
                    self._find()

    async def _sample_forever(self, sampler: Sampler) -> None:
        """While this process samples, its snapshots describe the whole database."""
        sampled = self._metrics.process.sampled
        while True:
            try:
                sampled[self._engine] = await sampler.step()
            except errors.QueenError as error:
                sampled[self._engine] = Snapshot()
                self._lose(error)
                self._log.warning(Event.SAMPLE_FAILED, reason=str(error))
            except Exception as error:
                sampled[self._engine] = Snapshot()
                self._log.error(Event.SAMPLE_FAILED, error=error)
            else:
                self._find()
            await asyncio.sleep(self._settings.sample_seconds)

    def _lose(self, error: errors.QueenError) -> None:
        is_away = isinstance(error, errors.DatabaseUnavailable | errors.OutcomeUnknown)
        if is_away and not self._is_database_lost:
            self._is_database_lost = True
            self._log.error(Event.DATABASE_LOST, reason=str(error))

    def _find(self) -> None:
        if self._is_database_lost:
            self._is_database_lost = False
            self._log.info(Event.DATABASE_BACK)
