"""Open and close the parts of one server process."""

import contextlib
import functools
from types import CodeType
from typing import Self

import msgspec

from queen import errors
from queen.engine.buffer.file_buffer import FileBuffer
from queen.engine.engine import Engine
from queen.engine.upkeep.loop import Upkeep
from queen.server import logs
from queen.server.audit_log import AuditLog
from queen.server.auth.authenticator import Authenticator
from queen.server.auth.oidc import Oidc
from queen.server.auth.origins import Origins
from queen.server.compression import Compressible
from queen.server.decoding.bodies import Bodies
from queen.server.heartbeat import Heartbeat
from queen.server.http import openapi
from queen.server.lake_tables import LakeTables
from queen.server.live.feed import Feed
from queen.server.memory_budget import Budget, Unsent
from queen.server.metrics.host import HostMetrics, WorkerSlot
from queen.server.metrics.reporter import Reporter
from queen.server.metrics.requests import RequestMetrics
from queen.server.metrics.watchdog import Watchdog
from queen.server.middleware.observer import Observer
from queen.server.middleware.response_cache import ResponseCache
from queen.server.middleware.tracing import Tracing
from queen.server.operations.kinds import kinds
from queen.server.operations.runner import Operations
from queen.server.readiness import Readiness
from queen.server.routes.table import ROUTES
from queen.server.state import State
from queen.server.stream.observer import StreamObserver
from queen.server.stream.streams import Streams
from queen.settings import Settings
from queen.store.migrations import migrate, pending
from queen.telemetry import Event


class Runtime:
    """The parts of one process. They close in order, the engine last, even if one fails."""

    def __init__(
        self,
        state: State,
        observer: Observer,
        feed: Feed,
        streams: Streams,
        parts: contextlib.AsyncExitStack,
    ) -> None:
        self.state = state
        self.observer = observer
        self.feed = feed
        self.streams = streams
        self.log = observer.log
        self.cache = ResponseCache()
        self._parts = parts

    @classmethod
    async def open(
        cls,
        settings: Settings,
        slot: WorkerSlot | None,
        *,
        origins: Origins,
        oidc: Oidc | None,
        unsent: Unsent,
        responding: CodeType,
    ) -> Self:
        """
        Migrate the database if the settings allow it, and start all parts.

        ``responding``: the code whose variable ``call`` is the current request.
        """
        log = logs.get(worker=settings.worker_id or (slot.number if slot else 0))
        async with contextlib.AsyncExitStack() as parts:
            engine = await _open_engine(settings)
            parts.push_async_callback(engine.close)
            watchdog = Watchdog(log, responding)
            state = _build_state(engine, settings, slot, unsent, watchdog)
            parts.push_async_callback(state.audit.close)
            parts.callback(state.tables.close)
            if oidc is not None:
                parts.push_async_callback(oidc.close)
            parts.push_async_callback(state.authenticator.close)
            parts.push_async_callback(state.heartbeat.leave)
            parts.push_async_callback(state.operations.close)
            tracing = Tracing(settings) if settings.otel else None
            if tracing is not None:
                engine.store.database.span = tracing.of_statement
                parts.push_async_callback(tracing.close)
            # The process with index 0 does the work of one process per host.
            is_first = slot is None or slot.index == 0
            reporter = Reporter(engine, settings, state.metrics, log, is_sampling=is_first)
            parts.push_async_callback(reporter.close)
            feed = Feed(engine, settings, state.metrics, origins, log)
            parts.push_async_callback(feed.close)
            await reporter.start()
            await state.heartbeat.join()
            if is_first:
                upkeep = Upkeep(engine.core, settings)
                upkeep.start()
                parts.push_async_callback(upkeep.close)
                await state.authenticator.start()
            is_debug = settings.log_level == "debug"
            observer = Observer(log, state.metrics.process, tracing=tracing, logs_all=is_debug)
            streams = Streams(StreamObserver(observer, state.metrics.process))
            return cls(state, observer, feed, streams, parts.pop_all())

    async def close(self) -> None:
        await self._parts.aclose()


@functools.cache
def _openapi(path_prefix: str) -> Compressible:
    """The OpenAPI document. Building it takes longer than all other steps of a start together."""
    return Compressible(msgspec.json.encode(openapi.document(ROUTES, path_prefix)))


def _build_state(
    engine: Engine,
    settings: Settings,
    slot: WorkerSlot | None,
    unsent: Unsent,
    watchdog: Watchdog,
) -> State:
    operations = Operations(engine.store, kinds(engine))
    heartbeat = Heartbeat(engine, name=settings.worker_id, adopt=operations.adopt)
    operations.owner = heartbeat.id
    requests = Budget(settings.max_inflight_bytes)
    process = RequestMetrics(
        engine,
        settings,
        watchdog,
        requests=requests,
        unsent=unsent.budget,
    )
    return State(
        settings=settings,
        engine=engine,
        authenticator=Authenticator(settings, engine.store.keys),
        metrics=HostMetrics(process, slot),
        bodies=Bodies(settings.max_items),
        requests=requests,
        unsent=unsent,
        openapi=functools.partial(_openapi, settings.path_prefix),
        audit=AuditLog(engine.store.audit),
        operations=operations,
        heartbeat=heartbeat,
        readiness=Readiness(engine.store),
        tables=LakeTables(settings.dsn),
    )


async def _open_engine(settings: Settings) -> Engine:
    """Open the engine. Without a database, a server with a file buffer starts and buffers."""

    async def prepare() -> None:
        await _prepare_database(settings)

    buffer = FileBuffer.open(settings)
    is_away = False
    try:
        await prepare()
    except errors.DatabaseUnavailable as error:
        if buffer is None or not buffer.folder.is_known:
            raise
        is_away = True
        logs.get().error(Event.DATABASE_LOST, reason=str(error))
    engine = await Engine.open(
        settings.dsn,
        settings=settings,
        defaults=settings.queue_defaults,
        buffer=buffer,
        is_away=is_away,
        is_warmed=True,
    )
    if is_away:
        engine.store.database.welcome = prepare
    elif buffer is not None:
        buffer.folder.know()
    return engine


async def _prepare_database(settings: Settings) -> None:
    """Apply the migrations of this release, or raise if some are missing."""
    if settings.auto_migrate:
        await migrate(settings.dsn)
    elif missing := await pending(settings.dsn):
        raise errors.DatabaseUnavailable(
            f"the database lacks migrations: {', '.join(missing)}. Run `queen migrate up`."
        )
