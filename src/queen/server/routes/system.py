"""Processes, settings, schema, tables, background tasks and maintenance modes."""

import os

import msgspec

from queen.horizon import holder
from queen.server.auth.permissions import Permission
from queen.server.databases.merges import of_duties, of_migrations, of_tables, same
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Summed, new_routes
from queen.server.http.cursors import cursor_after, limit_of, place_of
from queen.server.routes.views import of_row
from queen.settings import SECRETS
from queen.store.checks.diagnosis import Diagnosis
from queen.store.connection.database import Record
from queen.store.migrations import pending
from queen.wire.resources import (
    Config,
    Duties,
    Duty,
    Horizon,
    Instance,
    Instances,
    Maintenance,
    MaintenanceRequest,
    Migration,
    Migrations,
    OldestTransaction,
    PageQuery,
    Setting,
    Table,
    Tables,
    Text,
)

ROUTES, route = new_routes()


@route(
    "GET /api/v1/system/instances",
    "List server processes",
    Permission.ADMIN,
    {200: Instances},
    query=PageQuery,
)
async def list_instances(call: Call) -> Answer:
    """List the server processes that use this database."""
    query = call.query(PageQuery)
    limit = limit_of(call, query.limit)
    (after,) = place_of(query.cursor, tuple[Text], ("",))
    rows = await call.state.engine.store.instances.page(after=after, limit=limit)
    return Answer(
        Instances(
            instances=[of_row(Instance, row, alive=row["is_alive"]) for row in rows],
            next_cursor=cursor_after(rows, limit, "id"),
        )
    )


@route("GET /api/v1/system/config", "Show the effective settings", Permission.ADMIN, {200: Config})
async def show_config(call: Call) -> Answer:
    """Return the effective settings and their sources."""
    values = msgspec.to_builtins(call.state.settings)
    return Answer(
        Config(
            settings=[
                Setting(
                    name=name,
                    value="****" if name in SECRETS and value is not None else value,
                    source="environment" if name in os.environ else "default",
                )
                for name, value in values.items()
            ]
        )
    )


@route(
    "GET /api/v1/system/migrations",
    "Show migrations",
    Permission.ADMIN,
    {200: Migrations},
    everywhere=Summed(of_migrations),
)
async def show_migrations(call: Call) -> Answer:
    """List applied and missing migrations."""
    rows = await call.state.engine.store.instances.migrations()
    return Answer(
        Migrations(
            applied=[of_row(Migration, row) for row in rows],
            pending=await pending(call.state.engine.store.database.dsn),
        )
    )


@route(
    "GET /api/v1/system/tables",
    "Show tables",
    Permission.ADMIN,
    {200: Tables},
    everywhere=Summed(of_tables),
)
async def show_tables(call: Call) -> Answer:
    """Return table sizes, dead rows, vacuum times, and the oldest open transaction."""
    diagnosis = Diagnosis(call.state.engine.store.database)
    row = await diagnosis.oldest_transaction()
    oldest: OldestTransaction | None = None
    if row is not None:
        oldest = of_row(OldestTransaction, row, application=row["application_name"])
    held = await diagnosis.horizon()
    return Answer(
        Tables(
            tables=[Table(**dict(each)) for each in await diagnosis.tables()],
            oldest_transaction=oldest,
            horizon=None if held is None else of_row(Horizon, held, held_back_by=holder(held)),
        )
    )


@route(
    "GET /api/v1/system/upkeep",
    "Show background tasks",
    Permission.ADMIN,
    {200: Duties},
    everywhere=Summed(of_duties),
)
async def show_upkeep(call: Call) -> Answer:
    """List background tasks, their owners and their delays."""
    rows = await call.state.engine.store.instances.duties()
    return Answer(
        Duties(
            duties=[
                of_row(
                    Duty,
                    row,
                    running=row["holder"] is not None,
                    due_at=row["due_at"] if row["last_run_at"] is not None else None,
                )
                for row in rows
            ]
        )
    )


@route(
    "GET /api/v1/system/maintenance", "Show push maintenance", Permission.ADMIN, {200: Maintenance}
)
async def show_push(call: Call) -> Answer:
    """Return whether pushes are buffered."""
    return _shown(await call.state.engine.store.instances.maintenance("push"))


@route(
    "GET /api/v1/system/maintenance/pop",
    "Show pop maintenance",
    Permission.ADMIN,
    {200: Maintenance},
)
async def show_pop(call: Call) -> Answer:
    """Return whether pops are stopped."""
    return _shown(await call.state.engine.store.instances.maintenance("pop"))


@route(
    "POST /api/v1/system/maintenance",
    "Turn push maintenance on or off",
    Permission.ADMIN,
    {200: Maintenance},
    body=MaintenanceRequest,
    everywhere=Summed(same),
)
async def set_push(call: Call) -> Answer:
    """Start or stop buffering pushes, on all servers."""
    return await _set(call, "push")


@route(
    "POST /api/v1/system/maintenance/pop",
    "Turn pop maintenance on or off",
    Permission.ADMIN,
    {200: Maintenance},
    body=MaintenanceRequest,
    everywhere=Summed(same),
)
async def set_pop(call: Call) -> Answer:
    """Stop or resume pops, on all servers."""
    return await _set(call, "pop")


async def _set(call: Call, mode: str) -> Answer:
    request = await call.body(MaintenanceRequest)
    row = await call.state.engine.store.instances.set_maintenance(
        mode, is_on=request.enabled, by=call.caller.name
    )
    # Applied here immediately, and in other processes after a notification.
    await call.state.heartbeat.beat()
    call.state.engine.signals.modes_changed()
    return _shown(row)


def _shown(row: Record | None) -> Answer:
    return Answer(Maintenance(enabled=False) if row is None else of_row(Maintenance, row))
