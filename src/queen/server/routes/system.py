"""Processes, settings, schema, tables, background tasks and maintenance modes."""

import os
from typing import Final

import msgspec

from queen.server.auth.permissions import Permission
from queen.server.http.answer import Answer
from queen.server.http.call import API, Call, Route
from queen.server.http.cursors import cursor_to, limit_of, place_of
from queen.settings import SECRETS
from queen.store.checks.diagnosis import Diagnosis
from queen.store.connection.database import Record
from queen.store.migrations import pending
from queen.wire.resources import (
    Config,
    Duties,
    Duty,
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


async def list_instances(call: Call) -> Answer:
    """List the server processes that use this database."""
    query = call.query(PageQuery)
    limit = limit_of(call, query)
    (after,) = place_of(query.cursor, tuple[Text], ("",))
    rows = await call.state.engine.store.instances.page(after=after, limit=limit)
    return Answer(
        Instances(
            instances=[
                Instance(
                    id=row["id"],
                    host=row["host"],
                    pid=row["pid"],
                    version=row["version"],
                    started_at=row["started_at"],
                    seen_at=row["seen_at"],
                    alive=row["is_alive"],
                    waiters=row["waiters"],
                )
                for row in rows
            ],
            next_cursor=cursor_to(rows[-1]["id"]) if len(rows) == limit else None,
        )
    )


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


async def show_migrations(call: Call) -> Answer:
    """List applied and missing migrations."""
    rows = await call.state.engine.store.instances.migrations()
    return Answer(
        Migrations(
            applied=[Migration(name=row["name"], applied_at=row["applied_at"]) for row in rows],
            pending=await pending(call.state.settings.dsn),
        )
    )


async def show_tables(call: Call) -> Answer:
    """Return table sizes, dead rows, vacuum times, and the oldest open transaction."""
    diagnosis = Diagnosis(call.state.engine.store.database)
    row = await diagnosis.oldest_transaction()
    oldest: OldestTransaction | None = None
    if row is not None:
        oldest = OldestTransaction(
            pid=row["pid"],
            application=row["application_name"],
            user=row["user"],
            state=row["state"],
            started_at=row["started_at"],
            age_seconds=row["age_seconds"],
        )
    return Answer(
        Tables(
            tables=[Table(**dict(each)) for each in await diagnosis.tables()],
            oldest_transaction=oldest,
        )
    )


async def show_upkeep(call: Call) -> Answer:
    """List background tasks, their owners and their delays."""
    rows = await call.state.engine.store.instances.duties()
    return Answer(
        Duties(
            duties=[
                Duty(
                    name=row["name"],
                    running=row["holder"] is not None,
                    epoch=row["epoch"],
                    due_at=row["due_at"] if row["last_run_at"] is not None else None,
                    last_run_at=row["last_run_at"],
                    last_success_at=row["last_success_at"],
                    seconds=row["seconds"],
                    rows=row["rows"],
                    lag_seconds=row["lag_seconds"],
                    error=row["error"],
                )
                for row in rows
            ]
        )
    )


async def show_push(call: Call) -> Answer:
    """Return whether pushes are buffered."""
    return _shown(await call.state.engine.store.instances.maintenance("push"))


async def show_pop(call: Call) -> Answer:
    """Return whether pops are stopped."""
    return _shown(await call.state.engine.store.instances.maintenance("pop"))


async def set_push(call: Call) -> Answer:
    """Start or stop buffering pushes, on all servers."""
    return await _set(call, "push")


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
    if row is None:
        return Answer(Maintenance(enabled=False))
    return Answer(
        Maintenance(
            enabled=row["enabled"], changed_at=row["changed_at"], changed_by=row["changed_by"]
        )
    )


_SYSTEM: Final = f"{API}/system"
_MODES: Final = (
    (f"{_SYSTEM}/maintenance", "push maintenance", show_push, set_push),
    (f"{_SYSTEM}/maintenance/pop", "pop maintenance", show_pop, set_pop),
)

ROUTES: Final = (
    Route(
        method="GET",
        path=f"{_SYSTEM}/instances",
        handler=list_instances,
        summary="List server processes",
        permission=Permission.ADMIN,
        query=PageQuery,
        answers={200: Instances},
    ),
    Route(
        method="GET",
        path=f"{_SYSTEM}/config",
        handler=show_config,
        summary="Show the effective settings",
        permission=Permission.ADMIN,
        answers={200: Config},
    ),
    Route(
        method="GET",
        path=f"{_SYSTEM}/migrations",
        handler=show_migrations,
        summary="Show migrations",
        permission=Permission.ADMIN,
        answers={200: Migrations},
    ),
    Route(
        method="GET",
        path=f"{_SYSTEM}/tables",
        handler=show_tables,
        summary="Show tables",
        permission=Permission.ADMIN,
        answers={200: Tables},
    ),
    Route(
        method="GET",
        path=f"{_SYSTEM}/upkeep",
        handler=show_upkeep,
        summary="Show background tasks",
        permission=Permission.ADMIN,
        answers={200: Duties},
    ),
    *(
        Route(
            method="GET",
            path=path,
            handler=show,
            summary=f"Show {what}",
            permission=Permission.ADMIN,
            answers={200: Maintenance},
        )
        for path, what, show, _ in _MODES
    ),
    *(
        Route(
            method="POST",
            path=path,
            handler=change,
            summary=f"Turn {what} on or off",
            permission=Permission.ADMIN,
            body=MaintenanceRequest,
            answers={200: Maintenance},
        )
        for path, what, _, change in _MODES
    ),
)
