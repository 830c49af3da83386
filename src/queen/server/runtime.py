"""Open and close the parts of one server process."""

import contextlib
import functools
from types import CodeType
from typing import Final, Self

import msgspec

from queen import errors
from queen.cluster.cluster import Cluster
from queen.cluster.forwarding import connect_outboxes
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
from queen.store.cluster.joining import join, missing
from queen.telemetry import Event

_OTHER_CONNECTIONS: Final = 2
"""Connections to a database that this server does not prefer."""


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
            cluster = await _open_cluster(settings)
            for engine in cluster.engines.values():
                parts.push_async_callback(engine.close)
            parts.push_async_callback(cluster.close)
            watchdog = Watchdog(log, responding)
            state = _build_state(cluster, settings, slot, unsent, watchdog)
            parts.push_async_callback(state.audit.close)
            parts.callback(state.tables.close)
            if oidc is not None:
                parts.push_async_callback(oidc.close)
            parts.push_async_callback(state.authenticator.close)
            for each in state.of_engine.values():
                parts.push_async_callback(each.heartbeat.leave)
                parts.push_async_callback(each.operations.close)
            tracing = Tracing(settings) if settings.otel else None
            if tracing is not None:
                for engine in cluster.engines.values():
                    engine.store.database.span = tracing.of_statement
                parts.push_async_callback(tracing.close)
            # The process with index 0 does the work of one process per host.
            is_first = slot is None or slot.index == 0
            reporter = Reporter(cluster, settings, state.metrics, log, is_sampling=is_first)
            parts.push_async_callback(reporter.close)
            feed = Feed(cluster, settings, state.metrics, origins, log)
            parts.push_async_callback(feed.close)
            await reporter.start()
            for each in state.of_engine.values():
                await each.heartbeat.join()
            if is_first:
                for engine in cluster.engines.values():
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
    cluster: Cluster,
    settings: Settings,
    slot: WorkerSlot | None,
    unsent: Unsent,
    watchdog: Watchdog,
) -> State:
    """The state for requests to the first database, from which those of the others are reached."""
    engine = cluster.first
    requests = Budget(settings.max_inflight_bytes)
    process = RequestMetrics(
        cluster,
        settings,
        watchdog,
        requests=requests,
        unsent=unsent.budget,
    )
    operations, heartbeat = _of_database(engine, settings, process)
    state = State(
        settings=settings,
        cluster=cluster,
        engine=engine,
        of_engine={},
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
    for each in cluster.engines.values():
        if each is engine:
            state.of_engine[each] = state
            continue
        operations, heartbeat = _of_database(each, settings, process)
        state.of_engine[each] = msgspec.structs.replace(
            state,
            engine=each,
            operations=operations,
            heartbeat=heartbeat,
            readiness=Readiness(each.store),
        )
    return state


def _of_database(
    engine: Engine, settings: Settings, metrics: RequestMetrics
) -> tuple[Operations, Heartbeat]:
    operations = Operations(engine.store, kinds(engine, settings.dsns, metrics.slot_moves.count))
    heartbeat = Heartbeat(engine, settings, adopt=operations.adopt)
    operations.owner = heartbeat.id
    return operations, heartbeat


async def _open_cluster(settings: Settings) -> Cluster:
    """
    Open the engines of all databases.

    Without its only database, a server with a file buffer starts and buffers. Of several databases,
    only the first one is needed.
    """
    databases, preferred = settings.dsns, settings.preferred
    buffer = FileBuffer.open(settings)
    away: set[str] = set()
    try:
        await _prepare_databases(settings, away)
    except errors.DatabaseUnavailable as error:
        if len(databases) > 1 or buffer is None or not buffer.folder.is_known:
            raise
        away = {*databases}
        logs.get().error(Event.DATABASE_LOST, reason=str(error))

    async def prepare() -> None:
        await _prepare_databases(settings, set())

    async with contextlib.AsyncExitStack() as opened:
        engines: dict[str, Engine] = {}
        for name, dsn in databases.items():
            engines[name] = engine = await Engine.open(
                dsn,
                settings=settings,
                connections=None
                if preferred is None or name in preferred
                else min(_OTHER_CONNECTIONS, settings.db_pool_size),
                defaults=settings.queue_defaults,
                buffer=FileBuffer.open(settings, name) if engines else buffer,
                is_away=name in away,
                is_warmed=True,
            )
            opened.push_async_callback(engine.close)
            if name in away:
                engine.store.database.welcome = prepare
        if buffer is not None and not away:
            buffer.folder.know()
        cluster = Cluster(engines)
        await cluster.start()
        connect_outboxes(cluster)
        opened.pop_all()  # From here on the runtime closes them.
    return cluster


async def _prepare_databases(settings: Settings, away: set[str]) -> None:
    """
    Apply the migrations of this release, or raise if some are missing.

    ``away``: gets the names of databases that are unavailable but known.
    """
    if settings.auto_migrate:
        await join(settings.dsns, away=away)
    elif steps := await missing(settings.dsns, away=away):
        raise errors.DatabaseUnavailable(
            f"the database lacks migrations: {', '.join(steps)}. Run `queen migrate up`."
        )
